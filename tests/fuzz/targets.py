"""The targets of coverage-guided fuzzing: functions of arbitrary bytes that raise an error only for a bug.

A target's first inputs are its seeds and the files in corpus/NAME. `coverage.py` runs a target with atheris, and
`test_targets.py` runs the first inputs without it.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pcli.codec.capture import CapturedFrame, ReadOptions, read_capture
from pcli.codec.errors import PcliError
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.filters.filter import compile_filter
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.output.frame_summary import describe
from pcli.codec.observe.output.frame_tree import tree_lines
from pcli.codec.observe.single_frame import flatten_loose, loose_facts
from pcli.codec.observe.tracking.tracker import process_events
from pcli.codec.payload.batch import split_batch
from pcli.codec.payload.compression import decompress
from pcli.codec.payload.schemas import decode
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem
from pcli.minibroker.admin import application
from pcli.minibroker.admin.endpoint_table import ENDPOINTS
from pcli.minibroker.broker import Broker
from pcli.minibroker.settings import Settings

CORPUS = Path(__file__).with_name("corpus")
CAPTURES = Path(__file__).parent.parent / "captures"
SEED_CAPTURES = ("go/nack.pcap", "java/late-capture.pcap", "java/cut-packets.pcap", "faults/corrupt-messages.pcap")
NOW = 1_700_000_000_000
SCHEMA_TYPES = [pb.Schema.Type.Value(name) for name in ("Avro", "Json", "ProtobufNative", "KeyValue", "Protobuf")]
AVRO = b'{"type":"record","name":"r","fields":[{"name":"a","type":["null",{"type":"array","items":"int"}]}]}'


def frames(data: bytes) -> None:
    """Decode one frame and print it in every form. A frame has at least its two lengths."""
    if len(data) < 8:
        return
    frame = Frame.of(data)
    for from_client in (True, False):
        facts = loose_facts(frame, 1, from_client=from_client)
        list(tree_lines(facts))
        json.dumps(flatten_loose(facts, payload=True))
        describe(facts)


def captures(data: bytes) -> None:
    """Read a capture and apply all rules."""
    diagnosis = Diagnosis()
    try:
        process_events(read_capture([("capture", io.BytesIO(data))], ReadOptions(ends=True)), diagnosis)
    except PcliError:
        return
    for finding in diagnosis.findings():
        assert finding.what


def _facts() -> list[Any]:
    observer = Observer()
    with (CAPTURES / "go/nack.pcap").open("rb") as file:
        events = list(read_capture([("nack.pcap", file)]))
    return [observer.see(event) for event in events if isinstance(event, CapturedFrame)]


_FACTS = _facts()


def filters(data: bytes) -> None:
    """Compile a filter and apply it to frames."""
    try:
        compiled = compile_filter(data.decode("utf-8", "replace"))
    except PcliError:
        return
    for facts in _FACTS[:20]:
        compiled.match(facts)


def batches(data: bytes) -> None:
    """Decompress a batch and split it. The first bytes are the type of compression, the size and the count.

    Without compression, the size is that of the data, because a batch of any other size is not split.
    """
    if len(data) < 8:
        return
    kind, size, count = data[0] % 6, int.from_bytes(data[1:5], "big") & 0xFFFFF, int.from_bytes(data[5:8], "big")
    content = decompress(kind, data[8:], size if kind else len(data) - 8)
    if not isinstance(content, Problem):
        pieces, _ = split_batch(content, count)
        assert all(0 <= start <= stop <= len(content) for _, start, stop in pieces)


def schemas(data: bytes) -> None:
    """Decode a payload with a schema, and add the schema to a topic. The first bytes are the type and a length."""
    if len(data) < 3:
        return
    length = int.from_bytes(data[1:3], "big")
    schema = pb.Schema(name="", type=SCHEMA_TYPES[data[0] % len(SCHEMA_TYPES)], schema_data=data[3 : 3 + length])
    decode(schema, data[3 + length :])
    broker = Broker(Settings(), now=NOW)
    connect = push_frame(pb.CommandConnect(client_version="fuzz", protocol_version=21))
    lookup = push_frame(pb.CommandLookupTopic(topic="t", request_id=1))
    register = push_frame(pb.CommandProducer(topic="t", producer_id=1, request_id=2))
    avro = pb.Schema(name="", type=SCHEMA_TYPES[0], schema_data=AVRO)
    add = [
        push_frame(pb.CommandGetOrCreateSchema(topic="t", request_id=3, schema=one)) for one in (avro, schema, schema)
    ]
    _converse(broker, [connect, lookup, register, *add])


def rest(data: bytes) -> None:
    """Send a request. The first bytes select the endpoint; the query and the body follow, separated by a zero byte."""
    if len(data) < 2:
        return
    endpoint = ENDPOINTS[int.from_bytes(data[:2], "big") % len(ENDPOINTS)]
    words = {"tenant": "public", "namespace": "default", "topic": "t", "domain": "persistent", "subscription": "s"}
    words |= {"scalable_domain": "topic", "segment": "0", "other": "1", "descriptor": "0000-ffff-0"}
    path = "/".join(words.get(part[1:-1], "x") if part.startswith("{") else part for part in endpoint.path.split("/"))
    query, _, body = data[2:].partition(b"\0")
    broker = Broker(Settings(scalableTopicsEnabled=True), now=NOW)
    broker.http_url = "http://127.0.0.1:8080"
    scope = {"type": "http", "http_version": "1.1", "method": endpoint.method, "path": path, "raw_path": path.encode()}
    scope |= {"query_string": query, "headers": [(b"content-type", b"application/json")]}

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        """Ignore the response."""

    asyncio.run(application(broker, lambda: NOW)(scope, receive, send))
    _check(broker)


def conversations(data: bytes) -> None:
    """Send bytes to the broker after a handshake, as one client and in two parts."""
    connect = push_frame(pb.CommandConnect(client_version="fuzz", protocol_version=21))
    middle = len(data) // 2
    _converse(Broker(Settings(transactionCoordinatorEnabled=True), now=NOW), [connect, data[:middle], data[middle:]])


def _converse(broker: Broker, parts: list[bytes]) -> None:
    connection = broker.connect(("10.0.0.1", 1), NOW)
    for number, part in enumerate(parts):
        broker.receive(connection, part, NOW + number)
        while broker.drain():
            broker.finish_turn()
    broker.advance(NOW + 10_000)
    broker.disconnected(connection, NOW + 10_001)
    _check(broker)


def _check(broker: Broker) -> None:
    for failure in broker.failures:
        raise failure


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one for one in (frames, captures, filters, batches, schemas, rest, conversations)
}


def _commands() -> list[bytes]:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=1)
    topic = "persistent://public/default/t"
    bodies = [
        pb.CommandLookupTopic(topic=topic, request_id=1),
        pb.CommandProducer(topic=topic, producer_id=1, request_id=2),
        pb.CommandSubscribe(
            topic=topic, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=3
        ),
        pb.CommandFlow(consumer_id=1, messagePermits=10),
        pb.CommandSend(producer_id=1, sequence_id=0, num_messages=1),
        pb.CommandAck(consumer_id=1, ack_type=0, message_id=[pb.MessageIdData(ledgerId=0, entryId=0)]),
        pb.CommandSeek(consumer_id=1, request_id=4, message_publish_time=1),
        pb.CommandWatchTopicList(namespace="public/default", topics_pattern="t.*", watcher_id=1, request_id=5),
        pb.CommandNewTxn(request_id=6, txn_ttl_millis=1000),
    ]
    entry = push_entry(metadata, b"\0\0\0\2\x18\x02hi")
    return [push_frame(body, entry if isinstance(body, pb.CommandSend) else b"") for body in bodies]


def seeds(name: str) -> Iterator[bytes]:
    """Yield the first inputs of a target."""
    match name:
        case "frames":
            yield from _commands()
        case "captures":
            yield from ((CAPTURES / path).read_bytes() for path in SEED_CAPTURES)
        case "filters":
            yield from (b"pulsar.type == 'SEND' and (ip.addr == 10.0.0.0/8 or not pulsar.topic matches '^a+')",)
            yield from (b"pulsar.sequence_id in {1..5, 7} xor frame.time_relative > 1.5ms", b"len(pulsar.topic) > 3")
        case "batches":
            yield from (bytes([kind]) + b"\0\0\0\x08\0\0\1" + b"\0\0\0\2\x18\x02hi" for kind in range(5))
        case "schemas":
            for kind in range(len(SCHEMA_TYPES)):
                yield bytes([kind]) + len(AVRO).to_bytes(2, "big") + AVRO + b"\2\2\4\0"
        case "rest":
            for number in range(0, len(ENDPOINTS), 20):
                yield number.to_bytes(2, "big") + b"a=1&force=true\0" + b'{"clusters":["standalone"],"x":1}'
        case "conversations":
            yield b"".join(_commands())
    folder = CORPUS / name
    yield from (path.read_bytes() for path in sorted(folder.glob("*")))
