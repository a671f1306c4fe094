"""All frames of a window, as columns: their first ten bytes, sections, commands, metadata and checksums.

Rules of this file
1. Three decoders fill the same columns: rows of one layout together, metadata of many layouts field by field, and
   single rows with the readers of the object path. The choice affects only the speed; tests compare all three decoders
   with the object path.
2. The lengths of the sections are read as `wire.frame` reads them, for all rows at once.
3. Verification of checksums takes one library call per frame and is the slowest step per byte of result. The library
   accepts only ``bytes``. One gather returns all slices of one size as a list, so slices are processed size by size, in
   batches that fit the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from pcli.codec.wire.constants import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC
from pcli.codec.wire.frame import MESSAGE, SEND, pull_type
from pcli.codec.wire.message_id import signed
from pcli.spark.columnar.fields.byte_matrix import gather, pull_column, pull_u16, pull_u32
from pcli.spark.columnar.fields.column_buffers import FrameBuilder, GrowingIds, GrowingWords
from pcli.spark.columnar.fields.commands import Commands
from pcli.spark.columnar.fields.layout_groups import by_key
from pcli.spark.columnar.fields.metadata import Metadata
from pcli.spark.columnar.fields.row_decoder import RowReader
from pcli.spark.columnar.frame_columns import CRC_BAD, CRC_GOOD, Bools, Bytes, Frames, Longs, Places


def read_fields(places: Places, *, checksums: bool = True) -> Frames:
    """Read every frame of ``places``. If ``checksums`` is false, the column crc is CRC_NONE in all rows."""
    frames = FrameBuilder(places)
    words, ids = GrowingWords(), GrowingIds()
    rows = RowReader(frames, words, ids)
    plain = _read_heads(frames)
    Commands(frames, rows, words, ids).read(plain)
    checked = _read_sections(frames)
    Metadata(frames, rows).read()
    if checksums:
        _read_checksums(frames, checked)
    frames.words, frames.acks = words.joined(), ids.joined()
    return frames.read()


_LENGTHS: Final = 8
_TYPED: Final = 10
_FIRST: Final = 0x0800
"""The first two bytes of a command whose type has one byte, with the type bits zero."""
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)


def _read_heads(frames: FrameBuilder) -> Bools:
    """Fill type, size and command_end; return which commands are complete and begin with a one-byte type."""
    places = frames.places
    data, start, kept = places.data, places.start, places.kept
    head = gather(data, start, _TYPED)
    lengths = pull_column(head, 0, ">u8").astype(np.uint64)
    frames.size = (lengths >> _HALF).view(np.int64) + 4
    command = (lengths & _LOW).view(np.int64) + _LENGTHS
    # The captured part of the command. wire.frame computes it in the same way.
    end = np.minimum(frames.size, kept)
    frames.command_end = start + np.minimum(command, end)
    begin = pull_u16(head, 8)
    quick = (begin & ~0x7F == _FIRST) & (command >= _TYPED) & (kept >= _TYPED)
    frames.type = begin & 0x7F
    for row in np.flatnonzero(~quick).tolist():
        first = int(start[row])
        frame = data[first : first + int(kept[row])].tobytes()
        frames.type[row] = signed(pull_type(frame, _LENGTHS, min(len(frame), int(command[row]))))
    plain: Bools = quick & (command <= end)
    return plain


_BLOCK: Final = 6
"""Size of a magic and a number: the prefix of the broker entry metadata, and the whole checksum section."""
_HEADERS: Final = _BLOCK + 4


@dataclass(slots=True)
class _ChecksummedFrames:
    """Frames whose captured bytes are sufficient to verify the checksum."""

    rows: Longs
    start: Longs
    """Index into ``data`` of the first checksummed byte. The last checksummed byte is the frame's last byte."""
    stored: Longs


def _read_sections(frames: FrameBuilder) -> _ChecksummedFrames:
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
        return _ChecksummedFrames(rows[able], (at + _BLOCK)[able], pull_u32(head, 2)[able])
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
    return _ChecksummedFrames(rows[able], checked[able], stored[able])


def _fill(frames: FrameBuilder, rows: Longs, start: Longs, end: Longs, payload: Longs) -> None:
    frames.column("metadata_start")[rows] = start
    frames.column("metadata_end")[rows] = end
    frames.column("payload_size")[rows] = payload


_ROOM: Final = 1 << 18
"""Number of bytes processed in one batch."""
_LARGE: Final = 1 << 16
"""Slices of at least this size are processed one by one."""


def _read_checksums(frames: FrameBuilder, checked: _ChecksummedFrames) -> None:
    """Fill crc for the rows of ``checked``."""
    rows = checked.rows
    if not len(rows):
        return
    data, starts = np.ascontiguousarray(frames.places.data), checked.start
    sizes = frames.places.start[rows] + frames.size[rows] - starts
    computed = np.zeros(len(rows), np.int64)
    for row in np.flatnonzero(sizes >= _LARGE).tolist():
        computed[row] = google_crc32c.value(data[starts[row] : starts[row] + sizes[row]].tobytes())
    small = np.flatnonzero(sizes < _LARGE)
    for size, which in by_key(small, sizes[small].astype(np.uint16)):
        computed[which] = _of_one_size(data, starts[which], size)
    frames.column("crc")[rows] = np.where(computed == checked.stored, CRC_GOOD, CRC_BAD)


def _of_one_size(data: Bytes, starts: Longs, size: int) -> Longs:
    """Return the checksums of the ``size`` bytes from each position in ``starts``; ``size`` must not be 0."""
    pieces: npt.NDArray[Any] = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    found = np.empty(len(starts), np.int64)
    step = max(1, _ROOM // size)
    for first in range(0, len(starts), step):
        some = pieces[starts[first : first + step]].tolist()
        found[first : first + len(some)] = list(map(google_crc32c.value, some))
    return found
