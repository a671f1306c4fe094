"""NonPersistentDispatcherMultipleConsumers: Shared on non-persistent topics, with a round robin by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.dispatch.non_persistent import NonPersistentDispatcher

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

__all__ = ["NonPersistentDispatcherMultipleConsumers"]


class NonPersistentDispatcherMultipleConsumers(NonPersistentDispatcher):
    """The dispatcher that sends to the next available consumer."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self._index = 0

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        self.consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.consumers.remove(consumer)

    def select_consumer(self, entry: Entry) -> Consumer | None:
        """Return the next available consumer."""
        count = len(self.consumers)
        for step in range(count):
            place = (self._index + step) % count
            if self.consumers[place].available:
                self._index = place + 1
                return self.consumers[place]
        return None
