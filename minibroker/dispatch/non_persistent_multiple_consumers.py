"""NonPersistentDispatcherMultipleConsumers: Shared on non-persistent topics. In turn, entry by entry, no priorities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.dispatch.non_persistent import NonPersistentDispatcher

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

__all__ = ["NonPersistentDispatcherMultipleConsumers"]


class NonPersistentDispatcherMultipleConsumers(NonPersistentDispatcher):
    """To the next consumer that can take something."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self._index = 0

    def add(self, consumer: Consumer) -> None:
        """Join."""
        self.consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Leave."""
        self.consumers.remove(consumer)

    def select_consumer(self, entry: Entry) -> Consumer | None:
        """The next one."""
        count = len(self.consumers)
        for step in range(count):
            place = (self._index + step) % count
            if self.consumers[place].available:
                self._index = place + 1
                return self.consumers[place]
        return None
