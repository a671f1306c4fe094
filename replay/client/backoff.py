"""How long to wait before the next try.

Rules of this file (class Backoff of pulsar-common, 4.2.4)
1. The wait doubles each time, from ``initial`` up to ``most``.
2. Once after each reset the wait is cut so that the tries so far end at the mandatory stop, counted from the first of
   them; never below ``initial``. A stop of 0, which is ConnectionHandler's, cuts nothing later.
3. Jitter only shortens: by less than a tenth, in whole milliseconds; waits of 10 ms or less have none, and none falls
   below ``initial``. So the first wait is always exactly ``initial``.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Backoff"]


class Backoff:
    """The waits of one thing that is tried again. All are milliseconds; ``random`` gives numbers in [0, 1)."""

    __slots__ = ("_first", "_most", "_next", "_random", "_stop", "_stopped", "initial")

    def __init__(self, initial: int, most: int, stop: int, random: Callable[[], float]) -> None:
        self.initial = initial
        self._most = most
        self._stop = stop
        self._random = random
        self._first = 0
        self.reset()

    def reset(self) -> None:
        """It went well: begin anew."""
        self._next = self.initial
        self._stopped = not (self.initial or self._most or self._stop)

    def next(self, now: int) -> int:
        """The wait that is due now."""
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
