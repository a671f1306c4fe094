"""Base class of the dispatchers that send or drop each entry of a non-persistent topic (NonPersistentDispatcher)."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from pcli.minibroker.topics.dispatcher import NO_COUNTS, Dispatcher

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

__all__ = ["NonPersistentDispatcher"]


class NonPersistentDispatcher(Dispatcher):
    """A dispatcher without a cursor and without redelivery. If no consumer is available, the entry is dropped."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self.dropped = 0
        """Number of dropped messages (msgDropRate)."""

    @abstractmethod
    def select_consumer(self, entry: Entry) -> Consumer | None:
        """Return the consumer for an entry, or None to drop it."""

    def publish(self, entry: Entry) -> None:
        """Send an entry or drop it."""
        if not entry.parsed:
            entry.parse()
        if entry.broken or entry.marker:
            return
        consumer = self.select_consumer(entry)
        if consumer is None:
            self.dropped += entry.messages
        else:
            consumer.deliver([entry], NO_COUNTS, NO_COUNTS)
