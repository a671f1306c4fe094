"""Messages in the wrong place of a scalable topic: the rules with their pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, certainty, rule, why_unsure
from pcli.codec.observe.rules.finding_text import count_of, first_of, frames_text
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.rules.segment_text import topic_text
from pcli.codec.observe.tracking.records.client_records import ProducerRecord
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord, SegmentRecord

_CLIENT: Final = Cause(
    "client", "likely", ("an application that writes the metadata itself",), "The version of the client library."
)
_RESENT: Final = Cause("client", "likely", ("an application that sent equal messages",), "The log of the application.")


def _finding(
    segment: SegmentRecord, seen: Occurrences, severity: str, sure: str, what: str, opposite: str, advice: str
) -> Finding:
    """Return a finding about SENDs to a segment; ``what`` is followed by the first of them and their frames."""
    return Finding(
        severity,
        sure,
        _CLIENT,
        {"topic": segment.topic.name, "segment": segment.id},
        f"{what}{first_of(seen)} ({frames_text(seen.frames)}).",
        opposite=opposite,
        advice=advice,
        variant=f"{segment.id}",
        seen=seen,
        until_ns=seen.last_ns,
    )


@rule(
    "scalable_topic",
    facts=("segments", "consumers"),
    title="entries of several entry buckets",
    issue="PIP-486",
    effect=("entry belongs to several buckets", "entries belong to several buckets"),
    name="entry-in-two-buckets",
    page="""
An entry whose messages belong to several entry buckets of a segment.

## What it means

If there are more stream consumers than segments, consumers share a segment, and each has some of its entry buckets. The
broker dispatches an entry as a whole, to the consumer with the bucket of its lowest hash. The messages of the other
buckets reach a consumer that does not own their keys, so their order per key is lost. V5 clients send one batch per
bucket.

## On the wire

SENDs whose `entry_hash_min` and `entry_hash_max` are in different buckets of the layout. The broker counts them in
`pulsar_scalable_topic_entry_bucket_violation_total`.

## What would disprove it

A layout with other buckets that the capture does not contain: after a rebucket, messages of the older layout can be on
their way.

## What to do

Update the client library of the producer. Until then, use at most as many consumers as segments.
""",
)
def _entry_in_two_buckets(topic: ScalableTopicRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each segment with such entries."""
    shared = {number for consumer in topic.consumers for number, buckets in consumer.segments.items() if buckets}
    for segment in topic.segments.values():
        seen = segment.straddling
        if seen.count:
            yield _finding(
                segment,
                seen,
                "warning" if segment.id in shared else "note",
                certainty(topic.doubts - EDGES, "likely"),
                f"{count_of(seen.count, 'entry', 'entries')} in segment {segment.id} of {topic_text(topic)} belong to "
                "several entry buckets",
                "A layout with other buckets at that time would disprove the finding."
                + why_unsure(topic.doubts - EDGES),
                "Update the client library of the producer.",
            )


@rule(
    "scalable_topic",
    facts=("segments",),
    title="keys in segments that do not have their hash",
    issue="PIP-460",
    effect=("message is in the wrong segment", "messages are in the wrong segment"),
    name="key-in-wrong-segment",
    page="""
A message that was sent to a segment whose range does not contain the hash of its key.

## What it means

The high 16 bits of the hash (Murmur3) of a key select the segment. Messages of one key in two segments have no common
order, and consumers of different segments receive them.

## On the wire

A SEND with a key to a segment ``segment://…/FIRST-LAST-ID`` whose range does not contain the hash.

## What would disprove it

Nothing: name and key are in the frames.

## What to do

Check the hash function of the producer: a client in another language must use Murmur3 with 32 bits over the UTF-8 key.
""",
)
def _key_in_wrong_segment(topic: ScalableTopicRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each segment with such messages."""
    for segment in topic.segments.values():
        seen = segment.misrouted
        if seen.count:
            yield _finding(
                segment,
                seen,
                "error",
                "certain",
                f"{count_of(seen.count, 'SEND')} to segment {segment.id} of {topic_text(topic)} had a key whose hash "
                "is not in the range of the segment",
                "Nothing: the name of the segment contains its range, and the frame contains the key.",
                "Check the hash function of the producer.",
            )


@rule(
    "producer",
    facts=("stored_on_child",),
    title="messages that are stored in a segment and again in its child",
    issue="PIP-468",
    effect=("message is stored in two segments", "messages are stored in two segments"),
    name="stored-in-two-segments",
    page="""
A message that a producer sent again after a split or merge, although the first SEND was stored.

## What it means

When a segment is sealed, a client sends the messages without a receipt again to the new segments. If a receipt arrives
after the client has decided to do so, the scalable topic contains the message twice. Deduplication does not prevent
this, because it works per segment.

## On the wire

A SEND, CLOSE_PRODUCER of the broker, the SEND_RECEIPT of the SEND, and a SEND with the same key and payload to another
segment of the topic.

## What would disprove it

An application that sent two equal messages.

## What to do

Make the consumers idempotent: a unique id in each message lets them recognize the second one.
""",
)
def _stored_in_two_segments(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if messages of a sealed segment were stored twice."""
    seen = producer.stored_on_child
    if seen.count:
        yield Finding(
            "warning",
            "likely",
            _RESENT,
            producer_subject(producer),
            f"{about_producer(producer)} sent {count_of(seen.count, 'message')} again to another segment, although the "
            f"first SEND was stored ({frames_text(seen.frames)}).",
            opposite="Equal messages of the application would disprove the finding.",
            advice="Make the consumers idempotent.",
            seen=seen,
            until_ns=seen.last_ns,
            doubts=producer.doubts - EDGES,
        )
