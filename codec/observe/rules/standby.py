"""A consumer of a Failover subscription that is not the active consumer: it correctly receives nothing.

## What it means

One consumer of a Failover subscription is active and receives all messages; the others are on standby. The active
consumer is determined by priority, name and, for partitioned topics, the partition. A standby looks like a stuck
consumer: it is connected and has permits, and there is a backlog, but it receives nothing.

## On the wire

ACTIVE_CONSUMER_CHANGE with `is_active: false` (absent means false), then FLOW and no MESSAGE. When the active consumer
leaves, the broker notifies the next consumer after about a second (`activeConsumerFailoverDelayTimeMillis`). It does
not notify clients below protocol version 12.

## What would disprove it

A MESSAGE to this consumer, or an ACTIVE_CONSUMER_CHANGE that makes it active. An active consumer that receives nothing
despite permits and a backlog is reported by dispatcher-silent.

## What to do

Nothing, if a standby is intended. If all consumers should receive messages, use Shared or Key_Shared, or more
partitions than consumers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import seen_until
from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import about_consumer, at, consumer_subject, when
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_DURATION: Final = Threshold("standby.duration", 1_000_000_000, "minimum time on standby")
"""The broker waits a second before it makes another consumer active."""


@rule(
    "consumer",
    facts=("active", "active_ns", "last_message_ns", "session"),
    title="a consumer that receives nothing because another consumer of its Failover subscription is active",
    issue="apache/pulsar#7827",
    thresholds=(_DURATION,),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if the last ACTIVE_CONSUMER_CHANGE put the consumer on standby."""
    if consumer.active is not False or consumer.last_message_ns > consumer.active_ns:
        return
    if seen_until(consumer, moment) - consumer.active_ns < moment.value(_DURATION):
        return
    yield Finding(
        "note",
        "certain",
        Cause("application"),
        consumer_subject(consumer),
        f"{about_consumer(consumer)} is on standby: in {at(consumer.active_frame)}, "
        f"{when(moment, consumer.active_ns)}, "
        "the broker reported that another consumer is active. A standby correctly receives no messages.",
        consumer.active_ns,
        [consumer.active_frame],
        "A MESSAGE to this consumer, or an ACTIVE_CONSUMER_CHANGE that makes it active, would disprove the finding; "
        "there is neither.",
        "Nothing, if a standby is intended; otherwise use Shared or Key_Shared.",
        doubts=consumer.doubts - EDGES,
    )
