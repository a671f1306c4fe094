"""InMemoryDelayedDeliveryTracker: entries that are not due yet.

Delivery times are grouped into intervals of 2^n milliseconds, the longest that fits into a tick. Unless
``deliverAtTimeStrict`` is set, an entry can be delivered up to one tick early. Offsets are returned in order of
delivery time.
"""

from __future__ import annotations

from heapq import heappop, heappush

__all__ = ["InMemoryDelayedDeliveryTracker"]


class InMemoryDelayedDeliveryTracker:
    """Offsets of the delayed entries, by delivery time."""

    __slots__ = ("_groups", "_heap", "_precision", "_strict", "_tick", "fixed_delays", "highest", "size")

    def __init__(self, tick_ms: int, *, strict: bool) -> None:
        self._tick = tick_ms
        self._strict = strict
        self._precision = 1 << max(0, tick_ms.bit_length() - 1)
        self._heap: list[int] = []
        self._groups: dict[int, list[int]] = {}
        self.size = 0
        self.highest = 0
        """The latest delivery time of all added entries."""
        self.fixed_delays = True
        """Whether all times were added in ascending order. If so, no entry added later can be due earlier."""

    def cutoff(self, now: int) -> int:
        """Return the time up to which entries are due."""
        return now if self._strict else now + self._tick

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

    def wait(self, now: int) -> int:
        """Return the milliseconds until an entry is due, or -1 if there is none."""
        if not self._heap:
            return -1
        return max(0, self._heap[0] - self._limit(now))

    def clear(self) -> None:
        """Remove all entries, because they will be read again."""
        self._heap.clear()
        self._groups.clear()
        self.size, self.highest, self.fixed_delays = 0, 0, True

    def _limit(self, now: int) -> int:
        cutoff = self.cutoff(now)
        return cutoff if self._strict else cutoff - self._precision + 1
