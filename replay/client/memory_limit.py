"""The bytes of messages that one client may hold (MemoryLimitController).

Rules of this file (4.2.4)
1. A reservation is granted whole as long as the limit is not passed, so it may be passed once; then there is none.
2. A limit of 0 grants everything.
3. Who was refused is told once there is room again.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Memory"]


class Memory:
    """What is held, and by how much."""

    __slots__ = ("_limit", "_waiting", "held")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0
        """Bytes."""
        self._waiting: dict[Callable[[], None], None] = {}

    def reserve(self, size: int) -> bool:
        """Take so many bytes; False: there is no room, and nothing was taken."""
        if 0 < self._limit < self.held:
            return False
        self.held += size
        return True

    def release(self, size: int) -> None:
        """Give them back."""
        self.held -= size
        if self._waiting and self.held <= self._limit:
            waiting, self._waiting = self._waiting, {}
            for tell in waiting:
                tell()

    def when_room(self, tell: Callable[[], None]) -> None:
        """Call this once when something was given back; asking twice is asking once."""
        self._waiting[tell] = None
