"""The recorded broker, replayed to live clients."""

import signal
import socket
import subprocess
import sys

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.commands import COMMANDS, name_of
from pcli.codec.wire.reader import FrameReader
from pcli.replay.player.asyncio_recorded_broker import play_broker
from pcli.replay.player.comparison.compare_responses import compare
from pcli.replay.player.id_translation import Ids
from pcli.replay.player.player import CloseConnection, OpenConnection, Pace, Player, SendCommand
from pcli.replay.player.recorded_broker import RecordedBroker
from pcli.replay.player.recorded_broker_commands import permits_of, with_live_ids

URL = "pulsar://127.0.0.1:6650"


def converse(script, faults=None):
    """Replay a capture's clients against its recorded broker in memory, to the end."""
    side, player, now = (
        RecordedBroker(script, URL),
        Player(script, Ids(), 1_000_000, pace=Pace(patience_ms=100)),
        1_000_000,
    )
    while not player.done:
        actions = player.actions(now)
        for action in actions:
            if isinstance(action, OpenConnection):
                side.open(action.stream)
            elif isinstance(action, CloseConnection):
                deliver(side, player, side.lost(action.stream))
            else:
                frames = FrameReader().feed(action.data) if faults is not None else []
                data = b"".join(piece for frame in frames for piece in faults(frame)) if faults else action.data
                deliver(side, player, side.receive(action.stream, data))
        if not actions and player.deadline is not None:
            now = max(now + 1, player.deadline)
    return side, player


def deliver(side, player, actions):
    for action in actions:
        if isinstance(action, SendCommand):
            player.receive(action.stream, action.data)
        else:
            player.lost(action.stream)
            deliver(side, player, side.lost(action.stream))


EQUAL = [
    "flex/01-produce-consume.pcap",
    "flex/04-reconnect.pcapng",
    "go/batch-index.pcap",
    "go/chunks.pcap",
    "go/compressions.pcapng",
    "go/nack.pcap",
    "java/broker-entry-metadata.pcap",
    "java/key-shared-sticky.pcap",
    "java/pattern-watcher.pcap",
    "java/refusals.pcap",
    "java/schema-key-value.pcap",
    "java/schemas.pcap",
    "java/size-limits.pcap",
    "java/txn-commit.pcap",
    "python/01-exclusive-unbatched.pcapng",
    "python/02-batched-keys-properties.pcap",
    "python/03-compression-lz4.pcap.gz",
    "python/08-encrypted.pcapng",
    "python/10-shared-redelivery.pcap",
    "python/20-token-authentication.pcap",
    "python/22-batch-index-acks.pcap",
    "python/23-dedup.pcap",
    "python/25-no-flow.pcapng",
    "rust/batching.pcapng",
    "rust/cumulative-ack.pcap",
]


@pytest.mark.parametrize("name", EQUAL)
def test_recorded_clients_and_broker_match(name, small_captures, script):
    side, player = converse(script(small_captures / name))
    assert [one for one in compare(player.matcher, player.ids) if one.differences] == []
    report = side.report()
    assert report.differences == []
    assert (report.not_said, side.notes) == ([], [])
    last_sent = [line for line in side.script.steps if line.from_client and line.name not in ("PING", "PONG")]
    assert sum(report.equal.values()) == len(last_sent) > 5


def came_behind(player, names, causes):
    """Return the number of responses with these names; each must follow the last client step among these causes."""
    causing, count = [line.index for line in player.script.steps if line.from_client and line.name in causes], 0
    for pair in player.matcher.pairs:
        if pair.step is not None and pair.step.name in names:
            before = [index for index in causing if index < pair.step.index]
            assert pair.last_sent >= max(before, default=-1)
            count += bool(before)
    return count


def test_an_unload_has_its_captured_position(small_captures, script):
    _, player = converse(script(small_captures / "flex" / "04-reconnect.pcapng"))
    assert came_behind(player, ("CLOSE_PRODUCER", "CLOSE_CONSUMER"), ("SEND", "PRODUCER", "SUBSCRIBE")) == 2


