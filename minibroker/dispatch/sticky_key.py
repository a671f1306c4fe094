"""PersistentStickyKeyDispatcherMultipleConsumers: the dispatcher for Key_Shared.

Rules of this file, in addition to those of Shared
1. The slot of an entry's key determines its consumer (`consumer_selectors`). Entries of one key are sent in order.
2. An entry waits while an earlier entry of its slot waits, while its slot drains at another consumer
   (`draining_hashes`), or while its consumer has no permits. All later entries of the slot then also wait.
3. Entries of other slots may be sent before waiting entries, within the limits of
   ``keySharedLookAheadMsgInReplayThreshold…``.
4. If allowOutOfOrderDelivery is set, an entry waits only until its consumer has permits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.dispatch.consumer_selectors import (
    ConsistentHashing,
    ConsumerSelector,
    HashRangeAutoSplit,
    HashRangeExclusive,
)
from pcli.minibroker.dispatch.draining_hashes import DrainingHashesTracker
from pcli.minibroker.dispatch.entry_buckets import EntryBucketSelector, uses_entry_buckets
from pcli.minibroker.dispatch.key_hash_ranges import KeyHashRanges
from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.minibroker.settings import Settings
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription


def is_sticky(meta: pb.KeySharedMeta | None) -> bool:
    """Return whether consumers declare their ranges. If not, ranges are assigned."""
    return meta is not None and meta.keySharedMode == pb.STICKY


def overlapping_consumer_in(selector: ConsumerSelector, meta: pb.KeySharedMeta) -> Consumer | None:
    """Return a consumer whose declared ranges overlap the ranges in ``meta``, or None."""
    return selector.overlapping_consumer(KeyHashRanges.of(meta)) if isinstance(selector, HashRangeExclusive) else None


def make_selector(meta: pb.KeySharedMeta | None, settings: Settings) -> ConsumerSelector:
    """Return the selector for the mode of the first consumer."""
    if uses_entry_buckets(meta, settings):
        return EntryBucketSelector()
    if is_sticky(meta):
        return HashRangeExclusive()
    if settings.subscriptionKeySharedUseConsistentHashing:
        return ConsistentHashing(settings.subscriptionKeySharedConsistentHashingReplicaPoints)
    return HashRangeAutoSplit()


class PersistentStickyKeyDispatcherMultipleConsumers(PersistentDispatcherMultipleConsumers):
    """The dispatcher that selects the consumer by the key of the entry."""

    def __init__(self, subscription: Subscription, meta: pb.KeySharedMeta | None) -> None:
        super().__init__(subscription)
        self.sticky = is_sticky(meta)
        self._by_entry_bucket = uses_entry_buckets(meta, self.settings)
        self.out_of_order = meta is not None and meta.allowOutOfOrderDelivery
        self.selector = self.create_selector(meta)
        self.draining = DrainingHashesTracker()
        self._replay_blocked = False
        """Whether no waiting entry can be sent until the state changes. If True, the entries are not checked again."""
        self._waits_for_room = False
        """Whether an entry waits because its consumer has reached its limit on unacknowledged messages."""
        self._unblock_timer: Timer | None = None

    def create_selector(self, meta: pb.KeySharedMeta | None) -> ConsumerSelector:
        """Return the selector; the Classic dispatcher uses a larger ring."""
        return make_selector(meta, self.settings)

    def overlapping_consumer(self, meta: pb.KeySharedMeta) -> Consumer | None:
        """Return a consumer whose declared ranges overlap the ranges in ``meta``, or None."""
        return overlapping_consumer_in(self.selector, meta)

    def accepts_mode(self, meta: pb.KeySharedMeta | None) -> bool:
        """Return whether ``meta`` has the mode and the ordering of the first consumer."""
        out_of_order = meta is not None and meta.allowOutOfOrderDelivery
        return is_sticky(meta) == self.sticky and out_of_order == self.out_of_order

    @property
    def drains_hashes(self) -> bool:
        """Whether slots drain: True in auto-split mode and with entry buckets, if delivery is ordered."""
        return (self._by_entry_bucket or not self.sticky) and not self.out_of_order

    # -- consumers -------------------------------------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        """Add a consumer and assign its slots. Raises Refused if no slots can be assigned."""
        losers = self.selector.add(consumer)
        super().add(consumer)
        self._slots_reassigned(losers)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer: first reassign its slots, then redeliver its pending entries."""
        gainers = self.selector.remove(consumer)
        super().remove(consumer)
        consumer.hashes.clear()
        self.draining.removed(consumer)
        self._slots_reassigned(gainers)

    def _slots_reassigned(self, consumers: set[Consumer]) -> None:
        self._replay_blocked = False
        if self.drains_hashes:
            self.draining.changed(self.selector, consumers)
            self.broker.schedule(self)

    def add_permits(self, consumer: Consumer, permits: int) -> None:
        """Add the permits to the total. Waiting entries may become sendable."""
        self._replay_blocked = False
        super().add_permits(consumer, permits)

    def redeliver(self, consumer: Consumer, offsets: list[int] | None, epoch: int) -> None:
        """Redeliver the entries that a consumer returns."""
        self._replay_blocked = False
        super().redeliver(consumer, offsets, epoch)

    def redeliver_aborted(self, offsets: list[int]) -> None:
        """Redeliver entries. Their slots are determined when they are read again."""
        self._replay_blocked = False
        super().redeliver_aborted(offsets)

    def cursor_moved(self) -> None:
        """Remove acknowledged entries from the redelivery queue."""
        self._replay_blocked = False
        super().cursor_moved()

    def pending_ack_removed(self, consumer: Consumer, offset: int) -> None:
        """Record that a pending ack was removed. The slot of its entry may then be drained."""
        slot = consumer.hashes.pop(offset, 0)
        if slot and self.drains_hashes and self.draining.entry_released(slot, consumer):
            self._retry_replay_later()

    def decrease_unacked(self, messages: int) -> None:
        """Decrease the number of unacknowledged messages. Entries that wait for room at their consumer are retried.

        The real broker retries with a back-off of at most 10 ms while it can send no entry (dispatcherRetryBackoff).
        """
        super().decrease_unacked(messages)
        if messages > 0 and self._waits_for_room:
            self._waits_for_room = False
            self._retry_replay_later()

    def _retry_replay_later(self) -> None:
        if self._unblock_timer is None:
            delay = self.settings.keySharedUnblockingIntervalMs
            self._unblock_timer = self.broker.call_later(delay, self._retry_replay)

    def _retry_replay(self) -> None:
        self._unblock_timer = None
        self._replay_blocked = False
        self.broker.schedule(self)

    def replay_due(self, size: int) -> bool:
        """Add the due delayed entries to the redelivery queue. Return whether there were any."""
        taken = super().replay_due(size)
        if taken:
            self._replay_blocked = False
        return taken

    # -- selection of entries ------------------------------------------------------------------------------------------

    def replay_offsets(self, size: int) -> list[int]:
        """Return the waiting offsets to send now, in order; an entry that must wait blocks the others of its slot."""
        if self._replay_blocked:
            return []
        held: set[int] = set()
        permits: dict[Consumer, int] = {}

        def passes(offset: int, slot: int) -> bool:
            if slot in held or not self.can_replay(offset, slot):
                return False
            if not slot:
                return True
            consumer = self.selector.select(slot)
            if consumer is None or not self._reserve_permit(consumer, slot, permits):
                held.add(slot)
                return False
            return True

        found = self.replay.lowest(size, passes)
        self._replay_blocked = not found
        return found

    def can_replay(self, offset: int, slot: int) -> bool:
        """Return whether a waiting entry may be sent at all; overridden by the Classic dispatcher."""
        return True

    def read(self, count: int) -> list[Entry]:
        """Read the next entries within the lookahead limit."""
        limit = self._look_ahead()
        if limit:
            count = min(count, limit - len(self.replay))
        return super().read(count) if count > 0 else []

    def _look_ahead(self) -> int:
        """Return the maximum number of waiting entries, or 0 if it is unlimited."""
        settings = self.settings
        each = settings.keySharedLookAheadMsgInReplayThresholdPerConsumer * len(self.consumers)
        all_ = settings.keySharedLookAheadMsgInReplayThresholdPerSubscription
        bounds = [bound for bound in (each, all_) if bound > 0]
        return min(bounds) if bounds else self.subscription.max_unacked

    def _reserve_permit(self, consumer: Consumer, slot: int, permits: dict[Consumer, int]) -> bool:
        """Return whether one more entry of this slot may be sent to this consumer. If so, count one permit as used."""
        left = permits.get(consumer)
        if left is None:
            left = self._available_entries(consumer)
        if left <= 0 or (self.drains_hashes and self.draining.blocks(slot, consumer)):
            permits[consumer] = left
            return False
        permits[consumer] = left - 1
        return True

    def _available_entries(self, consumer: Consumer) -> int:
        """Return how many entries a consumer may receive: one per permit, up to its limit on unacked messages."""
        if not consumer.available:
            return 0
        average, room = max(1.0, consumer.avg_messages_per_entry), consumer.unacked_room()
        self._waits_for_room = self._waits_for_room or room <= 0
        return min(consumer.permits, int(-(-room // average)))

    def _slot(self, entry: Entry) -> int:
        return self.selector.slot(entry.entry_hash if self._by_entry_bucket else entry.hash)

    def dispatch(self, entries: list[Entry], *, replay: bool = False) -> bool:
        """Distribute entries by key. Return whether any were sent; the others wait, each with its slot."""
        selector, waiting = self.selector, self.replay
        held: set[int] = set()
        permits: dict[Consumer, int] = {}
        shares: dict[Consumer, list[Entry]] = {}
        for entry in entries:
            slot = self._slot(entry)
            consumer = selector.select(slot)
            blocked = slot in held or (not replay and not self.out_of_order and waiting.holds(slot))
            if blocked or consumer is None or not self._reserve_permit(consumer, slot, permits):
                if not self.out_of_order:
                    held.add(slot)
                waiting.add(entry.offset, slot)
                continue
            share = shares.get(consumer)
            if share is None:
                shares[consumer] = [entry]
            else:
                share.append(entry)
        for consumer, share in shares.items():
            for entry in self.send(consumer, share, replay=replay):
                consumer.hashes[entry.offset] = self._slot(entry)
        return bool(shares)
