"""Large batches on a shared subscription: one consumer exceeds its permits, and other consumers receive nothing.

## What it means

A broker dispatches an entry as a whole. A consumer with one permit left can receive a batch of a thousand messages and
then has -999 permits until its application has processed them. Meanwhile other consumers of the subscription have
permits but wait for the next entry. If batches are larger than the receiver queues, the load cannot be distributed.

## On the wire

MESSAGE with `num_messages_in_batch` far above the permits of its consumer, repeatedly, while other consumers of the
subscription have permits but receive nothing. In the broker's statistics `availablePermits` is negative and
`avgMessagesPerEntry` is large.

## What would disprove it

A permit balance that is sometimes negative after a batch is normal. A negative balance is a problem only if other
consumers receive nothing.

## What to do

Use smaller batches in the producer (`batchingMaxMessages`), or larger receiver queues, so that the permits cover
several batches. If each message takes a long time to process, do not use batches. `preciseDispatcherFlowControl`
improves the broker's estimate.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.finding_text import (
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


def evaluate(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if batches exceeded one consumer's permits while another received nothing."""
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
        f"consumer had permits, while another consumer with permits received nothing{first_of(seen)} "
        f"({frames_text(seen.frames)}).",
        seen.first_ns,
        seen.frames,
        "MESSAGEs to the other consumers at that time would disprove the finding; there are none." + why_unsure(doubts),
        "Use smaller batches in the producer, or larger receiver queues.",
    )


RULE = Rule(
    name="large-batches",
    group="subscription",
    facts=("large_batches",),
    title="batches larger than a consumer's permits while other consumers receive nothing",
    issue="apache/pulsar#6054",
    evaluate=evaluate,
)
