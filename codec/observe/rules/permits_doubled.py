"""A consumer that requested permits for its whole queue twice, usually after a reconnect.

## What it means

After SUBSCRIBE has succeeded, a client requests permits for its whole queue once, and afterwards only one permit for
each message that its application has taken. This consumer requested permits for its whole queue a second time, and the
delivered messages do not explain the request. The broker will send twice as many messages as the client intends to
hold. The surplus uses memory, and on Shared subscriptions messages accumulate at one consumer while others receive
none. After a reconnect, a second request indicates that two code paths opened the consumer.

## On the wire

SUBSCRIBE, SUCCESS, FLOW 1000, FLOW 1000. In the broker's statistics `availablePermits` plus `msgOutCounter` is a
multiple of the queue size, and `availablePermits` exceeds the queue size.

## What would disprove it

Clients whose queue grows at run time (Java's `autoScaledReceiverQueueSizeEnabled`) request more on purpose, and so does
a client whose queue was cleared by a seek. If the surplus is less than half of the queue, see permits-wrong-count.

## What to do

Check whether the consumer was subscribed twice (double-subscribe). Report the problem and the version of the
client library to its developers.

docs/clients.md lists the permits that each client requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_consumer, consumer_subject, count_of, frames_text
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_TWICE: Final = Cause(
    "client",
    "likely",
    ("a receiver queue that grows on purpose (autoScaledReceiverQueueSize)",),
    "The configuration of the consumer.",
)


@rule(
    "consumer",
    facts=("permits.doubled", "permits.surplus", "permits.queue"),
    title="a consumer that requested permits for its whole queue twice",
    issue="apache/pulsar#20591",
    because_of=("double-subscribe",),
    effect=("permit was granted twice", "permits were granted twice"),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if the surplus is about the queue size or more; part of it may already have been used."""
    permits = consumer.permits
    if not permits.known or not permits.doubled.count or permits.surplus * 2 <= permits.queue:
        return
    yield Finding(
        "warning",
        "likely",
        _TWICE,
        consumer_subject(consumer),
        f"{about_consumer(consumer)} requested {count_of(permits.surplus, 'message')} more than its queue of "
        f"{permits.queue} and its delivered messages explain ({frames_text(permits.doubled.frames)}).",
        permits.doubled.first_ns,
        permits.doubled.frames,
        "Deliveries that used these permits would disprove the finding; there are none.",
        "Check whether the consumer was opened twice. Report the problem to the developers of the client library with "
        "its version.",
        count=permits.surplus,
        doubts=consumer.doubts - EDGES,
    )
