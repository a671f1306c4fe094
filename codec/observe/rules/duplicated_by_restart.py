"""Messages that a restarted producer sent again, and that are, or may be, stored twice.

## What it means

The process of a producer ended without closing the producer: it was killed, or it crashed. It started again and sent
messages that were already stored, because the application does not know how far it had got. The new producer counts its
sequence ids from 0 or from the broker's last id, so deduplication does not recognize the messages. Every subscription
receives them twice with different ids. There are two cases:

- *twice*: both SENDs have receipts with different ids.
- *blind*: the capture contains no response to the first SEND before its connection ended. Whether the message was
  stored is unknown.

Messages are compared by payload, keys and properties, batches as a whole. Content that was sent more than once before
the restart (a heartbeat) does not count. One repeated message counts only if it was the last one, or had no receipt;
otherwise, at least two messages must be repeated in the same order. Encrypted messages cannot be compared.

## On the wire

The end of a connection without CLOSE_PRODUCER; a PRODUCER with the epoch 0 for the same topic, with the same name or
another one; SENDs with the payloads of earlier SENDs, but with later publish times.

## What would disprove it

An application that sends the same sequence of messages on purpose whenever it starts.

## What to do

Enable deduplication, give the producer a fixed name, and set the sequence id of each message from its source (a line
number, an offset): the broker then drops messages that it has stored before. After a start, the client reports the last
sequence id that the broker has stored (`getLastSequenceId`). Alternatively, make consumers detect duplicates by
content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import GAPS, Cause, Finding, Moment, rule, why_unsure
from pcli.codec.observe.rules.finding_text import at, count_of, first_of, frames_text
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ProducerRecord
from pcli.codec.observe.tracking.records.connection_records import LOST

_REPEATED: Final = ("an application that sends the same messages on purpose",)
_DECIDE: Final = "The application's log: what it sends after a start."
_BROKER_LOST: Final = Cause("broker", "likely", _REPEATED, _DECIDE)
_RESTARTED: Final = Cause("application", "likely", _REPEATED, _DECIDE)

_ADVICE: Final = (
    "Enable deduplication, and set sequence ids from the source of the messages; after a start, continue after the "
    "last sequence id that the broker has stored."
)
_OPPOSITE: Final = "An application that sends the same messages on purpose when it starts would disprove the finding."


@rule(
    "producer",
    facts=("restart_duplicates", "restart_duplicates_blind", "restart_of", "restart_end"),
    title="messages that a restarted producer sent again and that are, or may be, stored twice",
    issue="PIP-6",
    because_of=("broker-unavailable", "keep-alive-missed"),
    effect=("message was sent again", "messages were sent again"),
)
def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for both cases."""
    twice, blind = producer.restart_duplicates, producer.restart_duplicates_blind
    doubts = producer.doubts & GAPS
    cause = _BROKER_LOST if producer.restart_end[0] in LOST else _RESTARTED
    if twice.count:
        yield Finding(
            "error",
            "possible" if doubts else "likely",
            cause,
            producer_subject(producer),
            f"The broker stored {count_of(twice.count, 'message')} of {about_producer(producer)} twice: the "
            f"application sent {'it' if twice.count == 1 else 'them'} again after {_end(producer)}{first_of(twice)} "
            f"({frames_text(twice.frames)}).",
            opposite=_OPPOSITE + why_unsure(doubts),
            advice=_ADVICE,
            variant="twice",
            seen=twice,
        )
    if blind.count:
        yield Finding(
            "note",
            "possible",
            cause,
            producer_subject(producer),
            f"The application sent {count_of(blind.count, 'message')} of {about_producer(producer)} again after "
            f"{_end(producer)} without a response ({frames_text(blind.frames)}): the "
            f"{'message' if blind.count == 1 else 'messages'} may be stored twice.",
            opposite="A delivery of the first copy, with another id, would confirm this." + why_unsure(doubts),
            advice=_ADVICE,
            variant="blind",
            seen=blind,
        )


def _end(producer: ProducerRecord) -> str:
    """Return how the earlier producer ended."""
    _, frame = producer.restart_end
    name = "" if producer.restart_of == producer.name else f" {printable(producer.restart_of)}"
    return f"the earlier producer{name} had ended without CLOSE_PRODUCER ({at(frame)})"
