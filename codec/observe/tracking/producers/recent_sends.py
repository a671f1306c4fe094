"""What was sent lately, so that a SEND that comes again is known.

Rules of this file
1. A client that sends again sends the bytes that it kept: the same id, publish time and size, and the same number of
   messages. Another message under a used id (an application that counts by itself, a new client with an old name) is
   no resend.
2. The last MAX_SENT entries of all producers together are remembered. A client sends again what it has no receipt for,
   and that is not old.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pcli.codec.observe.tracking.records.lifecycle import Lifecycle

__all__ = ["MAX_SENT", "RecentSends"]

MAX_SENT: Final = 50_000
"""Entries remembered over all producers, about 50 MB."""


class RecentSends:
    """The entries sent lately, by producer and sequence id."""

    __slots__ = ("_lifecycles", "_limit", "_order")

    def __init__(self, limit: int = MAX_SENT) -> None:
        self._limit = limit
        self._lifecycles: dict[tuple[int, int], Lifecycle] = {}
        self._order: deque[tuple[int, int]] = deque()

    def put(self, producer: int, lifecycle: Lifecycle) -> None:
        """Remember what a producer (by the number of its record) has sent."""
        place = (producer, lifecycle.sequence_id)
        self._lifecycles[place] = lifecycle
        self._order.append(place)
        if len(self._order) > self._limit:
            self._lifecycles.pop(self._order.popleft(), None)

    def find(self, producer: int, sequence_id: int, publish_ms: int, size: int, messages: int) -> Lifecycle | None:
        """The same entry, sent before."""
        lifecycle = self._lifecycles.get((producer, sequence_id))
        if lifecycle is None or (lifecycle.publish_ms, lifecycle.size, lifecycle.messages) != (
            publish_ms,
            size,
            messages,
        ):
            return None
        return lifecycle
