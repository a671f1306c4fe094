"""Frames of a client: complete, divided, invalid; and the cleanup at the end of a connection."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_entry, push_frame
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.minibroker.commands import HANDLERS

PING = push_frame(pb.CommandPing())
ENTRY = push_entry(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), b"hello")


def names(bodies):
    return [type(body).__name__.removeprefix("Command") for body in bodies]


# -- division into frames --------------------------------------------------------------------------------------------


def conversation(request_id=9):
    """Frames for the fast and the slow path in one stream, and the number of responses."""
    frames = [
        push_frame(pb.CommandSend(producer_id=1, sequence_id=0, num_messages=1), ENTRY),
        PING,
        push_frame(pb.CommandSend(producer_id=1, sequence_id=1, num_messages=1, is_chunk=True), ENTRY),
        push_frame(pb.CommandFlow(consumer_id=1, messagePermits=5)),
        push_frame(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, request_id=request_id)),
        push_frame(pb.CommandLookupTopic(topic="t", request_id=request_id + 1)),
    ]
    heard = ["SendReceipt", "Pong", "SendReceipt", "AckResponse", "LookupTopicResponse", "Message", "Message"]
    return b"".join(frames), heard


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 50, 1000])
def test_chunks_of_any_size_have_the_same_result(world, size):
    client = world.client()
    client.producer()
    client.subscribe()
    data, expected = conversation()
    heard = []
    for start in range(0, len(data), size):
        heard += names(client.raw(data[start : start + size]))
    assert sorted(heard) == sorted(expected)


def test_one_turn_is_one_write(world):
    """All output of a turn is sent in one write."""
    client = world.client()
    client.producer()
    data, _ = conversation()
    world.broker.receive(client.connection, data[: data.index(PING)] * 3, world.now)
    [(connection, written)] = world.broker.drain()
    assert connection is client.connection
    assert names(event.body for event in client.session.receive(written)) == ["SendReceipt"] * 3


def sends():
    """Return SENDs of the forms that the fast path of runs knows, between others that end a run."""
    run = [pb.CommandSend(producer_id=1, sequence_id=number, num_messages=1) for number in range(120, 140)]
    others = [
        pb.CommandSend(producer_id=1, sequence_id=200, num_messages=3, highest_sequence_id=202),
        pb.CommandSend(producer_id=1, sequence_id=203),
        pb.CommandSend(producer_id=1, sequence_id=204, num_messages=0),
        pb.CommandSend(producer_id=1, sequence_id=205, is_chunk=True),
        pb.CommandSend(producer_id=2, sequence_id=206, num_messages=1),
    ]
    return [push_frame(command, ENTRY) for command in (*run, *others, *run)]


@pytest.mark.parametrize("sub_type", ["Exclusive", "Shared"])
@pytest.mark.parametrize("ids", [[*range(30)], [*range(29, -1, -1)], [*range(5, 30), 3], [0, 0, 1], [3, 4]])
def test_frames_in_one_stream_have_the_effect_of_single_ones(make_world, sub_type, ids):
    """Runs of SENDs, entries and acknowledgements are processed together, with the same output and the same state."""
    results = []
    for at_once in (True, False):
        world = make_world(managedLedgerMaxEntriesPerLedger=33, managedLedgerMinLedgerRolloverTimeMinutes=0)
        client, consumer = world.client(), world.client()
        client.producer()
        client.producer(producer_id=2)
        consumer.subscribe(subType=pb.CommandSubscribe.SubType.Value(sub_type))
        consumer.flow()
        heard = []
        for data in [b"".join(sends())] if at_once else sends():
            heard += client.raw(data)
        delivered = consumer.hear()
        place = delivered[0].message_id
        places = [pb.MessageIdData(ledgerId=place.ledgerId, entryId=number) for number in ids]
        for some in [places] if at_once else ([one] for one in places):
            consumer(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=some))
        topic = world.broker.topics["persistent://public/default/t"]
        [member], cursor = topic.subscriptions["sub"].consumers, topic.subscriptions["sub"].cursor
        producers = [(one.messages_in, one.bytes_in) for one in topic.producers.values()]
        figures = [producers, member.messages_acked, member.unacked, member.permits]
        state = [cursor.mark_delete, cursor.deleted_ranges(), cursor.backlog, len(topic.ledger.ledgers)]
        results.append((heard, delivered, figures, state, member.messages_out, member.bytes_out))
    assert results[0] == results[1]
    assert len(results[0][1]) == 45


def test_an_incomplete_frame_has_no_effect(client):
    assert client.raw(PING[:-1]) == []
    assert names(client.raw(PING[-1:])) == ["Pong"]


# -- faults that end a connection ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("a frame above maxMessageSize and 10 KiB", (5253117).to_bytes(4, "big")),
        ("an empty frame", b"\0\0\0\0"),
        ("a frame without room for its second length", b"\0\0\0\3abc"),
        ("TLS", b"\x16\x03\x01\x02\x00\x01"),
        ("HTTP", b"GET / HTTP/1.1\r\n\r\n"),
        ("no command", join_frame(b"")),
        ("garbage", join_frame(b"\xff" * 20)),
        ("a command longer than its frame", b"\0\0\0\x09\0\0\0\x06" + PING[8:]),
        ("an unknown type", join_frame(b"\x08\xc7\x01")),
        ("LOOKUP without its body", join_frame(b"\x08\x17")),
        ("FLOW without permits", join_frame(b"\x08\x0b\x5a\x02\x08\x01")),
        ("FLOW of nothing to nobody, but twice its id", join_frame(b"\x08\x0b\x5a\x00")),
        ("SEND of an unknown producer", push_frame(pb.CommandSend(producer_id=7, sequence_id=0), ENTRY)),
        ("an answer", push_frame(pb.CommandProducerSuccess(request_id=1, producer_name="x"))),
        ("a second CONNECT", push_frame(pb.CommandConnect(client_version="x"))),
        ("an AUTH_RESPONSE to nothing", push_frame(pb.CommandAuthResponse())),
    ],
)
def test_errors_that_close_the_connection(world, client, what, data):
    assert client.raw(data) == []
    assert client.closed
    assert client.connection not in world.broker.connections
    assert not world.broker.failures


def test_an_incomplete_frame_of_maximum_size_waits(client):
    assert client.raw((5253116).to_bytes(4, "big")) == []
    assert not client.closed


def test_a_frame_without_a_second_length_waits_until_complete(client):
    """As on 4.2.4, the check is made when the frame is complete."""
    client.raw(b"\0\0\0\3ab")
    assert not client.closed
    client.raw(b"c")
    assert client.closed


def test_earlier_commands_are_answered_before_a_close(world, client):
    """A valid and an invalid frame in one write: the response is sent, and nothing after the invalid frame is read."""
    assert names(client.raw(PING + join_frame(b"") + PING)) == ["Pong"]
    assert client.closed


@pytest.mark.parametrize(
    "number", [number for number, row in COMMANDS.items() if row.name not in ("CONNECT", "PING", "PONG")]
)
def test_before_the_handshake(world, number):
    """Any command except CONNECT, PING and PONG."""
    stranger = world.accept()
    command = pb.BaseCommand(type=number)
    body = getattr(command, COMMANDS[number].field)
    body.SetInParent()
    for field in body.DESCRIPTOR.fields:
        if field.is_required and field.message_type is None:
            setattr(body, field.name, "x" if field.type == field.TYPE_STRING else 1)
    assert stranger.raw(join_frame(command.SerializePartialToString())) == []
    assert stranger.closed


def test_only_the_invalid_connection_is_closed(world, client):
    other = world.client()
    client.raw(b"\xff" * 100)
    assert names(other(pb.CommandPing())) == ["Pong"]


def test_invalid_utf8(client):
    """Java decodes invalid UTF-8 with replacement characters; the result is an ordinary name."""
    frame = push_frame(pb.CommandLookupTopic(topic="tXt", request_id=1)).replace(b"tXt", b"t\xfft")
    [answer] = client.raw(frame)
    assert answer.response == pb.CommandLookupTopicResponse.Connect


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_bytes_cause_an_internal_error(make_world, data):
    """Real frames with changed, truncated and repeated bytes."""
    world = make_world()
    client = world.client()
    client.producer()
    client.subscribe()
    stream = bytearray(conversation()[0])
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(stream) - 1))
        stream[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if not stream:
            return
    client.raw(bytes(stream))
    assert not world.broker.failures


def test_an_internal_error_is_reported(make_world, monkeypatch):
    """The fault closes the connection, is stored, and is logged."""
    world = make_world()
    client, told = world.client(), []
    world.broker.on_failure = lambda fault, connection: told.append((str(fault), connection))
    monkeypatch.setitem(HANDLERS, BY_NAME["LOOKUP"].number, _boom)
    assert client(pb.CommandLookupTopic(topic="t")) == []
    assert client.closed
    assert told == [("ours", client.connection)]
    assert [str(fault) for fault in world.broker.failures] == ["ours"]
    world.broker.failures.clear()


def _boom(connection, body, frame):
    raise ZeroDivisionError("ours")


def test_a_handler_may_close_the_connection(world, client, monkeypatch):
    def cut(connection, body, frame):
        raise RemoteError("enough")

    monkeypatch.setitem(HANDLERS, BY_NAME["LOOKUP"].number, cut)
    client(pb.CommandLookupTopic(topic="t"))
    assert (client.closed, client.connection.reason) == (True, "enough")


# -- keep-alive ------------------------------------------------------------------------------------------------------


def test_a_silent_client_is_pinged_once_then_closed(world, client):
    world.wait(29_999)
    assert client.hear() == []
    world.wait(1)
    assert names(client.hear()) == ["Ping"]
    world.wait(29_999)
    assert not client.closed
    world.wait(1)
    assert client.closed


def test_any_command_counts_as_liveness(world, client):
    for _ in range(5):
        world.wait(30_000)
        client(pb.CommandFlow(consumer_id=7, messagePermits=1))
    assert not client.closed
    world.wait(60_000)
    assert client.closed


def test_an_incomplete_frame_does_not_count_as_liveness(world, client):
    world.wait(30_000)
    client.raw(PING[:5])
    world.wait(30_000)
    assert client.closed


def test_a_handshake_has_one_interval(world):
    stranger = world.accept()
    stranger(pb.CommandPing())
    world.wait(30_000)
    assert names(stranger.hear()) == []
    assert stranger.closed


def test_a_client_of_version_0_is_never_pinged(world):
    client = world.client(version=0)
    world.wait(300_000)
    assert (client.hear(), client.closed) == ([], False)


def test_a_paused_connection_is_not_closed(world, client):
    """If publish throttling stops reading, silence does not prove that the client is dead."""
    client.connection.pause_reading()
    world.wait(300_000)
    assert not client.closed
    client.connection.resume_reading()
    world.wait(30_000)
    assert client.closed


def test_a_jump_of_time_is_one_interval(world, client):
    """After a clock change or a stopped process, no client could have responded in between."""
    world.advance(3_600_000)
    assert names(client.hear()) == ["Ping"]
    assert not client.closed
    client(pb.CommandPong())
    world.wait(30_000)
    assert not client.closed


def test_no_keep_alive(make_world):
    world = make_world(keepAliveIntervalSeconds=0)
    client = world.client()
    world.wait(3_600_000)
    assert (client.hear(), client.closed) == ([], False)


# -- liveness of consumers -------------------------------------------------------------------------------------------


def test_a_dead_client_is_closed(world, client):
    answers = []
    client.connection.check_liveness(answers.append)
    client.connection.check_liveness(answers.append)
    world.deliver()
    assert names(client.hear()) == ["Ping"]
    world.wait(4_999)
    assert answers == []
    world.wait(1)
    assert (answers, client.closed) == ([False, False], True)


def test_a_live_client_stays(world, client):
    answers = []
    client.connection.check_liveness(answers.append)
    client(pb.CommandPong())
    assert answers == [True]
    world.wait(10_000)
    assert not client.closed


def test_a_second_liveness_check_has_its_own_time_out(world, client):
    answers = []
    client.connection.check_liveness(answers.append)
    world.wait(4_000)
    client(pb.CommandPong())
    client.connection.check_liveness(answers.append)
    world.wait(4_999)
    assert (answers, client.closed) == ([True], False)
    world.wait(1)
    assert (answers, client.closed) == ([True, False], True)


def test_a_client_that_disconnects_during_the_check(world, client):
    answers = []
    client.connection.check_liveness(answers.append)
    client.leave()
    assert answers == [False]


def test_no_liveness_check_if_disabled(make_world):
    world = make_world(connectionLivenessCheckTimeoutMillis=0)
    client, answers = world.client(), []
    client.connection.check_liveness(answers.append)
    world.deliver()
    assert (answers, client.hear()) == ([True], [])


# -- output ----------------------------------------------------------------------------------------------------------


def test_entries_stop_for_a_client_that_does_not_read(world):
    """The core holds at most the high-water mark and one read for the client; other messages remain in the topic."""
    producer, consumer = world.client(), world.client()
    producer.producer()
    consumer.subscribe()
    consumer.flow(10_000)
    world.broker.set_writable(consumer.connection, world.now, yes=False)
    for sequence_id in range(50):
        producer.publish("x" * 1000, sequence_id)
    assert consumer.hear() == []
    assert consumer.connection.queued == 0
    world.broker.set_writable(consumer.connection, world.now, yes=True)
    world.deliver()
    assert names(consumer.hear()) == ["Message"] * 50


def test_the_output_of_one_turn_is_limited(world):
    """A thousand large entries and permits for all: little is buffered for one client, and all entries arrive."""
    producer, consumer = world.client(), world.client()
    producer.producer()
    consumer.subscribe()
    for sequence_id in range(100):
        producer.publish("x" * 100_000, sequence_id)
    world.broker.receive(consumer.connection, push_frame(pb.CommandFlow(consumer_id=1, messagePermits=1000)), world.now)
    largest = 0
    while pieces := world.broker.drain():
        for _, data in pieces:
            largest = max(largest, len(data))
            consumer.heard += consumer.session.receive(data)
        world.broker.finish_turn()
    assert names(consumer.hear()) == ["Message"] * 100
    assert largest < 6_000_000


def test_nothing_is_sent_after_the_end(world, client):
    client.connection.close()
    client.connection.send(PING)
    assert world.broker.drain() == [(client.connection, b"")]


# -- producers that the broker closed --------------------------------------------------------------------------------


def test_sends_in_flight_to_a_closed_producer(world, client):
    """Commands are ignored for one keep-alive interval; then they are faults like any unknown id."""
    client.producer()
    world.broker.unload(world.broker.topics["persistent://public/default/t"])
    world.deliver()
    assert names(client.hear()) == ["CloseProducer"]
    assert client.publish() == []
    world.now += 29_999
    assert (client.publish(), client.closed) == ([], False)
    world.now += 1
    client.publish()
    assert client.closed


def test_the_end_of_a_connection_frees_all(world):
    first, second = world.client(), world.client()
    first.producer(producer_name="same")
    first.subscribe()
    first(pb.CommandWatchTopicList(watcher_id=1, namespace="public/default", topics_pattern=".*"))
    first.leave()
    assert second.producer(producer_name="same").producer_name == "same"
    assert names([second.subscribe()]) == ["Success"]
    second.producer("another", producer_id=2)
    assert not world.broker.failures
