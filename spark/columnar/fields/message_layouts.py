"""Layouts: the structural bytes of a message, and the positions of its numbers and strings.

Rows with the same layout are decoded together; each number is read from one column.

Rules of this file
1. A layout is derived from one message. A second message has the same layout if all bytes of its structure (tags,
   lengths) are the same and its varints have the same sizes (the same continuation bits).
2. The tenth byte of a varint may be 0 or 1; a larger value would exceed 64 bits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pcli.codec.proto import pb
from pcli.codec.wire.hot import pull_long
from pcli.spark.columnar.fields.byte_matrix import Matrix
from pcli.spark.columnar.frame_columns import Bools

LONGEST: Final = 10
"""Size of the longest varint."""

_ALL: Final = 0xFF
_TYPE: Final = pb.BaseCommand.DESCRIPTOR.fields_by_name["type"].number << 3


class UnsupportedLayoutError(Exception):
    """Raised for a message that has no layout and must be decoded row by row."""


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return a varint and its end; raise UnsupportedLayoutError if it does not end before ``end``."""
    try:
        value = data[position]
        position += 1
        if value > 127:
            value, position = pull_long(data, position, value)
    except IndexError:
        raise UnsupportedLayoutError from None
    if position > end:
        raise UnsupportedLayoutError
    return value, position


def body_of(data: bytes, start: int, end: int) -> int:
    """Return the start of a command's body; raise UnsupportedLayoutError if the command is not a type and a body."""
    number, at = read_varint(data, start + 1, end)
    tag, at = read_varint(data, at, end)
    size, at = read_varint(data, at, end)
    if data[start] != _TYPE or number > _ALL >> 1 or tag != number << 3 | 2 or at + size != end:
        raise UnsupportedLayoutError
    return at


class LayoutBuilder:
    """The bytes of one message, and the bits that every message of its layout shares."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._mask = bytearray(len(data))

    def exact(self, start: int, end: int) -> None:
        """Mark these bytes as structure."""
        self._mask[start:end] = bytes([_ALL]) * (end - start)

    def varint(self, start: int, end: int) -> None:
        """Mark a varint: its size is structure, its value is not."""
        self._mask[start:end] = b"\x80" * (end - start)
        if end - start == LONGEST:
            self._mask[end - 1] = 0xFE

    def cast(self) -> Layout:
        """Return the layout."""
        return Layout(bytes(self._mask), self.data)


class Layout:
    """The bytes and bits that determine whether a message has a layout."""

    __slots__ = ("_checks", "_mask", "_want")

    def __init__(self, mask: bytes, data: bytes) -> None:
        self._mask = int.from_bytes(mask)
        self._want = int.from_bytes(data) & self._mask
        padding = bytes(-len(mask) % 8)
        masks = np.frombuffer(mask + padding, "<i8")
        wanted = np.frombuffer(data + padding, "<i8") & masks
        self._checks = [
            (index, one, want)
            for index, (one, want) in enumerate(zip(masks.tolist(), wanted.tolist(), strict=True))
            if one
        ]

    def has(self, data: bytes) -> bool:
        """Return whether a message of the same size has this layout."""
        return int.from_bytes(data) & self._mask == self._want

    def fits(self, matrix: Matrix) -> Bools:
        """Return which rows of the matrix have this layout."""
        words = matrix.view("<i8")
        found = np.ones(len(matrix), np.bool_)
        for index, mask, want in self._checks:
            found &= (words[:, index] & mask) == want
        return found
