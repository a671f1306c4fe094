"""A durable subscription that was removed and created again at the latest message: messages are skipped.

## What it means

UNSUBSCRIBE removes the subscription with its cursor and its backlog. If a consumer subscribes with the same name later,
the broker creates a new subscription. With the initial position Latest, which is the default, the new subscription
receives neither the messages of the old backlog nor the messages that were stored in between. A usual cause is an
application that calls `unsubscribe` instead of `close` when it stops.

## On the wire

UNSUBSCRIBE and SUCCESS, SENDs with receipts, then SUBSCRIBE with the same subscription and `initialPosition` Latest.
The first MESSAGE has an id after these receipts.

## What would disprove it

An application that removes the subscription on purpose to skip old messages. The finding is then no problem.

## What to do

Call `close` instead of `unsubscribe` when the application stops. If the subscription must be removed, subscribe with
the initial position Earliest, or seek to the last processed message.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_subscription, count_of, subscription_subject
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord


@rule(
    "subscription",
    facts=("skipped",),
    title="a subscription that was removed and created again, and skipped messages",
    issue="apache/pulsar#17573",
)
def evaluate(subscription: SubscriptionRecord, _moment: Moment) -> Iterator[Finding]:
    """Return a finding if a new subscription skipped messages of the old subscription."""
    seen = subscription.skipped
    if not seen.count:
        return
    yield Finding(
        "error",
        "certain",
        Cause("application"),
        subscription_subject(subscription),
        f"{about_subscription(subscription)} was removed (UNSUBSCRIBE) and created again at the latest message: it "
        f"skipped {count_of(seen.count, 'message')} that it had not acknowledged or that were stored in "
        "between.",
        opposite="Nothing: the broker confirmed the UNSUBSCRIBE.",
        advice="Call close instead of unsubscribe, or subscribe at the earliest message.",
        seen=seen,
        doubts=subscription.doubts - EDGES,
    )
