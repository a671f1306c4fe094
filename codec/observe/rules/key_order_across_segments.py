"""Messages of a key that a subscription received after newer messages of the key, which are in another segment.

## What it means

A segment was split, merged or rebucketed. Its messages are older than those of its children. Stream consumers receive
the children only after the parent is acknowledged, which keeps the order of each key. Queue consumers receive parent
and children at the same time. Here messages of a key were delivered from the parent after newer messages of the same
key from a child. A queue consumer has no guarantee of order, and the finding is a note.

## On the wire

MESSAGE with a key of the child segment, then the first MESSAGE with the same key of its parent, on one subscription.

## What would disprove it

A MESSAGE of the parent before the capture: the later one is then a redelivery.

## What to do

If the order of a key matters, use a stream consumer. If the consumers are stream consumers, report the problem with the
broker's version and this capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import count_of, first_of, frames_text
from pcli.codec.observe.rules.segment_text import topic_text
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord

_QUEUE: Final = Cause("application")
_STREAM: Final = Cause(
    "broker", "likely", ("a seek before the capture",), "The broker's log, and a capture that starts earlier."
)


@rule(
    "scalable_topic",
    facts=("consumers", "overtaken", "segments"),
    title="messages of a key after newer messages of the key in another segment",
    issue="PIP-468",
    effect=("message was delivered after newer ones", "messages were delivered after newer ones"),
)
def evaluate(topic: ScalableTopicRecord, _moment: Moment) -> Iterator[Finding]:
    """Return a finding for each subscription of queue or stream consumers with such messages."""
    for subscription, seen in topic.overtaken.items():
        types = {one.type for one in topic.consumers if one.subscription == subscription}
        if "CHECKPOINT" in types:
            continue  # each of them has a position of its own
        stream = "STREAM" in types
        records = [one.subscription(subscription) for one in topic.segments.values()]
        yield Finding(
            "warning" if stream else "note",
            "likely" if stream else "certain",
            _STREAM if stream else _QUEUE,
            {"topic": topic.name, "subscription": subscription},
            f"{'Stream' if stream else 'Queue'} consumers of subscription {printable(subscription)} on "
            f"{topic_text(topic)} received {count_of(seen.count, 'message')} after newer messages of the same key, "
            f"which are in a child of their segment{first_of(seen)} ({frames_text(seen.frames)}).",
            opposite="An earlier delivery of the messages would disprove the finding; there is none.",
            advice="Report the problem with the broker's version."
            if stream
            else "Use a stream consumer if the order of a key matters.",
            seen=seen,
            until_ns=seen.last_ns,
            doubts=topic.doubts.union(*(one.doubts for one in records if one is not None)),
        )
