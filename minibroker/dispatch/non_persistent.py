"""The dispatchers of non-persistent topics, which send or drop each entry.

NonPersistentDispatcherSingleActiveConsumer serves Exclusive and Failover. The election is the same as on persistent
topics, but has no delay. On topics without partitions the first consumer by name is active. A change of the active
consumer is not announced; only a new consumer that does not become active is notified.

NonPersistentDispatcherMultipleConsumers serves Shared with a round robin by entry:
1. The round robin is that of persistent topics, but the consumers are not sorted by priority level.
2. An entry is dropped if no consumer is available, or if the sum of the permits of all consumers is not positive. A
   batch can make the permits of a consumer negative; they then reduce the sum.

NonPersistentStickyKeyDispatcherMultipleConsumers serves Key_Shared without draining hashes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.dispatch.round_robin import RoundRobin
from pcli.minibroker.dispatch.single_active import by_index, candidates
from pcli.minibroker.dispatch.sticky_key import is_sticky, make_selector, overlapping_consumer_in
from pcli.minibroker.topics.dispatcher import NO_COUNTS, Dispatcher

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription


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
        if not self._elect() and self.failover:
            consumer.send_active_consumer_change(active=False)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer. Another one can become active."""
        self.consumers.remove(consumer)
        self._elect()

    def _elect(self) -> bool:
        """Select the active consumer. Return whether it changed. Some versions notify the consumers of this."""
        before, self._active = self._active, self._choose() if self.consumers else None
        changed = before is not self._active
        if changed and self.failover and self.broker.version.notifies_non_persistent_failover:
            for consumer in self.consumers:
                consumer.send_active_consumer_change(active=consumer is self._active)
        return changed

    def _choose(self) -> Consumer:
        return by_index(candidates(self.consumers), max(0, self.topic.partition) if self.failover else 0)

    def select_consumer(self, entry: Entry) -> Consumer | None:
        """Return the active consumer if it is available, or else None."""
        active = self._active
        return active if active is not None and active.available else None


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


class NonPersistentStickyKeyDispatcherMultipleConsumers(NonPersistentDispatcher):
    """The dispatcher that selects the consumer by the key of the entry."""

    def __init__(self, subscription: Subscription, meta: pb.KeySharedMeta | None) -> None:
        super().__init__(subscription)
        self.sticky = is_sticky(meta)
        self.selector = make_selector(meta, self.settings)

    def overlapping_consumer(self, meta: pb.KeySharedMeta) -> Consumer | None:
        """Return a consumer whose declared ranges overlap the ranges in ``meta``, or None."""
        return overlapping_consumer_in(self.selector, meta)

    def accepts_mode(self, meta: pb.KeySharedMeta | None) -> bool:
        """Return whether the mode is the same as the first consumer's mode."""
        return is_sticky(meta) == self.sticky

    def add(self, consumer: Consumer) -> None:
        """Add a consumer and assign its slots."""
        self.selector.add(consumer)
        self.consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.selector.remove(consumer)
        self.consumers.remove(consumer)

    def select_consumer(self, entry: Entry) -> Consumer | None:
        """Return the consumer of the key if it is available, or else None."""
        consumer = self.selector.select(self.selector.slot(entry.hash))
        return consumer if consumer is not None and consumer.available else None
