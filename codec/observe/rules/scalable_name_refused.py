"""A client without support for scalable topics that requested a name which a scalable topic has.

## What it means

A client before 5.0, or the V4 API of a client, asked for the partitions of ``persistent://tenant/namespace/name``. A
scalable topic ``topic://tenant/namespace/name`` exists, so the broker responded with TopicNotFound, and creates no
topic of that name. The application cannot publish to this topic or consume it.

## On the wire

PARTITIONED_METADATA with the name, PARTITIONED_METADATA_RESPONSE with TopicNotFound, and on any connection a
SCALABLE_TOPIC_UPDATE with the layout of the scalable topic.

## What would disprove it

Nothing, if the layout came before the request. If it came after the request, a clock of the broker that is wrong: the
layout contains the time at which the topic was created.

## What to do

Use the V5 API of a client 5.0 or newer. Other clients need a topic with another name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import count_of, frames_text
from pcli.codec.observe.rules.segment_text import topic_text
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord

_EXISTED: Final = Cause("application")
_CREATED: Final = Cause(
    "application", "likely", ("a topic that was created after the request",), "The broker's log at that time."
)


@rule(
    "scalable_topic",
    facts=("first_ns", "refused"),
    title="a classic client that requested the name of a scalable topic",
    issue="PIP-460",
    effect=("request had the name of a scalable topic", "requests had the name of a scalable topic"),
)
def evaluate(topic: ScalableTopicRecord, _moment: Moment) -> Iterator[Finding]:
    """Return a finding for each connection with such requests."""
    for stream, seen in topic.refused.items():
        existed = topic.first_ns <= seen.first_ns
        yield Finding(
            "error",
            "certain",
            _EXISTED if existed else _CREATED,
            {"topic": topic.name, "stream": stream},
            f"The client of connection {stream} requested the partitions of {topic_text(topic)} as a classic topic "
            f"{count_of(seen.count, 'time')}, and received TopicNotFound ({frames_text(seen.frames)}).",
            opposite="Nothing: the layout of the topic came before."
            if existed
            else "The layout came later; a topic that was created after the request would disprove the cause.",
            advice="Use the V5 API of a client 5.0 or newer, or a topic with another name.",
            seen=seen,
            until_ns=seen.last_ns,
        )
