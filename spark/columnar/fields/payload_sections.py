"""The sections after the command of a SEND or MESSAGE: broker entry metadata, checksum, metadata, payload.

The lengths are read as `wire.frame` reads them, for all rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcli.codec.wire.constants import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC
from pcli.codec.wire.frame import MESSAGE, SEND
from pcli.spark.columnar.fields.byte_matrix import gather, pull_u16, pull_u32
from pcli.spark.columnar.fields.column_buffers import FrameBuilder
from pcli.spark.columnar.frame_columns import Longs

__all__ = ["ChecksummedFrames", "read_parts"]

_BLOCK = 6
"""Size of a magic and a number: the prefix of the broker entry metadata, and the whole checksum section."""
_HEADERS = _BLOCK + 4


@dataclass(slots=True)
class ChecksummedFrames:
    """Frames whose captured bytes are sufficient to verify the checksum."""

    rows: Longs
    start: Longs
    """Index into ``data`` of the first checksummed byte. The last checksummed byte is the frame's last byte."""
    stored: Longs


def read_parts(frames: FrameBuilder) -> ChecksummedFrames:
    """Fill metadata_start, metadata_end and payload_size; return the frames with a checksum and all their bytes."""
    places = frames.places
    data = places.data
    rows = np.flatnonzero(((frames.type == SEND) | (frames.type == MESSAGE)) & (places.kept >= 8))
    begin, kept, size = places.start.take(rows), places.kept.take(rows), frames.size.take(rows)
    end = begin + np.minimum(size, kept)
    whole = size <= kept
    at = frames.command_end.take(rows)
    head = gather(data, at, _HEADERS)
    magic = pull_u16(head, 0)
    stop = at + (_HEADERS + pull_u32(head, _BLOCK))
    if ((magic == CHECKSUM_MAGIC) & (stop <= end)).all():
        # The common case: the checksum directly follows the command.
        _fill(frames, rows, at + _HEADERS, stop, begin + size - stop)
        able = whole if not whole.all() else slice(None)
        return ChecksummedFrames(rows[able], (at + _BLOCK)[able], pull_u32(head, 2)[able])
    entry = np.flatnonzero((magic == BROKER_ENTRY_MAGIC) & (end - at >= _BLOCK))
    lost = np.zeros(len(rows), np.bool_)
    if len(entry):
        at[entry] += _BLOCK + pull_u32(head, 2)[entry]
        lost[entry] = at[entry] > end[entry]
        at = np.minimum(at, end)
        head[entry] = gather(data, at[entry], _HEADERS)
        magic = pull_u16(head, 0)
    summed = (magic == CHECKSUM_MAGIC) & (end - at >= _BLOCK) & ~lost
    stored = pull_u32(head, 2)
    length = np.where(summed, pull_u32(head, _BLOCK), pull_u32(head, 0))
    checked = at + np.where(summed, _BLOCK, 0)
    start = checked + 4
    stop = start + length
    lost |= (start > end) | ((stop > end) & whole)
    there = ~lost
    paid = there & (stop <= end)
    _fill(
        frames, rows[there], start[there], np.minimum(stop, end)[there], np.where(paid, begin + size - stop, -1)[there]
    )
    able = paid & whole & summed
    return ChecksummedFrames(rows[able], checked[able], stored[able])


def _fill(frames: FrameBuilder, rows: Longs, start: Longs, end: Longs, payload: Longs) -> None:
    frames.column("metadata_start")[rows] = start
    frames.column("metadata_end")[rows] = end
    frames.column("payload_size")[rows] = payload
