"""Counting of messages per subscription: first deliveries, redeliveries, and messages that were passed over.

Rules of this file
1. A message is available to a subscription if it was stored after the subscription began, or if it is delivered. The
   counts of the topic at the beginning are therefore subtracted, and earlier messages are added when they are
   delivered. Messages of aborted transactions are not available, but some clients' transactions are delivered.
2. A message whose SEND is not in the capture is counted when it is delivered. If the receipt of the SEND follows, the
   message is counted with the receipt instead.
"""

from __future__ import annotations

from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState


def begin(subscription: SubscriptionState, time_ns: int, frame: int) -> None:
    """Begin a subscription that exists from a frame on, unless it has begun before."""
    if subscription.opened:
        return
    subscription.opened, subscription.known_ns = True, time_ns
    counts, topic = subscription.record.messages, subscription.topic
    counts.start, counts.start_ns = topic.record.messages.available, time_ns
    counts.started_open = frozenset(topic.uncommitted)


def messages_in(lifecycle: Lifecycle, delivery: Delivery) -> int:
    """Return the messages of a delivery; 0 for a chunk, except the last chunk."""
    return 0 if lifecycle.chunks and delivery.chunk + 1 != lifecycle.num_chunks else delivery.messages


def count_first(subscription: SubscriptionState, lifecycle: Lifecycle, delivery: Delivery) -> None:
    """Count the first delivery of a message."""
    counts, messages = subscription.record.messages, messages_in(lifecycle, delivery)
    counts.delivered += messages
    if not lifecycle.sent_frame or _is_early(subscription, lifecycle):
        counts.early += messages


def _is_early(subscription: SubscriptionState, lifecycle: Lifecycle) -> bool:
    """Return whether the counts of available messages do not contain a message: it was stored earlier, or aborted."""
    counts, aborted = subscription.record.messages, subscription.topic.aborted
    if 0 <= lifecycle.receipt_ns < counts.start_ns and lifecycle.txn not in counts.started_open:
        return True
    return bool(aborted) and (lifecycle.ledger, lifecycle.entry) in aborted


def count_redelivery(
    subscription: SubscriptionState, lifecycle: Lifecycle, delivery: Delivery, *, counted_first: bool = False
) -> None:
    """Count a redelivery. ``counted_first`` states that it was counted as a first delivery before."""
    counts, messages = subscription.record.messages, messages_in(lifecycle, delivery)
    counts.redelivered += messages
    if counted_first:
        counts.delivered -= messages
        counts.early -= messages


def count_aborted(topic: TopicState, lifecycle: Lifecycle) -> None:
    """Count a message of an aborted transaction for the subscriptions that have received it nevertheless."""
    for name, deliveries in lifecycle.deliveries.items():
        record = topic.record.subscriptions.get(name)
        if record is not None:
            record.messages.early += deliveries[0].messages


def known_by_receipt(topic: TopicState, lifecycle: Lifecycle) -> None:
    """Process the receipt of a message that was delivered before: it counts as stored, no longer as delivered only."""
    for name, deliveries in lifecycle.deliveries.items():
        record = topic.record.subscriptions.get(name)
        if record is not None:
            record.messages.early -= deliveries[0].messages


def count_passed_over(subscription: SubscriptionState, at: Position, delivery: Delivery) -> None:
    """Count the message at a position that the dispatcher did not deliver before a later message."""
    lifecycle = subscription.topic.lifecycles.get(at)
    if lifecycle is None or at in subscription.topic.aborted or subscription.record.name in lifecycle.deliveries:
        return
    if (lifecycle.ledger, lifecycle.entry) == at:
        subscription.record.passed_over.add(
            delivery.time_ns, lifecycle.sent_frame, delivery.frame, sample=lifecycle.id, count=lifecycle.messages
        )
