"""The time of a broker in a test: the wall's, or one that stands still until it is told to go on."""

from __future__ import annotations

import time

__all__ = ["Clock", "ManualClock"]


class Clock:
    """Nanoseconds since 1970, that never jump: the wall's time at the start, the monotonic clock from there."""

    def __init__(self) -> None:
        self._start = time.time_ns() - time.monotonic_ns()

    def time_ns(self) -> int:
        """Now, in nanoseconds."""
        return self._start + time.monotonic_ns()

    def now(self) -> int:
        """Now, in milliseconds."""
        return self.time_ns() // 1_000_000


class ManualClock(Clock):
    """Stands at the time of its making, to the millisecond, until `advance`."""

    def __init__(self) -> None:
        self._time_ns = time.time_ns() // 1_000_000 * 1_000_000

    def time_ns(self) -> int:
        """Now, in nanoseconds."""
        return self._time_ns

    def advance(self, seconds: float) -> None:
        """Go on by so much."""
        self._time_ns += round(seconds * 1_000_000_000)
