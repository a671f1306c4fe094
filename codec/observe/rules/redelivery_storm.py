"""The same messages over and over: most of what is sent was sent before.

## What it means

The consumers get hundreds of messages in a second and get nowhere, because they are the same ones: the application
rejects all of them at once (something that it needs is down), or an acknowledgement time-out is shorter than the work,
so that every message comes back before it is done. The broker reads each from storage again, and the network is busy.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES in a dense row, MESSAGEs with growing redelivery counts, few ACKs.

## What speaks for the opposite

A single seek or reconnect brings many messages at once too; those are not counted here.

## What to do

Switch on a redelivery back-off (negativeAckRedeliveryBackoff, ackTimeoutRedeliveryBackoff) and a dead letter policy.
Let the application pause its consumer while what it needs is down, rather than reject everything. See
redelivered-after-nack and redelivered-after-ack-timeout for who asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    about_subscription,
    certainty,
    count_of,
    subscription_subject,
    when,
    why_unsure,
)
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

__all__ = ["RULE"]

_PER_SECOND: Final = 50
"""Redeliveries in a second from which on it is a storm: a person would no longer follow them in a log."""

_ASKED: Final = ("nack", "ack_timeout", "rewind", "twice")
"""Causes that can go on for ever; seeks and reconnects are over when they are over."""


def look(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """Whether repetitions are dense, and more than half of all."""
    seen = {name: tally for name, tally in subscription.again.items() if name in _ASKED}
    count = sum(tally.count for tally in seen.values())
    if subscription.redelivered_per_second < _PER_SECOND or count * 2 < subscription.entries_out:
        return
    doubts = subscription.doubts - EDGES
    first = min(seen.values(), key=lambda tally: tally.first_ns)
    yield Finding(
        "redelivery-storm",
        "error",
        "application",
        certainty(doubts, "likely"),
        subscription_subject(subscription),
        f"{count} of {count_of(subscription.entries_out, 'entry', 'entries')} that {about_subscription(subscription)} "
        f"was sent were repetitions, at most {subscription.redelivered_per_second} in a second "
        f"({when(moment, subscription.redelivered_peak_ns)}).",
        first.first_ns,
        [frame for tally in seen.values() for frame in tally.frames],
        "ACKs in like number would show that the work goes on all the same." + why_unsure(doubts),
        "A redelivery back-off and a dead letter policy; pause the consumer while what it needs is down.",
    )


RULE = Rule(
    name="redelivery-storm",
    group="subscription",
    facts=("again", "redelivered_per_second", "redelivered_peak_ns", "entries_out"),
    title="more repetitions than new messages, many in a second",
    issue="apache/pulsar#18910",
    look=look,
)
