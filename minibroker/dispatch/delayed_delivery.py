"""InMemoryDelayedDeliveryTracker: entries that are not due yet.

Rules of this file (InMemoryDelayedDeliveryTracker, AbstractDelayedDeliveryTracker; 4.2.4)
1. Delivery times are grouped into intervals of 2^n milliseconds. The interval is the longest such interval that fits
   into a tick. Offsets are returned in order of intervals, and in ascending order within an interval.
2. Unless ``deliverAtTimeStrict`` is set, a read can return entries up to one tick early. No read is scheduled early,
   however: the timer expires at the time of the first group or later, because at most one timer per tick expires.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

_CONTAINER: Final = 8192
"""Maximum size of the values of a bitmap in bytes."""


class InMemoryDelayedDeliveryTracker:
    """Offsets of the delayed entries, by delivery time."""

    def __init__(self, tick_ms: int, *, strict: bool, bitmap_bytes: int) -> None:
        """``bitmap_bytes`` is the size of a bitmap without its values."""
        self._strict = strict
        self._bitmap_bytes = bitmap_bytes
        self.set_tick(tick_ms)
        self.last_tick_run = 0
        """Time at which the timer last expired."""
        self._heap: list[int] = []
        self._groups: dict[int, list[int]] = {}
        self.size = 0
        self.highest = 0
        """The latest delivery time of all added entries."""
        self.fixed_delays = True
        """Whether all times were added in ascending order; a difference of up to one interval is ignored. If True, no
        entry added later can be due earlier."""

    def set_tick(self, tick_ms: int) -> None:
        """Set the length of a tick. The groups of earlier entries remain."""
        self.tick = tick_ms
        self._precision = 1 << max(0, tick_ms.bit_length() - 1)

    def cutoff(self, now: int) -> int:
        """Return the time up to which entries are due."""
        return now if self._strict else now + self.tick

    def add(self, offset: int, deliver_at: int, now: int) -> bool:
        """Add an entry. Return False if it is already due."""
        if deliver_at <= self.cutoff(now):
            return False
        group = deliver_at & -self._precision
        if self._strict and group != deliver_at:
            group += self._precision
        if group not in self._groups:
            self._groups[group] = []
            heappush(self._heap, group)
        self._groups[group].append(offset)
        self.size += 1
        if deliver_at < self.highest - self._precision:
            self.fixed_delays = False
        self.highest = max(self.highest, deliver_at)
        return True

    def due(self, now: int, count: int) -> list[int]:
        """Remove and return at most ``count`` due offsets, earliest first."""
        found: list[int] = []
        limit = self._limit(now)
        while self._heap and self._heap[0] <= limit and len(found) < count:
            group = self._groups[self._heap[0]]
            group.sort()
            part = group[: count - len(found)]
            found += part
            del group[: len(part)]
            if not group:
                del self._groups[heappop(self._heap)]
        self.size -= len(found)
        if not self.size:
            self.highest, self.fixed_delays = 0, True
        return found

    @property
    def next_delivery_time(self) -> int:
        """The time of the first group, or -1 if there are no entries."""
        return self._heap[0] if self._heap else -1

    @property
    def index_size(self) -> int:
        """The bytes of Roaring bitmaps for these entries. Each group is counted as if it were in one ledger."""
        return sum(self._bitmap_bytes + min(2 * len(group), _CONTAINER) for group in self._groups.values())

    def clear(self) -> None:
        """Remove all entries, because they will be read again."""
        self._heap.clear()
        self._groups.clear()
        self.size, self.highest, self.fixed_delays = 0, 0, True

    def _limit(self, now: int) -> int:
        cutoff = self.cutoff(now)
        return cutoff if self._strict else cutoff - self._precision + 1
