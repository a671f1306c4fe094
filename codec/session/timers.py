"""Timers as data: what is due when, run by whoever has the time.

Rules of this file
1. The heap knows no clock. Times are milliseconds since 1970, given by the caller.
2. Timers due at the same time run in the order in which they were set.
3. A cancelled timer stays in the heap until its time, or until most of the heap is cancelled: both cost nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

__all__ = ["Timer", "Timers"]


class Timer:
    """Something to be done at a time. Ordered by it, then by age."""

    __slots__ = ("_number", "_timers", "action", "due")

    def __init__(self, due: int, number: int, action: Callable[[], None], timers: Timers) -> None:
        self.due = due
        """Milliseconds since 1970."""
        self.action: Callable[[], None] | None = action
        """None once it has run or was cancelled."""
        self._number = number
        self._timers = timers

    def __lt__(self, other: Timer) -> bool:
        return (self.due, self._number) < (other.due, other._number)

    @property
    def active(self) -> bool:
        """Whether it is still to run."""
        return self.action is not None

    def cancel(self) -> None:
        """Do not run it; harmless when it has run already."""
        if self.action is not None:
            self.action = None
            self._timers.forget_one()


class Timers:
    """All timers of a broker, or of a client."""

    __slots__ = ("_cancelled", "_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._number = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    @property
    def deadline(self) -> int | None:
        """When the next one is due; None: there is none."""
        heap = self._heap
        while heap and heap[0].action is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0].due if heap else None

    def call_at(self, due: int, action: Callable[[], None]) -> Timer:
        """Run ``action`` at a time."""
        self._number += 1
        timer = Timer(due, self._number, action, self)
        heapq.heappush(self._heap, timer)
        return timer

    def pop_due(self, now: int) -> tuple[int, Callable[[], None]] | None:
        """Take out the first timer that is due, as its time and its action; None: none is."""
        due = self.deadline
        if due is None or due > now:
            return None
        timer = heapq.heappop(self._heap)
        action, timer.action = timer.action, None
        assert action is not None
        return due, action

    def forget_one(self) -> None:
        """One more is cancelled; clear up when they are the most."""
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [timer for timer in self._heap if timer.action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0
