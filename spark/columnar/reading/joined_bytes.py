"""The data of many stretches, concatenated in the pool.

Rules of this file
1. The bytes that a direction has stored (``Direction.run``) precede its stretch's data. Frames that span packets or
   windows therefore need no special treatment.
2. Bytes are copied once, from the window into the pool. Data that does not complete the open frame is appended to the
   stored bytes instead; otherwise each window would copy the open frames of all directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcli.codec.capture.flows import Direction
from pcli.spark.columnar.frame_columns import Longs, ranges
from pcli.spark.columnar.reading.direction_packets import Conversation, Side, Traffic
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.reading.tcp_segments import Segments
from pcli.spark.columnar.reading.window_frames import WindowFrames


@dataclass(slots=True)
class Stretch:
    """Ordinary packets of a direction, from position ``side.at`` to position ``end``."""

    conversation: Conversation
    side: Side
    direction: Direction
    end: int
    checked: bool = False
    """Whether frames must be verified (`frame_boundaries`)."""


@dataclass(slots=True)
class Joined:
    """Stretches, and their bytes in the pool. A segment is a packet with data."""

    stretches: list[Stretch]
    counts: Longs
    """Number of segments in each stretch."""
    packets: Longs
    """Index of each segment in the window."""
    owner: Longs
    """Index of each segment's stretch."""
    begins: Longs
    """Start of each segment in the pool."""
    ends: Longs
    start: Longs
    """Start of each stretch in the pool, including the bytes stored earlier."""
    waited: Longs
    """Number of bytes stored earlier, for each stretch."""
    end: Longs
    offset: Longs
    """Difference between an offset in the stretch's direction and the position in the pool."""

    @property
    def first(self) -> Longs:
        """The first segment of each stretch."""
        return np.cumsum(self.counts) - self.counts


class Joiner:
    """A joiner of the stretches of one window."""

    def __init__(self, records: Records, segments: Segments, traffic: Traffic, found: WindowFrames) -> None:
        self._traffic = traffic
        self._found = found
        self._view = memoryview(records.data)
        order = traffic.order[traffic.data]
        self._at: list[int] = segments.at[order].tolist()
        self._stop: list[int] = segments.stop[order].tolist()

    def waits(self, one: Stretch) -> bool:
        """Return whether the lengths of the open frame are complete and the stretch does not complete the frame."""
        if one.checked or not one.direction.aligned.need:
            return False
        positions = self._traffic.data[slice(*self._bounds([one])[0])]
        return int(self._traffic.size[positions].sum()) < one.direction.aligned.need

    def add(self, one: Stretch) -> tuple[Longs, Longs]:
        """Append the bytes to the stored bytes; return each packet's index in the window and the start of its bytes."""
        first, last = self._bounds([one])[0]
        positions = self._traffic.data[first:last]
        size = self._traffic.size[positions]
        begins: Longs = len(one.direction.run) + np.cumsum(size) - size
        one.direction.run += b"".join(self._slices(first, last))
        return self._traffic.order[positions], begins

    def join(self, stretches: list[Stretch]) -> Joined:
        """Append the bytes of the stretches to the pool. Each stretch must have bytes."""
        base = len(self._found.pool)
        pairs = self._bounds(stretches)
        self._found.add(self._parts(stretches, pairs))
        bounds = np.array(pairs, np.int64)
        positions = self._traffic.data[ranges(bounds[:, 0], bounds[:, 1])]
        size = self._traffic.size[positions]
        counts: Longs = bounds[:, 1] - bounds[:, 0]
        owner = np.repeat(np.arange(len(stretches)), counts)
        waited = np.array([len(one.direction.run) for one in stretches], np.int64)
        ends = base + np.cumsum(size) + np.cumsum(waited)[owner]
        end = ends[np.cumsum(counts) - 1]
        start = np.concatenate([[base], end[:-1]])
        offset = np.array([one.direction.offset for one in stretches], np.int64) - waited - start
        packets = self._traffic.order[positions]
        return Joined(stretches, counts, packets, owner, ends - size, ends, start, waited, end, offset)

    def _bounds(self, stretches: list[Stretch]) -> list[list[int]]:
        """Return the first index of each stretch into `Traffic.data`, and the index after its last index."""
        found: list[list[int]] = np.searchsorted(
            self._traffic.data, [(one.side.at, one.end) for one in stretches]
        ).tolist()
        return found

    def _slices(self, first: int, last: int) -> list[memoryview]:
        view = self._view
        return [view[at:stop] for at, stop in zip(self._at[first:last], self._stop[first:last])]

    def _parts(self, stretches: list[Stretch], bounds: list[list[int]]) -> list[memoryview | bytearray]:
        parts: list[memoryview | bytearray] = []
        for one, (first, last) in zip(stretches, bounds):
            if one.direction.run:
                parts.append(one.direction.run)
            parts += self._slices(first, last)
        return parts
