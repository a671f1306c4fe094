"""Recently sent entries, for the detection of resends.

Rules of this file
1. A resend has the same sequence id, publish time, size and number of messages. A different message with a used id
   (from an application that sets ids, or a new client with an old name) is not a resend.
2. The last MAX_SENT entries of all producers are kept. A client resends only messages that have no receipt, and these
   are recent.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pcli.codec.observe.tracking.records.lifecycle import Lifecycle

MAX_SENT: Final = 20_000
"""Maximum number of entries of all producers. They occupy about 30 MB."""


class RecentSends:
    """Recently sent entries, by producer and sequence id."""

    __slots__ = ("_lifecycles", "_limit", "_order")

    def __init__(self, limit: int = MAX_SENT) -> None:
        self._limit = limit
        self._lifecycles: dict[tuple[int, int], Lifecycle] = {}
        self._order: deque[tuple[int, int]] = deque()

    def put(self, producer: int, lifecycle: Lifecycle) -> None:
        """Add an entry; ``producer`` is the number of the producer's record."""
        place = (producer, lifecycle.sequence_id)
        self._lifecycles[place] = lifecycle
        self._order.append(place)
        if len(self._order) > self._limit:
            self._lifecycles.pop(self._order.popleft(), None)

    def find(self, producer: int, sequence_id: int, publish_ms: int, size: int, messages: int) -> Lifecycle | None:
        """Return the lifecycle of the same entry if it was sent before, or None."""
        lifecycle = self._lifecycles.get((producer, sequence_id))
        if lifecycle is None or (lifecycle.publish_ms, lifecycle.size, lifecycle.messages) != (
            publish_ms,
            size,
            messages,
        ):
            return None
        return lifecycle
