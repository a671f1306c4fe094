"""Acknowledgements in transactions: their effect on consumers, on the cursor and on the dispatcher.

Rules of this file
1. On Shared and Key_Shared subscriptions, an ACK in a transaction reduces the unacknowledged messages of the consumer
   at once, even if it is a conflict. Messages of a batch that are already acknowledged are subtracted again. An entry
   without messages left is removed from the pending acks, which can unblock the consumer.
2. The client declares the batch size of an entry. Without it, the messages of a batch do not count.

Source of the rules: Consumer.individualAckWithTransaction, PersistentSubscription.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.transactions.pending_ack_handle import PendingAckHandle, Place

if TYPE_CHECKING:
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.transactions.txn_id import TxnId

__all__ = ["acknowledge", "acknowledge_cumulative", "end_transaction", "open_handle"]

_NOT_ALLOWED: Final = "org.apache.pulsar.broker.service.BrokerServiceException$NotAllowedException"


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


def acknowledge(consumer: Consumer, txn: TxnId, acks: list[tuple[Place, int | None, int]]) -> None:
    """Acknowledge entries in a transaction: places, ack sets and declared batch sizes.

    Raises Refused: TransactionConflict, or NotAllowedError if the topic has no transactions.
    """
    handle = _handle_of(consumer)
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
    elif (messages := size - bits.bit_count()) > 0:
        owner.pending[offset] -= messages
        subscription.subtract_unacked(owner, messages)


def _pending_ack(consumer: Consumer, place: Place) -> tuple[Consumer, int] | None:
    """Return the consumer that has the pending ack of an entry, and the entry's offset."""
    subscription = consumer.subscription
    ledger = subscription.topic.ledger
    offset = ledger.offset_of(*place) if ledger is not None and subscription.individual else None
    owner = subscription.owner_of(consumer, offset) if offset is not None else None
    return None if owner is None or offset is None else (owner, offset)


def acknowledge_cumulative(consumer: Consumer, txn: TxnId, place: Place, bits: int | None) -> None:
    """Acknowledge all entries up to a place in a transaction. Raises Refused like `acknowledge`."""
    handle = _handle_of(consumer)
    handle.acknowledge_cumulative(txn, place, bits)
    consumer.messages_acked += 1


def _handle_of(consumer: Consumer) -> PendingAckHandle:
    topic = consumer.subscription.topic
    if not topic.transactions_enabled:
        raise Refused(pb.NotAllowedError, f"{_NOT_ALLOWED}: Server don't support transaction ack!")
    consumer.last_acked = topic.broker.now
    handle = open_handle(consumer.subscription)
    handle.initialize(topic.broker.now)
    return handle


def end_transaction(subscription: Subscription, txn: TxnId, low_water_mark: int, *, commit: bool) -> None:
    """Apply or drop the acknowledgements of a transaction. Raises Refused if the topic has no transactions."""
    topic = subscription.topic
    if not topic.persistent:
        raise Refused(
            pb.UnknownError,
            "Handle end txn on subscription failed: Unsupported operation end txn for NonPersistentSubscription",
        )
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
