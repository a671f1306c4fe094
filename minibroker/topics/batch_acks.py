"""Acknowledgements of single messages of a batch: their effect on the cursor and on the unacknowledged messages.

Rules of this file
1. The messages are subtracted from the unacknowledged messages of the consumer that has the entry. Their number follows
   from the ack set of the cursor, or else from the messages left in the pending ack.
2. The pending ack is removed when no message is left that is neither acknowledged nor pending in a transaction. Only
   this removal unblocks the consumer. It does not change the number of unacknowledged messages.
3. On Exclusive and Failover subscriptions, only the cursor is updated.

Source of the rules: Consumer.individualAckNormal and getAckedCountForBatchIndexLevelEnabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.topics.transactional_acks import open_handle

if TYPE_CHECKING:
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

__all__ = ["acknowledge_messages"]


def acknowledge_messages(subscription: Subscription, consumer: Consumer, offset: int, bits: int) -> bool:
    """Store the remaining bits of a batch. Return True if none remain and the entry is therefore acknowledged."""
    cursor = subscription.cursor
    assert cursor is not None
    if cursor.is_deleted(offset):
        return False
    before = cursor.ack_sets.get(offset)
    after = bits if before is None else before & bits
    if after:
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
        if count > 0:
            owner.pending[offset] = left - count
            subscription.subtract_unacked(owner, count)
    complete = not (bits if before is None else before & bits)
    if not complete and subscription.topic.transactions_enabled:
        complete = _record(subscription, offset, bits)
    if complete and owner is not None:
        subscription.remove_pending_ack(owner, offset)


def _record(subscription: Subscription, offset: int, bits: int) -> bool:
    """Record messages that transactions must not acknowledge again. Return whether no message of the entry is left."""
    assert subscription.topic.ledger is not None
    handle, place = open_handle(subscription), subscription.topic.ledger.position(offset)
    handle.record_batch_ack(place, bits)
    return handle.is_complete(place)
