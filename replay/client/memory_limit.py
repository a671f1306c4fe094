"""The limit on the message bytes that one client holds (MemoryLimitController).

Rules of this file (4.2.4)
1. A reservation succeeds if the limit is not exceeded yet. One reservation can therefore exceed the limit; later
   reservations then fail.
2. If the limit is 0, memory is not limited.
3. Callers whose reservation failed are notified when memory is available again.
"""

from __future__ import annotations

from collections.abc import Callable


class MemoryLimit:
    """The number of bytes in use, and the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0
        """Bytes in use."""
        self._waiting: dict[Callable[[], None], None] = {}

    def reserve(self, size: int) -> bool:
        """Reserve bytes. If the limit is exceeded, reserve none and return False."""
        if 0 < self._limit < self.held:
            return False
        self.held += size
        return True

    def release(self, size: int) -> None:
        """Release reserved bytes."""
        self.held -= size
        if self._waiting and self.held <= self._limit:
            waiting, self._waiting = self._waiting, {}
            for callback in waiting:
                callback()

    def when_available(self, callback: Callable[[], None]) -> None:
        """Register a callback that is called once when memory is available again.

        Repeated registrations have the effect of one.
        """
        self._waiting[callback] = None
