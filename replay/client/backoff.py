"""Delays between retries.

Rules of this file (class Backoff of pulsar-common, 4.2.4)
1. The delay doubles with each retry, from ``initial`` up to ``most``.
2. After each reset, the first delay that would end after the mandatory stop is shortened so that it ends at the stop,
   but not below ``initial``. The time to the stop is counted from the first retry. A stop of 0, which ConnectionHandler
   uses, has no effect.
3. Jitter only shortens a delay, by less than a tenth, in whole milliseconds. Delays of 10 ms or less have no jitter,
   and no delay falls below ``initial``. The first delay is therefore always ``initial``.
"""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Delays of one retried operation, in milliseconds. ``random`` returns numbers in [0, 1)."""

    def __init__(self, initial: int, most: int, stop: int, random: Callable[[], float]) -> None:
        self.initial = initial
        self._most = most
        self._stop = stop
        self._random = random
        self._first = 0
        self.reset()

    def reset(self) -> None:
        """Return to the initial delay after a success."""
        self._next = self.initial
        self._stopped = not (self.initial or self._most or self._stop)

    def next(self, now: int) -> int:
        """Return the delay before the next retry."""
        wait = self._next
        if wait < self._most:
            self._next = min(2 * wait, self._most)
        if not self._stopped:
            wait = self._cut(wait, now)
        if wait > 10:
            wait -= int(self._random() * (wait // 10))
        return max(self.initial, wait)

    def _cut(self, wait: int, now: int) -> int:
        if wait == self.initial:
            self._first = now
        elapsed = now - self._first
        if elapsed + wait <= self._stop:
            return wait
        self._stopped = True
        return max(self.initial, self._stop - elapsed)
