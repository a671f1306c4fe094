"""A consumer that asked twice for its whole queue, mostly after a reconnect.

## What it means

A client asks for its queue size once, after SUBSCRIBE has succeeded, and from then on for as much as its application
has taken. Here a second request for the whole queue came, for which nothing that was sent can account. The broker will
send twice what the client wants to hold: more memory, and on Shared subscriptions messages that pile up at one consumer
while others have nothing. After a reconnect it is a sign that two code paths have opened the consumer.

## On the wire

SUBSCRIBE, SUCCESS, FLOW 1000, FLOW 1000. In the broker's statistics `availablePermits` plus `msgOutCounter` is a
multiple of the queue size, and `availablePermits` is above it.

## What speaks for the opposite

Clients that let their queue grow while they run (Java's `autoScaledReceiverQueueSizeEnabled`) ask for more on purpose;
so does one whose queue was emptied by a seek. When the surplus is less than half of the queue, see permits-wrong-count.

## What to do

Look whether the consumer was subscribed twice (double-subscribe). Report it to the client library with its version.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    about_consumer,
    certainty,
    consumer_subject,
    count_of,
    frames_text,
    why_unsure,
)
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Whether the surplus is about a queue, or several: part of one may have been used up meanwhile."""
    permits = consumer.permits
    if not permits.known or not permits.doubled.count or permits.surplus * 2 <= permits.queue:
        return
    doubts = consumer.doubts - EDGES
    yield Finding(
        "permits-doubled",
        "warning",
        "client",
        certainty(doubts, "likely"),
        consumer_subject(consumer),
        f"{about_consumer(consumer)} has asked for {count_of(permits.surplus, 'message')} more than its queue of "
        f"{permits.queue} and what it was sent can explain ({frames_text(permits.doubled.frames)}).",
        permits.doubled.first_ns,
        permits.doubled.frames,
        "A queue that grows on purpose would explain it." + why_unsure(doubts),
        "Look whether the consumer was opened twice; report it to the client library, with its version.",
    )


RULE = Rule(
    name="permits-doubled",
    group="consumer",
    facts=("permits.doubled", "permits.surplus", "permits.queue"),
    title="a consumer that asked for its whole queue once too often",
    issue="apache/pulsar#20591",
    look=look,
)
