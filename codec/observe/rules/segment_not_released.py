"""A segment of a scalable topic that its old consumer does not release.

## What it means

The controller assigned the segment to another consumer of the subscription. Normally the old consumer closes its own
consumer of the segment within 100 ms, and the new one succeeds at its second attempt. Here the old consumer kept its
Exclusive subscription, so that the new consumer was refused or waited for longer. Until the segment is released, the
old consumer receives its messages, or nobody processes them.

## On the wire

SCALABLE_TOPIC_ASSIGNMENT_UPDATE or SCALABLE_TOPIC_SUBSCRIBE_RESPONSE with the segment, SUBSCRIBE to the segment, ERROR
ConsumerBusy, and no CLOSE_CONSUMER of the old consumer. If the old process hangs, the SUBSCRIBE is answered only after
the broker has checked the old connection (`connectionLivenessCheckTimeoutMillis`, 5 s by default) and closed it.

## What would disprove it

A CLOSE_CONSUMER of the old consumer on a connection that was not captured.

## What to do

Check the old consumer: an application that blocks its client's threads cannot process the assignment. If its process
does not run any more, the broker closes the connection after two intervals of the keep-alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import at, frames_text, span, times
from pcli.codec.observe.rules.segment_text import subscription_of, topic_text
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord

_DURATION: Final = Threshold("segment-not-released.duration", 5_000_000_000, "minimum time of the hand-over")

_HELD: Final = Cause(
    "application",
    "likely",
    ("a client process that hangs", "an assignment that the old consumer did not receive"),
    "A thread dump of the old consumer's process.",
)


@rule(
    "scalable_topic",
    facts=("hand_overs",),
    title="a segment that a consumer keeps after its assignment to another",
    issue="PIP-468",
    because_of=("segment-unattended", "paused-client"),
    thresholds=(_DURATION,),
)
def evaluate(topic: ScalableTopicRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each hand-over that took longer than the limit because of the old consumer."""
    for one in topic.hand_overs:
        over_ns = max(one.ready_ns, one.withdrawn_ns)
        lasted = (over_ns if over_ns >= 0 else moment.now_ns) - one.time_ns
        if lasted < moment.value(_DURATION) or (not one.busy.count and one.waited_ns < moment.value(_DURATION)):
            continue
        before, after = printable(one.before), printable(one.after)
        effect = f"was answered after {span(one.waited_ns)}"
        if one.busy.count:
            effect = f"was refused {times(one.busy.count)} with ConsumerBusy ({frames_text(one.busy.frames)})"
        yield Finding(
            "error" if over_ns < 0 else "warning",
            "likely",
            _HELD,
            subscription_of(topic, one.subscription, one.after),
            f"The controller assigned segment {one.segment} of {topic_text(topic)} (subscription "
            f"{printable(one.subscription)}) to consumer {after} in {at(one.frame)}, but consumer {before} kept it for "
            f"{span(lasted)}: the SUBSCRIBE of {after} {effect}.",
            one.time_ns,
            [one.frame, *one.busy.frames, one.ready_frame],
            "A CLOSE_CONSUMER of the old consumer in that time would disprove the finding; there is none.",
            f"Find out why consumer {before} does not close its consumer of the segment.",
            f"{one.segment}",
            until_ns=max(over_ns, 0),
            doubts=topic.doubts,
        )