def test_watch_updates_have_their_captured_position(small_captures, script):
    _, player = converse(script(small_captures / "java" / "pattern-watcher.pcap"))
    assert came_behind(player, ("WATCH_TOPIC_UPDATE",), ("PRODUCER", "SUBSCRIBE", "CLOSE_PRODUCER")) == 4


def test_messages_of_a_transaction_wait_for_its_end(small_captures, script):
    _, player = converse(script(small_captures / "java" / "txn-commit.pcap"))
    assert came_behind(player, ("MESSAGE",), ("END_TXN",)) == 6


def test_messages_wait_for_consumers_to_leave(captures, script):
    _, player = converse(script(captures / "python" / "11-failover.pcap"))
    assert came_behind(player, ("MESSAGE",), ("CLOSE_CONSUMER", "END")) > 20


# -- allowed and refused differences of live clients ------------------------------------------------------------------


def shifted(frame):
    """A SEND that was published a second later."""
    metadata = pb.MessageMetadata()
    metadata.CopyFrom(frame.metadata)
    metadata.publish_time += 1000
    return [push_frame(frame.command.send, push_entry(metadata, frame.payload))]


def other_payload(frame):
    return [push_frame(frame.command.send, push_entry(frame.metadata, frame.payload[:-1] + b"!"))]


