"""All steps of opening an entry. test_truth.py opens those in captures of five clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload import CHUNK, CLOSED, OPEN, SEALED, ChunkJoiner, PrivateKeys, compress, join_batch, open_entry
from pcli.codec.payload.entry import Entry
from pcli.codec.proto import pb
from pcli.codec.wire.problems import KINDS, Problem

Meta = Callable[..., pb.MessageMetadata]
Single = pb.SingleMessageMetadata


def closed(entry: Entry, kind: str) -> str:
    """Return the problems of an entry that was not opened."""
    assert entry.state == CLOSED
    (problem,) = entry.problems
    assert problem.kind == kind
    return problem.detail


# --- single messages ---


def test_a_plain_message(meta: Meta) -> None:
    payload = b"hello"
    metadata = meta(partition_key="k", event_time=5, ordering_key=b"o", properties=[pb.KeyValue(key="a", value="b")])
    entry = open_entry(metadata, payload)
    assert (entry.state, entry.problems) == (OPEN, [])
    (message,) = entry.messages
    assert message.payload is payload, "a plain payload is not copied"
    assert (message.index, message.single, message.metadata) == (-1, None, metadata)
    assert (message.size, message.key, message.key_is_bytes, message.key_bytes) == (5, "k", False, b"k")
    assert (message.ordering_key, message.properties) == (b"o", [("a", "b")])
    assert (message.event_time, message.sequence_id) == (5, 7)
    assert (message.null_value, message.null_key, message.compacted_out) == (False, False, False)


def test_an_empty_message(meta: Meta) -> None:
    (message,) = open_entry(meta(null_value=True, null_partition_key=True), b"").messages
    assert (message.payload, message.null_value, message.null_key) == (b"", True, True)
    assert (message.key, message.key_bytes, message.ordering_key, message.event_time) == (None, None, None, 0)


def test_keys_that_are_bytes(meta: Meta) -> None:
    (message,) = open_entry(meta(partition_key="AP8=", partition_key_b64_encoded=True), b"").messages
    assert (message.key, message.key_is_bytes, message.key_bytes) == ("AP8=", True, b"\x00\xff")
    (message,) = open_entry(meta(partition_key="not base64!", partition_key_b64_encoded=True), b"").messages
    assert message.key_bytes == b"not base64!"
    (message,) = open_entry(meta(partition_key="", partition_key_b64_encoded=True), b"").messages
    assert (message.key, message.key_bytes) == ("", b"")


def test_texts_with_invalid_utf8() -> None:
    # protobuf returns such a string field as bytes.
    metadata = pb.MessageMetadata.FromString(b"\x0a\x01p\x10\x00\x18\x00\x32\x02a\xff\x22\x06\x0a\x01\xfe\x12\x01v")
    (message,) = open_entry(metadata, b"").messages
    assert (message.key, message.key_bytes, message.properties) == ("a\\xff", b"a\xff", [("\\xfe", "v")])
    metadata.partition_key_b64_encoded = True
    assert message.key_bytes == b"a\xff"


@pytest.mark.parametrize("kind", [pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY])
def test_a_compressed_message(kind: int, meta: Meta) -> None:
    text = b"to be or not to be " * 20
    metadata = meta(compression=kind, uncompressed_size=len(text), partition_key="k")
    entry = open_entry(metadata, compress(kind, text))
    assert entry.messages[0].payload == text
    metadata.uncompressed_size -= 1
    entry = open_entry(metadata, compress(kind, text))
    assert "are announced" in closed(entry, "compression") or "do not decompress" in entry.problems[0].detail
    assert (entry.messages[0].payload, entry.messages[0].key) == (compress(kind, text), "k")


def test_an_unknown_compression(meta: Meta) -> None:
    metadata = pb.MessageMetadata.FromString(meta().SerializeToString() + b"\x40\x09")
    assert closed(open_entry(metadata, b"x"), "compression") == "type 9 is not known"


def test_the_caller_limits_the_size(meta: Meta) -> None:
    metadata = meta(compression=pb.ZSTD, uncompressed_size=1000)
    assert open_entry(metadata, compress(pb.ZSTD, bytes(1000)), max_size=1000).state == OPEN
    assert "at most 999" in closed(open_entry(metadata, compress(pb.ZSTD, bytes(1000)), max_size=999), "compression")


def test_a_truncated_payload(meta: Meta) -> None:
    entry = open_entry(meta(partition_key="k"), b"hel", missing=2)
    assert closed(entry, "cut") == "2 of 5 bytes of the payload are missing from the capture"
    assert (entry.messages[0].payload, entry.messages[0].key) == (b"hel", "k")
    entry = open_entry(meta(compression=pb.ZSTD, uncompressed_size=9, num_messages_in_batch=3), b"x", missing=4)
    closed(entry, "cut")


# --- batches ---


def batch(*messages: tuple[Single, bytes]) -> bytes:
    return join_batch(messages)


def test_a_batch(meta: Meta) -> None:
    data = batch(
        (Single(payload_size=0, partition_key="a", sequence_id=70, event_time=9), b"one"),
        (Single(payload_size=0, null_value=True, null_partition_key=True), b""),
        (Single(payload_size=0, compacted_out=True), b""),
        (Single(payload_size=0, ordering_key=b"o", properties=[pb.KeyValue(key="x", value="y")]), b"four"),
    )
    # The metadata of a batch contain only the key of its first message.
    entry = open_entry(meta(num_messages_in_batch=4, partition_key="a", event_time=3), data)
    assert (entry.state, entry.problems) == (OPEN, [])
    assert [message.index for message in entry.messages] == [0, 1, 2, 3]
    assert [message.payload for message in entry.messages] == [b"one", b"", b"", b"four"]
    assert [message.size for message in entry.messages] == [3, 0, 0, 4]
    assert [message.key for message in entry.messages] == ["a", None, None, None]
    assert [message.sequence_id for message in entry.messages] == [70, 7, 7, 7]
    assert [message.event_time for message in entry.messages] == [9, 3, 3, 3]
    assert [message.null_value for message in entry.messages] == [False, True, False, False]
    assert [message.null_key for message in entry.messages] == [False, True, False, False]
    assert [message.compacted_out for message in entry.messages] == [False, False, True, False]
    assert entry.messages[3].ordering_key == b"o"
    assert entry.messages[3].properties == [("x", "y")]


def test_a_batch_of_one_is_a_batch(meta: Meta) -> None:
    entry = open_entry(meta(num_messages_in_batch=1), batch((Single(payload_size=0), b"x")))
    assert [(message.index, message.payload) for message in entry.messages] == [(0, b"x")]


def test_a_truncated_batch_has_its_complete_messages(meta: Meta) -> None:
    data = batch((Single(payload_size=0), b"one"), (Single(payload_size=0), b"two"))
    entry = open_entry(meta(num_messages_in_batch=2), data[:-1], missing=1)
    assert entry.state == OPEN
    assert [message.payload for message in entry.messages] == [b"one"]
    assert entry.problems == [Problem("batch", "1 of 2 messages are complete; 1 bytes are missing from the capture")]


def test_the_number_of_split_messages_is_limited(meta: Meta, peak: Callable[[Callable[[], object]], int]) -> None:
    tiny = b"\x00\x00\x00\x02\x18\x00" * 1_000_000
    packed = compress(pb.ZSTD, tiny)
    metadata = meta(compression=pb.ZSTD, uncompressed_size=len(tiny), num_messages_in_batch=1_000_000)
    found: list[Entry] = []
    peak(lambda: found.append(open_entry(metadata, packed)))
    assert len(found[0].messages) == 100_000
    assert found[0].problems == [Problem("batch", "only the first 100000 of 1000000 messages are split")]


def test_reading_keys_copies_no_payloads(meta: Meta, peak: Callable[[Callable[[], object]], int]) -> None:
    data = batch(*[(Single(payload_size=0, partition_key=str(number)), bytes(1_000_000)) for number in range(10)])
    metadata = meta(num_messages_in_batch=10)
    keys: list[str | None] = []
    assert peak(lambda: keys.extend(message.key for message in open_entry(metadata, data).messages)) < 100_000
    assert keys == [str(number) for number in range(10)]


# --- chunks ---


def chunk(meta: Meta, number: int, of: int, **more: Any) -> pb.MessageMetadata:
    return meta(uuid="u", chunk_id=number, num_chunks_from_msg=of, **more)


def test_chunks_are_compressed_as_one_message(meta: Meta) -> None:
    text = bytes(range(256)) * 100
    packed = compress(pb.LZ4, text)
    more = {"compression": pb.LZ4, "uncompressed_size": len(text), "total_chunk_msg_size": len(packed)}
    joiner = ChunkJoiner()
    first = open_entry(chunk(meta, 0, 2, **more), packed[:100], chunks=joiner, scope=1)
    assert (first.state, first.messages, first.problems) == (CHUNK, [], [])
    entry = open_entry(chunk(meta, 1, 2, **more), packed[100:], chunks=joiner, scope=1)
    assert (entry.state, entry.problems) == (OPEN, [])
    assert entry.messages[0].payload == text
    assert entry.messages[0].metadata.chunk_id == 1


def test_a_joined_message_may_be_larger_than_any_single_one(meta: Meta) -> None:
    text = bytes(range(256)) * 50
    packed = compress(pb.LZ4, text)
    assert 2 * len(packed) < len(text) < 64 * len(packed)
    more = {"compression": pb.LZ4, "uncompressed_size": len(text)}
    joiner = ChunkJoiner()
    for number, (half, state) in enumerate([(packed[:100], CHUNK), (packed[100:], OPEN)]):
        entry = open_entry(chunk(meta, number, 2, **more), half, chunks=joiner, max_size=len(packed))
        assert entry.state == state
    assert entry.messages[0].payload == text
    closed(open_entry(meta(**more), packed, max_size=len(packed)), "compression")


def test_without_a_joiner_a_chunk_stays_a_chunk(meta: Meta) -> None:
    entry = open_entry(chunk(meta, 1, 2), b"x")
    assert (entry.state, entry.messages, entry.problems) == (CHUNK, [], [])


def test_chunk_three_of_two(meta: Meta) -> None:
    entry = open_entry(chunk(meta, 3, 2), b"x", chunks=ChunkJoiner())
    assert (entry.state, entry.messages) == (CHUNK, [])
    assert entry.problems[0].kind == "chunk"


def test_a_truncated_chunk_discards_its_message(meta: Meta) -> None:
    joiner = ChunkJoiner()
    open_entry(chunk(meta, 0, 3), b"a", chunks=joiner)
    closed(open_entry(chunk(meta, 1, 3), b"b", missing=5, chunks=joiner), "cut")
    assert joiner.waiting == []
    assert "not captured" in open_entry(chunk(meta, 2, 3), b"c", chunks=joiner).problems[0].detail


# --- encryption ---


def test_encrypted(java: dict[str, Any]) -> None:
    one = java["encryption"]["cases"]["P-256"]
    metadata = pb.MessageMetadata.FromString(bytes.fromhex(one["metadata"]))
    payload = bytes.fromhex(one["payload"])
    keys = PrivateKeys([one["private_key"].encode()])
    entry = open_entry(metadata, payload, keys=keys)
    assert (entry.state, entry.messages[0].payload) == (OPEN, java["encryption"]["plain"].encode())
    # Without a key an encrypted payload is no problem. A key that does not match is one.
    entry = open_entry(metadata, payload)
    assert (entry.state, entry.problems, entry.messages[0].payload) == (SEALED, [], payload)
    entry = open_entry(metadata, payload, keys=PrivateKeys([]))
    assert (entry.state, [problem.kind for problem in entry.problems]) == (SEALED, ["encryption"])
    closed(open_entry(metadata, payload[:-1], missing=1, keys=keys), "cut")


def test_chunks_are_encrypted_separately(java: dict[str, Any]) -> None:
    one = java["encryption"]["cases"]["RSA 2048"]
    keys = PrivateKeys([one["private_key"].encode()])
    joiner = ChunkJoiner()
    entries = []
    for number in range(2):
        metadata = pb.MessageMetadata.FromString(bytes.fromhex(one["metadata"]))
        metadata.MergeFrom(pb.MessageMetadata(uuid="u", chunk_id=number, num_chunks_from_msg=2))
        entries.append(open_entry(metadata, bytes.fromhex(one["payload"]), keys=keys, chunks=joiner))
    assert [entry.state for entry in entries] == [CHUNK, OPEN]
    assert entries[1].messages[0].payload == java["encryption"]["plain"].encode() * 2


def test_an_undecrypted_chunk_is_not_joined(java: dict[str, Any]) -> None:
    one = java["encryption"]["cases"]["RSA 2048"]
    metadata = pb.MessageMetadata.FromString(bytes.fromhex(one["metadata"]))
    metadata.MergeFrom(pb.MessageMetadata(uuid="u", chunk_id=0, num_chunks_from_msg=2))
    joiner = ChunkJoiner()
    assert open_entry(metadata, bytes.fromhex(one["payload"]), chunks=joiner).state == SEALED
    assert joiner.waiting == []


# --- invalid bytes ---

metadatas = st.builds(
    pb.MessageMetadata,
    producer_name=st.just("p"),
    sequence_id=st.just(0),
    publish_time=st.just(0),
    compression=st.none() | st.sampled_from(pb.CompressionType.values()),
    uncompressed_size=st.none() | st.integers(0, 2**32 - 1),
    num_messages_in_batch=st.none() | st.integers(-(2**31), 2**31 - 1),
    uuid=st.none() | st.sampled_from("ab"),
    chunk_id=st.none() | st.integers(-2, 4) | st.integers(-(2**31), 2**31 - 1),
    num_chunks_from_msg=st.none() | st.integers(-2, 4) | st.integers(-(2**31), 2**31 - 1),
    total_chunk_msg_size=st.none() | st.integers(-(2**31), 2**31 - 1),
    encryption_keys=st.lists(
        st.builds(pb.EncryptionKeys, key=st.text(max_size=3), value=st.binary(max_size=300)), max_size=2
    ),
    encryption_param=st.none() | st.binary(max_size=20),
    partition_key=st.none() | st.text(max_size=5),
    partition_key_b64_encoded=st.none() | st.booleans(),
)


@given(st.lists(st.tuples(metadatas, st.binary(max_size=60), st.integers(0, 3)), max_size=8))
def test_no_bytes_raise(java: dict[str, Any], entries: list[tuple[pb.MessageMetadata, bytes, int]]) -> None:
    joiner = ChunkJoiner()
    keys = PrivateKeys([java["encryption"]["cases"]["P-256"]["private_key"].encode()])
    for metadata, payload, missing in entries:
        entry = open_entry(metadata, payload, missing=missing, keys=keys, chunks=joiner)
        assert entry.state in (OPEN, CHUNK, SEALED, CLOSED)
        assert entry.state == OPEN or not entry.messages or entry.messages[0].payload == payload
        for problem in entry.problems:
            assert problem.kind in KINDS
            assert "\n" not in problem.detail
        for message in entry.messages:
            assert len(message.payload) == message.size
            assert message.key_bytes is None or isinstance(message.key_bytes, bytes)
