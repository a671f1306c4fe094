"""Large batches on a shared subscription: one consumer gets more than it asked for, the others get nothing.

## What it means

A broker sends an entry whole. A consumer with one permit left gets a batch of a thousand, and stands at -999 until its
application has worked that off; meanwhile other consumers of the subscription, with permits, wait for the next entry.
With batches larger than the receiver queues the load cannot be spread.

## On the wire

MESSAGE with `num_messages_in_batch` far above the permits of its consumer, again and again, and consumers of the same
subscription with permits that get nothing. In the broker's statistics `availablePermits` is negative and
`avgMessagesPerEntry` large.

## What speaks for the opposite

A permit balance that dips below zero by a batch now and then is normal. It matters when others starve beside it.

## What to do

Smaller batches at the producer (`batchingMaxMessages`), or larger receiver queues so that permits cover some batches.
For work that takes long per message: no batches. `preciseDispatcherFlowControl` in the broker makes its guess better.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    about_subscription,
    certainty,
    count_of,
    first_of,
    frames_text,
    subscription_subject,
    why_unsure,
)
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

__all__ = ["RULE"]


def look(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """Batches beyond the permits of one while another got nothing."""
    seen = subscription.large_batches
    if not seen.count:
        return
    doubts = subscription.doubts - EDGES
    yield Finding(
        "large-batches",
        "note" if seen.count == 1 else "warning",
        "application",
        certainty(doubts, "likely"),
        subscription_subject(subscription),
        f"{count_of(seen.count, 'batch', 'batches')} of {about_subscription(subscription)} had more messages than the "
        f"consumer had asked for, while another one with permits got nothing{first_of(seen)} "
        f"({frames_text(seen.frames)}).",
        seen.first_ns,
        seen.frames,
        "MESSAGEs to the other consumers at that time: there are none." + why_unsure(doubts),
        "Smaller batches at the producer, or larger receiver queues.",
    )


RULE = Rule(
    name="large-batches",
    group="subscription",
    facts=("large_batches",),
    title="batches larger than what a consumer asked for, while others get nothing",
    issue="apache/pulsar#6054",
    look=look,
)
