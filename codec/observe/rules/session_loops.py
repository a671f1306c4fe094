"""Producers and consumers that repeatedly lose their session and open again: the rules with their pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pcli.codec.observe.rules.finding import Finding, Moment, certainty, rule, why_unsure
from pcli.codec.observe.rules.finding_text import about_consumer, consumer_subject, span
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.rules.reconnect_causes import LOOP_NS, PEER_CAUSES, ROUNDS, cause_of_end
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord

_BECAUSE_OF = ("broker-unavailable", "auth-refused", "keep-alive-missed")


@rule(
    "consumer",
    facts=("ends", "sessions", "subscription.seeks"),
    title="a consumer that is closed or disconnected and subscribes again repeatedly",
    issue="apache/pulsar#20591",
    because_of=_BECAUSE_OF,
    effect=("session of a consumer ended", "sessions of consumers ended"),
    name="consumer-reconnect-loop",
    page="""
A consumer that subscribes repeatedly because it is closed or disconnected each time.

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
""",
)
def _consumers(consumer: ConsumerRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding for each cause."""
    seeks = consumer.subscription.seeks.count if consumer.subscription is not None else 0
    return _loops(consumer, about_consumer(consumer), consumer_subject(consumer), seeks)


@rule(
    "producer",
    facts=("ends", "sessions"),
    title="a producer that is closed or disconnected and created again repeatedly",
    issue="apache/pulsar#20591",
    because_of=_BECAUSE_OF,
    effect=("session of a producer ended", "sessions of producers ended"),
    name="producer-reconnect-loop",
    page="""
A producer that is created repeatedly because it is closed or disconnected each time.

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
""",
)
def _producers(producer: ProducerRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding for each cause."""
    return _loops(producer, about_producer(producer), producer_subject(producer))


def _loops(
    peer: ConsumerRecord | ProducerRecord, about: str, subject: dict[str, Any], seeks: int = 0
) -> Iterator[Finding]:
    """Yield a finding for each cause for which a producer or consumer repeatedly lost its session.

    ``seeks`` is the number of seeks. For each seek the broker closes the consumer once, which is normal.
    """
    for cause, (_, what, advice) in PEER_CAUSES.items():
        ends = peer.ends.get(cause)
        rounds = ends.count - (seeks if cause == "broker" else 0) if ends is not None else 0
        if ends is None or rounds < ROUNDS or ends.last_ns - ends.first_ns > LOOP_NS * rounds / ROUNDS:
            continue
        yield Finding(
            "warning",
            certainty(peer.doubts - {"start", "end"}),
            cause_of_end(cause),
            subject,
            f"{about} had {peer.sessions} sessions: {what} {rounds} times within {span(ends.last_ns - ends.first_ns)}.",
            ends.first_ns,
            ends.frames,
            "Intentional seeks, unloads or restarts would explain this." + why_unsure(peer.doubts),
            advice,
            cause,
            count=rounds,
        )
