"""MessageRedeliveryController and InMemoryRedeliveryTracker: what is to be sent again, and how often it was asked for.

The lowest offsets go first. On Key_Shared each waiting entry keeps its slot, so that later entries of that slot can
be held back behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

__all__ = ["MessageRedeliveryController"]


class MessageRedeliveryController:
    """The offsets that wait to be sent again."""

    __slots__ = ("_heap", "_slots", "counts", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, int] = {}
        """Offset to slot; 0: no slot."""
        self.counts: dict[int, int] = {}
        """Offset to redelivery count: how often a consumer gave it back."""
        self._heap: list[int] = []
        self._slots: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, offset: int, slot: int = 0) -> None:
        """An entry waits. What waits already keeps its slot, if it has one."""
        before = self.waiting.get(offset, -1)
        if before > 0 or before == slot:
            return
        self.waiting[offset] = slot
        if before < 0:
            heappush(self._heap, offset)
        if slot:
            self._slots[slot] = self._slots.get(slot, 0) + 1

    def remove(self, offset: int) -> None:
        """It does not wait any more."""
        slot = self.waiting.pop(offset, 0)
        if slot:
            left = self._slots[slot] - 1
            if left:
                self._slots[slot] = left
            else:
                del self._slots[slot]

    def holds(self, slot: int) -> bool:
        """Whether an entry of this slot waits."""
        return slot in self._slots

    def lowest(self, count: int, passes: Callable[[int, int], bool] | None = None) -> list[int]:
        """The lowest offsets, at most so many; with ``passes`` those for which it says yes, asked in order."""
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
        """A consumer gave these back: each counts one more."""
        for offset in offsets:
            self.counts[offset] = self.counts.get(offset, 0) + 1

    def forget(self, offset: int) -> None:
        """It is acknowledged."""
        self.counts.pop(offset, None)
        if offset in self.waiting:
            self.remove(offset)

    def forget_below(self, offset: int) -> None:
        """Everything below is done with: the mark-delete position has jumped."""
        for one in [one for one in self.waiting if one < offset]:
            self.remove(one)
        for one in [one for one in self.counts if one < offset]:
            del self.counts[one]

    def clear(self) -> None:
        """Nothing waits, and no count is remembered."""
        self.waiting.clear()
        self.counts.clear()
        self._heap.clear()
        self._slots.clear()
