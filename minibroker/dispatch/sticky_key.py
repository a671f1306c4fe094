"""PersistentStickyKeyDispatcherMultipleConsumers: Key_Shared.

Rules of this file, beside those of Shared
1. The slot of an entry's key says whose it is (`selectors`). Entries of one key go out in order.
2. An entry waits while another of its slot waits, while its slot drains at another consumer (`draining`), and while
   its consumer has no permits. Behind an entry that waits all later ones of its slot wait too.
3. While some wait, others may pass, as far ahead as ``keySharedLookAheadMsgInReplayThreshold…`` allows.
4. With allowOutOfOrderDelivery none of this holds: an entry waits for nothing but its consumer's permits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.dispatch.consumer_selectors import (
    ConsistentHashing,
    HashRangeAutoSplit,
    HashRangeExclusive,
    Selector,
)
from pcli.minibroker.dispatch.draining_hashes import DrainingHashesTracker
from pcli.minibroker.dispatch.key_hash_ranges import Ranges
from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.minibroker.settings import Settings
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

__all__ = ["PersistentStickyKeyDispatcherMultipleConsumers", "holder_in", "is_sticky", "make_selector"]


def is_sticky(meta: pb.KeySharedMeta | None) -> bool:
    """Whether consumers declare their ranges; otherwise they are dealt."""
    return meta is not None and meta.keySharedMode == pb.STICKY


def holder_in(selector: Selector, meta: pb.KeySharedMeta) -> Consumer | None:
    """The consumer whose declared ranges overlap these."""
    return selector.holder(Ranges.of(meta)) if isinstance(selector, HashRangeExclusive) else None


def make_selector(meta: pb.KeySharedMeta | None, settings: Settings) -> Selector:
    """The selector that a first consumer asks for."""
    if is_sticky(meta):
        return HashRangeExclusive()
    if settings.subscriptionKeySharedUseConsistentHashing:
        return ConsistentHashing(settings.subscriptionKeySharedConsistentHashingReplicaPoints)
    return HashRangeAutoSplit()


class PersistentStickyKeyDispatcherMultipleConsumers(PersistentDispatcherMultipleConsumers):
    """Delivery by key."""

    def __init__(self, subscription: Subscription, meta: pb.KeySharedMeta | None) -> None:
        super().__init__(subscription)
        self.sticky = is_sticky(meta)
        self.out_of_order = meta is not None and meta.allowOutOfOrderDelivery
        self.selector = self.select_by(meta)
        self.draining = DrainingHashesTracker()
        self._stuck = False
        """Nothing that waits can go, and nothing has changed since: looking at all of it again is in vain."""
        self._unblocking: Timer | None = None

    def select_by(self, meta: pb.KeySharedMeta | None) -> Selector:
        """The selector; the Classic kind has a wider ring."""
        return make_selector(meta, self.settings)

    def holder(self, meta: pb.KeySharedMeta) -> Consumer | None:
        """The consumer whose declared ranges overlap these."""
        return holder_in(self.selector, meta)

    def fits(self, meta: pb.KeySharedMeta | None) -> bool:
        """Mode and order are those of the first consumer."""
        out_of_order = meta is not None and meta.allowOutOfOrderDelivery
        return is_sticky(meta) == self.sticky and out_of_order == self.out_of_order

    @property
    def drains(self) -> bool:
        """Whether slots drain: in auto-split with order kept."""
        return not self.sticky and not self.out_of_order

    # -- consumers -------------------------------------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        """Join, with its part of the slots; Refused when there is none for it."""
        self.selector.add(consumer)
        super().add(consumer)
        self._dealt()

    def remove(self, consumer: Consumer) -> None:
        """Leave: first its slots go to others, then what it held."""
        self.selector.remove(consumer)
        super().remove(consumer)
        consumer.hashes.clear()
        self._dealt()

    def _dealt(self) -> None:
        self._stuck = False
        if self.drains:
            self.draining.changed(self.selector, self.consumers)
            self.broker.soon(self)

    def flowed(self, consumer: Consumer, permits: int) -> None:
        """More permits: what waits for them may go."""
        self._stuck = False
        super().flowed(consumer, permits)

    def redeliver(self, consumer: Consumer, offsets: list[int] | None, epoch: int) -> None:
        """What it gives back waits."""
        self._stuck = False
        super().redeliver(consumer, offsets, epoch)

    def cursor_moved(self) -> None:
        """What waited may be done with."""
        self._stuck = False
        super().cursor_moved()

    def settled(self, consumer: Consumer, offset: int) -> None:
        """An entry that was pending is not any more: its slot may be drained."""
        slot = consumer.hashes.pop(offset, 0)
        if slot and self.drains and self.draining.settled(slot, consumer) and self._unblocking is None:
            self._unblocking = self.broker.call_later(self.settings.keySharedUnblockingIntervalMs, self._unblocked)

    def _unblocked(self) -> None:
        self._unblocking = None
        self._stuck = False
        self.broker.soon(self)

    def take_due(self, size: int) -> bool:
        """Delayed entries that are due now wait, and some of them may go."""
        taken = super().take_due(size)
        if taken:
            self._stuck = False
        return taken

    # -- what may go -----------------------------------------------------------------------------------------------

    def replay_offsets(self, size: int) -> list[int]:
        """Those that wait and may go now, in order; one that may not holds back the others of its slot."""
        if self._stuck:
            return []
        held: set[int] = set()
        permits: dict[Consumer, int] = {}

        def passes(offset: int, slot: int) -> bool:
            if slot in held or not self.may_replay(offset, slot):
                return False
            if not slot:
                return True
            consumer = self.selector.select(slot)
            if consumer is None or not self._take(consumer, slot, permits):
                held.add(slot)
                return False
            return True

        found = self.replay.lowest(size, passes)
        self._stuck = not found
        return found

    def may_replay(self, offset: int, slot: int) -> bool:
        """Whether an entry that waits may go at all; the Classic kind knows who may not have it yet."""
        return True

    def read(self, count: int) -> list[Entry]:
        """The next entries, as far ahead as may be looked."""
        limit = self._look_ahead()
        if limit:
            count = min(count, limit - len(self.replay))
        return super().read(count) if count > 0 else []

    def _look_ahead(self) -> int:
        """How many entries may wait; 0: no limit."""
        settings = self.settings
        each = settings.keySharedLookAheadMsgInReplayThresholdPerConsumer * len(self.consumers)
        all_ = settings.keySharedLookAheadMsgInReplayThresholdPerSubscription
        bounds = [bound for bound in (each, all_) if bound > 0]
        return min(bounds) if bounds else self.subscription.max_unacked

    def _take(self, consumer: Consumer, slot: int, permits: dict[Consumer, int]) -> bool:
        """Whether one more entry of this slot may go to this consumer; it takes one of its permits."""
        left = permits.get(consumer)
        if left is None:
            left = self._entries_for(consumer)
        if left <= 0 or (self.drains and self.draining.blocks(slot, consumer)):
            permits[consumer] = left
            return False
        permits[consumer] = left - 1
        return True

    def _entries_for(self, consumer: Consumer) -> int:
        """Entries that a consumer may get: one for a permit, within its limit of unacknowledged messages."""
        if not consumer.available:
            return 0
        average = max(1.0, consumer.avg_messages_per_entry)
        return min(consumer.permits, int(-(-consumer.room() // average)))

    def dispatch(self, entries: list[Entry], *, replay: bool = False) -> bool:
        """Share entries out by key; whether any was sent. What may not go waits, with its slot."""
        selector, waiting = self.selector, self.replay
        held: set[int] = set()
        permits: dict[Consumer, int] = {}
        shares: dict[Consumer, list[Entry]] = {}
        for entry in entries:
            slot = selector.slot(entry.hash)
            consumer = selector.select(slot)
            behind = slot in held or (not replay and not self.out_of_order and waiting.holds(slot))
            if behind or consumer is None or not self._take(consumer, slot, permits):
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
                consumer.hashes[entry.offset] = selector.slot(entry.hash)
        return bool(shares)
