"""The Java client and pcli's client produce with the same script; both must send the same commands to the broker.

Ids, names and times are not compared. A script consists of steps: ``send SIZE {…}`` does not wait for its receipt,
``block SIZE {…}`` does, ``text`` and ``number`` are sends with a message schema, ``sleep MS``, ``flush``, ``wait`` (for
all receipts so far), ``close``. Any other name is an action of the test. The times at which an application sends
determine the limits of its batches; the lengths of sleeps leave a margin of 100 ms. If the Java client does two things
concurrently (for example, if two producers look up their brokers), a script does only one of them.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from pcli.codec.payload.compression import decompress
from pcli.codec.proto import pb
from pcli.minibroker import MiniBroker
from pcli.replay.client.asyncio_client import Client, run
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ProducerSettings
from pcli.replay.service_url import ServiceUrl

REFUSALS = {
    "AlreadyClosedException": "Closed",
    "IncompatibleSchemaException": "IncompatibleSchema",
    "NotAllowedException": "NotAllowedError",
    "TimeoutException": "TimeOut",
    "TopicTerminatedException": "TopicTerminatedError",
}
"""Java's exceptions and the corresponding errors of pcli's client."""

CLIENT_METADATA = ("publish_time", "producer_name", "deliver_at_time", "uuid", "compression", "uncompressed_size")
"""Metadata fields that each client chooses itself. Compression is compared separately from the payload."""


@pytest.fixture
def java(programs):
    return programs.java("Producing")


def run_pcli_client(command, actions):
    """Run the script with pcli's client."""
    return run(play(command, actions))


async def play(command, actions):
    async with Client(ServiceUrl.parse(command["url"])) as client:
        producer = await client.produce("orders", ProducerSettings(**command["settings"]))
        loop, outcomes = asyncio.get_running_loop(), []
        for kind, steps in itertools.groupby(command["steps"], key=lambda step: step[0]):
            if kind in SENDS:
                with client.turn():
                    for _, *arguments in steps:
                        outcomes.append(loop.create_future())
                        assert producer.send(SENDS[kind](client, *arguments), outcomes[-1].set_result)
                continue
            for step in steps:
                await run_step(client, producer, actions, step, outcomes)
        outcomes = [await asyncio.wait_for(outcome, 20) for outcome in outcomes]
        await client.call(producer.close)
    return [outcome.error if isinstance(outcome, ClientFailure) else "stored" for outcome in outcomes]


async def run_step(client, producer, actions, step, outcomes):
    match step:
        case ["block", *arguments]:

            def send(done):
                assert producer.send(message(client, *arguments), done)
                producer.trigger_flush()

            await client.call(send)
        case ["sleep", milliseconds]:
            await asyncio.sleep(milliseconds / 1000)
        case ["flush"]:
            await client.call(producer.flush)
        case ["wait"]:
            await asyncio.wait(outcomes)
        case ["close"]:
            await client.call(producer.close)
        case [name]:
            await asyncio.to_thread(actions[name])


def message(client, size, fields=None):
    """Return the message that Producing.java creates from the same arguments."""
    fields = dict(fields or {})
    payload = b"" if fields.pop("null", None) else b"x" * size
    values = {"null_value": True} if size and not payload else {}
    for name, value in fields.items():
        match name:
            case "deliver_after":
                values["deliver_at"] = client.now() + value
            case "property":
                values["properties"] = {"name": value}
            case "key_bytes":
                values |= {"key": value, "key_is_bytes": True}
            case "ordering_key":
                values[name] = value.encode()
            case _:
                values[name] = value
    return OutgoingMessage(payload, **values)


def text(_, content):
    schema = pb.Schema(name="String", schema_data=b"", type=pb.Schema.Type.Value("String"))
    return OutgoingMessage(content.encode(), schema=schema)


def number(_, value):
    schema = pb.Schema(name="INT64", schema_data=b"", type=pb.Schema.Type.Value("Int64"))
    return OutgoingMessage(value.to_bytes(8, "big"), schema=schema)


SENDS = {"send": message, "text": text, "number": number}
"""Steps that do not wait for their receipts, and the functions that create their messages."""


