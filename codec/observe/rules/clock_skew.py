"""A producer whose clock differs from the clock of the capture.

## What it means

A client stores the current time in each message (`publish_time`) before sending the message. This time determines when
the message expires (time to live), the position that a seek by time selects, and how long a delayed message waits. The
broker uses this time unchanged unless it is configured to add its own timestamps. If the clock is wrong, ledgers are
kept too long or messages are lost.

- *ahead*: messages were sent more than a second before their own publish time.
- *behind*: all messages were at least ten seconds old when they were sent, with similar ages. Messages with very
  different ages have waited in the client for a connection.

## On the wire

The `publish_time` of SEND, compared with the capture time of the packet. The smallest difference of all SENDs of a
producer is used. Resends are excluded because they keep their publish time. A batch has the time of its first message.

## What would disprove it

The finding compares two clocks, and the clock of the capturing host may be the wrong clock. In that case producers on
all other hosts differ in the same way. Clients can also be configured with a custom clock (`ClientBuilder.clock`).

## What to do

Compare both hosts with a time server. `brokerEntryMetadataInterceptors` with AppendBrokerTimestampMetadataInterceptor
makes the broker use its own time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import count_of, frames_text, span
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

_CAPTURE_CLOCK: Final = Cause(
    "capture", "possible", ("the clocks of all hosts with producers",), "A comparison of both hosts with a time server."
)
_PRODUCER_CLOCK: Final = Cause(
    "application",
    "likely",
    ("the clock of the capturing host", "an application that sets the publish time"),
    "A comparison of both hosts with a time server.",
)

AHEAD_MS: Final = -1_000
BEHIND_MS: Final = 10_000
WARNING_MS: Final = 60_000
"""Minimum difference that affects time to live and seeks."""
STEADY_MS: Final = 5_000
"""Maximum spread of the differences if a clock is behind. Batching and short waits in the client cause some spread."""
_MIN_SENDS: Final = 3


@rule(
    "producer",
    facts=("clock_skew_ms", "skewed", "sent_entries", "topic_record.producers.clock_skew_ms"),
    title="a producer whose clock differs from the clock of the capture",
    issue="apache/pulsar#21347",
)
def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if the clock is ahead or behind."""
    least, most, _ = producer.clock_skew_ms
    if not producer.skewed.count or AHEAD_MS < least < BEHIND_MS:
        return
    ahead = least < 0
    if not ahead and most - least > STEADY_MS:
        return  # the client sends queued messages; its clock is not wrong
    others = _others(producer)
    alike = sum((one.clock_skew_ms[0] <= AHEAD_MS) if ahead else (one.clock_skew_ms[0] >= BEHIND_MS) for one in others)
    capture = bool(others) and alike == len(others)
    sure = "likely" if ahead or producer.sent_entries > _MIN_SENDS else "possible"
    yield Finding(
        "warning" if abs(least) >= WARNING_MS else "note",
        "certain" if ahead else sure,
        _CAPTURE_CLOCK if capture else _PRODUCER_CLOCK,
        producer_subject(producer),
        f"The clock of {about_producer(producer)} is at least {span(abs(least) * 1_000_000)} "
        f"{'ahead of' if ahead else 'behind'} the clock of the capture, judging by publish_time in "
        f"{count_of(producer.skewed.count, 'SEND')} ({frames_text(producer.skewed.frames[:3])}).",
        opposite="The other producers of the topic have the same difference: the clock of the capturing host may be "
        "wrong."
        if capture
        else "If producers on other hosts have the same difference, the clock of the capturing host is wrong"
        + ("." if not others else f": in the same topic this applies to {alike} of {len(others)} other producers."),
        advice="Compare both hosts with a time server.",
        variant="ahead" if ahead else "behind",
        seen=producer.skewed,
    )


def _others(producer: ProducerRecord) -> list[ProducerRecord]:
    """Return the topic's other producers that have sent messages on other connections."""
    if producer.topic_record is None or producer.session is None:
        return []
    stream = producer.session.stream
    return [
        one
        for one in producer.topic_record.producers.values()
        if one is not producer and one.sent_entries and one.session is not None and one.session.stream != stream
    ]
