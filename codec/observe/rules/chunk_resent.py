"""Chunks of a large message that were sent more than once.

## What it means

A message that exceeds the broker's size limit is sent in chunks, each of which is an entry. If the connection breaks
between two chunks, the client resends all chunks that have no receipt, and chunks that were already stored are stored
twice. Consumers must handle sequences such as 0, 1, 0, 1, 2. Older Java clients (before 3.0.2 and 2.10.6) discarded the
whole message when a chunk was repeated, and never acknowledged the first copies.

## On the wire

SENDs with the same `uuid` in the metadata and a `chunk_id` that was already sent, usually on a new connection. The
broker's deduplication checks only the last chunk.

## What would disprove it

Nothing: the repeated SENDs are in the capture. The effect on consumers depends on their versions.

## What to do

Check whether the message arrived (`pcli trace` shows its chunks and deliveries) and whether some of its entries remain
unacknowledged. Upgrade consumers that lose such messages. Find out why the connection was lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import count_of, first_of, frames_text
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.rules.reconnect_causes import cause_of_ends
from pcli.codec.observe.tracking.records.client_records import ProducerRecord


@rule(
    "producer",
    facts=("chunks_resent", "ends"),
    title="chunks of a message that were sent more than once",
    issue="apache/pulsar#21070",
    because_of=("broker-unavailable", "keep-alive-missed", "auth-expired"),
    effect=("chunk was resent", "chunks were resent"),
)
def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if the producer resent chunks."""
    seen = producer.chunks_resent
    if not seen.count:
        return
    yield Finding(
        "warning",
        "certain",
        cause_of_ends(producer.ends),
        producer_subject(producer),
        f"{about_producer(producer)} resent {count_of(seen.count, 'chunk')}{first_of(seen)} "
        f"({frames_text(seen.frames)}).",
        opposite="Consumers may still reassemble the message: look for its acknowledgement.",
        advice="Check with `pcli trace` whether the message arrived, and upgrade consumers that lose such messages.",
        seen=seen,
    )
