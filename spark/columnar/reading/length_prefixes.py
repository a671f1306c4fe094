"""Frames in joined bytes: a loop from length to length, then one look at all of them.

Rules of this file
1. The loop believes every length; it is the only thing done per frame. What is no frame of the ordinary kind is found
   afterwards, and whoever asked takes its packets one by one, by the object path.
2. Unusual is: lengths that don't fit each other or the limit, a command that does not begin with its type, and
   CONNECTED, for it may change the limit.
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
    """Append where frames begin that end by ``end``; gives where the next, open one begins."""
    length, at = _length, start
    with memoryview(pool)[:end] as view:
        try:
            while True:
                # A method of a list that is called by its name costs half of one that was bound before.
                frames.append(at)
                at += length(view, at)[0] + 4
        except struct_error:
            # No length is left there. That is no frame, and the one before it none that is whole if it ends behind.
            frames.pop()
            return at if at <= end else frames.pop()


def unusual(pool: bytearray, start: Longs, size: Longs, limit: Longs) -> Bools:
    """Which of these whole frames, of ``size`` bytes with their prefix, are not ordinary."""
    if len(pool) < _HEAD.itemsize:
        return np.ones(len(start), np.bool_)
    # Of a frame that is too short any bytes will do: it is unusual anyway.
    heads = np.ndarray((len(pool) - 9,), "V10", pool, 0, (1,))[np.minimum(start, len(pool) - _HEAD.itemsize)].view(
        _HEAD
    )
    command, first = heads["command"].astype(np.int64), heads["first"].astype(np.uint16)
    wrong: Bools = (size < command + 8) | (size > limit) | (command < 2)
    # What is below the first type is far above the last one then.
    wrong |= (first - np.uint16(_FIRST_TYPE) > _LAST_TYPE - _FIRST_TYPE) | (first == _CONNECTED)
    return wrong


def unusual_open(pool: bytearray, start: int, end: int, limit: int) -> bool:
    """Whether the beginning of a frame, which ends behind ``end``, is not one of a frame that may come."""
    if end - start < 8:
        return False
    length, command = _two(pool, start)
    return bool(command + 4 > length or length + 4 > limit)


def missing(pool: bytearray, start: int, end: int, head: int) -> int:
    """Bytes until the open frame is whole, or its lengths, or its first ``head`` bytes; there are some of it."""
    left = end - start
    if left < head:
        return (8 if left < 8 else head) - left
    return int(_length(pool, start)[0]) + 4 - left
