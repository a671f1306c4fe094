"""Entries of a Key_Shared subscription that wait because another consumer holds earlier entries with the same key.

## What it means

Key_Shared preserves the order of each key. While a consumer holds unacknowledged messages with a key (more precisely,
with the hash of the key), no other consumer receives later messages with that hash. When a consumer joins or leaves,
keys are reassigned; messages of a key that is still held wait until the held messages are acknowledged ("draining"). If
the holder sends no acknowledgement, its keys are blocked for all consumers and, after several thousand entries of
look-ahead, the whole subscription is blocked.

## On the wire

MESSAGEs to one consumer, no ACKs for some of them, and no delivery of later entries with the same keys, although their
new owner has permits and receives other keys. In brokers before 4.0, and in the classic dispatcher, a new consumer
waits until all entries that were read before it joined are acknowledged.

## What would disprove it

If the holder acknowledges its messages with those keys, the entries must be delivered within milliseconds. Keys in a
STICKY range without an owner wait for a consumer, not for an ACK: see slots-unowned.

## What to do

Check the holder with never-acked and paused-client. If receiver queues are smaller, keys are reassigned sooner. Since
Pulsar 4.0, `drainingHashes` in the consumer's statistics lists the waiting hashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import about_subscription, at, span, subscription_subject, when
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

_DURATION: Final = Threshold("stuck-blocked-hash.duration", 1_000_000_000, "minimum wait of the entries")
"""Shorter waits are normal, because a key moves when its messages are acknowledged."""

_NOT_ACKNOWLEDGED: Final = Cause(
    "application",
    "likely",
    ("a client library that did not send the acknowledgements",),
    "The log of the application that holds the messages.",
)


@rule(
    "subscription",
    facts=("hash_waits", "hash_holder"),
    title="entries that wait because another consumer holds earlier entries with the same key",
    issue="apache/pulsar#23429",
    because_of=("stuck-unacked-limit", "paused-client", "never-acked"),
    thresholds=(_DURATION,),
)
def evaluate(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for the current wait, or for the longest wait."""
    waits = subscription.hash_waits
    lasts = waits.since_ns >= 0
    since, lasted = (
        (waits.since_ns, moment.now_ns - waits.since_ns) if lasts else (waits.longest_from_ns, waits.longest_ns)
    )
    if not waits.count or lasted < moment.value(_DURATION):
        return
    first, last = (waits.since_frame, 0) if lasts else waits.longest_frames
    holder = printable(subscription.hash_holder) or "another consumer holds messages with their key"
    how_long = f"since {at(first)}, {when(moment, since)}" if lasts else f"for {span(lasted)}, until {at(last)}"
    yield Finding(
        "error" if lasts else "note",
        "likely",
        _NOT_ACKNOWLEDGED,
        subscription_subject(subscription),
        f"Entries of {about_subscription(subscription)} {'have been waiting' if lasts else 'waited'} {how_long}: "
        f"{holder} without acknowledging the messages.",
        since,
        [first, last],
        (
            f"An ACK from the holder after {at(first)} would release the entries."
            if lasts
            else f"The wait ended with {at(last)}."
        ),
        "Find out why the holder does not acknowledge its messages. If receiver queues are smaller, keys are "
        "reassigned sooner.",
        until_ns=0 if lasts else since + lasted,
        doubts=subscription.doubts - {"end"},
    )
