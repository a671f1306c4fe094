"""A subscription: its consumers, acknowledgements and cursor (PersistentSubscription and NonPersistentSubscription).

Rules of this file
1. The subscription type is the type of its consumers. The first consumer sets it. It cannot change while a consumer is
   attached.
2. On Shared and Key_Shared subscriptions, entries are acknowledged individually, and the acknowledgement is credited to
   the consumer that has the pending ack. On Exclusive and Failover subscriptions, only the cursor is updated. If a list
   of ids contains a position that does not exist yet, the rest of the list is not processed.
3. A non-durable subscription is removed when its last consumer leaves. A reset of its cursor also disconnects the
   consumers, but the topic keeps the cursor for the next subscription with the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.topics import acknowledgements
from pcli.minibroker.topics.consumer import Consumer
from pcli.minibroker.topics.dispatcher import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    Dispatcher,
    PersistentDispatcher,
    conflict,
)
from pcli.minibroker.topics.rate_limiters import DispatchRateLimiter

if TYPE_CHECKING:
    from pcli.minibroker.storage.cursor import ManagedCursor
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.topics.topic_documents import SubscriptionDocuments
    from pcli.minibroker.transactions.pending_ack_handle import PendingAckHandle

Position = tuple[int, int, int | None]
"""The position in an acknowledgement: ledger, entry, and the remaining bits of a batch (None for the whole entry)."""

_SMALL_BACKLOG: Final = 1000
"""Number of entries below which a backlog is small (MINIMUM_BACKLOG_FOR_EXPIRY_CHECK)."""


class Subscription:
    """One subscription of one topic."""

    def __init__(
        self,
        topic: Topic,
        name: str,
        cursor: ManagedCursor | None,
        *,
        durable: bool = True,
        properties: dict[str, str] | None = None,
        replicated: bool = False,
    ) -> None:
        self.topic = topic
        self.name = name
        self.cursor = cursor
        """The cursor, or None on non-persistent topics."""
        self.durable = durable
        self.properties = properties or {}
        self.replicated = replicated
        """A value that is stored and shown. There is no replication."""
        self.max_unacked, self.delayed_delivery, self.delayed_tick = 0, True, 1000
        self.pauses_on_ack_state = False
        """Whether new entries are not read while not all ranges of acknowledged entries can be stored."""
        self.limits: DispatchRateLimiter | None = None
        self._forget_consumers()
        self.last_active = topic.broker.now
        """The last time (ms) at which a consumer was detached, or else the time of creation (getLastActive)."""
        self._noted_mark_delete = cursor.mark_delete if cursor is not None else -1
        self._resetting = False
        self.keeps_trimmed = False
        """Whether the cursor of a reader with readCompacted may remain before the trimmed position."""
        self.documents: SubscriptionDocuments | None = None
        """The documents of a durable subscription; None without durable storage."""
        self.pending_ack_handle: PendingAckHandle | None = None
        """The acknowledgements in open transactions, or None before the first one."""
        self.policies_changed()

    def _forget_consumers(self) -> None:
        """Set the type, the counters and the times to those of a new subscription."""
        self.kind = -1
        """The subscription type (SubType) of the consumers, or -1 before the first one."""
        self.dispatcher: Dispatcher | None = None
        self._persistent_dispatcher: PersistentDispatcher | None = None
        """The dispatcher on a persistent topic."""
        self._individual_dispatcher: PersistentDispatcher | None = None
        """The dispatcher, or None if entries are not acknowledged and redelivered individually."""
        self.expired = 0
        """Total number of expired messages."""
        self.last_expire = self.last_mark_delete = self.last_flow = 0
        self.messages_out_removed = self.bytes_out_removed = 0
        """Messages and bytes sent to consumers that have left."""

    def policies_changed(self) -> None:
        """Apply changed policies."""
        effective = self.topic.effective
        self.max_unacked = effective("maxUnackedMessagesPerSubscription")
        self.delayed_delivery = effective("delayedDeliveryEnabled")
        self.delayed_tick = effective("delayedDeliveryTickTimeMillis")
        self.pauses_on_ack_state = effective("dispatcherPauseOnAckStatePersistentEnabled")
        # On a real broker, the cursor of a subscription with consumers is active, and such cursors are exempt without
        # the setting.
        limited = self.cursor is not None and self.topic.broker.settings.dispatchThrottlingOnNonBacklogConsumerEnabled
        limiters = self.topic.effective_policies.dispatch_limiters(self) if limited else []
        self.limits = DispatchRateLimiter(self.topic.broker, limiters) if limiters else None
        for consumer in self.consumers:
            self._set_unacked_limit(consumer)
            if consumer.blocked and self._individual_dispatcher is not None:
                self._individual_dispatcher.add_permits(consumer, consumer.unblock())
        if self._individual_dispatcher is not None:
            self._individual_dispatcher.decrease_unacked(0)
            self._individual_dispatcher.check_ack_state(pause=False)

    def _set_unacked_limit(self, consumer: Consumer) -> None:
        limited = consumer.individual and self.durable
        consumer.max_unacked = self.topic.effective("maxUnackedMessagesPerConsumer") if limited else 0

    @property
    def consumers(self) -> list[Consumer]:
        """The attached consumers."""
        return self.dispatcher.consumers if self.dispatcher is not None else []

    @property
    def active(self) -> Consumer | None:
        """The active consumer of an Exclusive or Failover subscription."""
        return self.dispatcher.active if self.dispatcher is not None else None

    @property
    def individual(self) -> bool:
        """Whether single entries are acknowledged and redelivered (isIndividualAckMode)."""
        return self._individual_dispatcher is not None

    @property
    def backlog(self) -> int:
        """Number of unacknowledged entries (msgBacklog)."""
        return self.cursor.backlog if self.cursor is not None else 0

    @property
    def messages_out(self) -> int:
        """Number of messages sent to all consumers (msgOutCounter)."""
        return self.messages_out_removed + sum(one.messages_out for one in self.consumers)

    @property
    def bytes_out(self) -> int:
        """Number of bytes sent to all consumers (bytesOutCounter)."""
        return self.bytes_out_removed + sum(one.bytes_out for one in self.consumers)

    @property
    def used_by_transactions(self) -> bool:
        """Whether a transaction has used the topic or this subscription."""
        return self.pending_ack_handle is not None or self.topic.transaction_buffer is not None

    def use_transactions(self) -> None:
        """Record that a transaction uses the topic or this subscription."""
        if self._persistent_dispatcher is not None:
            self._persistent_dispatcher.transactional = True

    # -- consumers -------------------------------------------------------------------------------------------------

    def check_type(self, kind: int, meta: pb.KeySharedMeta | None) -> None:
        """Raise Refused if the attached consumers have a different type or a different Key_Shared mode."""
        if not self.consumers:
            return
        why = conflict(self.kind, kind, self.consumers[0].key_shared_meta, meta)
        if why:
            raise Refused(pb.ConsumerBusy, f"Subscription is of different type. {why}")

    def blocking_consumer(self, kind: int, meta: pb.KeySharedMeta | None) -> Consumer | None:
        """Return an attached consumer that conflicts with a new Exclusive consumer or with declared ranges, or None."""
        if not self.consumers or self.dispatcher is None:
            return None
        if kind == EXCLUSIVE:
            return self.consumers[0]
        return self.dispatcher.overlapping_consumer(meta) if kind == KEY_SHARED and meta is not None else None

    def add_consumer(self, consumer: Consumer, kind: int) -> None:
        """Attach a consumer, and replace a dispatcher of a different type. If Refused is raised, nothing is changed."""
        meta = consumer.key_shared_meta
        if self.dispatcher is None or kind != self.kind or not (self.consumers or self.dispatcher.accepts_mode(meta)):
            self.dispatcher = self.topic.make_dispatcher(self, kind, meta)
            self.kind = kind
            persistent = self.dispatcher if isinstance(self.dispatcher, PersistentDispatcher) else None
            self._persistent_dispatcher = persistent
            self._individual_dispatcher = persistent if persistent is not None and persistent.individual else None
        self._set_unacked_limit(consumer)
        self.dispatcher.add(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Detach a consumer. If it was the last consumer, remove a non-durable subscription."""
        if self.dispatcher is None or consumer not in self.dispatcher.consumers:
            return
        self.dispatcher.remove(consumer)
        self.last_active = self.topic.broker.now
        self.messages_out_removed += consumer.messages_out
        self.bytes_out_removed += consumer.bytes_out
        lasting = self.durable and self.cursor is not None
        if not self.dispatcher.consumers and not lasting:
            self.topic.remove_subscription(self)
            if self._resetting and self.cursor is not None:
                self.topic.detached_cursors[self.name] = self.cursor

    def disconnect(self) -> None:
        """Close all consumers."""
        for consumer in list(self.consumers):
            consumer.disconnect()

    def send_reached_end_of_topic(self) -> None:
        """Send REACHED_END_OF_TOPIC to all consumers."""
        for consumer in list(self.consumers):
            consumer.send_reached_end_of_topic()

    def topic_terminated(self) -> None:
        """Send REACHED_END_OF_TOPIC if the subscription has no backlog."""
        if self.cursor is not None and self.backlog == 0:
            self.send_reached_end_of_topic()
        if self._persistent_dispatcher is not None:
            self._persistent_dispatcher.pending_read_at_end = self.waits

    @property
    def waits(self) -> bool:
        """Whether the dispatcher has a pending read, which waits for new entries (havePendingRead)."""
        cursor = self.cursor
        return cursor is not None and not cursor.has_more and any(one.available for one in self.consumers)

    # -- entries ---------------------------------------------------------------------------------------------------

    def entries_available(self) -> None:
        """Record that the topic has new entries."""
        dispatcher = self._persistent_dispatcher
        if dispatcher is not None and dispatcher.consumers:
            dispatcher.entries_available()

    def publish(self, entry: Entry) -> None:
        """Deliver or drop an entry of a non-persistent topic."""
        if self.dispatcher is not None:
            self.dispatcher.publish(entry)

    # -- acknowledgements ------------------------------------------------------------------------------------------

    def acknowledge(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Acknowledge individual entries, or individual messages in a batch.

        From the first position after the last entry on, only the pending acks and the redelivery counts change. Raises
        Refused (UnknownError) for such a position, if the version reports it.
        """
        cursor, ledger = self.cursor, self.topic.ledger
        consumer.last_acked = self.topic.broker.now
        if cursor is None or ledger is None:
            return
        last, in_range = ledger.position(ledger.next - 1), True
        if self.topic.broker.version.acks_out_of_range_fail:
            acknowledgements.check_positions(consumer, positions, last)
        for ledger_id, entry_id, bits in positions:
            offset = ledger.offset_of(ledger_id, entry_id)
            if offset is None:
                in_range = in_range and (ledger_id, entry_id) <= last
                continue
            if bits is not None and not acknowledgements.acknowledge_messages(consumer, offset, bits, store=in_range):
                continue
            if in_range and cursor.delete(offset):
                consumer.messages_acked += 1
                if self.pending_ack_handle is not None:
                    self.pending_ack_handle.forget((ledger_id, entry_id))
            self._entry_acknowledged(consumer, offset)
        self._after_ack()

    def acknowledge_places(self, acks: Mapping[tuple[int, int], int | None]) -> None:
        """Acknowledge entries or messages of batches for a committed transaction."""
        assert self.cursor is not None
        assert self.topic.ledger is not None
        handle, cursor = self.pending_ack_handle, self.cursor
        for place, bits in acks.items():
            offset = self.topic.ledger.offset_of(*place)
            if offset is None:
                continue
            if bits is not None:
                bits &= cursor.ack_sets.get(offset, bits)
            if bits:
                if not cursor.is_deleted(offset):
                    cursor.put_ack_set(offset, bits)
                continue
            cursor.delete(offset)
            if handle is not None:
                handle.forget(place)
            if self._individual_dispatcher is not None:
                self._individual_dispatcher.entry_acknowledged(offset)
        self._after_ack()

    def redeliver_aborted(self, offsets: list[int]) -> None:
        """Redeliver the entries that an aborted transaction has acknowledged."""
        if self._persistent_dispatcher is not None:
            self._persistent_dispatcher.redeliver_aborted(offsets)

    def acknowledge_cumulative(self, consumer: Consumer | None, position: Position, properties: dict[str, int]) -> None:
        """Acknowledge all entries up to a position. An ACK on Shared and Key_Shared subscriptions has no effect.

        The position need not be that of an entry: a client that acknowledges a part of the first batch of a ledger
        sends the entry id -1 if batch index acks are off. A position after the last entry has no effect.
        ``consumer`` is the sender of the ACK, or None for a committed transaction. Raises Refused (UnknownError) if the
        version reports a position after the last entry or before the mark-delete position.
        """
        cursor, ledger = self.cursor, self.topic.ledger
        if consumer is not None:
            consumer.last_acked = self.topic.broker.now
        if cursor is None or ledger is None or (consumer is not None and self.individual):
            return
        ledger_id, entry_id, bits = position
        offset = ledger.last_up_to(ledger_id, entry_id)
        if consumer is not None and self.topic.broker.version.acks_out_of_range_fail:
            acknowledgements.check_cumulative_position(consumer, position, offset)
        if offset is None or (ledger_id, entry_id) <= cursor.mark_delete_position:
            return
        if bits is not None and ledger.position(offset) == (ledger_id, entry_id):
            before = cursor.ack_sets.get(offset)
            enabled = self.topic.broker.settings.acknowledgmentAtBatchIndexLevelEnabled
            partial = enabled and bits and not cursor.is_deleted(offset)
            if partial and (before is None or _first_bit(bits) > _first_bit(before)):
                cursor.put_ack_set(offset, bits)
            if bits or not enabled:
                offset -= 1
        if consumer is not None:
            consumer.messages_acked += max(0, offset - cursor.mark_delete)
        cursor.mark_delete_to(offset)
        if entry_id == -1:
            cursor.skip_closed_ledger()
        cursor.put_properties(properties)
        self._after_ack()

    def acknowledge_silently(self, offset: int) -> None:
        """Acknowledge an entry that no consumer can read."""
        if self.cursor is not None:
            self.cursor.delete(offset)
            self._after_ack()

    def _entry_acknowledged(self, consumer: Consumer, offset: int) -> None:
        """Remove the pending ack of an acknowledged entry."""
        dispatcher = self._individual_dispatcher
        if dispatcher is None:
            return
        owner = self.owner_of(consumer, offset)
        if owner is not None:
            self.subtract_unacked(owner, owner.pending[offset])
            self.remove_pending_ack(owner, offset)
        dispatcher.entry_acknowledged(offset)

    def owner_of(self, consumer: Consumer, offset: int) -> Consumer | None:
        """Return the consumer that has the pending ack of an entry: the given one, another one, or None."""
        if offset in consumer.pending:
            return consumer
        return next((one for one in self.consumers if offset in one.pending), None)

    def subtract_unacked(self, owner: Consumer, messages: int) -> None:
        """Subtract messages from the unacknowledged ones. The result is negative if they are subtracted twice."""
        assert self._individual_dispatcher is not None
        owner.unacked -= messages
        self._individual_dispatcher.decrease_unacked(messages)

    def remove_pending_ack(self, owner: Consumer, offset: int) -> None:
        """Remove the pending ack of an entry, and unblock its consumer if enough is acknowledged."""
        dispatcher = self._individual_dispatcher
        assert dispatcher is not None
        del owner.pending[offset]
        dispatcher.pending_ack_removed(owner, offset)
        self.unblock(owner)

    def unblock(self, owner: Consumer) -> None:
        """Unblock a consumer if enough is acknowledged."""
        assert self._individual_dispatcher is not None
        if owner.blocked:
            self._individual_dispatcher.add_permits(owner, owner.unblock())

    def _after_cursor_change(self) -> None:
        self._mark_delete_moved()
        if self.pauses_on_ack_state and self._individual_dispatcher is not None:
            self._individual_dispatcher.check_ack_state()

    def _after_ack(self) -> None:
        self._after_cursor_change()
        ledger = self.topic.ledger
        if ledger is not None and ledger.terminated and self.backlog == 0:
            self.send_reached_end_of_topic()

    def _mark_delete_moved(self) -> None:
        """Record that the mark-delete position moved, and trim ledgers if it moved to another ledger (updateCursor)."""
        cursor, ledger = self.cursor, self.topic.ledger
        if cursor is None or ledger is None or cursor.mark_delete == self._noted_mark_delete:
            return
        before, self._noted_mark_delete = self._noted_mark_delete, cursor.mark_delete
        self.last_mark_delete = self.topic.broker.now
        if len(ledger.ledgers) > 1 and ledger.position(before)[0] != ledger.position(cursor.mark_delete)[0]:
            self.topic.trim()

    def run(self) -> None:
        """Acknowledge trimmed entries at the end of a turn.

        Only non-durable cursors can be before the trimmed position.
        """
        if self.topic.ledger is not None and not self.keeps_trimmed:
            self.advance_mark_delete(self.topic.ledger.first - 1)

    # -- cursor position -----------------------------------------------------------------------------------------------

    def reset(self, offset: int, bits: int | None = None) -> None:
        """Disconnect the consumers (on Failover only the active consumer), then move the cursor (-1: to the start)."""
        cursor = self.cursor
        if cursor is None:
            return
        self._resetting = True
        if self.kind in (EXCLUSIVE, FAILOVER) and self.active is not None:
            if self.active.closed:
                # No consumer is elected after a reset (disconnectActiveConsumers): the next one closes it again.
                self.active.send_close()
            self.active.disconnect()
        else:
            self.disconnect()
        self._resetting = False
        cursor.seek(offset)
        if self.topic.ledger is not None and 0 <= offset < self.topic.ledger.first:
            # A compacted entry whose ledger was deleted.
            cursor.mark_delete, cursor.read_position = offset - 1, offset
        if bits is not None and self.topic.broker.settings.acknowledgmentAtBatchIndexLevelEnabled:
            cursor.put_ack_set(offset, bits)

    def reload(self) -> None:
        """Forget what an unload of the topic loses: counters, times and, in some versions, the ack sets of batches."""
        self._forget_consumers()
        if self.cursor is not None:
            self.cursor.reload(keep_ack_sets=self.topic.broker.version.keeps_ack_sets)
        if self.pending_ack_handle is not None:
            self.pending_ack_handle.reload(self.topic.broker.now)

    @property
    def resetting(self) -> bool:
        """Whether a reset is disconnecting the consumers."""
        return self._resetting

    def offset_at(self, timestamp: int) -> int:
        """Return the offset of the first entry published at or after a time (ms since 1970)."""
        assert self.topic.ledger is not None
        return self.topic.ledger.newest_before(timestamp) + 1

    def skip(self, entries: int) -> None:
        """Acknowledge the next unacknowledged entries without disconnecting consumers."""
        if self.cursor is not None and entries > 0:
            self.cursor.clear_properties()
            self.advance_mark_delete(self.cursor.nth_unacked(entries))

    def skip_all(self) -> None:
        """Acknowledge all entries, and remove the properties of the cursor (ManagedCursorImpl.asyncClearBacklog)."""
        if self.topic.ledger is not None and self.cursor is not None:
            self.cursor.open_ledger()
            self.cursor.clear_properties()
            self.advance_mark_delete(self.topic.ledger.next - 1)

    def expire_messages(self, seconds: int) -> bool:
        """Acknowledge entries that are older than ``seconds``. Return whether the subscription was checked.

        A subscription with consumers and a small backlog is checked only if its first message is older
        (PersistentSubscription.expireMessages).
        """
        cursor, ledger, backlog = self.cursor, self.topic.ledger, self.backlog
        if cursor is None or ledger is None or not backlog:
            return False
        newest = ledger.newest_before(self.topic.broker.now - seconds * 1000)
        old = seconds != 0 and newest > cursor.mark_delete
        if self.consumers and backlog < _SMALL_BACKLOG and not old:
            return False
        self.advance_mark_delete(newest, expired=True)
        self.expired += backlog - self.backlog
        self.last_expire = self.topic.broker.now
        return True

    def advance_mark_delete(self, offset: int, *, expired: bool = False) -> None:
        """Move the mark-delete position forward on behalf of the broker. Only an expiry updates its time.

        The consumers of a terminated topic receive REACHED_END_OF_TOPIC only after acknowledgements and empty reads.
        """
        if self.cursor is None:
            return
        before = self.last_mark_delete
        self.cursor.mark_delete_to(offset)
        if self._persistent_dispatcher is not None:
            self._persistent_dispatcher.cursor_moved()
        self._after_cursor_change()
        if not expired:
            self.last_mark_delete = before


def _first_bit(bits: int) -> int:
    """Return the position of the lowest set bit, counted from 1."""
    return (bits & -bits).bit_length()
