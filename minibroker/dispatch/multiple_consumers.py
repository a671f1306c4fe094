"""PersistentDispatcherMultipleConsumers: the dispatcher for Shared.

Rules of this file
1. Entries to redeliver are sent before new entries, lowest offset first. Entries at or below the mark-delete position
   are not redelivered.
2. Each consumer in turn receives a slice of entries, not a single message. The slice is limited by the consumer's
   permits, its limit on unacknowledged messages and ``dispatcherMaxRoundRobinBatchSize``. Better priority levels are
   served first.
3. If no consumer is available for an entry, it is added to the entries to redeliver. Its redelivery count does not
   change: only REDELIVER increases it.
4. All chunks of a message are sent to one consumer while it has permits.
5. When the first consumer joins, delivery restarts at the mark-delete position.
6. If an abort adds entries to redeliver before they are read again, they are sent twice, except those at the read
   position: it moves past them (verified on 4.2.4).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pcli.minibroker.dispatch.delayed_delivery import InMemoryDelayedDeliveryTracker
from pcli.minibroker.dispatch.redelivery_controller import MessageRedeliveryController
from pcli.minibroker.dispatch.round_robin import RoundRobin
from pcli.minibroker.topics.dispatcher import NO_COUNTS, PersistentDispatcher

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription


class PersistentDispatcherMultipleConsumers(PersistentDispatcher):
    """The dispatcher that sends to all consumers in turn."""

    individual = True

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self.replay = MessageRedeliveryController()
        self.round_robin = RoundRobin(self.consumers)
        self.total_permits = 0
        self.total_unacked = 0
        self.blocked = False
        """Whether the subscription has reached its limit on unacknowledged messages. While it is True, no new entries
        are read."""
        self._ack_state_paused = False
        """Whether no new entries are read because not all ranges of acknowledged entries can be stored
        (blockedDispatcherOnCursorDataCanNotFullyPersist)."""
        self._broker_limit = self.broker.unacked_message_limit
        self.delayed_tracker: InMemoryDelayedDeliveryTracker | None = None
        self._delay_timer: Timer | None = None
        self._delay_target = -1
        """The delivery time for which the timer is set, or -1."""
        self._chunks: dict[str, Consumer] = {}
        """The consumer that received the first chunk of each message, by uuid."""

    # -- consumers -------------------------------------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        """Add a consumer. If it is the first consumer, delivery restarts at the mark-delete position."""
        if not self.consumers:
            self.cursor.rewind()
            self.replay.clear_waiting()
            if self.delayed_tracker is not None:
                self.delayed_tracker.clear()
                self._cancel_delay_timer()
        self.round_robin.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer. Its pending entries are redelivered to the other consumers."""
        self.consumers.remove(consumer)
        self.total_permits -= consumer.permits
        self.decrease_unacked(consumer.unacked)
        consumer.unacked = 0
        self._chunks = {uuid: one for uuid, one in self._chunks.items() if one is not consumer}
        if not self.consumers:
            self._empty()
            return
        for offset in sorted(consumer.pending):
            if offset > self.cursor.mark_delete:
                self.replay.add(offset, consumer.hashes.get(offset, 0))
        consumer.pending.clear()
        self.broker.schedule(self)

    def _empty(self) -> None:
        self.pending_read_at_end = False
        self.replay.clear()
        self.total_permits = self.total_unacked = 0
        self.blocked = False
        if self._broker_limit is not None:
            self._broker_limit.changed(self)
        self._cancel_delay_timer()

    # -- events --------------------------------------------------------------------------------------------------------

    def add_permits(self, consumer: Consumer, permits: int) -> None:
        """Add the permits to the total, and schedule the dispatcher."""
        self.total_permits += permits
        self.broker.schedule(self)

    def redeliver(self, consumer: Consumer, offsets: list[int] | None, epoch: int) -> None:
        """Redeliver the given entries, or all pending entries, of a consumer, and increase their redelivery counts."""
        requested = (
            sorted(consumer.pending) if offsets is None else sorted({o for o in offsets if o in consumer.pending})
        )
        for offset in requested:
            self.replay.add(offset, consumer.hashes.get(offset, 0))
        self._remove_pending_acks(consumer, requested, always=offsets is not None)
        if self.settings.subscriptionRedeliveryTrackerEnabled:
            self.replay.count(requested)
        self.total_permits += consumer.unblock(requested=True)
        self.broker.schedule(self)

    def redeliver_aborted(self, offsets: list[int]) -> None:
        """Redeliver the given entries after the mark-delete position, and increase their redelivery counts.

        If there are no consumers, the entries are delivered to the first consumer anyway.
        """
        requested = [offset for offset in offsets if offset > self.cursor.mark_delete]
        for offset in requested if self.consumers else ():
            self.replay.add(offset)
        if self.settings.subscriptionRedeliveryTrackerEnabled:
            self.replay.count(requested)
        self.broker.schedule(self)

    def entry_acknowledged(self, offset: int) -> None:
        """Remove the redelivery count of an entry in an ACK. The entry still waits if the ACK had no effect on it."""
        replay = self.replay
        if not replay.counts and not replay.waiting:
            return
        if self.cursor.is_deleted(offset):
            replay.forget(offset)
        else:
            replay.counts.pop(offset, None)

    def decrease_unacked(self, messages: int) -> None:
        """Decrease the number of unacknowledged messages. Reading resumes below half of the limit."""
        self.total_unacked -= messages
        limit = self.subscription.max_unacked
        over = self._broker_limit is not None and self._broker_limit.over
        if self.blocked and (limit <= 0 or (self.total_unacked < limit // 2 and not over)):
            self.unblock()
        if self._broker_limit is not None:
            self._broker_limit.changed(self)

    def check_ack_state(self, *, pause: bool = True) -> None:
        """Pause or resume the reading of new entries (checkAndResumeIfPaused)."""
        before, limit = self._ack_state_paused, self.settings.managedLedgerMaxUnackedRangesToPersist
        may_pause = (pause or before) and self.subscription.pauses_on_ack_state
        self._ack_state_paused = may_pause and self.cursor.deleted_range_count > limit
        if before and not self._ack_state_paused:
            self.broker.schedule(self)

    def unblock(self) -> None:
        """Read new entries again."""
        self.blocked = False
        self.broker.schedule(self)

    def cursor_moved(self) -> None:
        """Remove entries up to the new mark-delete position from the redelivery queue and from the pending acks."""
        done = self.cursor.mark_delete
        self.replay.forget_below(done + 1)
        for consumer in self.consumers:
            if self._remove_pending_acks(consumer, [one for one in consumer.pending if one <= done]):
                self.total_permits += consumer.unblock()
        self.check_ack_state()
        self.broker.schedule(self)

    def _remove_pending_acks(self, consumer: Consumer, offsets: list[int], *, always: bool = False) -> bool:
        """Remove pending acks and subtract the messages left in them. Return whether messages were left.

        If the sum is negative, it is not subtracted, unless ``always`` is true.
        """
        messages = 0
        for offset in offsets:
            messages += consumer.pending.pop(offset)
            self.pending_ack_removed(consumer, offset)
        if messages > 0 or always:
            consumer.unacked -= messages
            self.decrease_unacked(messages)
        return messages > 0

    # -- reading ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Read and send until permits or entries run out."""
        while (first := self.round_robin.any_available()) is not None:
            size = self.read_size(max(self.total_permits, first.permits), first.avg_messages_per_entry)
            limits = self.subscription.limits
            if limits:
                size = limits.entries(self, size)
                if not size:
                    return
            size = max(1, size)
            self.replay_due(size)
            if self._run_replay(size):
                continue
            if self.blocked or self._ack_state_paused or self._is_lookahead_exhausted():
                return
            entries = self.read(size)
            if not entries:
                self.check_end_of_topic()
                return
            self.dispatch(entries)

    def _run_replay(self, size: int) -> bool:
        """Send entries to redeliver. Return whether any were sent."""
        while self.replay:
            offsets = self.replay_offsets(size)
            if not offsets:
                return False
            entries = []
            for offset in offsets:
                if offset == self.cursor.read_position:
                    self.cursor.read_position += 1
                entry = None if self.cursor.is_deleted(offset) else self.ledger.entry(offset)
                if entry is None:
                    self.replay.forget(offset)
                else:
                    entries.append(entry)
            if entries:
                return self.dispatch(entries, replay=True)
        return False

    def replay_offsets(self, size: int) -> list[int]:
        """Return the offsets to redeliver now."""
        return self.replay.lowest(size)

    def _is_lookahead_exhausted(self) -> bool:
        """Return whether so many entries with a fixed delay are waiting that reading pauses: no later entry is due."""
        tracker = self.delayed_tracker
        if tracker is None or not tracker.size:
            return False
        limit = self.settings.delayedDeliveryFixedDelayDetectionLookahead
        return 0 < limit <= tracker.size and tracker.fixed_delays

    # -- delayed delivery ------------------------------------------------------------------------------------------

    def track_delayed(self, entry: Entry) -> bool:
        """Keep an entry until it is due. Return False if it is due."""
        if not self.subscription.delayed_delivery:
            return False
        tracker, version, first = self.delayed_tracker, self.broker.version, False
        if tracker is None:
            first = version.tracks_first_delayed
            tracker = self.delayed_tracker = InMemoryDelayedDeliveryTracker(
                self.subscription.delayed_tick,
                strict=self.settings.isDelayedDeliveryDeliverAtTimeStrict,
                bitmap_bytes=version.delayed_index_bytes,
            )
        elif tracker.tick != self.subscription.delayed_tick:
            tracker.set_tick(self.subscription.delayed_tick)
        if tracker.add(entry.offset, entry.deliver_at, self.broker.now):
            self._set_delay_timer()
            return True
        if first:
            self.replay.add(entry.offset)
        return first

    def replay_due(self, size: int) -> bool:
        """Add the due delayed entries to the redelivery queue. Return whether there were any."""
        if self.delayed_tracker is None or not self.delayed_tracker.size:
            return False
        due = self.delayed_tracker.due(self.broker.now, size)
        for offset in due:
            if offset > self.cursor.mark_delete:
                self.replay.add(offset)
        self._set_delay_timer()
        return bool(due)

    def _set_delay_timer(self) -> None:
        tracker, now = self.delayed_tracker, self.broker.now
        target = tracker.next_delivery_time if tracker is not None else -1
        if target == self._delay_target:
            return
        self._cancel_delay_timer()
        if tracker is None or target < now:
            return  # the next read returns the entries of a group whose time has passed
        deadline = max(target, tracker.last_tick_run + tracker.tick)
        due = self.broker.delayed_delivery_timer.expiry(now, deadline)
        self._delay_timer = self.broker.call_at(due, partial(self._delay_expired, tracker))
        self._delay_target = target

    def _cancel_delay_timer(self) -> None:
        if self._delay_timer is not None:
            self._delay_timer.cancel()
        self._delay_timer, self._delay_target = None, -1

    def _delay_expired(self, tracker: InMemoryDelayedDeliveryTracker) -> None:
        self._delay_timer, self._delay_target = None, -1
        tracker.last_tick_run = self.broker.now
        self.broker.schedule(self)

    # -- sending ---------------------------------------------------------------------------------------------------

    def dispatch(self, entries: list[Entry], *, replay: bool = False) -> bool:
        """Distribute entries. Return whether any were sent; the others are added to the redelivery queue."""
        chunked = False
        messages = 0
        for entry in entries:
            if not entry.parsed:
                entry.parse()
            messages += entry.messages
            chunked = chunked or entry.chunked
        if chunked:
            return self._dispatch_chunks(entries, replay=replay)
        average = max(1, messages // len(entries))
        start = 0
        while start < len(entries):
            consumer = self.round_robin.next()
            if consumer is None:
                break
            slice_ = entries[start : start + self.slice_size(consumer, messages, average)]
            self.send(consumer, slice_, replay=replay)
            messages -= sum([entry.messages for entry in slice_])
            start += len(slice_)
        self._add_to_replay(entries[start:])
        return start > 0

    def slice_size(self, consumer: Consumer, messages: int, average: int) -> int:
        """Return the number of entries in one slice."""
        possible = min(messages, consumer.permits, consumer.unacked_room())
        return max(1, min(self.settings.dispatcherMaxRoundRobinBatchSize, -(-possible // average)))

    def _add_to_replay(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.replay.add(entry.offset)

    def send(self, consumer: Consumer, entries: list[Entry], *, replay: bool) -> list[Entry]:
        """Send entries to one consumer after filtering. Return the sent entries."""
        if replay:
            for entry in entries:
                self.replay.remove(entry.offset)
        kept = self.filter_entries(entries)
        if not kept:
            return kept
        ack_sets = self.ack_sets(kept) if self.transactional else self.cursor.ack_sets
        messages = consumer.deliver(kept, self.replay.counts or NO_COUNTS, ack_sets)
        self.total_permits -= messages
        self.total_unacked += messages
        if 0 < self.subscription.max_unacked <= self.total_unacked:
            self.blocked = True
        if self._broker_limit is not None:
            self._broker_limit.changed(self)
        if self.subscription.limits:
            self.subscription.limits.charge(messages, kept)
        return kept

    def _dispatch_chunks(self, entries: list[Entry], *, replay: bool) -> bool:
        """Send chunks to the consumer of the first chunk, and other entries by permits (SharedConsumerAssignor).

        Each entry counts as one permit, even if it is a batch.
        """
        shares: dict[Consumer, list[Entry]] = {}
        permits: dict[Consumer, int] = {}
        current: Consumer | None = None
        for entry in entries:
            metadata = entry.metadata
            consumer: Consumer | None
            if metadata is None or not entry.chunked or not metadata.chunk_id:
                if current is None or permits[current] <= 0:
                    current = self.round_robin.next()
                consumer = current
                if consumer is not None and metadata is not None and entry.chunked:
                    self._chunks[metadata.uuid] = consumer
            else:
                consumer = self._chunks.get(metadata.uuid)
            if consumer is None or permits.setdefault(consumer, consumer.permits) <= 0:
                self.replay.add(entry.offset)
                continue
            permits[consumer] -= 1
            shares.setdefault(consumer, []).append(entry)
            if metadata is not None and entry.chunked and metadata.chunk_id == metadata.num_chunks_from_msg - 1:
                self._chunks.pop(metadata.uuid, None)
        for consumer, share in shares.items():
            self.send(consumer, share, replay=replay)
        return bool(shares)
