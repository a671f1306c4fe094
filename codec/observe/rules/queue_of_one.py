"""Settings that fight each other: a receiver queue of 1 on a shared subscription with work that takes long.

## What it means

People set the receiver queue to 1 so that every consumer has one message at a time. But the queue is what the client
holds beside the message that the application works on: as soon as that is taken out, the next one comes and waits, for
as long as the work takes, while another consumer may have nothing to do. What is meant is a queue of 0.

## On the wire

FLOW 1, MESSAGE, FLOW 1, MESSAGE, then ACK of the first a long time later. With a queue of 0 the second FLOW comes only
after the application asks again.

## What speaks for the opposite

Only one consumer on the subscription: then nobody else could take it. Work that takes milliseconds: then it does not
matter.

## What to do

Set the receiver queue to 0 (not for partitioned topics or several topics at once, where clients refuse it or use one
each), or accept that one message waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import EDGES, about_consumer, certainty, consumer_subject, span, why_unsure
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]

_LONG_NS: Final = 1_000_000_000
"""Mean time from MESSAGE to ACK from which on waiting messages are felt."""

_ACKS: Final = 3
"""Fewer acknowledgements say nothing of a habit."""

_AT_ONCE: Final = 1.5
"""Messages held at a time, in the mean: one with a queue of 0, two with a queue of 1 whose application is busy."""


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Whether one message waits behind the one that is worked on, while others could take it."""
    acks, subscription = consumer.ack_ages, consumer.subscription
    if consumer.permits.queue != 1 or consumer.type not in ("Shared", "Key_Shared") or subscription is None:
        return
    if acks.count < _ACKS or len(subscription.consumers) < 2 or acks.last_ns <= acks.first_ns:
        return
    mean = consumer.ack_age_total_ns // acks.count
    # Little's law: held at a time = acknowledgements in a second, times how long each is held.
    at_once = mean * (acks.count - 1) / (acks.last_ns - acks.first_ns)
    if mean < _LONG_NS or at_once < _AT_ONCE:
        return
    doubts = consumer.doubts - EDGES
    yield Finding(
        "queue-of-one",
        "note",
        "application",
        certainty(doubts, "likely"),
        consumer_subject(consumer),
        f"{about_consumer(consumer)} has a receiver queue of 1 and takes {span(mean)} for a message: another one waits "
        "in its queue for so long, that other consumers could take.",
        acks.first_ns,
        [consumer.permits.last_flow_frame, *acks.frames],
        "A FLOW that comes only after the ACK would show a queue of 0." + why_unsure(doubts),
        "Set the receiver queue to 0 if every consumer shall have one message at a time.",
    )


RULE = Rule(
    name="queue-of-one",
    group="consumer",
    facts=("permits.queue", "type", "ack_ages", "ack_age_total_ns", "subscription.consumers"),
    title="a receiver queue of 1 on a shared subscription with work that takes long",
    issue="apache/pulsar#15703",
    look=look,
)
