"""A consumer that subscribes repeatedly because it is closed or disconnected each time.

## What it means

The same consumer (topic, subscription and name) lost its session at least three times for the same reason, at a rate of
three times per minute or more, and subscribed again. The reason is that the broker closed the consumer (unload, load
shedding, deletion), its connection broke, or its login was refused. Each time, all messages that the consumer holds are
redelivered, and its permits start from zero.

## On the wire

SUBSCRIBE, some messages, CLOSE_CONSUMER from the broker or the end of the connection, LOOKUP, SUBSCRIBE again.

## What would disprove it

Intentional unloads, restarts and cursor resets. For each seek the broker closes the consumer once, as intended; neither
these closes nor consumers closed by the application are counted.

## What to do

The cause determines where to look. If the broker closes the consumer, search the broker's log for the reason, and check
the limits in `topics stats` and whether load shedding moves the bundle back and forth. See also: reconnect-loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.finding_text import about_consumer, consumer_subject
from pcli.codec.observe.rules.reconnect_causes import repeated_reconnects
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE", "evaluate"]


def evaluate(consumer: ConsumerRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding for each cause."""
    seeks = consumer.subscription.seeks.count if consumer.subscription is not None else 0
    about, subject = about_consumer(consumer), consumer_subject(consumer)
    yield from repeated_reconnects("consumer-reconnect-loop", consumer, about, subject, seeks=seeks)


RULE = Rule(
    name="consumer-reconnect-loop",
    group="consumer",
    facts=("ends", "sessions", "subscription.seeks"),
    title="a consumer that is closed or disconnected and subscribes again repeatedly",
    issue="apache/pulsar#20591",
    evaluate=evaluate,
    because_of=(
        "broker-unavailable",
        "auth-refused",
        "keep-alive-missed",
    ),
    effect=("session of a consumer ended", "sessions of consumers ended"),
)
