"""The messages that a subscription has not acknowledged yet, counted from the entries after its cursor.

Rules of this file
1. The lifecycles of the entries contain the numbers of messages. Entries that no frame contains are transaction markers
   or were written by other producers. In the second case the number of messages is unknown.
2. Messages of open transactions are not available yet. Messages of aborted transactions never are.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.wire.bits import left_of


class Remaining(NamedTuple):
    """Messages of a subscription that are not acknowledged."""

    delivered: int = 0
    """Messages that were delivered."""
    waiting: int = 0
    """Messages that were not delivered yet."""
    early: int = 0
    """The waiting messages that were stored before the subscription began, or whose SEND is not in the capture."""
    unseen: int = 0
    """Entries whose messages are unknown."""


def remaining_of(subscription: SubscriptionState) -> Remaining | None:
    """Return the messages that are not acknowledged, or None if the cursor's position is unknown."""
    topic, mark, name = subscription.topic, subscription.mark_delete, subscription.record.name
    if not topic.record.persistent or subscription.starts_at_next or topic.last[0] < 0:
        return Remaining()
    if mark is None:
        return None
    delivered = waiting = early = known = 0
    start_ns, started_open = subscription.record.messages.start_ns, subscription.record.messages.started_open
    hidden = topic.aborted | topic.markers | {at for places in topic.uncommitted.values() for at in places}
    for at, lifecycle in chain(topic.lifecycles.items(), topic.complete.items()):
        if at <= mark or at in subscription.acked:
            continue
        known += at not in hidden
        if at in hidden or (lifecycle.ledger, lifecycle.entry) != at:
            continue
        bits = subscription.ack_sets.get(at)
        messages = lifecycle.messages if bits is None else left_of(bits, lifecycle.messages)
        if name in lifecycle.deliveries:
            delivered += messages
            continue
        waiting += messages
        if not lifecycle.sent_frame or (lifecycle.receipt_ns < start_ns and lifecycle.txn not in started_open):
            early += messages
    acked = len(subscription.acked)
    invisible = sum(at > mark and at not in subscription.acked for at in hidden)
    unseen = topic.count(mark, topic.last) - acked - invisible - known
    return Remaining(delivered, waiting, early, max(0, unseen))


def count_removed(subscription: SubscriptionState) -> None:
    """Count the messages of a subscription that is removed."""
    counts, remaining = subscription.record.messages, remaining_of(subscription) or Remaining()
    if subscription.unidentified or not subscription.opened:
        return
    counts.removed_delivered += remaining.delivered
    counts.removed_waiting += remaining.waiting
    counts.removed_stored += subscription.topic.record.messages.available - counts.start + remaining.early
    counts.start = subscription.topic.record.messages.available
