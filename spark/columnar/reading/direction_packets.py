"""The packets of a window by connection and direction, and the packet up to which each connection is ordinary.

Rules of this file
1. A lane contains the packets of one connection in the window. Its two sides are sequences of packets in capture order.
2. A side stops being ordinary at an unusual packet, and at data that does not continue the previous data. The first
   data must begin at ``Direction.next`` (or its counterpart for a direction that is still being verified).
3. A direction that is not armed stops being ordinary at its next packet: only `TcpReassembly.segment` can process it.
   An ignored direction (IGNORE) stops only at an unusual packet.
4. Both sides stop at the same packet, because a packet of one side may change the other side.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from pcli.codec.capture.flows import MAX_MARKS, SLOW, Direction
from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.reading.tcp_segments import Segments


class Side:
    """The packets of a direction. Positions ``at`` to ``end`` in the order of `Traffic` are not yet processed."""

    __slots__ = ("at", "end", "key")

    def __init__(self, key: bytes, at: int, end: int) -> None:
        self.key = key
        self.at = at
        self.end = end


class Conversation:
    """The packets of a connection in the window."""

    __slots__ = ("patience", "sides", "until")

    def __init__(self, sides: list[Side]) -> None:
        self.sides = sides
        self.until = 0
        """Packets before this index of the window are processed one by one."""
        self.patience = 4
        """Number of packets to process one by one after the next unusual frame."""


class Traffic:
    """The packets of plain segments, sorted by direction."""

    def __init__(self, segments: Segments) -> None:
        direction = segments.direction
        number = (direction + 1).astype(np.uint16) if len(segments.keys) < 1 << 16 else direction
        order = np.argsort(number, kind="stable")
        self.order: Longs = order[np.count_nonzero(direction < 0) :]
        """Index in the window by position."""
        self.packets: list[int] = self.order.tolist()
        self.seq: Longs = segments.seq[self.order]
        ordinary = segments.ordinary[self.order]
        size = (segments.stop - segments.at)[self.order]
        self.size: Longs = size
        own = direction[self.order]
        self.data: Longs = np.flatnonzero(ordinary & (size > 0))
        """Positions of packets with data."""
        self.data_list: list[int] = self.data.tolist()
        seq, after = self.seq[self.data], (self.seq + size & 0xFFFFFFFF)[self.data]
        follows = (seq[1:] == after[:-1]) & (own[self.data][1:] == own[self.data][:-1])
        self._gaps: list[int] = self.data[1:][~follows].tolist()
        self._bad: list[int] = np.flatnonzero(~ordinary).tolist()
        counts = np.bincount(own, minlength=len(segments.keys))
        ends = np.cumsum(counts)
        self.conversations = _conversations(segments.keys, (ends - counts).tolist(), ends.tolist())

    def break_of(self, side: Side, direction: Direction | None, expected: int) -> int:
        """Return the position at which a side stops being ordinary. ``expected`` corresponds to ``Direction.next``."""
        at, end = side.at, side.end
        if at == end or direction is None or expected == SLOW:
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
        if len(direction.marks) + end - at >= MAX_MARKS:
            return at  # more packets than a direction stores for one frame
        index = bisect_right(self._gaps, first)
        return min(end, self._gaps[index]) if index < len(self._gaps) else end

    def has_data(self, side: Side, end: int) -> bool:
        """Return whether a side has ordinary packets with data between its current position and ``end``."""
        index = bisect_left(self.data_list, side.at)
        return index < len(self.data_list) and self.data_list[index] < end

    def position(self, side: Side, packet: int) -> int:
        """Return the first position of a side whose packet is at or after an index of the window."""
        return bisect_left(self.packets, packet, side.at, side.end)


def _conversations(keys: list[bytes], starts: list[int], ends: list[int]) -> list[Conversation]:
    sides = {key: Side(key, start, end) for key, start, end in zip(keys, starts, ends)}
    conversations = []
    while sides:
        key, side = sides.popitem()
        half = (len(key) - 4) // 2
        back = sides.pop(key[half:-4] + key[:half] + key[-2:] + key[-4:-2], None)
        conversations.append(Conversation([side] if back is None else [side, back]))
    return conversations
