"""Chunks of a large message that were sent more than once.

## What it means

A message larger than the broker takes is sent in chunks, each an entry of its own. When the connection breaks between
them the client sends again from the first without a receipt, and chunks that had been stored are stored twice.
Consumers have to cope with 0, 1, 0, 1, 2. Older Java clients (before 3.0.2 and 2.10.6) threw the whole message away
when a chunk repeated, and left the first copies unacknowledged for ever.

## On the wire

SENDs with the same `uuid` in the metadata and a `chunk_id` that was there before, mostly on a new connection. The
broker's deduplication looks at the last chunk only.

## What speaks for the opposite

Nothing: the repeated SENDs are there. Whether the consumers mind depends on their versions.

## What to do

Look whether the message arrived (`pcli trace` shows its chunks and deliveries), and whether entries of it stay
unacknowledged. Upgrade consumers that lose such messages. Find out why the connection was lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.loops import whose_end
from pcli.codec.observe.rules.production import about_producer, producer_subject
from pcli.codec.observe.rules.wording import count_of, first_of, frames_text
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE"]


def look(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Any."""
    seen = producer.chunks_resent
    if not seen.count:
        return
    yield Finding(
        "chunk-resent",
        "warning",
        whose_end(producer.ends),
        "certain",
        producer_subject(producer),
        f"{about_producer(producer)} sent {count_of(seen.count, 'chunk')} again{first_of(seen)} "
        f"({frames_text(seen.frames)}).",
        seen.first_ns,
        seen.frames,
        "Consumers may put the message together all the same: look for its acknowledgement.",
        "See with `pcli trace` whether it arrived, and upgrade consumers that lose such messages.",
    )


RULE = Rule(
    name="chunk-resent",
    group="producer",
    facts=("chunks_resent", "ends"),
    title="chunks of a message that were sent more than once",
    issue="apache/pulsar#21070",
    look=look,
)
