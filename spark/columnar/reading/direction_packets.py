"""The packets of a window by connection and direction, and how far each connection is ordinary.

Rules of this file
1. A lane is a connection's share of the window: two sides, each a row of packets in their order.
2. A side breaks at a packet that is not ordinary, and at data that do not follow the data before. Where the first data
   must begin the direction says (``Direction.next``, or its like for one in doubt), behind it the packets themselves.
3. A direction that is not armed breaks at its next packet: only `Tcp.segment` knows what to make of it. One that nobody
   wants (IGNORE) breaks only at what is not ordinary.
4. Both sides break together: what one of them does may change the other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from pcli.codec.capture.flows import MAX_MARKS, SLOW, Direction
from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.reading.tcp_segments import Segments

__all__ = ["Lane", "Side", "Traffic"]


class Side:
    """The packets of a direction: positions from ``at`` to ``end`` in the order of `Traffic` are still to come."""

    __slots__ = ("at", "end", "key")

    def __init__(self, key: bytes, at: int, end: int) -> None:
        self.key = key
        self.at = at
        self.end = end


class Lane:
    """A connection's packets in the window."""

    __slots__ = ("patience", "sides", "until")

    def __init__(self, sides: list[Side]) -> None:
        self.sides = sides
        self.until = 0
        """Packets before this one of the window go one by one."""
        self.patience = 4
        """How many packets go one by one behind the next frame that is unusual."""


class Traffic:
    """The packets of plain segments, sorted by direction."""

    def __init__(self, segments: Segments) -> None:
        way = segments.way
        number = (way + 1).astype(np.uint16) if len(segments.keys) < 1 << 16 else way
        order = np.argsort(number, kind="stable")
        self.order: Longs = order[np.count_nonzero(way < 0) :]
        """Index in the window by position."""
        self.packets: list[int] = self.order.tolist()
        self.seq: Longs = segments.seq[self.order]
        ordinary = segments.ordinary[self.order]
        size = (segments.stop - segments.at)[self.order]
        self.size: Longs = size
        own = way[self.order]
        self.data: Longs = np.flatnonzero(ordinary & (size > 0))
        """Positions of packets with data."""
        self.data_list: list[int] = self.data.tolist()
        seq, after = self.seq[self.data], (self.seq + size & 0xFFFFFFFF)[self.data]
        follows = (seq[1:] == after[:-1]) & (own[self.data][1:] == own[self.data][:-1])
        self._gaps: list[int] = self.data[1:][~follows].tolist()
        self._bad: list[int] = np.flatnonzero(~ordinary).tolist()
        counts = np.bincount(own, minlength=len(segments.keys))
        ends = np.cumsum(counts)
        self.lanes = _lanes(segments.keys, (ends - counts).tolist(), ends.tolist())

    def break_of(self, side: Side, way: Direction | None, expected: int) -> int:
        """The position at which a side is no longer ordinary; ``expected`` as ``Direction.next``."""
        at, end = side.at, side.end
        if at == end or way is None or expected == SLOW:
            return at
        index = bisect_left(self._bad, at)
        if index < len(self._bad):
            end = min(end, self._bad[index])
        if expected < 0:
            return end
        index = bisect_left(self.data_list, at)
        if index == len(self.data_list) or self.data_list[index] >= end:
            return end
        first = self.data_list[index]
        if self.seq[first] != expected:
            return first
        if len(way.marks) + end - at >= MAX_MARKS:
            return at  # more packets than are remembered of one frame
        index = bisect_right(self._gaps, first)
        return min(end, self._gaps[index]) if index < len(self._gaps) else end

    def has_data(self, side: Side, end: int) -> bool:
        """Whether there are ordinary packets with data from where a side stands to a position."""
        index = bisect_left(self.data_list, side.at)
        return index < len(self.data_list) and self.data_list[index] < end

    def position(self, side: Side, packet: int) -> int:
        """The first position of a side at or behind a packet of the window."""
        return bisect_left(self.packets, packet, side.at, side.end)


def _lanes(keys: list[bytes], starts: list[int], ends: list[int]) -> list[Lane]:
    sides = {key: Side(key, start, end) for key, start, end in zip(keys, starts, ends)}
    lanes = []
    while sides:
        key, side = sides.popitem()
        half = (len(key) - 4) // 2
        back = sides.pop(key[half:-4] + key[:half] + key[-2:] + key[-4:-2], None)
        lanes.append(Lane([side] if back is None else [side, back]))
    return lanes