def in_halves(frame):
    """Split an ACK into two."""
    ids = list(frame.command.ack.message_id)
    kind = frame.command.ack.ack_type
    parts = ids[: len(ids) // 2], ids[len(ids) // 2 :]
    return [push_frame(pb.CommandAck(consumer_id=0, ack_type=kind, message_id=stream)) for stream in parts]


def without_last(frame):
    ids = list(frame.command.ack.message_id)
    return [push_frame(pb.CommandAck(consumer_id=0, ack_type=frame.command.ack.ack_type, message_id=ids[:-1]))]


def twice(frame):
    return [frame.data, frame.data]


def dropped(_frame):
    return []


def of_version(frame):
    connect = frame.command.connect
    connect.client_version, connect.protocol_version = "other", 19
    return [push_frame(connect)]


def with_token(frame):
    frame.command.connect.auth_method_name = "token"
    return [push_frame(frame.command.connect)]


@pytest.mark.parametrize(
    ("name", "intervention", "rule"),
    [
        ("SEND", shifted, "clock"),
        ("SEND", other_payload, ""),
        ("SEND", dropped, ""),
        ("SEND", twice, ""),
        ("ACK", in_halves, "grouping"),
        ("ACK", without_last, ""),
        ("ACK", dropped, ""),
        ("LOOKUP", twice, "asked again"),
        ("LOOKUP", dropped, "asked again"),
        ("CLOSE_PRODUCER", twice, ""),
        ("CONNECT", of_version, "version"),
        ("CONNECT", with_token, ""),
    ],
)
def test_client_command_rules(name, intervention, rule, small_captures, script):
    left = [name]

    def faults(frame):
        if name_of(frame.type) in left:
            left.clear()
            return intervention(frame)
        return [frame.data]

    report = converse(script(small_captures / "python" / "01-exclusive-unbatched.pcapng"), faults)[0].report()
    assert left == []
    assert {one["rule"] for one in report.differences if one["command"] == name} == {rule}
    assert report.good is bool(rule)


def test_generated_names_are_explained(small_captures, script):
    def renamed(name):
        def faults(frame):
            if frame.command.HasField("subscribe"):
                frame.command.subscribe.consumer_name = name
                return [push_frame(frame.command.subscribe)]
            return [frame.data]

        return converse(script(small_captures / "java" / "schemas.pcap"), faults)[0].report()

    assert renamed("0a1b2").rules == {"given name": 8}
    assert renamed("my consumer").unexplained == {"SUBSCRIBE": 8}


# -- a client of single commands --------------------------------------------------------------------------------------


class Client:
    """A client that sends single commands to the recorded broker."""

    def __init__(self, script):
        self.side, self.over, self._reader = RecordedBroker(script, "pulsar://here:1"), False, FrameReader()
        self.side.open(5)

    def say(self, body, entry=b""):
        """Return the responses by name and body."""
        actions = self.side.receive(5, push_frame(body, entry))
        self.over = any(isinstance(action, CloseConnection) for action in actions)
        frames = self._reader.feed(b"".join(action.data for action in actions if isinstance(action, SendCommand)))
        return [(COMMANDS[frame.type].name, getattr(frame.command, COMMANDS[frame.type].field)) for frame in frames]


TOPIC = "persistent://public/01-exclusive-unbatched/orders"


@pytest.fixture
def client(small_captures, script):
    it = Client(script(small_captures / "python" / "01-exclusive-unbatched.pcapng"))
    ((name, _),) = it.say(pb.CommandConnect(client_version="test"))
    assert name == "CONNECTED"
    return it


def entry(number):
    return push_entry(pb.MessageMetadata(producer_name="till-1", sequence_id=number, publish_time=1), b"x")


def test_responses_contain_live_ids_and_the_recorded_brokers_address(client):
    ((_, found),) = client.say(pb.CommandLookupTopic(topic=TOPIC, request_id=77))
    assert (found.request_id, found.brokerServiceUrl) == (77, "pulsar://here:1")
    ((_, made),) = client.say(pb.CommandProducer(topic=TOPIC, producer_id=4, request_id=78, producer_name="till-1"))
    assert (made.request_id, made.producer_name, made.last_sequence_id) == (78, "till-1", -1)
    ((_, got),) = client.say(pb.CommandSend(producer_id=4, sequence_id=100), entry(100))
    assert (got.producer_id, got.sequence_id, got.highest_sequence_id) == (4, 100, 100)
    assert (got.message_id.ledgerId, got.message_id.entryId) == (3, 0)


def test_the_maximum_message_size_is_the_captured_one(small_captures, script):
    recording = script(small_captures / "python" / "01-exclusive-unbatched.pcapng")
    recording.steps[1].frame.command.connected.max_message_size = 1 << 23
    it = Client(recording)
    it.say(pb.CommandConnect(client_version="test"))
    it.say(pb.CommandProducer(topic=TOPIC, producer_id=0, request_id=1, producer_name="till-1"))
    large = push_entry(pb.MessageMetadata(producer_name="till-1", sequence_id=0, publish_time=1), bytes(6 << 20))
    assert [name for name, _ in it.say(pb.CommandSend(producer_id=0, sequence_id=0), large)] == ["SEND_RECEIPT"]


def test_tls_addresses_are_removed():
    found = pb.CommandLookupTopicResponse(request_id=1, brokerServiceUrl="pulsar://a:1", brokerServiceUrlTls="x")
    (frame,) = FrameReader().feed(push_frame(found))
    (told,) = FrameReader().feed(with_live_ids(frame, {"request_id": 2}, URL))
    expected = pb.CommandLookupTopicResponse(request_id=2, brokerServiceUrl=URL)
    assert told.command.lookupTopicResponse == expected


def test_a_partial_batch_uses_permits_for_its_remaining_messages(small_captures, script):
    lines = script(small_captures / "python" / "22-batch-index-acks.pcap").steps
    frames = [line.frame for line in lines if line.name == "MESSAGE"]
    for frame in frames:
        acknowledged = [f"{word & 2**64 - 1:b}".count("1") for word in frame.command.message.ack_set]
        assert permits_of(frame) == (sum(acknowledged) or frame.metadata.num_messages_in_batch)
    assert len({permits_of(frame) for frame in frames}) > 1


def test_clients_are_matched_by_name(small_captures, script):
    """The second and third consumer of the capture in the other order: the third was refused."""
    it = Client(script(small_captures / "java" / "key-shared-sticky.pcap"))
    it.say(pb.CommandConnect(client_version="test"))
    for number, (consumer, response) in enumerate([("auto", "ERROR"), ("high", "SUCCESS"), ("low", "SUCCESS")]):
        subscribe = pb.CommandSubscribe(
            topic="persistent://public/default/key-shared-sticky", subscription="sticky", consumer_id=number
        )
        subscribe.request_id, subscribe.consumer_name, subscribe.subType = number, consumer, subscribe.Key_Shared
        assert [name for name, _ in it.say(subscribe)] == [response]


def test_a_generated_reader_name_is_ignored(captures, script):
    it = Client(script(captures / "rust" / "reader.pcap"))
    it.say(pb.CommandConnect(client_version="test"))
    subscribe = pb.CommandSubscribe()
    subscribe.CopyFrom(next(line for line in it.side.script.steps if line.name == "SUBSCRIBE").frame.command.subscribe)
    subscribe.subscription = "reader-0123456789"
    assert [name for name, _ in it.say(subscribe)] == ["SUCCESS"]


def test_the_end_of_a_connection(client):
    assert client.side.report().unexplained["END"] == 1
    client.side.lost(5)
    assert client.side.report().equal["END"] == 1


def test_a_connection_without_live_counterpart_has_no_end(small_captures, script):
    side = RecordedBroker(script(small_captures / "python" / "01-exclusive-unbatched.pcapng"), URL)
    assert side.report().rules == {"asked again": 1}
    assert len(side.report().not_said) == 89


def test_messages_wait_for_their_send_and_for_permits(client):
    subscribe = pb.CommandSubscribe(
        topic=TOPIC, subscription="audit", consumer_id=9, request_id=1, subType=pb.CommandSubscribe.Exclusive
    )
    assert [name for name, _ in client.say(subscribe)] == ["SUCCESS"]
    client.say(pb.CommandProducer(topic=TOPIC, producer_id=0, request_id=2, producer_name="till-1"))
    assert [name for name, _ in client.say(pb.CommandSend(producer_id=0, sequence_id=0), entry(0))] == ["SEND_RECEIPT"]
    ((name, first),) = client.say(pb.CommandFlow(consumer_id=9, messagePermits=2))
    assert (name, first.consumer_id, first.message_id.entryId) == ("MESSAGE", 9, 0)
    for number, matcher in ((1, ["SEND_RECEIPT", "MESSAGE"]), (2, ["SEND_RECEIPT"])):
        assert [
            name for name, _ in client.say(pb.CommandSend(producer_id=0, sequence_id=number), entry(number))
        ] == matcher
    assert [name for name, _ in client.say(pb.CommandFlow(consumer_id=9, messagePermits=2))] == ["MESSAGE"]


def test_unrecorded_commands_are_refused(client):
    ((name, error),) = client.say(pb.CommandProducer(topic="persistent://a/b/c", producer_id=1, request_id=31))
    assert (name, error.request_id, error.error) == ("ERROR", 31, pb.NotAllowedError)
    ((name, error),) = client.say(pb.CommandSend(producer_id=1, sequence_id=3), entry(3))
    assert (name, error.producer_id, error.sequence_id, error.error) == ("SEND_ERROR", 1, 3, pb.NotAllowedError)
    assert client.say(pb.CommandFlow(consumer_id=3, messagePermits=2)) == []
    assert client.side.notes == [
        "not in the recording: PRODUCER for persistent://a/b/c",
        "not in the recording: SEND",
    ]
    assert client.side.report().unexplained["PRODUCER"] == 2


def test_queries_may_be_repeated(client):
    for number in range(5):
        ((name, found),) = client.say(pb.CommandLookupTopic(topic=TOPIC, request_id=number))
        assert (name, found.request_id) == ("LOOKUP_RESPONSE", number)
    ((name, found),) = client.say(pb.CommandLookupTopic(topic="persistent://a/b/c", request_id=9))
    assert (name, found.response, found.error) == ("LOOKUP_RESPONSE", found.Failed, pb.NotAllowedError)


def test_pings_are_answered_and_invalid_bytes_close_the_connection(client):
    assert [name for name, _ in client.say(pb.CommandPing())] == ["PONG"]
    assert client.side.receive(5, b"GET / HTTP/1.1\r\n\r\n") == [CloseConnection(5)]


# -- the official client, and the command -----------------------------------------------------------------------------

APPLICATION = """
import sys, pulsar
from pulsar import Client, InitialPosition

url, topic = sys.argv[1:3]
client = Client(url)
consumer = client.subscribe(topic, "audit", consumer_name="audit-1", initial_position=InitialPosition.Earliest)
producer = client.create_producer(topic, producer_name="till-1", batching_enabled=False)
for text in sys.argv[3:]:
    producer.send(bytes.fromhex(text))
for number in range(len(sys.argv) - 3):
    message = consumer.receive(20000)
    if number < 20:
        consumer.acknowledge(message)
    if number == 36:
        consumer.acknowledge_cumulative(message)
producer.close()
consumer.close()
client.close()
"""
"""The application's actions in the capture's truth file."""


@pytest.fixture
def served():
    """Run ``pcli replay … --side broker`` and an application against it: exit code, stdout, stderr."""

    def run(path, *words):
        command = [sys.executable, "-c", "from pcli.cli import app; app.main()", "replay", str(path)]
        with subprocess.Popen(
            [*command, "--side", "broker", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as broker:
            first = broker.stdout.readline()
            assert first.startswith("broker service URL  pulsar://127.0.0.1:"), broker.stderr.read()
            application = [sys.executable, "-c", APPLICATION, first.split()[-1], *words]
            done = subprocess.run(application, capture_output=True, text=True, timeout=60, check=False)
            out, talk = broker.communicate(timeout=30)
        return done, broker.returncode, out, talk

    return run


def test_the_python_client(served, small_captures, script):
    path = small_captures / "python" / "01-exclusive-unbatched.pcapng"
    sends = [line.frame for line in script(path).steps if line.name == "SEND"]
    done, code, out, _ = served(path, TOPIC, *(frame.payload.hex() for frame in sends))
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["SEND"] == ["0", "40", "0", "clock", "40"]
    assert (rows["ACK"][:3], rows["SUBSCRIBE"][:3]) == (["2", "0", "0"], ["1", "0", "0"])
    assert code == 0, out


@pytest.mark.slow
def test_unrecorded_requests_of_the_python_client_are_noted(served, small_captures):
    path = small_captures / "python" / "01-exclusive-unbatched.pcapng"
    done, code, out, talk = served(path, "persistent://public/default/other")
    assert done.returncode == 1
    assert "pcli: not in the recording:" in talk
    assert "for persistent://public/default/other" in talk
    assert (code, "missing" in out) == (1, True)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--port", "5"], "--port requires --side broker"),
        (["--side", "broker", "--to", "localhost"], "are for --side client"),
        (["--side", "broker", "--only-stream", "99"], "the capture contains nothing that can be replayed"),
    ],
)
def test_invalid_options_are_refused(words, text, small_captures):
    path = str(small_captures / "python" / "01-exclusive-unbatched.pcapng")
    command = [sys.executable, "-c", "from pcli.cli import app; app.main()", "replay", path, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr


def test_a_port_in_use_is_an_error(small_captures, script):
    recording = script(small_captures / "python" / "01-exclusive-unbatched.pcapng")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalError, match="Address already in use"):
            play_broker(recording, port, ready=print, note=print)


def test_ctrl_c_does_not_count_as_a_client_disconnect(small_captures):
    path = str(small_captures / "python" / "01-exclusive-unbatched.pcapng")
    command = [sys.executable, "-c", "from pcli.cli import app; app.main()", "replay", path]
    words = ["--side", "broker", "--port", "0"]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
        port = int(broker.stdout.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(push_frame(pb.CommandConnect(client_version="test")))
            assert client.recv(1)
            broker.send_signal(signal.SIGINT)
            out, talk = broker.communicate(timeout=30)
    rows = {line.split()[0]: line.split()[1:4] for line in out.splitlines() if line}
    assert (broker.returncode, rows["CONNECT"][0], rows["END"]) == (1, "0", ["0", "0", "1"])
    assert "Traceback" not in talk
