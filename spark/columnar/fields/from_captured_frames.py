"""Frames of the object path as frame positions: used in tests and for frames that the columnar reader cannot read.

Rules of this file
1. All values come from the objects; nothing is parsed again. The bytes of the frames are concatenated.
2. An object contains the packet in which its frame ends, not the packet that completed the frame. ``turn`` is therefore
   the highest packet so far. ``turn`` never decreases, and it is exact unless a frame had to wait for earlier bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pcli.codec.capture.frames import CapturedFrame
from pcli.spark.columnar.frame_columns import ANCHORED, RESYNC, START, Longs, Places

SYNC: Final = {"start": START, "anchored": ANCHORED, "resync": RESYNC}
"""Mapping from the terms of pcli.codec.capture.frames to the numbers in columns."""


def places_of(frames: Sequence[CapturedFrame]) -> Places:
    """Return the positions of frames, in order; ``data`` is a copy of their bytes."""
    kept = _longs([len(frame.data) for frame in frames])
    packet = _longs([frame.packet for frame in frames])
    return Places(
        data=np.frombuffer(b"".join([frame.data for frame in frames]), np.uint8),
        start=np.cumsum(kept) - kept,
        kept=kept,
        turn=np.maximum.accumulate(packet) if len(packet) else packet,
        packet=packet,
        first_packet=_longs([frame.packets[0] for frame in frames]),
        time_ns=_longs([frame.time_ns for frame in frames]),
        stream=_longs([frame.stream.number for frame in frames]),
        from_client=np.array([frame.from_client for frame in frames], np.bool_),
        offset=_longs([frame.offset for frame in frames]),
        sync=_longs([SYNC[frame.sync] for frame in frames]),
        trouble={row: frame.capture_problems for row, frame in enumerate(frames) if frame.capture_problems},
    )


def _longs(values: list[int]) -> Longs:
    return np.array(values, np.int64)
