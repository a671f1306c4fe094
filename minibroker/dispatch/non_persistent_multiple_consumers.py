"""NonPersistentDispatcherMultipleConsumers: Shared on non-persistent topics, with a round robin by entry.

Rules of this file
1. The round robin is that of persistent topics, but the consumers are not sorted by priority level.
2. An entry is dropped if no consumer is available, or if the sum of the permits of all consumers is not positive. A
   batch can make the permits of a consumer negative; they then reduce the sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.dispatch.non_persistent import NonPersistentDispatcher
from pcli.minibroker.dispatch.round_robin import RoundRobin

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

__all__ = ["NonPersistentDispatcherMultipleConsumers"]


class NonPersistentDispatcherMultipleConsumers(NonPersistentDispatcher):
    """The dispatcher that sends to the next available consumer."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self._round_robin = RoundRobin(self.consumers)
        self._total_permits = 0

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        self.consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer and its permits."""
        self.consumers.remove(consumer)
        self._total_permits = self._total_permits - consumer.permits if self.consumers else 0

    def add_permits(self, consumer: Consumer, permits: int) -> None:
        """Add the permits to the sum."""
        self._total_permits += permits

    def select_consumer(self, entry: Entry) -> Consumer | None:
        """Return the next available consumer, which will receive the entry."""
        consumer = self._round_robin.next() if self._total_permits > 0 else None
        if consumer is not None:
            self._total_permits -= entry.messages
        return consumer
