"""Frames in joined bytes: a loop over length prefixes, then one check of all frames together.

Rules of this file
1. The loop accepts every length. It is the only step that runs once per frame. Unusual frames are found afterwards, and
   the caller passes their packets to the object path one by one.
2. A frame is unusual if its lengths contradict each other or exceed the limit, if its command does not begin with its
   type, or if it is a CONNECTED, which may change the limit.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final

import numpy as np

from pcli.spark.columnar.frame_columns import Bools, Longs

__all__ = ["missing", "unusual", "unusual_open", "walk"]

_CONNECTED: Final = 0x0803
_FIRST_TYPE: Final = 0x0800
_LAST_TYPE: Final = 0x087F
"""The first two bytes of a command: field 1, and a type of one byte."""

_HEAD: Final = np.dtype({"names": ["command", "first"], "formats": [">u4", ">u2"], "offsets": [4, 8], "itemsize": 10})

_length = Struct(">I").unpack_from
_two = Struct(">II").unpack_from


def walk(pool: bytearray, start: int, end: int, frames: list[int]) -> int:
    """Append the starts of frames that end at or before ``end``; return the start of the next, incomplete frame."""
    length, at = _length, start
    with memoryview(pool)[:end] as view:
        try:
            while True:
                # A bound method would cost twice as much as a method call by name.
                frames.append(at)
                at += length(view, at)[0] + 4
        except struct_error:
            # No complete length follows, so no frame begins at this position. The previous frame is incomplete if it
            # extends beyond ``end``.
            frames.pop()
            return at if at <= end else frames.pop()


def unusual(pool: bytearray, start: Longs, size: Longs, limit: Longs) -> Bools:
    """Return which complete frames, of ``size`` bytes including the length prefix, are not ordinary."""
    if len(pool) < _HEAD.itemsize:
        return np.ones(len(start), np.bool_)
    # A frame that is too short is unusual in any case, so the content of its head is irrelevant.
    heads = np.ndarray((len(pool) - 9,), "V10", pool, 0, (1,))[np.minimum(start, len(pool) - _HEAD.itemsize)].view(
        _HEAD
    )
    command, first = heads["command"].astype(np.int64), heads["first"].astype(np.uint16)
    wrong: Bools = (size < command + 8) | (size > limit) | (command < 2)
    # The subtraction is unsigned: a value below the first type becomes a value far above the last type.
    wrong |= (first - np.uint16(_FIRST_TYPE) > _LAST_TYPE - _FIRST_TYPE) | (first == _CONNECTED)
    return wrong


def unusual_open(pool: bytearray, start: int, end: int, limit: int) -> bool:
    """Return whether an incomplete frame has lengths that contradict each other or exceed the limit."""
    if end - start < 8:
        return False
    length, command = _two(pool, start)
    return bool(command + 4 > length or length + 4 > limit)


def missing(pool: bytearray, start: int, end: int, head: int) -> int:
    """Return how many bytes are missing to complete a started frame, its lengths, or its first ``head`` bytes."""
    left = end - start
    if left < head:
        return (8 if left < 8 else head) - left
    return int(_length(pool, start)[0]) + 4 - left
