"""Many redeliveries per second: most deliveries are repetitions.

## What it means

The consumers receive hundreds of messages per second but make no progress, because the messages are always the same.
The application rejects all of them (a dependency is down), or the acknowledgement timeout is shorter than the
processing time, so that every message expires before it is processed. The broker reads each message from storage again,
and the network load is high.

## On the wire

A rapid series of REDELIVER_UNACKNOWLEDGED_MESSAGES and of MESSAGEs with increasing redelivery counts, and few ACKs.

## What would disprove it

A single seek or reconnect also causes many redeliveries at once; these are not counted.

## What to do

Enable a redelivery back-off (negativeAckRedeliveryBackoff, ackTimeoutRedeliveryBackoff) and a dead letter policy. Make
the application pause its consumer while the dependency is down instead of rejecting all messages. See
redelivered-after-nack and redelivered-after-ack-timeout for the cause of the requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import about_subscription, count_of, subscription_subject, when
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

_RATE: Final = Threshold("redelivery-storm.rate", 50, "minimum number of redelivered entries per second", is_time=False)

_REQUESTED: Final = Cause(
    "application",
    "likely",
    ("a client library that requests the same messages again",),
    "The application's log, or a thread dump of its process, at that time.",
)

_REPEATABLE: Final = ("nack", "ack_timeout", "requested", "rewind", "twice")
"""Causes that can continue indefinitely, unlike seeks and reconnects."""


@rule(
    "subscription",
    facts=("again", "redelivered_per_second", "redelivered_peak_ns", "delivered"),
    title="more redeliveries than first deliveries, many per second",
    issue="apache/pulsar#18910",
    because_of=("poison-message", "ack-timeout-too-short"),
    thresholds=(_RATE,),
    effect=("redelivery was requested", "redeliveries were requested"),
)
def evaluate(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if redeliveries are dense and exceed the first deliveries."""
    seen = {name: tally for name, tally in subscription.again.items() if name in _REPEATABLE}
    count = sum(tally.count for tally in seen.values())
    if subscription.redelivered_per_second < moment.value(_RATE) or count * 2 <= subscription.delivered:
        return
    first = min(seen.values(), key=lambda tally: tally.first_ns)
    yield Finding(
        "error",
        "certain",
        _REQUESTED,
        subscription_subject(subscription),
        f"{count} of {count_of(subscription.delivered, 'delivered message')} of "
        f"{about_subscription(subscription)} were redeliveries, at most "
        f"{count_of(subscription.redelivered_per_second, 'entry', 'entries')} per second "
        f"({when(moment, subscription.redelivered_peak_ns)}).",
        first.first_ns,
        [frame for tally in seen.values() for frame in tally.frames],
        "A similar number of ACKs would show that the consumers make progress.",
        "Enable a redelivery back-off and a dead letter policy. Pause the consumer while its dependency is down.",
        count=count,
        doubts=subscription.doubts - EDGES,
    )
