"""What the dispatchers of non-persistent topics share: an entry goes out now or never (NonPersistentDispatcher)."""

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
    """No cursor, no redelivery, no acknowledgement: whoever has a permit gets the entry, else it is dropped."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self.dropped = 0
        """Messages that nobody could take (msgDropRate)."""

    @abstractmethod
    def select_consumer(self, entry: Entry) -> Consumer | None:
        """Who gets this entry; None: it is dropped."""

    def publish(self, entry: Entry) -> None:
        """An entry has come."""
        if not entry.parsed:
            entry.parse()
        if entry.broken or entry.marker:
            return
        consumer = self.select_consumer(entry)
        if consumer is None:
            self.dropped += entry.messages
        else:
            consumer.deliver([entry], NO_COUNTS, NO_COUNTS)
