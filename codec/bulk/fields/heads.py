"""The first ten bytes of every frame: both sizes and the type."""

from __future__ import annotations

from typing import Final

import numpy as np

from pcli.codec.bulk.columns import Bools
from pcli.codec.bulk.fields.blank import Blank
from pcli.codec.bulk.fields.matrix import gather, pull_u32
from pcli.codec.wire.frame import pull_type
from pcli.codec.wire.message_id import signed

__all__ = ["read_heads"]

_LENGTHS: Final = 8
_TYPED: Final = 10


def read_heads(frames: Blank) -> Bools:
    """Fill type, size and command_end; which commands are whole and begin with a type of one byte."""
    places = frames.places
    data, start, kept = places.data, places.start, places.kept
    head = gather(data, start, _TYPED)
    frames.size = pull_u32(head, 0) + 4
    command = pull_u32(head, 4) + _LENGTHS
    # What the capture has of it, as wire.frame has it.
    end = np.minimum(frames.size, kept)
    frames.command_end = start + np.minimum(command, end)
    quick = (head[:, 8] == 8) & (head[:, 9] < 128) & (command >= _TYPED) & (kept >= _TYPED)
    frames.type = np.where(quick, head[:, 9], np.int64(-1))
    for row in np.flatnonzero(~quick).tolist():
        first = int(start[row])
        frame = data[first : first + int(kept[row])].tobytes()
        frames.type[row] = signed(pull_type(frame, _LENGTHS, min(len(frame), int(command[row]))))
    plain: Bools = quick & (command <= end)
    return plain
