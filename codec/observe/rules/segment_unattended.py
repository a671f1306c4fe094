"""Segments of a scalable topic that have no consumer, because their consumer was lost.

## What it means

A stream consumer lost its connection without SCALABLE_TOPIC_UNSUBSCRIBE. The controller keeps its segments for the
consumer during the grace period (`scalableTopicConsumerSessionGracePeriodSeconds`, 60 s by default). No other consumer
of the subscription receives the messages of these segments in that time. If the consumer registers again with the same
name, it continues at once; otherwise the controller assigns the segments to the other consumers.

## On the wire

SCALABLE_TOPIC_SUBSCRIBE, an assignment, and the end of the connection. Then, after the grace period,
SCALABLE_TOPIC_ASSIGNMENT_UPDATE to another consumer with the same segments, or a SCALABLE_TOPIC_SUBSCRIBE with the same
name.

## What would disprove it

A SUBSCRIBE of another consumer to the segments in that time, on a connection that was not captured.

## What to do

Close consumers before the process ends: close() sends SCALABLE_TOPIC_UNSUBSCRIBE, and the segments move at once. If
processes are killed often, reduce the grace period on the broker, or start the process again under the same consumer
name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import at, span
from pcli.codec.observe.rules.segment_text import about_controlled, backlog_on, segments_text, subscription_of
from pcli.codec.observe.tracking.records.connection_records import ENDS
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord, UnattendedSegment

_DURATION: Final = Threshold("segment-unattended.duration", 1_000_000_000, "minimum time without a consumer")

_CAUSES: Final = {
    "fin_client": Cause(
        "application", "likely", ("a process that was killed",), "The log of the application at that time."
    ),
    "reset_client": Cause(
        "application", "likely", ("a process that was killed",), "The log of the application at that time."
    ),
}
_LOST: Final = Cause(
    "network", "possible", ("a broker that closed the connection",), "A capture on the host of the client."
)


@rule(
    "scalable_topic",
    facts=("unattended", "segments"),
    title="segments without a consumer after their consumer was lost",
    issue="PIP-468",
    because_of=("broker-unavailable",),
    thresholds=(_DURATION,),
)
def evaluate(topic: ScalableTopicRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each lost consumer because of which segments were unattended for longer than the limit."""
    groups: dict[tuple[str, int, bool], list[UnattendedSegment]] = {}
    for one in topic.unattended:
        until = one.until_ns if one.until_ns >= 0 else moment.now_ns
        if until - one.since_ns >= moment.value(_DURATION):
            groups.setdefault((one.consumer.name, one.consumer.stream, one.until_ns >= 0), []).append(one)
    for (_, _, over), periods in groups.items():
        yield _finding(topic, periods, moment, over=over)


def _finding(topic: ScalableTopicRecord, periods: list[UnattendedSegment], moment: Moment, *, over: bool) -> Finding:
    lost, numbers = periods[0].consumer, [one.segment for one in periods]
    since, until = min(one.since_ns for one in periods), max(one.until_ns for one in periods)
    frame = max(one.until_frame for one in periods)
    left = "" if over else backlog_on(topic, lost.subscription, numbers)
    waiting = f", and {left} wait there" if left else ""
    return Finding(
        "note" if over else "warning",
        "likely",
        _CAUSES.get(lost.end, _LOST),
        subscription_of(topic, lost.subscription, lost.name),
        f"{about_controlled(lost)} left without SCALABLE_TOPIC_UNSUBSCRIBE in {at(lost.ended_frame)} "
        f"({ENDS[lost.end]}). The subscription did not receive {segments_text(numbers)} for "
        f"{span((until if over else moment.now_ns) - since)}{f', until {at(frame)}' if over else ''}{waiting}.",
        since,
        [lost.ended_frame, *(one.since_frame for one in periods), frame],
        "An assignment of these segments in that time would disprove the finding; there is none.",
        "Close consumers before the process ends, or reduce scalableTopicConsumerSessionGracePeriodSeconds.",
        f"{lost.stream}{'' if over else ' open'}",
        count=len(numbers),
        until_ns=until if over else 0,
        doubts=topic.doubts,
    )
