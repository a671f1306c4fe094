"""Children of a segment that wait until a subscription has acknowledged the messages of their parent.

## What it means

A segment was split, merged or rebucketed. Stream consumers receive its children only after all messages of the parent
are acknowledged, so that messages with the same key stay in order. Here a subscription has not acknowledged the parent
for longer than usual, and all newer messages with these keys wait in the children.

## On the wire

SCALABLE_TOPIC_UPDATE with the sealed segment, assignments that contain the sealed segment and none of its children, and
MESSAGEs of the sealed segment without an ACK.

## What would disprove it

ACKs of the messages on a connection that was not captured.

## What to do

Find out why the consumer does not acknowledge the messages: `pcli trace --unacked` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import at, count_of, when
from pcli.codec.observe.rules.segment_text import segments_text, topic_text
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.scalable_records import (
    ControlledConsumerRecord,
    ScalableTopicRecord,
    SegmentRecord,
)

_DURATION: Final = Threshold("parent-not-drained.duration", 10_000_000_000, "minimum time since the parent was sealed")

_UNACKED: Final = Cause(
    "application", "likely", ("a consumer that is slow, not stuck",), "The log of the application that consumes."
)


@rule(
    "scalable_topic",
    facts=("consumers", "segments"),
    title="segments that wait until their parent is acknowledged",
    issue="PIP-468",
    because_of=("never-acked", "paused-client", "segment-unattended"),
    thresholds=(_DURATION,),
)
def evaluate(topic: ScalableTopicRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each sealed segment in the last assignment of a stream consumer, also of one that left."""
    seen = set()
    for consumer in topic.consumers:
        if consumer.type != "STREAM":
            continue
        until_ns = consumer.ended_ns if consumer.end else moment.now_ns
        for number in consumer.segments:
            segment, key = topic.segments.get(number), (consumer.subscription, number)
            if key in seen or segment is None or not segment.sealed:
                continue
            if until_ns - segment.sealed_ns >= moment.value(_DURATION):
                seen.add(key)
                yield from _finding(topic, consumer, segment, moment)


def _finding(
    topic: ScalableTopicRecord, consumer: ControlledConsumerRecord, segment: SegmentRecord, moment: Moment
) -> Iterator[Finding]:
    subscription = segment.subscription(consumer.subscription)
    children = segment.segment.children if segment.segment is not None else ()
    if subscription is None or not children or not subscription.backlog:
        return
    held = ", ".join(
        f"{printable(one.name)} {'left' if one.session is not None and one.session.end else 'holds'} "
        f"{count_of(one.never_acked.count or one.unacked, 'message')}"
        for one in subscription.consumers.values()
        if one.never_acked.count or one.unacked
    )
    entries = count_of(subscription.backlog, "entry", "entries")
    yield Finding(
        "warning",
        "likely",
        _UNACKED,
        {"topic": topic.name, "subscription": consumer.subscription, "segment": segment.id},
        f"{segments_text(children)} of {topic_text(topic)} wait for their parent. Segment {segment.id} was sealed "
        f"{when(moment, segment.sealed_ns)} ({at(segment.sealed_frame)}), and subscription "
        f"{printable(consumer.subscription)} has not acknowledged {entries} of it{f'; {held}' if held else ''}.",
        segment.sealed_ns,
        [segment.sealed_frame, *(one for c in subscription.consumers.values() for one in c.never_acked.frames[:4])],
        "ACKs of these messages would disprove the finding; there is none.",
        "`pcli trace --unacked` lists the messages of the parent.",
        f"{segment.id}",
        count=subscription.backlog,
        doubts=topic.doubts | subscription.doubts,
    )
