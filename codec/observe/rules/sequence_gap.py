"""Sequence ids that leave some out, or go back.

## What it means

A client numbers the messages of a producer one after the other. Two things are odd:

- *missing*: some ids were never sent. Messages that got a number were dropped before they left: a failed
  serialisation, a full queue, a client library that skips one.
- *backwards*: an id at or below one that was sent before, on the same session, with other content. With deduplication
  the broker drops such messages (see: resend-refused); without it nothing happens until somebody turns it on.

Applications may choose ids themselves, and then they may leave out what they like: file offsets, time stamps. When many
SENDs leave ids out, or a step is larger than any queue, that is taken for granted and nothing is said.

## On the wire

The `sequence_id` of SEND, and `highest_sequence_id` for a batch. Batches of clients that give no highest id count with
all their messages, so a small gap behind such a batch cannot be seen. The first SEND of a session may have any id.

## What speaks for the opposite

An application that sets `sequenceId` now and then. A hole in the capture: then nothing is said.

## What to do

Missing: look at what the application logged when it sent the ids named. Backwards: let the client count, or count on
from `last_sequence_id` of PRODUCER_SUCCESS; report it when the client does count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.production import about_producer, numbers_itself, producer_subject
from pcli.codec.observe.rules.wording import HOLES, count_of, frames_text, times
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE"]

MOST: Final = 1_000
"""Ids left out at once that may have been messages: maxPendingMessages of most clients."""


def look(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Both; nothing where SENDs may be missing in the capture."""
    if producer.doubts & HOLES:
        return
    gaps, back = producer.gaps, producer.backwards
    midway = producer.ids_vague and "start" in producer.doubts
    if gaps.count and not midway and not numbers_itself(producer) and _missing(gaps.sample) <= MOST:
        yield Finding(
            "sequence-gap",
            "warning",
            "client",
            "likely" if producer.sent_entries >= 20 else "possible",
            producer_subject(producer),
            f"{about_producer(producer)} left out sequence ids {times(gaps.count)}, first "
            f"{printable(gaps.sample)} ({frames_text(gaps.frames)}), among {count_of(producer.sent_entries, 'SEND')} "
            "that go on one by one.",
            gaps.first_ns,
            gaps.frames,
            "An application that sets sequence ids itself may leave some out; the others of this producer look like a "
            "counter's. A later SEND with one of them: there is none.",
            "Look for what the application logged when it sent these: a message was numbered and not sent.",
            "missing",
        )
    topic = producer.topic_record
    if back.count and not (topic is not None and topic.deduplicates):
        yield Finding(
            "sequence-gap",
            "note",
            "client",
            "possible",
            producer_subject(producer),
            f"{about_producer(producer)} sent {count_of(back.count, 'message')} with a sequence id at or below one "
            f"before it, first {printable(back.sample)} ({frames_text(back.frames)}).",
            back.first_ns,
            back.frames,
            "It may be the application that sets the ids: nothing on the wire tells. They are no resends: time or size "
            "differ.",
            "With deduplication the broker would drop these messages. Let the client count.",
            "backwards",
        )


def _missing(sample: str) -> int:
    """How many ids were left out the first time: ``3 to 7``."""
    first, _, last = sample.partition(" to ")
    return int(last) - int(first) + 1


RULE = Rule(
    name="sequence-gap",
    group="producer",
    facts=("gaps", "backwards", "ids_vague", "sent_entries", "topic_record.deduplicates"),
    title="sequence ids that leave some out, or go back",
    issue="apache/pulsar#17836",
    look=look,
)
