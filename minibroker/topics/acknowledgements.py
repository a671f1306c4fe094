"""Acknowledgements of single messages of a batch, of positions out of range, and in transactions.

Rules of this file
1. The acknowledged messages of a batch are subtracted from the unacknowledged messages of the consumer that has the
   entry. Their number follows from the ack set of the cursor, or else from the messages left in the pending ack.
2. The pending ack is removed when no message is left that is neither acknowledged nor pending in a transaction. It does
   not change the number of unacknowledged messages.
3. On Shared and Key_Shared subscriptions, an ACK in a transaction reduces the unacknowledged messages of the consumer
   at once, even if it is a conflict. The client declares the batch size of an entry. Without it, the messages of the
   batch do not count.
4. On Exclusive and Failover subscriptions, only the cursor is updated.

Source of the rules: Consumer.individualAckNormal, getAckedCountForBatchIndexLevelEnabled and
individualAckWithTransaction, PersistentSubscription.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused, service_exception
from pcli.minibroker.topics.dispatcher import PersistentDispatcher
from pcli.minibroker.transactions.pending_ack_handle import PendingAckHandle, Place

if TYPE_CHECKING:
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Position, Subscription
    from pcli.minibroker.transactions.txn_id import TxnId


def acknowledge_messages(consumer: Consumer, offset: int, bits: int, *, store: bool) -> bool:
    """Store the remaining bits of a batch. Return True if none remain and the entry is therefore acknowledged.

    If ``store`` is False, only the pending ack changes.
    """
    subscription = consumer.subscription
    cursor = subscription.cursor
    assert cursor is not None
    if cursor.is_deleted(offset):
        return False
    before = cursor.ack_sets.get(offset)
    after = bits if before is None else before & bits
    if after and store:
        cursor.put_ack_set(offset, after)
    if subscription.individual:
        _update_pending_ack(subscription, consumer, offset, before, bits)
    return not after


def _update_pending_ack(
    subscription: Subscription, consumer: Consumer, offset: int, before: int | None, bits: int
) -> None:
    owner = subscription.owner_of(consumer, offset)
    if owner is not None and subscription.topic.broker.settings.acknowledgmentAtBatchIndexLevelEnabled:
        left = owner.pending[offset]
        count = left - bits.bit_count() if before is None else before.bit_count() - (before & bits).bit_count()
        _subtract_messages(subscription, owner, offset, count)
    complete = not (bits if before is None else before & bits)
    if not complete and subscription.topic.transactions_enabled:
        complete = _record(subscription, offset, bits)
    if complete and owner is not None:
        subscription.remove_pending_ack(owner, offset)


def _subtract_messages(subscription: Subscription, owner: Consumer, offset: int, count: int) -> None:
    """Subtract acknowledged messages of a batch from the unacknowledged messages of an entry and its consumer."""
    version, left = subscription.topic.broker.version, owner.pending[offset]
    if count > 0 and (count <= left or version.unacked_can_be_negative):
        owner.pending[offset] = left - count
        subscription.subtract_unacked(owner, count)
        if version.partial_acks_unblock:
            subscription.unblock(owner)


def _record(subscription: Subscription, offset: int, bits: int) -> bool:
    """Record messages that transactions must not acknowledge again. Return whether no message of the entry is left."""
    assert subscription.topic.ledger is not None
    handle, place = open_handle(subscription), subscription.topic.ledger.position(offset)
    handle.record_batch_ack(place, bits)
    return handle.is_complete(place)


# -- positions out of range --------------------------------------------------------------------------------------------

_LEDGER_EXCEPTION: Final = "org.apache.bookkeeper.mledger.ManagedLedgerException: "
_MARKED_POSITION: Final = "org.apache.bookkeeper.mledger.impl.ManagedCursorImpl$MarkDeletingMarkedPosition: "


def check_positions(consumer: Consumer, positions: Sequence[Position], last: Place) -> None:
    """Raise Refused (UnknownError) if a position is after the last entry, whose position is ``last``.

    The entries before this position are acknowledged, but their pending acks remain: the real broker removes them when
    the whole ACK has succeeded. Without this success, it removes the redelivery counts of all entries, and, if
    transactions are enabled, the pending acks of batches of which no message is left.
    """
    subscription = consumer.subscription
    good = list(takewhile(lambda one: one[:2] <= last, positions))
    if len(good) < len(positions):
        for ledger_id, entry_id, bits in positions:
            _forget_refused(consumer, (ledger_id, entry_id), bits)
        subscription.acknowledge_places({(one[0], one[1]): one[2] for one in good})
        raise Refused(pb.UnknownError, f"{_LEDGER_EXCEPTION}Invalid mark deleted position")


def _forget_refused(consumer: Consumer, place: Place, bits: int | None) -> None:
    """Remove what the real broker removes although an ACK fails."""
    subscription = consumer.subscription
    assert subscription.cursor is not None
    assert subscription.topic.ledger is not None
    offset, dispatcher = subscription.topic.ledger.offset_of(*place), subscription.dispatcher
    if offset is None or not subscription.individual or subscription.cursor.is_deleted(offset):
        return
    assert isinstance(dispatcher, PersistentDispatcher)
    if bits is not None and subscription.topic.transactions_enabled and _record(subscription, offset, bits):
        owner = subscription.owner_of(consumer, offset)
        if owner is not None:
            subscription.remove_pending_ack(owner, offset)
    dispatcher.entry_acknowledged(offset)


def check_cumulative_position(consumer: Consumer, position: Position, offset: int | None) -> None:
    """Raise Refused (UnknownError) if a position is after the last entry or before the mark-delete position.

    ``offset`` is that of the last entry at or before the position, or None after the last entry. The ACK of a part of a
    batch concerns the entry before the batch (ManagedCursorImpl.asyncMarkDelete). The reader of a compacted topic can
    acknowledge entries of deleted ledgers (PersistentSubscription.acknowledgeMessageAsync).
    """
    subscription = consumer.subscription
    assert subscription.cursor is not None
    assert subscription.topic.ledger is not None
    ledgers = subscription.topic.ledger.ledgers
    if consumer.read_compacted and not subscription.durable and all(one.id != position[0] for one in ledgers):
        return
    if offset is None:
        raise Refused(pb.UnknownError, f"{_LEDGER_EXCEPTION}Invalid mark deleted position")
    attempted: Place = position[:2]
    current = subscription.cursor.mark_delete_position
    if position[2]:
        attempted = subscription.topic.ledger.position(offset - 1)
    if attempted < current:
        text = "Mark deleting an already mark-deleted position. Current mark-delete: "
        text += f"{current[0]}:{current[1]} -- attempted mark delete: {attempted[0]}:{attempted[1]}"
        raise Refused(pb.UnknownError, f"{_LEDGER_EXCEPTION}{_MARKED_POSITION}{text}")


# -- in transactions ---------------------------------------------------------------------------------------------------


_NO_TRANSACTIONS: Final = service_exception("NotAllowedException", "Server don't support transaction ack!")


def open_handle(subscription: Subscription) -> PendingAckHandle:
    """Return the pending acks of a subscription of a topic with transactions; create them if there are none."""
    handle = subscription.pending_ack_handle
    if handle is None:
        target = _CursorAcks(subscription)
        handle = PendingAckHandle(target, subscription.topic.full_name, subscription.name)
        subscription.pending_ack_handle = handle
        if subscription.documents is not None:
            handle.on_change = subscription.documents.pending_acks_changed
        subscription.use_transactions()
    return handle


def acknowledge_next(consumer: Consumer, ids: Sequence[tuple[int, int, int, int]]) -> bool:
    """Acknowledge ids (ledger, entry, …) at once if they are those of the next unacknowledged entries, in any order.

    Return False, without any change, if `Subscription.acknowledge` is needed.
    """
    subscription, numbers = consumer.subscription, [one[1] for one in ids]
    cursor, ledger = subscription.cursor, subscription.topic.ledger
    if cursor is None or ledger is None or subscription.individual or subscription.pending_ack_handle is not None:
        return False
    count = len(set(numbers))
    if not count or count != len(ids) or max(numbers) - min(numbers) != count - 1 or len({one[0] for one in ids}) > 1:
        return False
    last = ledger.offset_of(ids[0][0], max(numbers))
    if last is None or last - count != cursor.mark_delete:
        return False
    before = cursor.backlog
    consumer.last_acked = subscription.topic.broker.now
    subscription.acknowledge_cumulative(None, (ids[0][0], max(numbers), None), {})
    consumer.messages_acked += before - cursor.backlog
    return True


def acknowledge(consumer: Consumer, txn: TxnId, acks: list[tuple[Place, int | None, int]]) -> None:
    """Acknowledge entries in a transaction: places, ack sets and declared batch sizes.

    Raises Refused: TransactionConflict, or NotAllowedError if the topic has no transactions.
    """
    handle = _handle_of(consumer, txn)
    for place, bits, size in acks:
        _subtract(consumer, place, bits, size)
    try:
        handle.acknowledge(txn, acks)
    finally:
        for place, bits, _ in acks:
            pending = _pending_ack(consumer, place)
            if pending is not None and bits is not None and handle.is_complete(place):
                consumer.subscription.remove_pending_ack(*pending)
    consumer.messages_acked += sum(
        max(1, size) if bits is None else max(0, size - bits.bit_count()) for _, bits, size in acks
    )


def _subtract(consumer: Consumer, place: Place, bits: int | None, size: int) -> None:
    """Subtract acknowledged messages from the unacknowledged ones. Remove the pending ack of a whole entry."""
    pending = _pending_ack(consumer, place)
    if pending is None:
        return
    subscription, (owner, offset) = consumer.subscription, pending
    if bits is None:
        subscription.subtract_unacked(owner, owner.pending[offset])
        subscription.remove_pending_ack(owner, offset)
    else:
        _subtract_messages(subscription, owner, offset, size - bits.bit_count())


def _pending_ack(consumer: Consumer, place: Place) -> tuple[Consumer, int] | None:
    """Return the consumer that has the pending ack of an entry, and the entry's offset."""
    subscription = consumer.subscription
    ledger = subscription.topic.ledger
    offset = ledger.offset_of(*place) if ledger is not None and subscription.individual else None
    owner = subscription.owner_of(consumer, offset) if offset is not None else None
    return None if owner is None or offset is None else (owner, offset)


