"""Frames that the object path gave, as places: for tests, and for what is too unusual to be read in columns.

Rules of this file
1. All is taken from the objects; nothing is read again. Their bytes stand in one run, frame behind frame.
2. An object does not tell at which packet it was given, only in which it ends. The turn is the highest packet so far:
   the same wherever nothing had to wait for older bytes, and never falling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pcli.codec.capture.frames import CapturedFrame
from pcli.spark.columnar.frame_columns import ANCHORED, RESYNC, START, Longs, Places

__all__ = ["SYNC", "places_of"]

SYNC: Final = {"start": START, "anchored": ANCHORED, "resync": RESYNC}
"""The words of pcli.codec.capture.frames to the numbers of columns."""


def places_of(frames: Sequence[CapturedFrame]) -> Places:
    """Places of frames, in their order; ``data`` is a copy of their bytes."""
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
