"""Messages of a non-persistent topic that the broker dropped because the consumers had no permits.

## What it means

A broker does not store the messages of a non-persistent topic. If no consumer of a subscription has permits when a
message arrives, the broker drops the message for this subscription. The producer receives a receipt nevertheless. The
application takes messages from its receiver queue more slowly than producers send them, or does not take them at all.

## On the wire

SEND and SEND_RECEIPT, and no MESSAGE to the subscription, whose consumers have received as many messages as they
requested with FLOW. In the broker's statistics the `msgDropRate` of the subscription is above 0.

## What would disprove it

A FLOW before the SEND that the capture does not contain.

## What to do

Use a larger receiver queue or more consumers, or a persistent topic if no message may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_subscription, count_of, frames_text, subscription_subject
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

_ONE_ACTIVE: Final = ("Exclusive", "Failover")
"""Subscription types with one active consumer. A consumer on another connection cannot have received the messages."""

_NO_PERMITS: Final = Cause(
    "application",
    "likely",
    ("a client library that returns permits late",),
    "The size of the receiver queue, and the processing time in the application's log.",
)


@rule(
    "subscription",
    facts=("dropped",),
    title="messages of a non-persistent topic that were dropped because the consumers had no permits",
    issue="apache/pulsar#1967",
    because_of=("stuck-no-permits", "paused-client"),
    effect=("message was dropped", "messages were dropped"),
)
def evaluate(subscription: SubscriptionRecord, _moment: Moment) -> Iterator[Finding]:
    """Return a finding if the broker dropped messages."""
    seen = subscription.dropped
    if not seen.count:
        return
    yield Finding(
        "error",
        "certain" if subscription.type in _ONE_ACTIVE else "likely",
        _NO_PERMITS,
        subscription_subject(subscription),
        f"The broker dropped {count_of(seen.count, 'message')} for {about_subscription(subscription)}: no attached "
        f"consumer had permits when they arrived ({frames_text(seen.frames)}). The topic is not persistent, so they "
        "are lost.",
        opposite="A consumer with permits at the time of these SENDs would disprove the finding; there was none.",
        advice="Use a larger receiver queue or more consumers, or a persistent topic if no message may be lost.",
        seen=seen,
        until_ns=seen.last_ns,
        doubts=(subscription.doubts | subscription.topic.doubts) - EDGES,
    )