def comparable(frame, body):
    """Return the parts of a client's frame that must be equal."""
    metadata = frame.facts.frame.metadata
    if frame.type != "SEND":
        return frame.type, body
    payload = decompress(metadata.compression, frame.facts.frame.payload, metadata.uncompressed_size)
    kind, size = metadata.compression, metadata.HasField("uncompressed_size")
    head = type(metadata)()
    head.CopyFrom(metadata)
    for name in CLIENT_METADATA:
        head.ClearField(name)
    return frame.type, body, head, kind, size, payload


@pytest.fixture
def equal(java, client_frames):
    """Run a script with both clients and new brokers; return the SENDs. All frames must be equal.

    ``burst``: number of SENDs that must precede all other commands. The speed of Java's threads is not compared: a run
    in which a response arrived before the application had sent all of them is repeated.
    """

    def play(client, steps, broker, before, actions, settings):
        with MiniBroker(**(broker or {})) as mini_broker:
            if before is not None:
                before(mini_broker)
            command = {"url": mini_broker.service_url, "settings": settings, "steps": steps}
            bound_actions = {name: (lambda act=act: act(mini_broker)) for name, act in (actions or {}).items()}
            outcomes = [REFUSALS.get(one, one) for one in client(command, bound_actions)]
            frames = [comparable(*one) for one in client_frames(mini_broker)]
            assert mini_broker.failures == []
        return frames, outcomes

    def compare(*steps, broker=None, before=None, actions=None, burst=0, **settings):
        found = []
        for client in (java.run_command, run_pcli_client):
            for _ in range(10):
                frames, outcomes = play(client, steps, broker, before, actions, settings)
                kinds = [kind for kind, *_ in frames]
                first = kinds.index("SEND") if burst else 0
                if kinds[first : first + burst] == ["SEND"] * burst:
                    break
            found.append((frames, outcomes))
        assert found[1][0] == found[0][0]
        assert found[1][1] == found[0][1]
        return [body for kind, body, *_ in found[1][0] if kind == "SEND"]

    return compare


def send(size=10, **fields):
    return ("send", size, fields)


def counts(sends):
    return [body.num_messages for body in sends]


def test_batches_by_count(equal):
    sends = equal(*[send()] * 25, ("sleep", 500), batchingMaxMessages=10, batchingMaxPublishDelayMicros=200_000)
    assert counts(sends) == [10, 10, 5]


def test_batches_by_size(equal):
    sizes = [400, 400, 200, 500, 600, 900, 99, 1, 3000, 10, 10]
    sends = equal(*map(send, sizes), ("sleep", 500), batchingMaxBytes=1000, batchingMaxPublishDelayMicros=200_000)
    assert counts(sends) == [3, 1, 1, 3, 1, 2]


@pytest.mark.slow
def test_batches_by_time(equal):
    # The batch timer of a single message, a timer that fires without messages after a batch, and a timer that a full
    # batch sets again.
    steps = [
        ("sleep", 700), send(), send(), ("sleep", 450), send(), ("sleep", 1000), send(), ("sleep", 200),
        *[send()] * 6, ("sleep", 200), send(), ("sleep", 700),
    ]  # fmt: skip
    assert counts(equal(*steps, batchingMaxMessages=5, batchingMaxPublishDelayMicros=300_000)) == [2, 1, 5, 3]


def test_batches_of_keys(equal):
    keys = ["a", "b", "b", "a", "c", "a"]
    steps = [send(key=key) for key in keys] + [send(), send(ordering_key="b"), send(key="b"), ("flush",)]
    sends = equal(*steps, batcherBuilder="KEY_BASED", batchingMaxPublishDelayMicros=200_000)
    assert [body.sequence_id for body in sends] == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("batching", [True, False])
def test_messages_of_all_shapes(equal, batching):
    shapes = [
        {}, {"key": "k"}, {"key": ""}, {"key_bytes": "AP8HgA=="}, {"ordering_key": "o"}, {"property": "ü"},
        {"event_time": 7}, {"null": True}, {"key": "k", "null": True}, {"sequence_id": 100}, {},
        {"deliver_after": 60_000}, {},
    ]  # fmt: skip
    steps = [send(10, **shape) for shape in shapes]
    equal(*steps, ("flush",), ("block", 0), ("block", 3, {"key": "k"}), batchingEnabled=batching,
          batchingMaxPublishDelayMicros=200_000)  # fmt: skip


