"""Sizes of chunks. test_entry_builder.py compares whole frames with those of the Java client."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.replay.client.producer.message_chunking import chunk_size, cut


def metadata() -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p0", sequence_id=3, publish_time=1)


@pytest.mark.parametrize(("wish", "size"), [(-1, 92), (0, 92), (50, 50), (200, 92)])
def test_the_size_of_a_chunk(wish: int, size: int) -> None:
    assert metadata().ByteSize() == 8
    assert chunk_size(100, metadata(), wish) == size


@pytest.mark.parametrize(("length", "pieces"), [(0, [0]), (10, [10]), (11, [10, 1]), (20, [10, 10]), (21, [10, 10, 1])])
def test_pieces(length: int, pieces: list[int]) -> None:
    head = metadata()
    seen = [(len(piece), head.chunk_id) for piece in cut(head, bytes(length), 10)]
    assert seen == [(size, number) for number, size in enumerate(pieces)]
    assert head.HasField("uuid") == (len(pieces) > 1)
    if len(pieces) > 1:
        assert (head.uuid, head.num_chunks_from_msg, head.total_chunk_msg_size) == ("p0-3", len(pieces), length)
