"""Clocks of an embedded broker: the system clock, and a manual clock that tests advance."""

from __future__ import annotations

import time


class Clock:
    """A clock in nanoseconds since 1970. It adds the elapsed monotonic time to the system time of its start."""

    def __init__(self) -> None:
        self._start = time.time_ns() - time.monotonic_ns()

    def time_ns(self) -> int:
        """Return the time in nanoseconds."""
        return self._start + time.monotonic_ns()

    def now(self) -> int:
        """Return the time in milliseconds."""
        return self.time_ns() // 1_000_000


class ManualClock(Clock):
    """A clock that keeps the time of its creation, in whole milliseconds, until `advance` is called."""

    def __init__(self) -> None:
        self._time_ns = time.time_ns() // 1_000_000 * 1_000_000

    def time_ns(self) -> int:
        """Return the time in nanoseconds."""
        return self._time_ns

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._time_ns += round(seconds * 1_000_000_000)
