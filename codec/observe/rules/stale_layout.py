"""A session that did not receive a newer layout of its scalable topic.

## What it means

The broker sends each change of a layout to all sessions of the topic. One session received a newer layout, and another
session of the same topic did not receive it within ten seconds. Its producers send to segments that are sealed, and its
consumers do not subscribe to the new segments.

## On the wire

SCALABLE_TOPIC_UPDATE with a higher epoch on one session, none on another session that is open.

## What would disprove it

A SCALABLE_TOPIC_UPDATE in a gap of the capture.

## What to do

Check the connection of the session. If other commands arrive on it, restart the client, and report the case to the
project with the logs of the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import GAPS, Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import at, span
from pcli.codec.observe.rules.segment_text import topic_text
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord

_DURATION: Final = Threshold("stale-layout.duration", 10_000_000_000, "minimum time since the newer layout")

_NOT_SENT: Final = Cause(
    "broker", "possible", ("a network that did not deliver the update",), "A capture on the host of the client."
)


@rule(
    "scalable_topic",
    facts=("sessions",),
    title="a session with an old layout of its scalable topic",
    issue="PIP-468",
    because_of=("paused-client",),
    thresholds=(_DURATION,),
)
def evaluate(topic: ScalableTopicRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each open session whose last epoch is older than that of another session."""
    if GAPS & topic.doubts:
        return  # updates, or the ends of sessions, may be missing
    first_of: dict[int, tuple[int, int]] = {}
    for session in topic.sessions:
        for epoch, time_ns, frame in session.epochs:
            first_of[epoch] = min(first_of.get(epoch, (time_ns, frame)), (time_ns, frame))
    newest = max(first_of, default=0)
    for session in topic.sessions:
        last = session.epochs[-1][0] if session.epochs else newest
        missed = [epoch for epoch in first_of if epoch > last]
        if not missed:
            continue
        since, frame = first_of[min(missed)]
        until = session.ended_ns if session.ended_ns >= 0 else moment.now_ns
        if until - since < moment.value(_DURATION):
            continue
        yield Finding(
            "warning",
            "likely",
            _NOT_SENT,
            {"topic": topic.name, "stream": session.stream, "session": session.id},
            f"Session {session.id} of {topic_text(topic)} on connection {session.stream} still has epoch {last} "
            f"{span(until - since)} after another session received epoch {min(missed)} in {at(frame)}.",
            since,
            [frame, session.epochs[-1][2]],
            "An update of this session with the newer epoch would disprove the finding; there is none.",
            "Check the connection of the session, and restart the client.",
            doubts=topic.doubts,
        )
