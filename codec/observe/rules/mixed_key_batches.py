"""Batches with several keys on a Key_Shared subscription: the broker delivers all keys of a batch to one consumer.

## What it means

The broker does not open batches. It dispatches a batch by the key in its metadata, which is the key of the first
message. The messages with other keys go to the same consumer, although their keys belong to others. A key that occurs
in several batches can therefore be processed by two consumers at the same time, in any order.

## On the wire

SEND with a batch whose messages have different keys; MESSAGE with this batch to the consumer of the first key. The
finding is a warning if a consumer received a key again after another consumer that was still attached. Otherwise it is
a note.

## What would disprove it

With key-based batching, all messages of a batch have one key. If the subscription has only one consumer, the order is
kept.

## What to do

Use key-based batching in the producer: `BatcherBuilder.KEY_BASED` in Java, `BatchingType.KeyBased` in Python and C++,
`KeyBasedBatchBuilder` in Go. Alternatively, disable batching. `pcli stats keys` lists the consumers of each key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import (
    about_subscription,
    count_of,
    first_of,
    frames_text,
    subscription_subject,
)
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

_BATCHING: Final = Cause(
    "application", "likely", ("a client library without key-based batching",), "The batching type of the producer."
)


@rule(
    "subscription",
    facts=("mixed_batches", "key_batches", "split_keys", "allow_out_of_order", "topic.segment"),
    title="batches with several keys on a Key_Shared subscription",
    issue="apache/pulsar#7121",
    effect=("batch mixes keys", "batches mix keys"),
)
def evaluate(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if messages of a batch have different keys."""
    mixed, split = subscription.mixed_batches, subscription.split_keys
    if not mixed.count or subscription.topic.segment is not None:
        return  # consumers of a segment share entry buckets, and a batch contains the messages of one bucket
    split_text = (
        f" {count_of(split.count, 'time')}, a key came back to a consumer from another attached consumer: "
        f"key {printable(split.sample)} is the first ({frames_text(split.frames)})."
        if split.count
        else ""
    )
    yield Finding(
        "warning" if split.count and not subscription.allow_out_of_order else "note",
        "certain",
        _BATCHING,
        subscription_subject(subscription),
        f"{mixed.count} of {count_of(subscription.key_batches, 'batch', 'batches')} of "
        f"{about_subscription(subscription)} {'contains' if mixed.count == 1 else 'contain'} messages with different "
        f"keys{first_of(mixed)} ({frames_text(mixed.frames)}). The broker delivers a batch to the consumer of its "
        f"first key.{split_text}",
        opposite="A single key in each batch would disprove the finding.",
        advice="Use key-based batching in the producer.",
        seen=mixed,
        doubts=subscription.doubts - EDGES,
    )
