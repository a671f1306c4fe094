"""Bytes of many rows gathered into a matrix, and numbers read from its columns.

Rules of this file
1. Each row of a matrix contains the bytes that start at one position in ``data``. Bytes after the end of ``data`` are
   0. One gather of 64 bytes costs as much as five gathers of one byte, and columns of a matrix are read without an
   index.
2. A varint of known length is read with one unaligned load of eight bytes. For each doubling of the length, one step
   then joins adjacent groups of seven bits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pcli.spark.columnar.frame_columns import Bytes, Longs

Matrix = npt.NDArray[np.uint8]
"""A row-major matrix of bytes; each row has at least `SLACK` readable bytes after the requested bytes."""

SLACK: Final = 8
"""Number of bytes of a row after the requested bytes. They keep an unaligned load of the last byte within the row."""

_ONE: Final = 0x7F7F7F7F7F7F7F7F
_STEPS: Final = (
    (0x007F007F007F007F, 0x7F007F007F007F00, 1),
    (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
    (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
)
"""For each step: the bits that are kept, the bits that are shifted right, and the shift distance."""


def gather(data: Bytes, starts: Longs, width: int) -> Matrix:
    """Return ``width`` bytes and `SLACK` further bytes from each position in ``starts``."""
    width += -width % 8 + SLACK
    size = len(data)
    if len(starts) and int(starts.max()) + width > size:
        # In a large window few rows are this close to the end; in a small window all rows may be.
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
    """Return the number that starts at byte ``at`` of every row."""
    if not len(matrix):
        return np.zeros(0, kind)
    return np.ndarray((len(matrix),), kind, matrix, offset=at, strides=matrix.strides[:1])


def pull_u32(matrix: Matrix, at: int) -> Longs:
    """Return the big-endian 32-bit number at byte ``at``."""
    return pull_column(matrix, at, ">u4").astype(np.int64)


def pull_u16(matrix: Matrix, at: int) -> Longs:
    """Return the big-endian 16-bit number at byte ``at``."""
    return pull_column(matrix, at, ">u2").astype(np.int64)


def pull_varint(matrix: Matrix, at: int, size: int) -> Longs:
    """Return the varint of ``size`` bytes (1 to 10) at byte ``at``, as the int64 with the same bits."""
    if size == 1:
        return matrix[:, at].astype(np.int64)
    value = squeeze(pull_column(matrix, at, "<i8") & (_ONE >> 8 * (8 - min(size, 8))), size)
    for place in range(8, size):
        value |= (matrix[:, at + place].astype(np.int64) & 0x7F) << (7 * place)
    return value


def squeeze(words: Longs, size: int) -> Longs:
    """Decode varints of up to ``size`` bytes (at most 8); all other bytes of ``words`` must be zero."""
    value = words & _ONE
    for width, (stay, move, shift) in zip((1, 2, 4), _STEPS, strict=True):
        if size > width:
            value = (value & stay) | ((value & move) >> shift)
    return value
