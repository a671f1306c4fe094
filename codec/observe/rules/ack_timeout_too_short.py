"""An acknowledgement timeout that is shorter than the processing time.

## What it means

The consumer requests redelivery of messages that it is still processing, and acknowledges them afterwards. Either the
timeout is too short for the processing, or the receiver queue is so long that messages expire while they wait in it (in
some clients the timeout starts when a message arrives, not when the application receives it). These messages are
processed at least twice.

## On the wire

MESSAGE, then REDELIVER_UNACKNOWLEDGED_MESSAGES with its id, always after about the same time, and one of the following:

- Acknowledgements that take at least that long. Compare the age of messages at redelivery requests with the age at the
  slowest ACK.
- Two ACKs of the redelivered entry: the application also processed the first delivery.

## What would disprove it

If all acknowledgements are fast, the redelivered messages were never acknowledged: see redelivered-after-ack-timeout
and never-acked. If most requests of the subscription were negative acknowledgements, the others are assumed to be
negative acknowledgements, too.

## What to do

Set the timeout well above the longest processing time plus the time that messages wait in the queue, or use a smaller
queue. A better solution is to disable the timeout and use negative acknowledgements for failures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_consumer, consumer_subject, count_of, span
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_TIMEOUT: Final = Cause(
    "application",
    "likely",
    ("messages that were not processed at all",),
    "The processing times in the application's log.",
)


@rule(
    "consumer",
    facts=("hold_ages", "ack_age_max_ns", "ack_ages", "acked_twice", "asked_again", "subscription.again"),
    title="an acknowledgement timeout that is shorter than the processing time",
    issue="apache/pulsar#18910",
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if entries are processed after the age at which redelivery is requested."""
    subscription = consumer.subscription
    again = {} if subscription is None else subscription.again
    seen = [tally for name in ("ack_timeout", "requested") if (tally := again.get(name)) is not None]
    if "ack_timeout" not in again and "nack" in again and again["nack"].count >= sum(tally.count for tally in seen):
        return  # most requests were certainly negative acknowledgements: the others were, too
    if not seen or not consumer.hold_ages or not consumer.ack_ages.count:
        return
    time_out, twice = min(consumer.hold_ages), consumer.acked_twice
    if consumer.ack_age_max_ns >= time_out:
        slow = f"needs up to {span(consumer.ack_age_max_ns)} to acknowledge a message"
    elif twice.count:
        entries = count_of(twice.count, "redelivered entry", "redelivered entries")
        slow = f"acknowledges both deliveries of {entries}, the first one after its redelivery"
    else:
        return
    yield Finding(
        "warning",
        "likely",
        _TIMEOUT,
        consumer_subject(consumer),
        f"{about_consumer(consumer)} requests redelivery of messages after at most {span(time_out)} "
        f"({count_of(consumer.asked_again.count, 'id')} so far) but {slow}: its acknowledgement timeout is "
        "shorter than its processing time.",
        consumer.asked_again.first_ns,
        [*consumer.asked_again.frames, *seen[0].frames, *twice.frames],
        "If no acknowledgement took as long as the timeout and no entry was acknowledged twice, the first deliveries "
        "were not processed at all.",
        "Set the timeout above the longest processing time, or use a smaller receiver queue.",
        count=consumer.asked_again.count,
        doubts=consumer.doubts - EDGES,
    )
