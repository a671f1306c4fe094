"""A timer queue without a clock: the caller runs each timer when it is due.

Rules of this file
1. Times are milliseconds since 1970, given by the caller.
2. Timers due at the same time run in the order in which they were created.
3. A cancelled timer remains in the heap until it is due, or until more than half of the timers in the heap are
   cancelled. Cancelling is therefore cheap.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Timer:
    """An action with a due time. Timers are ordered by due time, then by creation."""

    __slots__ = ("_number", "_timers", "action", "due")

    def __init__(self, due: int, number: int, action: Callable[[], None], timers: Timers) -> None:
        self.due = due
        """Due time, milliseconds since 1970."""
        self.action: Callable[[], None] | None = action
        """The action; None after it has run or was cancelled."""
        self._number = number
        self._timers = timers

    def __lt__(self, other: Timer) -> bool:
        return (self.due, self._number) < (other.due, other._number)

    @property
    def active(self) -> bool:
        """Whether the timer has not yet run and was not cancelled."""
        return self.action is not None

    def cancel(self) -> None:
        """Cancel the timer. This has no effect if it has already run."""
        if self.action is not None:
            self.action = None
            self._timers.forget_one()


class Timers:
    """All timers of a broker or a client."""

    __slots__ = ("_cancelled", "_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._number = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    @property
    def deadline(self) -> int | None:
        """Due time of the next timer, or None if there is none."""
        heap = self._heap
        while heap and heap[0].action is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0].due if heap else None

    def call_at(self, due: int, action: Callable[[], None]) -> Timer:
        """Add a timer that runs ``action`` at the given time."""
        self._number += 1
        timer = Timer(due, self._number, action, self)
        heapq.heappush(self._heap, timer)
        return timer

    def pop_due(self, now: int) -> tuple[int, Callable[[], None]] | None:
        """Remove the first timer that is due and return its time and action, or None if no timer is due."""
        due = self.deadline
        if due is None or due > now:
            return None
        timer = heapq.heappop(self._heap)
        action, timer.action = timer.action, None
        assert action is not None
        return due, action

    def forget_one(self) -> None:
        """Count one more cancelled timer. Rebuild the heap if most of its timers are cancelled."""
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [timer for timer in self._heap if timer.action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0
