"""CRC-32C of metadata and payload.

The computation takes one library call per frame and is the slowest step per byte of result.

Rules of this file
1. The library accepts only ``bytes``. One gather returns all slices of one size as a list, so slices are processed size
   by size, in batches that fit the processor's cache.
"""

from __future__ import annotations

from typing import Any, Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from pcli.spark.columnar.fields.column_buffers import FrameBuilder
from pcli.spark.columnar.fields.layout_groups import by_key
from pcli.spark.columnar.fields.payload_sections import ChecksummedFrames
from pcli.spark.columnar.frame_columns import CRC_BAD, CRC_GOOD, Bytes, Longs

__all__ = ["read_checksums"]

_ROOM: Final = 1 << 18
"""Number of bytes processed in one batch."""
_LARGE: Final = 1 << 16
"""Slices of at least this size are processed one by one."""


def read_checksums(frames: FrameBuilder, checked: ChecksummedFrames) -> None:
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
