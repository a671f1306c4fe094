"""A producer that is created repeatedly because it is closed or disconnected each time.

## What it means

The same producer (topic and name) lost its session at least three times for the same reason, at a rate of three times
per minute or more, and was created again. The reason is that the broker closed the producer (unload, load shedding,
quota, deletion), its connection broke, or its login was refused. Each time, the producer resends all messages that have
no receipt; if the broker does not deduplicate, some of them may be stored twice.

## On the wire

PRODUCER, PRODUCER_SUCCESS, SENDs, CLOSE_PRODUCER from the broker or the end of the connection, LOOKUP, PRODUCER again.

## What would disprove it

Intentional unloads and restarts. Producers closed by the application are not counted.

## What to do

The cause determines where to look. If the broker closes the producer, search the broker's log for the reason, and check
the backlog quotas of the namespace and whether load shedding moves the bundle back and forth. See also: reconnect-loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.rules.reconnect_causes import repeated_reconnects
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE", "evaluate"]


def evaluate(producer: ProducerRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding for each cause."""
    yield from repeated_reconnects(
        "producer-reconnect-loop", producer, about_producer(producer), producer_subject(producer)
    )


RULE = Rule(
    name="producer-reconnect-loop",
    group="producer",
    facts=("ends", "sessions"),
    title="a producer that is closed or disconnected and created again repeatedly",
    issue="apache/pulsar#20591",
    evaluate=evaluate,
    because_of=(
        "broker-unavailable",
        "auth-refused",
        "keep-alive-missed",
    ),
    effect=("session of a producer ended", "sessions of producers ended"),
)
