"""A consumer that is opened again and again, because it is closed or lost each time.

## What it means

Three times or more, a minute for three, the same consumer (topic, subscription and name) lost its session for the same
reason and came back: the broker closed it (unload, load shedding, deletion), its connection broke, or its login was
refused. Each time all that it held is delivered again, and permits begin anew.

## On the wire

SUBSCRIBE, some messages, CLOSE_CONSUMER from the broker or the end of the connection, LOOKUP, SUBSCRIBE again.

## What speaks for the opposite

Seeks: each makes the broker close the consumer once, which is as it should be; they are left out. Unloads, restarts and
resets of the cursor that somebody did on purpose. What the application closes itself does not count.

## What to do

The cause says where to look. For closings by the broker: its log at these times, load shedding that moves the bundle to
and fro, `topics stats` for limits. See also: reconnect-loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.loops import opened_again
from pcli.codec.observe.rules.wording import about_consumer, consumer_subject
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE", "look"]


def look(consumer: ConsumerRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding for each cause."""
    seeks = consumer.subscription.seeks.count if consumer.subscription is not None else 0
    about, subject = about_consumer(consumer), consumer_subject(consumer)
    yield from opened_again("consumer-reconnect-loop", consumer, about, subject, seeks=seeks)


RULE = Rule(
    name="consumer-reconnect-loop",
    group="consumer",
    facts=("ends", "sessions", "subscription.seeks"),
    title="a consumer that is closed and opened again and again",
    issue="apache/pulsar#20591",
    look=look,
)
