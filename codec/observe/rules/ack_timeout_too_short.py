"""Settings that fight each other: an acknowledgement time-out that is shorter than the work.

## What it means

The consumer asks for messages again that it is still working on, and acknowledges them afterwards: the time-out is too
short for the work, or the receiver queue so long that messages wait in it until the time-out is over (the clock of
some clients starts when a message arrives, not when the application takes it). Everything is worked on twice, or more.

## On the wire

MESSAGE, REDELIVER with its id always about the same time later, and acknowledgements that take about as long as that,
or longer. Compare the ages: the time-out against the slowest ACK.

## What speaks for the opposite

Acknowledgements that all come quickly: then the messages asked for again were forgotten, see
redelivered-after-ack-timeout and never-acked.

## What to do

Set the time-out well above the longest time that the work takes, plus the time that messages wait in the queue; or make
the queue smaller. Better: no time-out, and a negative acknowledgement where something fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    about_consumer,
    certainty,
    consumer_subject,
    count_of,
    span,
    why_unsure,
)
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Whether acknowledgements come at the age at which messages are asked for again."""
    subscription = consumer.subscription
    seen = None if subscription is None else subscription.again.get("ack_timeout")
    if seen is None or not consumer.hold_ages or not consumer.ack_ages.count:
        return
    time_out = round(median(consumer.hold_ages))
    if consumer.ack_age_max_ns < time_out:
        return
    doubts = consumer.doubts - EDGES
    yield Finding(
        "ack-timeout-too-short",
        "warning",
        "application",
        certainty(doubts, "likely"),
        consumer_subject(consumer),
        f"{about_consumer(consumer)} asks for messages again after {span(time_out)} "
        f"({count_of(consumer.asked_again.count, 'id')} so far), and takes up to {span(consumer.ack_age_max_ns)} to "
        "acknowledge one: its time-out is shorter than the work.",
        consumer.asked_again.first_ns,
        [*consumer.asked_again.frames, *seen.frames],
        "Acknowledgements that all come sooner would show that the others were forgotten." + why_unsure(doubts),
        "Set the time-out above the longest time of the work, or make the receiver queue smaller.",
    )


RULE = Rule(
    name="ack-timeout-too-short",
    group="consumer",
    facts=("hold_ages", "ack_age_max_ns", "ack_ages", "asked_again", "subscription.again"),
    title="an acknowledgement time-out that is shorter than the work",
    issue="apache/pulsar#18910",
    look=look,
)