def acknowledge_cumulative(consumer: Consumer, txn: TxnId, place: Place, bits: int | None) -> None:
    """Acknowledge all entries up to a place in a transaction. Raises Refused like `acknowledge`."""
    handle = _handle_of(consumer, txn)
    handle.acknowledge_cumulative(txn, place, bits)
    consumer.messages_acked += 1


def _handle_of(consumer: Consumer, txn: TxnId) -> PendingAckHandle:
    topic = consumer.subscription.topic
    if not topic.transactions_enabled:
        raise Refused(pb.NotAllowedError, _NO_TRANSACTIONS)
    consumer.last_acked = topic.broker.now
    if topic.name.domain == "segment":
        topic.broker.scalable_transactions.used(txn, topic.full_name, consumer.subscription.name)
    handle = open_handle(consumer.subscription)
    handle.initialize(topic.broker.now)
    return handle


def end_transaction(subscription: Subscription, txn: TxnId, low_water_mark: int, *, commit: bool) -> None:
    """Apply or drop the acknowledgements of a transaction. Raises Refused if the topic has no transactions."""
    topic = subscription.topic
    if not topic.persistent:
        raise Refused(pb.UnknownError, "Unsupported operation end txn for NonPersistentSubscription")
    if not topic.transactions_enabled:
        raise Refused(pb.NotAllowedError, "The transaction is disabled")
    handle = open_handle(subscription)
    handle.initialize(topic.broker.now)
    if commit:
        handle.commit(txn, low_water_mark)
    else:
        handle.abort(txn, low_water_mark)


