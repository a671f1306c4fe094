"""Batches: bytes that the Java client wrote (from a capture), with metadata compared with protobuf."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload.batch import join_batch, split_batch
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

# A batch after compaction: of five messages the second and the last were kept.
COMPACTED = (
    b"\x00\x00\x00\x04\x18\x00 \x01"
    b"\x00\x00\x00\r\x12\x05key-0\x18\x1b0\x00@\x06dbceacacddbaffddaeedfdbccee"
    b"\x00\x00\x00\x04\x18\x00 \x01\x00\x00\x00\x04\x18\x00 \x01"
    b"\x00\x00\x00\r\x12\x05key-2\x18U0\x00@\tabccdfadbceabcefbbcdefbbdcdacdedbfdcaacadeecfddebcedfffbcffbbdfefcbffef"
    b"debfbbdfaedebd"
)

singles = st.builds(
    pb.SingleMessageMetadata,
    partition_key=st.none() | st.text(max_size=5),
    ordering_key=st.none() | st.binary(max_size=5),
    event_time=st.none() | st.integers(0, 2**64 - 1),
    sequence_id=st.none() | st.integers(0, 2**64 - 1),
    null_value=st.none() | st.booleans(),
    properties=st.lists(st.builds(pb.KeyValue, key=st.text(max_size=3), value=st.text(max_size=3)), max_size=3),
    payload_size=st.just(0),
)
batches = st.lists(st.tuples(singles, st.binary(max_size=40)), min_size=1, max_size=8)


def test_a_batch_from_the_wire() -> None:
    pieces, problem = split_batch(COMPACTED, 5)
    assert problem is None
    assert [single.compacted_out for single, _, _ in pieces] == [True, False, True, True, False]
    assert [single.partition_key for single, _, _ in pieces] == ["", "key-0", "", "", "key-2"]
    assert [end - start for _, start, end in pieces] == [0, 27, 0, 0, 85]
    single, start, end = pieces[1]
    assert (single.sequence_id, COMPACTED[start:end]) == (6, b"dbceacacddbaffddaeedfdbccee")


def test_joining_reproduces_the_batch() -> None:
    pieces, _ = split_batch(COMPACTED, 5)
    assert join_batch([(single, COMPACTED[start:end]) for single, start, end in pieces]) == COMPACTED


@given(batches)
def test_join_and_split(messages: list[tuple[pb.SingleMessageMetadata, bytes]]) -> None:
    data = join_batch(messages)
    pieces, problem = split_batch(data, len(messages))
    assert problem is None
    assert [data[start:end] for _, start, end in pieces] == [payload for _, payload in messages]
    for (single, _, _), (given_single, payload) in zip(pieces, messages, strict=True):
        assert single.payload_size == len(payload)
        single.payload_size = 0
        assert single == given_single


def test_joining_does_not_change_the_callers_metadata() -> None:
    single = pb.SingleMessageMetadata(payload_size=0)
    join_batch([(single, b"abc")])
    assert single.payload_size == 0


@given(batches, st.data())
def test_a_truncated_batch_keeps_its_complete_messages(
    messages: list[tuple[pb.SingleMessageMetadata, bytes]], data: st.DataObject
) -> None:
    whole = join_batch(messages)
    cut = data.draw(st.integers(0, len(whole) - 1))
    everything, _ = split_batch(whole, len(messages))
    pieces, problem = split_batch(whole[:cut], len(messages), missing=len(whole) - cut)
    ends = [end for _, _, end in everything if end <= cut]
    assert [end for _, _, end in pieces] == ends
    text = (
        f"{len(ends)} of {len(messages)} messages are complete; {len(whole) - cut} bytes are missing from the capture"
    )
    assert problem == Problem("batch", text)


def test_a_count_larger_than_the_bytes() -> None:
    pieces, problem = split_batch(COMPACTED, 2**31 - 1)
    assert len(pieces) == 5
    assert problem == Problem("batch", "5 of 2147483647 messages are complete; then the bytes end")


def test_two_thousand_million_messages_in_ten_bytes(peak: Callable[[Callable[[], object]], int]) -> None:
    assert peak(lambda: split_batch(b"\x00\x00\x00\x02\x18\x00\x00\x00\x00\x00", 2**31 - 1)) < 100_000


def test_a_count_smaller_than_the_bytes() -> None:
    pieces, problem = split_batch(COMPACTED, 4)
    assert len(pieces) == 4
    assert problem == Problem("batch", "102 bytes after the last of 4 messages")


def test_an_invalid_count() -> None:
    assert split_batch(b"", 0) == ([], None)
    assert split_batch(COMPACTED, 0) == ([], Problem("batch", "170 bytes after the last of 0 messages"))
    assert split_batch(COMPACTED, -5) == ([], Problem("batch", "-5 messages"))
    assert split_batch(b"", -5) == ([], Problem("batch", "-5 messages"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("size beyond the end", b"\xff\xff\xff\xff\x18\x00"),
        ("no room for a size", b"\x00\x00\x00"),
        ("no protobuf", b"\x00\x00\x00\x02\xff\xff"),
        ("no payload size", b"\x00\x00\x00\x00"),
        ("payload beyond the end", b"\x00\x00\x00\x02\x18\x05abc"),
        ("negative payload size", b"\x00\x00\x00\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ],
)
def test_an_invalid_length_ends_the_split(name: str, data: bytes) -> None:
    good = join_batch([(pb.SingleMessageMetadata(payload_size=0), b"good")])
    pieces, problem = split_batch(good + data, 3)
    assert len(pieces) == 1, name
    assert problem is not None
    assert problem.detail.startswith(f"message 1 of 3, at byte {len(good)} of {len(good + data)}")


def test_more_messages_than_the_limit() -> None:
    data = b"\x00\x00\x00\x02\x18\x00" * 10
    pieces, problem = split_batch(data, 10, most=7)
    assert len(pieces) == 7
    assert problem == Problem("batch", "only the first 7 of 10 messages are split")


@given(st.binary(max_size=200), st.integers(-(2**31), 2**31 - 1), st.integers(0, 100))
def test_no_bytes_raise(data: bytes, count: int, missing: int) -> None:
    pieces, problem = split_batch(data, count, missing)
    assert len(pieces) == count or problem is not None


@given(batches, st.integers(0, 10_000), st.integers(0, 255))
def test_one_wrong_byte(messages: list[tuple[pb.SingleMessageMetadata, bytes]], place: int, byte: int) -> None:
    data = bytearray(join_batch(messages))
    data[place % len(data)] = byte
    for single, start, end in split_batch(bytes(data), len(messages))[0]:
        assert end - start == single.payload_size
        assert end <= len(data)
