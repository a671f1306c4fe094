"""NonPersistentDispatcherSingleActiveConsumer: Exclusive and Failover on non-persistent topics.

The election is the same as on persistent topics, but has no delay. On topics without partitions the first consumer by
name is active. A change of the active consumer is not announced; only a new consumer that does not become active is
notified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.dispatch.active_consumer_election import by_index, candidates
from pcli.minibroker.dispatch.non_persistent import NonPersistentDispatcher

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

__all__ = ["NonPersistentDispatcherSingleActiveConsumer"]


class NonPersistentDispatcherSingleActiveConsumer(NonPersistentDispatcher):
    """The dispatcher that sends only to the active consumer."""

    def __init__(self, subscription: Subscription, *, failover: bool) -> None:
        super().__init__(subscription)
        self.failover = failover
        self._active: Consumer | None = None

    @property
    def active(self) -> Consumer | None:
        """The active consumer."""
        return self._active

    def add(self, consumer: Consumer) -> None:
        """Add a consumer. It can become active."""
        self.consumers.append(consumer)
        before, self._active = self._active, self._choose()
        if self.failover and before is self._active:
            consumer.send_active_consumer_change(active=False)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.consumers.remove(consumer)
        self._active = self._choose() if self.consumers else None

    def _choose(self) -> Consumer:
        return by_index(candidates(self.consumers), max(0, self.topic.partition) if self.failover else 0)

    def select_consumer(self, entry: Entry) -> Consumer | None:
        """Return the active consumer if it is available, or else None."""
        active = self._active
        return active if active is not None and active.available else None
