"""A producer whose clock and the capture's do not agree.

## What it means

A client writes the time into each message (`publish_time`) before it leaves. That time decides when the message
expires (time to live), where a seek by time goes, and what a delayed message waits for; the broker uses it as it is,
unless it stamps entries itself. A wrong clock so keeps ledgers from being deleted, or loses messages.

- *ahead*: messages left before the time that is written in them, by more than a second.
- *behind*: all messages were at least ten seconds old when they left, and all about the same. Old ones of many ages
  have waited in the client for a connection.

## On the wire

`publish_time` of SEND against the capture's time of the packet. The smallest difference over all SENDs of a producer
counts. Resends are left out: they keep their time. A batch has the time of its first message.

## What speaks for the opposite

It is a difference of two clocks, and the one that is wrong may be that of the host that captured: then producers of
all other hosts differ alike. Clients can be given a clock of their own (`ClientBuilder.clock`).

## What to do

Compare both hosts with a time server. `brokerEntryMetadataInterceptors` with AppendBrokerTimestampMetadataInterceptor
makes the broker use its own time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.production import about_producer, producer_subject
from pcli.codec.observe.rules.wording import count_of, frames_text, span
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE"]

AHEAD_MS: Final = -1_000
BEHIND_MS: Final = 10_000
MUCH_MS: Final = 60_000
"""From when on time to live and seeks notice it."""
STEADY_MS: Final = 5_000
"""How far the differences of a clock that is behind may lie apart: batching delays, short waits in the client."""
_FEW: Final = 3


def look(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Ahead, or behind."""
    least, most, _ = producer.clock_skew_ms
    if not producer.skewed.count or AHEAD_MS < least < BEHIND_MS:
        return
    ahead = least < 0
    if not ahead and most - least > STEADY_MS:
        return  # a queue that is worked off, not a clock
    others = _others(producer)
    alike = sum((one.clock_skew_ms[0] <= AHEAD_MS) if ahead else (one.clock_skew_ms[0] >= BEHIND_MS) for one in others)
    capture = bool(others) and alike == len(others)
    sure = "likely" if ahead or producer.sent_entries > _FEW else "possible"
    yield Finding(
        "clock-skew",
        "warning" if abs(least) >= MUCH_MS else "note",
        "capture" if capture else "application",
        "possible" if capture else sure,
        producer_subject(producer),
        f"The clock of {about_producer(producer)} is {span(abs(least) * 1_000_000)} {'ahead' if ahead else 'behind'}, "
        f"at least, of the capture's, by publish_time in {count_of(producer.skewed.count, 'SEND')} "
        f"({frames_text(producer.skewed.frames[:3])}).",
        producer.skewed.first_ns,
        producer.skewed.frames,
        "The other producers of the topic differ alike: the clock of the capturing host may be the wrong one."
        if capture
        else "If producers of other hosts differ alike it is the capturing host's clock"
        + ("." if not others else f": {alike} of {len(others)} others of the topic do."),
        "Compare both hosts with a time server.",
        "ahead" if ahead else "behind",
    )


def _others(producer: ProducerRecord) -> list[ProducerRecord]:
    """The topic's other producers on other connections that have sent something."""
    if producer.topic_record is None or producer.session is None:
        return []
    stream = producer.session.stream
    return [
        one
        for one in producer.topic_record.producers.values()
        if one is not producer and one.sent_entries and one.session is not None and one.session.stream != stream
    ]


RULE = Rule(
    name="clock-skew",
    group="producer",
    facts=("clock_skew_ms", "skewed", "sent_entries", "topic_record.producers.clock_skew_ms"),
    title="a producer whose clock differs from the capture's",
    issue="apache/pulsar#21347",
    look=look,
)
