"""Bytes of many rows side by side: gathered into a matrix, and numbers out of its columns.

Rules of this file
1. A matrix holds, for each row, the bytes from one place in ``data`` on; zeros behind the end of ``data``. One gather
   of 64 bytes costs as much as five of one byte, and columns of a matrix are read without an index.
2. A varint whose length is known is read in one unaligned load of eight bytes and, per doubling of its length, one
   step that moves its groups of seven bits together.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pcli.spark.columnar.frame_columns import Bytes, Longs

__all__ = ["SLACK", "Matrix", "gather", "pull_column", "pull_u16", "pull_u32", "pull_varint", "squeeze"]

Matrix = npt.NDArray[np.uint8]
"""Rows by bytes, rows one behind the other in memory; `SLACK` bytes may be read behind the last one asked for."""

SLACK: Final = 8
"""Bytes that a matrix has more than was asked for: an unaligned load of the last byte stays inside."""

_ONE: Final = 0x7F7F7F7F7F7F7F7F
_STEPS: Final = (
    (0x007F007F007F007F, 0x7F007F007F007F00, 1),
    (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
    (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
)
"""Which bits stay, which move down, and how far."""


def gather(data: Bytes, starts: Longs, width: int) -> Matrix:
    """The ``width`` bytes (and slack) from each of ``starts`` on."""
    width += -width % 8 + SLACK
    size = len(data)
    if len(starts) and int(starts.max()) + width > size:
        # Few rows are that close to the end; all the same the whole of a small window is.
        near = starts + width > size
        out = np.empty((len(starts), width), np.uint8)
        tail = np.concatenate((data[max(0, size - width) :], np.zeros(width, np.uint8)))
        out[near] = _rows(tail, np.minimum(starts[near], size) - max(0, size - width), width)
        out[~near] = _rows(data, starts[~near], width)
        return out
    return _rows(data, starts, width)


def _rows(data: Bytes, starts: Longs, width: int) -> Matrix:
    if not len(starts):
        return np.zeros((0, width), np.uint8)
    blocks: Any = np.ndarray((len(data) - width + 1,), f"V{width}", np.ascontiguousarray(data), strides=(1,))
    taken: Matrix = blocks[starts].view(np.uint8).reshape(len(starts), width)
    return taken


def pull_column(matrix: Matrix, at: int, kind: str) -> npt.NDArray[Any]:
    """One number of every row, from byte ``at`` on."""
    if not len(matrix):
        return np.zeros(0, kind)
    return np.ndarray((len(matrix),), kind, matrix, offset=at, strides=matrix.strides[:1])


def pull_u32(matrix: Matrix, at: int) -> Longs:
    """The big-endian 32-bit number at byte ``at``."""
    return pull_column(matrix, at, ">u4").astype(np.int64)


def pull_u16(matrix: Matrix, at: int) -> Longs:
    """The big-endian 16-bit number at byte ``at``."""
    return pull_column(matrix, at, ">u2").astype(np.int64)


def pull_varint(matrix: Matrix, at: int, size: int) -> Longs:
    """The varint of ``size`` bytes (1 to 10) at byte ``at``, as the int64 with its bits."""
    if size == 1:
        return matrix[:, at].astype(np.int64)
    value = squeeze(pull_column(matrix, at, "<i8") & (_ONE >> 8 * (8 - min(size, 8))), size)
    for place in range(8, size):
        value |= (matrix[:, at + place].astype(np.int64) & 0x7F) << (7 * place)
    return value


def squeeze(words: Longs, size: int) -> Longs:
    """The numbers in varints of up to ``size`` bytes, 8 at most, whose other bytes are zero in ``words``."""
    value = words & _ONE
    for width, (stay, move, shift) in zip((1, 2, 4), _STEPS, strict=True):
        if size > width:
            value = (value & stay) | ((value & move) >> shift)
    return value
