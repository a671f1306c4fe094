"""A consumer of a Failover subscription that is not the active one: it gets nothing, and that is right.

## What it means

Of the consumers of a Failover subscription one is active and gets all messages; the others stand by. Who is active
follows from priority, name and, for partitioned topics, the partition. People take a standby for a stuck consumer: it
is connected, has permits, there is a backlog, and nothing comes.

## On the wire

ACTIVE_CONSUMER_CHANGE with `is_active: false` (absent is false), then FLOW and no MESSAGE. When the active consumer
leaves, the next one is told about a second later (`activeConsumerFailoverDelayTimeMillis`). Clients older than protocol
version 12 are never told.

## What speaks for the opposite

A MESSAGE to this consumer, or an ACTIVE_CONSUMER_CHANGE that makes it active. When it is told that it is active and
gets nothing in spite of permits and a backlog, that is dispatcher-silent.

## What to do

Nothing, if a standby is what you want. If all consumers shall work, use Shared or Key_Shared, or more partitions than
consumers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumption import seen_until
from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import EDGES, about_consumer, at, certainty, consumer_subject, when, why_unsure
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]

_LEAST_NS: Final = 1_000_000_000
"""The broker waits a second before it makes another consumer the active one."""


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Whether its last word was that it stands by."""
    if consumer.active is not False or consumer.last_message_ns > consumer.active_ns:
        return
    if seen_until(consumer, moment) - consumer.active_ns < _LEAST_NS:
        return
    doubts = consumer.doubts - EDGES
    yield Finding(
        "standby",
        "note",
        "application",
        certainty(doubts),
        consumer_subject(consumer),
        f"{about_consumer(consumer)} stands by: the broker has told it in {at(consumer.active_frame)}, "
        f"{when(moment, consumer.active_ns)}, that another one is active. It gets nothing, and that is right.",
        consumer.active_ns,
        [consumer.active_frame],
        "A MESSAGE to it, or an ACTIVE_CONSUMER_CHANGE that makes it active: there is neither." + why_unsure(doubts),
        "Nothing, if it is a standby by intention; otherwise use Shared or Key_Shared.",
    )


RULE = Rule(
    name="standby",
    group="consumer",
    facts=("active", "active_ns", "last_message_ns", "session"),
    title="a consumer that gets nothing because another one of its Failover subscription is active",
    issue="apache/pulsar#7827",
    look=look,
)