@pytest.mark.parametrize("kind", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_compressed(equal, kind):
    equal(*[send(1000)] * 5, ("flush",), send(4096), ("flush",), send(4097), ("flush",), *[send(10)] * 3,
          compressionType=kind, batchingMaxPublishDelayMicros=200_000)  # fmt: skip


@pytest.mark.parametrize("kind", ["NONE", "ZLIB"])
def test_chunks(equal, kind):
    sizes = [10, 4000, 4001, 20_000]
    sends = equal(*map(send, sizes), ("wait",), batchingEnabled=False, chunkingEnabled=True, compressionType=kind,
                  chunkMaxMessageSize=4000)  # fmt: skip
    assert len(sends) == (9 if kind == "NONE" else 5)


def test_possible_duplicates(equal):
    def switch_on(broker):
        broker.create_topic("orders")
        broker._run_in_broker(
            lambda server: server.broker.policies.set_namespace("public/default", "deduplication", body=True)
        )

    first = [send(sequence_id=n) for n in range(5)]
    mixed = [send(sequence_id=n) for n in (5, 6, 6, 2, 7, 8, 7, 9)]
    sends = equal(*first, ("flush",), *mixed, ("flush",), before=switch_on, producerName="p",
                  batchingMaxPublishDelayMicros=200_000)  # fmt: skip
    assert [(body.sequence_id, body.num_messages) for body in sends] == [
        (0, 5), (5, 2), (6, 1), (2, 1), (7, 2), (7, 1), (9, 1),
    ]  # fmt: skip


def test_closing_with_waiting_messages(equal):
    equal(*[send()] * 7, ("close",), batchingMaxMessages=5, batchingMaxPublishDelayMicros=2_000_000)


def test_entries_without_a_receipt_are_resent_after_a_cut(equal):
    def mute(broker):
        broker.faults.add("pulsar.type == 'SEND_RECEIPT'", "drop")

    def cut(broker):
        broker.wait_until(lambda one: len(one.frames("pulsar.type == 'SEND'")) == 3)
        broker.faults.clear()
        broker.disconnect()

    sends = equal(*[send()] * 12, ("sleep", 400), ("cut",), *[send(20)] * 4, ("wait",), before=mute,
                  actions={"cut": cut}, batchingMaxMessages=5, batchingMaxPublishDelayMicros=100_000)  # fmt: skip
    assert [body.sequence_id for body in sends][:6] == [0, 5, 10, 0, 5, 10]


@pytest.mark.parametrize("error", ["PersistenceError", "ChecksumError", "NotAllowedError"])
def test_errors_of_a_send(equal, error):
    def refuse(broker):
        broker.faults.add("pulsar.type == 'SEND'", "error", after=1, times=1, error=error)

    equal(("block", 10), send(), ("wait",), ("block", 10), before=refuse, batchingEnabled=False)


def test_an_error_in_the_middle_of_a_burst(equal):
    def refuse(broker):
        broker.faults.add("pulsar.type == 'SEND'", "error", after=1, times=1, error="PersistenceError")
        # All three SENDs must be sent before the error arrives.
        broker.faults.add("pulsar.type == 'SEND_ERROR'", "delay", ms=300)

    # The receipts of the SENDs after the refused message end the connection.
    equal(("block", 10), *[send()] * 3, ("wait",), before=refuse, burst=4, batchingEnabled=False)


def test_a_connection_that_the_broker_ends(equal):
    def cut(broker):
        broker.faults.add("pulsar.type == 'SEND'", "close", after=2, times=1)

    sends = equal(("block", 1), ("block", 2), send(3), ("wait",), ("block", 4), before=cut, batchingEnabled=False)
    assert [body.sequence_id for body in sends] == [0, 1, 2, 2, 3]


def test_unanswered_sends_time_out(equal):
    def mute(broker):
        broker.faults.add("pulsar.type == 'SEND_RECEIPT'", "drop")

    equal(send(), ("sleep", 300), send(), ("wait",), send(), ("wait",), before=mute, sendTimeoutMs=900)


def test_a_topic_that_is_terminated(equal):
    def terminate(broker):
        broker._run_in_broker(lambda server: server.broker.terminate(next(iter(server.broker.topics.values()))))

    equal(("block", 10), ("terminate",), ("sleep", 300), send(), ("wait",), actions={"terminate": terminate})


def test_schemas_of_messages(equal):
    steps = [send(), send(), ("text", "a"), ("text", "b"), send(), ("flush",), ("text", "c"), ("text", "d"), send()]
    sends = equal(*steps, ("flush",), batchingMaxPublishDelayMicros=200_000)
    assert counts(sends) == [2, 1, 1, 1, 2, 1]
    equal(("text", "a"), ("number", 1), ("text", "b"), send(), ("wait",), batchingMaxPublishDelayMicros=200_000)


def test_the_fields_of_producer(equal):
    equal(("block", 10), send(), ("wait",), producerName="mine", accessMode="Exclusive", initialSequenceId=41,
          properties={"b": "2", "a": "1"}, initialSubscriptionName="heir")  # fmt: skip


@pytest.mark.parametrize("mode", ["Shared", "Exclusive", "WaitForExclusive"])
def test_an_unload(equal, mode):
    def unload(broker):
        broker.unload("orders")

    equal(("block", 10), ("unload",), send(), send(), ("wait",), actions={"unload": unload}, accessMode=mode)


def test_new_partitions(equal):
    steps = [send(key=f"key-{n}") for n in range(10)]
    sends = equal(*steps, ("wait",), ("extend",), ("sleep", 1400), *steps, ("wait",),
                  before=lambda broker: broker.create_topic("orders", partitions=2),
                  actions={"extend": lambda broker: broker.create_topic("orders", partitions=3)},
                  batchingEnabled=False, autoUpdatePartitionsIntervalSeconds=1)  # fmt: skip
    assert {body.producer_id for body in sends} == {0, 1, 2}


def test_partitions(equal):
    steps = [send(key=f"key-{n}") for n in range(20)]
    sends = equal(*steps, ("flush",), before=lambda broker: broker.create_topic("orders", partitions=2),
                  batchingMaxPublishDelayMicros=200_000)  # fmt: skip
    assert {body.producer_id for body in sends} == {0, 1}


# -- official clients decrypt the messages of pcli's client ------------------------------------------------------------


def key_files(kind, folder):
    """Create a public and a private key in PEM files."""
    key = rsa.generate_private_key(65537, 2048) if kind == "RSA" else ec.generate_private_key(ec.SECP256R1())
    public, private = folder / "public.pem", folder / "private.pem"
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    return public, private


@pytest.fixture
def encrypted(pulsar_broker, rest):
    """Send an encrypted batch and an encrypted single message; return the payloads."""

    def produce(public):
        settings = {"encryptionKeys": {"reader": public.read_bytes()}, "batchingMaxPublishDelayMicros": 100_000}
        steps = [send(n) for n in range(5)] + [("flush",), send(7), ("wait",)]
        assert (
            run_pcli_client({"url": pulsar_broker.service_url, "settings": settings, "steps": steps}, {})
            == ["stored"] * 6
        )
        return ["x" * n for n in (0, 1, 2, 3, 4, 7)]

    pulsar_broker.create_topic("orders")
    rest("PUT", "persistent/public/default/orders/subscription/work")
    return produce


@pytest.mark.parametrize("kind", ["RSA", "EC"])
def test_the_java_client_decrypts_messages(java, encrypted, pulsar_broker, tmp_path, kind):
    public, private = key_files(kind, tmp_path)
    payloads = encrypted(public)
    command = {"url": pulsar_broker.service_url, "private_key": str(private), "count": len(payloads)}
    assert java.run_command(command, {}) == payloads


def test_the_python_client_decrypts_messages(encrypted, pulsar_broker, tmp_path):
    pulsar = pytest.importorskip("pulsar")
    public, private = key_files("RSA", tmp_path)
    payloads = encrypted(public)
    client = pulsar.Client(pulsar_broker.service_url)
    try:
        reader = pulsar.CryptoKeyReader(str(public), str(private))
        consumer = client.subscribe("orders", "work", crypto_key_reader=reader)
        assert [consumer.receive(10_000).data().decode() for _ in payloads] == payloads
    finally:
        client.close()
