"""A scalable topic in which one segment receives most messages.

## What it means

The hash of the key selects the segment. If a few keys have most messages, or if all messages have the same key, one
segment receives most of the load, and a split does not divide it: all messages of a key stay in one segment. The other
consumers of the subscription are idle.

## On the wire

SENDs to the segments of the topic.

## What would disprove it

SENDs to the other segments on connections that were not captured.

## What to do

Use keys with more values, or send messages without a key if their order does not matter. `pcli stats keys` shows the
keys with the most messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.segment_text import topic_text
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord

_SHARE: Final = Threshold("skewed-segments.share", 80, "minimum share of one segment in percent", is_time=False)
_MESSAGES: Final = Threshold("skewed-segments.messages", 1_000, "minimum number of messages", is_time=False)


@rule(
    "scalable_topic",
    facts=("layout", "segments", "first_ns"),
    title="a segment that receives most messages of its scalable topic",
    issue="PIP-483",
    thresholds=(_SHARE, _MESSAGES),
)
def evaluate(topic: ScalableTopicRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if one of the segments that existed together has most of their messages."""
    layout = topic.layout
    if layout is None or len(layout.active) < 2:
        return
    counts = {}
    for one in layout.active:
        record = topic.segments[one.id].topic_record if one.id in topic.segments else None
        counts[one.id] = record.messages_in if record is not None else 0
    total, most = sum(counts.values()), max(counts, key=counts.__getitem__)
    if total < moment.value(_MESSAGES) or counts[most] * 100 < total * moment.value(_SHARE):
        return
    share = layout.segments[most].end - layout.segments[most].start + 1
    if share * 100 >= 65_536 * moment.value(_SHARE):
        return  # the segment has most of the hashes
    yield Finding(
        "warning",
        "certain",
        Cause("application", "likely", ("producers that were not captured",), "The keys of the messages."),
        {"topic": topic.name, "segment": most},
        f"Segment {most} of {topic_text(topic)} received {counts[most]} of {total} messages "
        f"({counts[most] * 100 // total} %), but has only {share * 100 // 65_536} % of the hashes.",
        topic.first_ns,
        [],
        "SENDs to the other segments would disprove the finding.",
        "Use keys with more values; a split does not divide the messages of one key.",
        f"{most}",
        count=counts[most],
        doubts=topic.doubts,
    )
