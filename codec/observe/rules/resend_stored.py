"""Messages that a client resent and that are, or may be, stored twice.

## What it means

A client that loses its connection resends all messages that have no receipt. If the broker had already stored some of
them, it stores them a second time, unless deduplication is enabled. Every subscription receives these messages twice
with different ids. This is not a redelivery, and acknowledging one copy does not acknowledge the other copy. There are
three cases:

- *twice*: both SENDs have receipts with different ids. The first receipt did not reach the client, or arrived too late.
- *delivered*: the first SEND has no response, but a consumer received its message with another id than the resend.
- *blind*: the capture contains no response to the first SEND before its connection ended. Whether the message was
  stored is unknown.

## On the wire

SEND and SEND_RECEIPT; the end of the connection; PRODUCER with the same name; a SEND of the same bytes (sequence id,
publish time, size) and a SEND_RECEIPT with another id.

## What would disprove it

For *blind*: a SEND_ERROR for the first SEND, or deduplication (the receipt -1:-1). For *twice*: nothing.

## What to do

Enable deduplication for the namespace or topic, and give the producer a fixed name. Alternatively, make consumers
detect duplicates: producer name and sequence id are the same in both copies. Find out why the connection was lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, GAPS, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import count_of, first_of, frames_text
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.rules.reconnect_causes import cause_of_loss
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

_IN_GAP: Final = Cause(
    "capture",
    "possible",
    ("a broker that lost the connection", "a network that lost the connection"),
    "A capture without gaps.",
)


@rule(
    "producer",
    facts=(
        "duplicates_stored",
        "duplicates_delivered",
        "resent_blind",
        "heard_ns",
        "ends",
        "topic_record.deduplicates",
    ),
    title="messages that were resent and are, or may be, stored twice",
    issue="streamnative/pulsar-rs#358",
    because_of=("broker-unavailable", "keep-alive-missed", "auth-expired", "receipts-out-of-order"),
    effect=("message was resent", "messages were resent"),
)
def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each case."""
    twice, blind, topic = producer.duplicates_stored, producer.resent_blind, producer.topic_record
    if twice.count:
        yield Finding(
            "error",
            "certain",
            cause_of_loss(producer.ends),
            producer_subject(producer),
            f"The broker stored {count_of(twice.count, 'message')} of {about_producer(producer)} twice: the "
            f"client resent {'it' if twice.count == 1 else 'them'}, and both copies received receipts{first_of(twice)} "
            f"({frames_text(twice.frames)}).",
            opposite="Receipts with the same id, or with -1:-1, would disprove the finding; the ids differ.",
            advice="Enable deduplication, or make consumers compare producer name and sequence id.",
            variant="twice",
            seen=twice,
        )
    delivered = producer.duplicates_delivered
    if delivered.count:
        them = "it" if delivered.count == 1 else "them"
        yield Finding(
            "error",
            "certain",
            cause_of_loss(producer.ends),
            producer_subject(producer),
            f"The broker stored {count_of(delivered.count, 'message')} of {about_producer(producer)} twice: it had "
            f"stored {them} before the connection was lost, but the client received no receipt and resent {them}"
            f"{first_of(delivered)} ({frames_text(delivered.frames)}).",
            opposite="A delivery and a receipt with the same id would disprove the finding; the ids differ.",
            advice="Enable deduplication, or make consumers compare producer name and sequence id.",
            variant="delivered",
            seen=delivered,
        )
    rest = blind.count - delivered.count
    if rest > 0 and producer.heard_ns >= 0 and not (topic is not None and topic.deduplicates):
        doubts = producer.doubts - EDGES
        yield Finding(
            "note",
            "possible",
            _IN_GAP if GAPS & doubts else cause_of_loss(producer.ends),
            producer_subject(producer),
            f"{about_producer(producer)} resent {count_of(rest, 'message')} that had no response when "
            f"{'its' if rest == 1 else 'their'} session ended ({frames_text(blind.frames)}): the "
            f"{'message' if rest == 1 else 'messages'} may be stored twice.",
            blind.first_ns,
            blind.frames,
            "A second delivery with another id but the same producer name and sequence id would confirm this.",
            "Compare producer name and sequence id of delivered messages. Deduplication prevents duplicates.",
            "blind",
            count=rest,
            doubts=doubts,
        )
