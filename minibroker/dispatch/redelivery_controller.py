"""MessageRedeliveryController with InMemoryRedeliveryTracker: entries to redeliver and their redelivery counts.

The lowest offsets are redelivered first. On Key_Shared subscriptions the slot of each waiting entry is kept, so that
later entries of the same slot can wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush


class MessageRedeliveryController:
    """The offsets to redeliver, with their slots and redelivery counts."""

    __slots__ = ("_heap", "_slots", "counts", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, int] = {}
        """Slots by offset; 0 means no slot."""
        self.counts: dict[int, int] = {}
        """Redelivery counts by offset."""
        self._heap: list[int] = []
        self._slots: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, offset: int, slot: int = 0) -> None:
        """Add an entry. If it is already waiting, its slot does not change."""
        before = self.waiting.get(offset, -1)
        if before > 0 or before == slot:
            return
        self.waiting[offset] = slot
        if before < 0:
            heappush(self._heap, offset)
        if slot:
            self._slots[slot] = self._slots.get(slot, 0) + 1

    def remove(self, offset: int) -> None:
        """Remove an entry."""
        slot = self.waiting.pop(offset, 0)
        if slot:
            left = self._slots[slot] - 1
            if left:
                self._slots[slot] = left
            else:
                del self._slots[slot]

    def holds(self, slot: int) -> bool:
        """Return whether any entry of this slot is waiting."""
        return slot in self._slots

    def lowest(self, count: int, passes: Callable[[int, int], bool] | None = None) -> list[int]:
        """Return the lowest offsets, at most ``count``.

        If ``passes`` is given, it is called for each offset in order, and only offsets for which it returns True are
        returned.
        """
        found: list[int] = []
        looked: list[int] = []
        heap, waiting = self._heap, self.waiting
        before = -1
        while heap and len(found) < count:
            offset = heappop(heap)
            if offset == before or offset not in waiting:
                continue
            before = offset
            looked.append(offset)
            if passes is None or passes(offset, waiting[offset]):
                found.append(offset)
        for offset in looked:
            heappush(heap, offset)
        return found

    def count(self, offsets: Iterable[int]) -> None:
        """Increase the redelivery counts of entries."""
        for offset in offsets:
            self.counts[offset] = self.counts.get(offset, 0) + 1

    def forget(self, offset: int) -> None:
        """Remove an acknowledged entry."""
        self.counts.pop(offset, None)
        if offset in self.waiting:
            self.remove(offset)

    def forget_below(self, offset: int) -> None:
        """Remove everything below an offset, because the mark-delete position moved past it."""
        for one in [one for one in self.waiting if one < offset]:
            self.remove(one)
        for one in [one for one in self.counts if one < offset]:
            del self.counts[one]

    def clear_waiting(self) -> None:
        """Remove all entries, but not the redelivery counts."""
        self.waiting.clear()
        self._heap.clear()
        self._slots.clear()

    def clear(self) -> None:
        """Remove all entries and counts."""
        self.clear_waiting()
        self.counts.clear()
