"""A receiver queue of 1 on a shared subscription with long processing times.

## What it means

A receiver queue of 1 is often intended to give every consumer one message at a time. But the queue holds messages in
addition to the message that the application is processing: when the application takes a message, the next message is
delivered and waits until processing is finished, even if another consumer is idle. The intended setting is a queue of
0.

## On the wire

FLOW 1, MESSAGE, FLOW 1, MESSAGE, then the ACK of the first message a long time later. If the queue size is 0, the
second FLOW follows only when the application calls receive again.

## What would disprove it

If the subscription has only one consumer, no other consumer could process the message. If processing takes only
milliseconds, the waiting time is negligible.

## What to do

Set the receiver queue to 0, or accept that one message waits. A queue of 0 is not suitable for a consumer of a
partitioned topic or of several topics: clients refuse it or use one queue per topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_consumer, consumer_subject, span
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_QUEUE: Final = Cause(
    "application",
    "likely",
    ("a client library that requests one message ahead although the queue is 0",),
    "The configuration of the consumer: receiverQueueSize.",
)

_LONG_NS: Final = 1_000_000_000
"""Minimum mean time from MESSAGE to ACK. If the mean time is shorter, the waiting time is negligible."""

_ACKS: Final = 3
"""Minimum number of acknowledgements for a mean."""

_AT_ONCE: Final = 1.5
"""Minimum mean number of messages held. It is one if the queue size is 0, and two if the queue size is 1 and the
application is busy."""


@rule(
    "consumer",
    facts=("permits.queue", "type", "ack_ages", "ack_age_total_ns", "subscription.consumers"),
    title="a receiver queue of 1 on a shared subscription with long processing times",
    issue="apache/pulsar#15703",
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if a message waits during processing although other consumers could process it."""
    acks, subscription = consumer.ack_ages, consumer.subscription
    if consumer.permits.queue != 1 or consumer.type not in ("Shared", "Key_Shared") or subscription is None:
        return
    if acks.count < _ACKS or len(subscription.consumers) < 2 or acks.last_ns <= acks.first_ns:
        return
    mean = consumer.ack_age_total_ns // acks.count
    # Little's law: messages held = acknowledgements per second times the time that each message is held.
    at_once = mean * (acks.count - 1) / (acks.last_ns - acks.first_ns)
    if mean < _LONG_NS or at_once < _AT_ONCE:
        return
    yield Finding(
        "note",
        "likely",
        _QUEUE,
        consumer_subject(consumer),
        f"{about_consumer(consumer)} has a receiver queue of 1 and needs {span(mean)} per message. Meanwhile another "
        "message, which other consumers could process, waits in its queue.",
        acks.first_ns,
        [consumer.permits.last_flow_frame, *acks.frames],
        "A FLOW that follows only after the ACK would show a queue of 0.",
        "Set the receiver queue to 0 if every consumer should hold one message at a time.",
        doubts=consumer.doubts - EDGES,
    )
