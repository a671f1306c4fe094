"""The incremental reader: complete frames, divided frames, single bytes, and lengths that end a stream."""

from itertools import pairwise
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.constants import MAX_FRAME_SIZE
from pcli.codec.wire.reader import FrameReader

PING = push_frame(pb.CommandPing())
FLOW = push_frame(pb.CommandFlow(consumer_id=1, messagePermits=10))
SEND = push_frame(
    pb.CommandSend(producer_id=1, sequence_id=5),
    push_entry(pb.MessageMetadata(producer_name="p", sequence_id=5, publish_time=1), b"x" * 1000),
)
CONVERSATION = [PING, FLOW, SEND, SEND, PING]


def read(pieces, **options):
    reader = FrameReader(**options)
    frames = [frame.data for piece in pieces for frame in reader.feed(piece)]
    return reader, frames


def test_whole_and_byte_by_byte():
    stream = b"".join(CONVERSATION)
    for pieces in ([stream], [bytes([byte]) for byte in stream]):
        reader, frames = read(pieces)
        assert frames == CONVERSATION
        assert (reader.offset, reader.pending, reader.error) == (len(stream), 0, None)


@given(st.lists(st.integers(0, sum(map(len, CONVERSATION))), max_size=20))
def test_any_chunk_sizes(cuts):
    stream = b"".join(CONVERSATION)
    edges = [0, *sorted(cuts), len(stream)]
    _, frames = read(stream[start:end] for start, end in pairwise(edges))
    assert frames == CONVERSATION


def test_an_incomplete_frame_is_pending():
    reader, frames = read([FLOW, SEND[:100]])
    assert frames == [FLOW]
    assert (reader.offset, reader.pending, reader.error) == (len(FLOW), 100, None)


# Observed on a 4.2.4 broker: the prefix 5,253,117 closes the connection at once, after 5,253,116 it waits.
def test_the_largest_prefix():
    reader, _ = read([pack(">I", MAX_FRAME_SIZE - 4)])
    assert reader.error is None
    reader, _ = read([PING, pack(">I", MAX_FRAME_SIZE - 3)])
    assert "5253121 bytes" in reader.error.text
    assert reader.error.offset == len(PING)


@pytest.mark.parametrize("prefix", [0, 3, 2**31 - 1, 2**32 - 1])
def test_impossible_prefixes(prefix):
    reader, frames = read([FLOW + pack(">I", prefix) + FLOW])
    assert frames == [FLOW]
    assert reader.error.offset == len(FLOW)
    assert reader.feed(FLOW) == []


def test_a_command_longer_than_its_frame():
    reader, _ = read([pack(">II", 8, 9) + b"12345678"])
    assert "command of 9 bytes" in reader.error.text


def test_a_larger_limit():
    reader, frames = read([pack(">I", MAX_FRAME_SIZE)], max_frame_size=2 * MAX_FRAME_SIZE)
    assert (reader.error, frames) == (None, [])


def test_byte_by_byte_is_linear():
    # The buffer may be examined only when the frame is complete: a frame of n bytes fed byte by byte must not be
    # examined at each byte.
    calls = 0

    class Watched(FrameReader):
        def _cut(self, data):
            nonlocal calls
            calls += 1
            return super()._cut(data)

    reader = Watched()
    for byte in SEND:
        reader.feed(bytes([byte]))
    assert reader.offset == len(SEND)
    assert calls <= 10
