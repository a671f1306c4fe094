"""The data of many stretches, one behind the other in the pool.

Rules of this file
1. In front of a stretch's data stands what waited of its direction (``Direction.run``): so frames that go over packets,
   and over windows, need no care.
2. Bytes are copied once, from the window into the pool. What does not end the open frame goes to what waits, and not
   through the pool: else each window would copy the open frames of all directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcli.codec.capture.flows import Direction
from pcli.spark.columnar.frame_columns import Longs, ranges
from pcli.spark.columnar.reading.direction_packets import Lane, Side, Traffic
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.reading.tcp_segments import Segments
from pcli.spark.columnar.reading.window_frames import Found

__all__ = ["Joined", "Joiner", "Stretch"]


@dataclass(slots=True)
class Stretch:
    """Ordinary packets of a direction: the positions from its side's ``at`` to ``end``."""

    lane: Lane
    side: Side
    way: Direction
    end: int
    checked: bool = False
    """Whether frames are checked, see `doubt`."""


@dataclass(slots=True)
class Joined:
    """Stretches and their bytes in the pool. A segment is a packet with data."""

    stretches: list[Stretch]
    counts: Longs
    """Segments of each stretch."""
    packets: Longs
    """Index in the window of each segment."""
    owner: Longs
    """Index of its stretch."""
    begins: Longs
    """Where each segment begins in the pool."""
    ends: Longs
    start: Longs
    """Where each stretch begins in the pool, with what waited."""
    waited: Longs
    """How many bytes had waited."""
    end: Longs
    offset: Longs
    """What makes a place in the pool the offset in the stretch's direction, when added."""

    @property
    def first(self) -> Longs:
        """The first segment of each stretch."""
        return np.cumsum(self.counts) - self.counts


class Joiner:
    """Joins stretches of one window."""

    def __init__(self, records: Records, segments: Segments, traffic: Traffic, found: Found) -> None:
        self._traffic = traffic
        self._found = found
        self._view = memoryview(records.data)
        order = traffic.order[traffic.data]
        self._at: list[int] = segments.at[order].tolist()
        self._stop: list[int] = segments.stop[order].tolist()

    def waits(self, one: Stretch) -> bool:
        """Whether its bytes do not end the open frame of its direction, of which the lengths are there."""
        if one.checked or not one.way.need:
            return False
        positions = self._traffic.data[slice(*self._bounds([one])[0])]
        return int(self._traffic.size[positions].sum()) < one.way.need

    def add(self, one: Stretch) -> tuple[Longs, Longs]:
        """Put the bytes to those that wait; the index in the window of each packet, and where its bytes begin there."""
        first, last = self._bounds([one])[0]
        positions = self._traffic.data[first:last]
        size = self._traffic.size[positions]
        begins: Longs = len(one.way.run) + np.cumsum(size) - size
        one.way.run += b"".join(self._slices(first, last))
        return self._traffic.order[positions], begins

    def join(self, stretches: list[Stretch]) -> Joined:
        """Put the bytes into the pool; each stretch has some."""
        base = len(self._found.pool)
        pairs = self._bounds(stretches)
        self._found.add(self._parts(stretches, pairs))
        bounds = np.array(pairs, np.int64)
        positions = self._traffic.data[ranges(bounds[:, 0], bounds[:, 1])]
        size = self._traffic.size[positions]
        counts: Longs = bounds[:, 1] - bounds[:, 0]
        owner = np.repeat(np.arange(len(stretches)), counts)
        waited = np.array([len(one.way.run) for one in stretches], np.int64)
        ends = base + np.cumsum(size) + np.cumsum(waited)[owner]
        end = ends[np.cumsum(counts) - 1]
        start = np.concatenate([[base], end[:-1]])
        offset = np.array([one.way.offset for one in stretches], np.int64) - waited - start
        packets = self._traffic.order[positions]
        return Joined(stretches, counts, packets, owner, ends - size, ends, start, waited, end, offset)

    def _bounds(self, stretches: list[Stretch]) -> list[list[int]]:
        """Of each stretch the first of `Traffic.data`, and the one behind the last."""
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
            if one.way.run:
                parts.append(one.way.run)
            parts += self._slices(first, last)
        return parts