class _CursorAcks:
    """The cursor and the dispatcher of a subscription, as the target of its pending acks."""

    def __init__(self, subscription: Subscription) -> None:
        assert subscription.cursor is not None
        assert subscription.topic.ledger is not None
        self._subscription = subscription
        self._cursor = subscription.cursor
        self._ledger = subscription.topic.ledger

    @property
    def mark_delete_place(self) -> Place:
        """The mark-delete position."""
        return self._cursor.mark_delete_position

    def is_acknowledged(self, place: Place) -> bool:
        """Return whether the whole entry is acknowledged."""
        if place <= self.mark_delete_place:
            return True
        offset = self._ledger.offset_of(*place)
        return offset is not None and self._cursor.is_deleted(offset)

    def ack_set(self, place: Place) -> int | None:
        """Return the stored ack set of an entry, or None."""
        offset = self._ledger.offset_of(*place)
        return None if offset is None else self._cursor.ack_sets.get(offset)

    def apply_individual(self, acks: Mapping[Place, int | None]) -> None:
        """Acknowledge entries. The values are ack sets, or None for whole entries."""
        self._subscription.acknowledge_places(acks)

    def apply_cumulative(self, place: Place, bits: int | None) -> None:
        """Acknowledge all entries up to a place."""
        self._subscription.acknowledge_cumulative(None, (*place, bits), {})

    def redeliver_aborted(self, places: Collection[Place], *, ended: bool) -> None:
        """Redeliver entries. On Exclusive and Failover, the low water mark does not restart delivery."""
        subscription = self._subscription
        if ended or subscription.individual:
            offsets = sorted(offset for place in places if (offset := self._ledger.offset_of(*place)) is not None)
            subscription.redeliver_aborted(offsets)
