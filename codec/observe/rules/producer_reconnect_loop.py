"""A producer that is opened again and again, because it is closed or lost each time.

## What it means

Three times or more, a minute for three, the same producer (topic and name) lost its session for the same reason and
came back: the broker closed it (unload, load shedding, quota, deletion), its connection broke, or its login was
refused. Each time it sends again what had no receipt; without broker deduplication some of it is stored twice.

## On the wire

PRODUCER, PRODUCER_SUCCESS, SENDs, CLOSE_PRODUCER from the broker or the end of the connection, LOOKUP, PRODUCER again.

## What speaks for the opposite

Unloads and restarts that somebody did on purpose. What the application closes itself does not count.

## What to do

The cause says where to look. For closings by the broker: its log at these times, load shedding that moves the bundle to
and fro, backlog quotas of the namespace. See also: reconnect-loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.loops import opened_again
from pcli.codec.observe.rules.production import about_producer, producer_subject
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE", "look"]


def look(producer: ProducerRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding for each cause."""
    yield from opened_again("producer-reconnect-loop", producer, about_producer(producer), producer_subject(producer))


RULE = Rule(
    name="producer-reconnect-loop",
    group="producer",
    facts=("ends", "sessions"),
    title="a producer that is closed and opened again and again",
    issue="apache/pulsar#20591",
    look=look,
)
