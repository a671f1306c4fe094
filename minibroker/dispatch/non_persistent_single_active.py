"""NonPersistentDispatcherSingleActiveConsumer: Exclusive and Failover on non-persistent topics.

The election is that of persistent topics, but works at once; without partitions the first in order of names is
active. A change is not announced: only a newcomer that does not become active is told so.
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
    """To the active consumer, or to nobody."""

    def __init__(self, subscription: Subscription, *, failover: bool) -> None:
        super().__init__(subscription)
        self.failover = failover
        self._active: Consumer | None = None

    @property
    def active(self) -> Consumer | None:
        """The consumer that gets the messages."""
        return self._active

    def add(self, consumer: Consumer) -> None:
        """Join, and perhaps take over."""
        self.consumers.append(consumer)
        before, self._active = self._active, self._choose()
        if self.failover and before is self._active:
            consumer.send_active_consumer_change(active=False)

    def remove(self, consumer: Consumer) -> None:
        """Leave."""
        self.consumers.remove(consumer)
        self._active = self._choose() if self.consumers else None

    def _choose(self) -> Consumer:
        return by_index(candidates(self.consumers), max(0, self.topic.partition) if self.failover else 0)

    def select_consumer(self, entry: Entry) -> Consumer | None:
        """The active consumer, if it can take something."""
        active = self._active
        return active if active is not None and active.available else None
