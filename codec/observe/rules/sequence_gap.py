"""Sequence ids that skip values or go back.

## What it means

A client numbers the messages of a producer consecutively. Two deviations are reported:

- *missing*: some ids were never sent. Messages were numbered and dropped before they were sent, because of a failed
  serialization or a full queue, or the client library skipped an id.
- *backwards*: an id in the same session is not above an earlier id, and the content is different. If deduplication is
  enabled, the broker drops these messages (see resend-refused); otherwise there is no effect until deduplication is
  enabled.

Applications may set ids themselves and then skip values, for example if the ids are file offsets or timestamps. If many
SENDs skip ids, or a step is larger than any queue, the rule assumes such an application and reports nothing.

## On the wire

The `sequence_id` of SEND, and `highest_sequence_id` of a batch. If a client sends no highest id, each message of a
batch is assumed to use an id, so a small gap after the batch is not detected. The first SEND of a session may have any
id.

## What would disprove it

An application that sets `sequenceId` occasionally. If the capture has a gap, nothing is reported.

## What to do

For *missing*, check what the application logged when these ids were skipped. For *backwards*, let the client assign the
ids, or continue from `last_sequence_id` of PRODUCER_SUCCESS. If the client assigned them, report the problem to its
developers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import GAPS, Cause, Finding, Moment, certainty, rule
from pcli.codec.observe.rules.finding_text import count_of, frames_text, times
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject, sets_own_sequence_ids
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

_SKIPPED: Final = Cause(
    "client",
    "likely",
    ("an application that assigns sequence ids itself",),
    "The application's log at the time of the skipped ids.",
)
_FEW: Final = Cause(
    "client",
    "possible",
    ("an application that assigns sequence ids itself",),
    "The application's log at the time of the skipped ids.",
)

MAX_SKIPPED: Final = 1_000
"""Maximum number of skipped ids that may have been messages: maxPendingMessages of most clients."""


@rule(
    "producer",
    facts=("gaps", "backwards", "ids_vague", "sent_entries", "topic_record.deduplicates"),
    title="sequence ids that skip values or go back",
    issue="apache/pulsar#17836",
)
def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for both deviations; none if SENDs may be missing from the capture."""
    if producer.doubts & GAPS:
        return
    gaps, back = producer.gaps, producer.backwards
    uncertain = producer.ids_vague and "start" in producer.doubts
    if gaps.count and not uncertain and not sets_own_sequence_ids(producer) and _missing(gaps.sample) <= MAX_SKIPPED:
        yield Finding(
            "warning",
            certainty(producer.doubts - {"start"}),
            _SKIPPED if producer.sent_entries >= 20 else _FEW,
            producer_subject(producer),
            f"{about_producer(producer)} skipped sequence ids {times(gaps.count)}, first {printable(gaps.sample)} "
            f"({frames_text(gaps.frames)}); the other {count_of(producer.sent_entries, 'SEND')} are numbered "
            "consecutively.",
            opposite="An application that sets sequence ids itself may skip some, but the other ids of this producer "
            "are consecutive. A later SEND with a skipped id would disprove the finding; there is none.",
            advice="Check what the application logged when these ids were skipped: a message was numbered but not "
            "sent.",
            variant="missing",
            seen=gaps,
        )
    topic = producer.topic_record
    if back.count and not (topic is not None and topic.deduplicates):
        yield Finding(
            "note",
            "certain",
            _FEW,
            producer_subject(producer),
            f"{about_producer(producer)} sent {count_of(back.count, 'SEND')} with a sequence id that is not above "
            "an "
            f"earlier id, first {printable(back.sample)} ({frames_text(back.frames)}).",
            opposite="The application may set the ids; this is not visible on the wire. The messages are not resends, "
            "because their publish times or sizes differ.",
            advice="If deduplication were enabled, the broker would drop these messages. Let the client assign the "
            "ids.",
            variant="backwards",
            seen=back,
        )


def _missing(sample: str) -> int:
    """Return how many ids were skipped the first time. ``sample`` has the form ``3 to 7``."""
    first, _, last = sample.partition(" to ")
    return int(last) - int(first) + 1
