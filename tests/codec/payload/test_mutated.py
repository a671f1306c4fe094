"""Real entries with mutated bytes always give a value, within the limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.payload import ChunkJoiner, PrivateKeys, SchemaBook, decode, open_entry
from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import KINDS, Problem

TOPIC = "persistent://public/default/t"

SOURCES = [
    "go/chunks.pcap",
    "go/compressions.pcapng",
    "java/schema-key-value.pcap",
    "java/schemas.pcap",
    "python/02-batched-keys-properties.pcap",
    "python/08-encrypted.pcapng",
    "rust/batching.pcapng",
]


@pytest.fixture(scope="module")
def frames(small_captures: Path) -> list[bytes]:
    """The frames with entries of these captures, the first forty of each."""
    found = []
    for source in SOURCES:
        with (small_captures / source).open("rb") as file:
            everything = [one for one in read_capture([(source, file)]) if isinstance(one, CapturedFrame)]
        entries = [one.data for one in everything if one.type in (6, 9) and len(one.data) < 20_000]
        assert entries, source
        found += entries[:40]
    return found


@pytest.fixture(scope="module")
def schemas(small_captures: Path) -> list[pb.Schema]:
    """The schemas of these captures."""
    found: list[pb.Schema] = []
    for source in SOURCES:
        with (small_captures / source).open("rb") as file:
            everything = [one for one in read_capture([(source, file)]) if isinstance(one, CapturedFrame)]
        producers = [one.command.producer for one in everything if one.type == 5]
        found += [producer.schema for producer in producers if producer.HasField("schema")]
    assert {schema.type for schema in found} >= {pb.Schema.Avro, pb.Schema.Json, pb.Schema.KeyValue}
    return found


@pytest.fixture(scope="module")
def keys(small_captures: Path) -> PrivateKeys:
    return PrivateKeys([(small_captures / "python/08-encrypted.test-private-key.pem").read_bytes()])


edits = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=6)


def mutated(data: bytes, changes: list[tuple[int, int]], first: int = 0) -> bytes:
    out = bytearray(data)
    for place, byte in changes:
        out[first + place % (len(out) - first)] = byte
    return bytes(out)


def check(problems: list[Problem]) -> None:
    for problem in problems:
        assert problem.kind in KINDS
        assert "\n" not in problem.detail
        assert len(problem.detail) < 1000


@settings(max_examples=500)
@given(chosen=st.lists(st.tuples(st.integers(0, 10_000), edits, st.integers(0, 400)), min_size=1, max_size=3))
def test_entries(
    frames: list[bytes],
    schemas: list[pb.Schema],
    keys: PrivateKeys,
    chosen: list[tuple[int, list[tuple[int, int]], int]],
) -> None:
    joiner = ChunkJoiner(max_bytes=100_000)
    for which, changes, cut in chosen:
        data = frames[which % len(frames)]
        # The lengths of the frame stay; command, metadata and payload follow them.
        frame = Frame.of(mutated(data, changes, first=8)[: len(data) - cut % (len(data) - 8)])
        if frame.metadata is None:
            continue
        payload = frame.payload or b""
        entry = open_entry(frame.metadata, payload, missing=frame.missing, keys=keys, chunks=joiner)
        check(entry.problems)
        assert joiner.size <= 100_000
        for message in entry.messages:
            shown = [message.key, message.properties, message.event_time, message.sequence_id]
            json.dumps(shown, ensure_ascii=False).encode()
            for schema in schemas:
                value = decode(schema, message.payload, message.key_bytes)
                if isinstance(value, Problem):
                    check([value])
                else:
                    json.dumps(value, allow_nan=False)


@given(which=st.integers(0, 1000), changes=edits, payload=st.binary(max_size=60))
def test_schemas(schemas: list[pb.Schema], which: int, changes: list[tuple[int, int]], payload: bytes) -> None:
    command = pb.BaseCommand(type=pb.BaseCommand.PRODUCER)
    command.producer.topic = TOPIC
    command.producer.schema.CopyFrom(schemas[which % len(schemas)])
    command.producer.request_id = 1
    success = pb.BaseCommand(type=pb.BaseCommand.PRODUCER_SUCCESS)
    success.producer_success.request_id = 1
    success.producer_success.schema_version = b"1"
    book = SchemaBook()
    data = command.SerializePartialToString()
    frame = Frame.of((len(data) + 4).to_bytes(4, "big") + len(data).to_bytes(4, "big") + mutated(data, changes))
    for step in (frame.command, success):
        book.see(1, step)
    found = book.find(frame.command.producer.topic, b"1")
    if found is not None:
        value = found.decode(payload)
        if isinstance(value, Problem):
            check([value])
        else:
            json.dumps(value, allow_nan=False)
