"""The first ten bytes of every frame: both sizes and the type."""

from __future__ import annotations

from typing import Final

import numpy as np

from pcli.codec.wire.frame import pull_type
from pcli.codec.wire.message_id import signed
from pcli.spark.columnar.fields.byte_matrix import gather, pull_column, pull_u16
from pcli.spark.columnar.fields.column_buffers import FrameBuilder
from pcli.spark.columnar.frame_columns import Bools

__all__ = ["read_heads"]

_LENGTHS: Final = 8
_TYPED: Final = 10
_FIRST: Final = 0x0800
"""The first two bytes of a command whose type has one byte, with the type bits zero."""
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)


def read_heads(frames: FrameBuilder) -> Bools:
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
