"""PersistentDispatcherSingleActiveConsumer: the dispatcher for Exclusive and Failover.

Rules of this file
1. One active consumer receives all messages in order; the other consumers of a Failover subscription stand by. When the
   active consumer changes, delivery restarts at the first unacknowledged entry.
2. On a Failover subscription, a change takes effect after ``activeConsumerFailoverDelayTimeMillis``. The delay also
   applies to the first consumer. Until then FLOW and REDELIVER have no effect.
3. The permits limit the number of entries in a read. All entries that were read are sent, even if the permits run out.
4. Single entries are not tracked: REDELIVER restarts at the mark-delete position, and redelivery counts are always 0.
5. A consumer with readCompacted reads the compacted ledger up to the compaction horizon, and then the topic. Its first
   read starts at the first compacted message if the consumer starts at the earliest message (CompactedTopicUtils).
6. A read that ends before an open transaction, or whose entries are all dropped, sends nothing, but counts as consumed
   (PersistentDispatcherSingleActiveConsumer.dispatchEntriesToConsumer calls Consumer.sendMessages in any case).
7. An Exclusive consumer with key hash ranges receives only entries in these ranges. Other entries are not acknowledged.

The election of the active consumer is that of AbstractDispatcherSingleActiveConsumer.pickAndScheduleActiveConsumer.
Only consumers with the best priority level take part. On a partition, they are sorted by name, and the partition index
modulo the number of these consumers selects one. On a topic without partitions, a hash ring of their names selects one.
A new consumer can replace the active consumer.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from pcli.codec.wire.hashes import murmur3_31, slot_of
from pcli.minibroker.dispatch.key_hash_ranges import KeyHashRanges
from pcli.minibroker.topics.dispatcher import NO_COUNTS, PersistentDispatcher

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription


class PersistentDispatcherSingleActiveConsumer(PersistentDispatcher):
    """The dispatcher that sends only to the active consumer."""

    def __init__(self, subscription: Subscription, *, failover: bool) -> None:
        super().__init__(subscription)
        self.failover = failover
        self._active: Consumer | None = None
        self._activated = False
        """Whether the active consumer receives entries: True when the failover delay is over."""
        self._timer: Timer | None = None
        self._ranges: KeyHashRanges | None = None
        self._first_read = True
        """Whether nothing was read since the first of the current consumers joined."""

    @property
    def active(self) -> Consumer | None:
        """The active consumer."""
        return self._active

    # -- consumers -------------------------------------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        """Add a consumer. On Failover subscriptions, notify it if it does not become the active consumer."""
        self._first_read = self._first_read or not self.consumers
        self.consumers.append(consumer)
        if not self._elect() and self.failover:
            consumer.send_active_consumer_change(active=consumer is self._active)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer. Delivery to the next active consumer starts at the first unacknowledged entry."""
        self.consumers.remove(consumer)
        if self.consumers and self.subscription.resetting:
            # After a seek by the active consumer no new consumer is elected: delivery pauses until a consumer joins or
            # leaves (verified on 4.2.4).
            self._activated = False
            self._cancel_timer()
            return
        if self.consumers:
            self._elect()
            return
        self._active = None
        self._activated = False
        self._cancel_timer()

    def _elect(self) -> bool:
        """Sort the consumers by priority and name, and elect the active consumer. Return whether it changed."""
        self.consumers.sort(key=lambda one: (one.priority, one.name))
        chosen = self._choose()
        if chosen is self._active:
            return False
        self._active = chosen
        self.pending_read_at_end = False
        meta = chosen.key_shared_meta if not self.failover else None
        self._ranges = KeyHashRanges.of(meta) if meta is not None and meta.hashRanges else None
        delay = self.settings.activeConsumerFailoverDelayTimeMillis if self.failover else 0
        if delay > 0:
            self._activated = False
            if self._timer is None:
                self._timer = self.broker.call_later(delay, self._activate)
        else:
            self._activate()
        return True

    def _choose(self) -> Consumer:
        found = candidates(self.consumers)
        if not self.failover:
            return by_index(found, 0)
        if self.topic.partition >= 0 and not self.settings.activeConsumerFailoverConsistentHashing:
            return by_index(found, self.topic.partition)
        return by_ring(found, self.topic.full_name)

    def _activate(self) -> None:
        """Start delivery to the active consumer at the first unacknowledged entry."""
        self._cancel_timer()
        if self._active is None:
            return
        self._activated = True
        self.cursor.rewind()
        if self.failover:
            for consumer in list(self.consumers):
                consumer.send_active_consumer_change(active=consumer is self._active)
        self.broker.schedule(self)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- delivery --------------------------------------------------------------------------------------------------

    def add_permits(self, consumer: Consumer, permits: int) -> None:
        """Schedule delivery if the active consumer has more permits."""
        if consumer is self._active:
            self.broker.schedule(self)

    def redeliver(self, consumer: Consumer, offsets: list[int] | None, epoch: int) -> None:
        """If the active consumer requests redelivery, restart at the first unacknowledged entry. Ids are ignored.

        The epoch is always applied, because the client drops messages with an older epoch.
        """
        if consumer.sends_epoch:
            consumer.epoch = max(consumer.epoch, epoch)
        if consumer is not self._active or not self._activated:
            return
        self.cursor.waits_at_end = self.pending_read_at_end = False
        self.cursor.rewind()
        self.broker.schedule(self)

    def redeliver_aborted(self, offsets: list[int]) -> None:
        """Restart delivery at the first unacknowledged entry."""
        if self._active is not None:
            self.redeliver(self._active, None, -1)

    def run(self) -> None:
        """Read and send while the active consumer has permits."""
        consumer = self._active
        if consumer is None or not self._activated:
            return
        limits = self.subscription.limits
        read = self._read_compacted if consumer.read_compacted else self.read
        while consumer.permits > 0 and consumer.connection.writable and not consumer.closed:
            size = self.read_size(consumer.permits, consumer.avg_messages_per_entry)
            count = limits.entries(self, size) if limits else size
            entries = read(count) if count else []
            if entries or (count and self.cursor.has_more):
                consumer.last_consumed = self.broker.now
            if not entries:
                if count:
                    self.check_end_of_topic()
                break
            self._send(consumer, entries)

    def _read_compacted(self, count: int) -> list[Entry]:
        """Read from the compacted ledger, or from the topic after the compaction horizon."""
        first, self._first_read = self._first_read, False
        cursor, compaction, consumer = self.cursor, self.topic.compaction, self._active
        assert compaction is not None
        assert consumer is not None
        compacted = compaction.compacted
        from_earliest = first and consumer.starts_at_earliest and self._may_read_from_earliest()
        position = 0 if from_earliest else cursor.read_position
        if position <= compacted.horizon:
            entries = compacted.read(position, count, self.settings.dispatcherMaxReadSizeBytes)
            if entries:
                cursor.read_position = entries[-1].offset + 1
                return entries
            cursor.read_position = max(compacted.horizon, cursor.mark_delete) + 1
        return self.read(count)

    def _may_read_from_earliest(self) -> bool:
        """Return whether the first read ignores the position of the cursor, which it never does after an ack."""
        return not self.subscription.durable or self.cursor.mark_delete_position[1] == -1

    def _send(self, consumer: Consumer, entries: list[Entry]) -> None:
        for entry in entries:
            if not entry.parsed:
                entry.parse()
        if self._ranges is not None:
            ranges = self._ranges
            entries = [entry for entry in entries if slot_of(entry.hash) in ranges]
        kept = self.filter_entries(entries)
        if not kept:
            return
        ack_sets = self.ack_sets(kept) if self.transactional else self.cursor.ack_sets
        messages = consumer.deliver(kept, NO_COUNTS, ack_sets)
        if self.subscription.limits:
            self.subscription.limits.charge(messages, kept)


RING_POINTS: Final = 100
"""Number of points per consumer (AbstractDispatcherSingleActiveConsumer.CONSUMER_CONSISTENT_HASH_REPLICAS)."""


def candidates(consumers: list[Consumer]) -> list[Consumer]:
    """Return the consumers of the best level, sorted by name. Consumers with equal names keep their order."""
    best = min(consumer.priority for consumer in consumers)
    return sorted((one for one in consumers if one.priority == best), key=lambda one: one.name)


def by_index(found: list[Consumer], index: int) -> Consumer:
    """Return the consumer selected by the index of the partition."""
    return found[index % len(found)]


def by_ring(found: list[Consumer], topic: str) -> Consumer:
    """Return the consumer of the first point on the ring at or above the hash of the full topic name.

    If two consumers have the same point, the consumer that is later in the list owns it.
    """
    points: dict[int, Consumer] = {}
    for consumer in found:
        for replica in range(RING_POINTS):
            points[murmur3_31(f"{consumer.name}{replica}".encode())] = consumer
    ring = sorted(points)
    place = bisect_left(ring, murmur3_31(topic.encode()))
    return points[ring[place % len(ring)]]
