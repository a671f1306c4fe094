"""Messages that a client sent again, and that are in the topic twice, or may be.

## What it means

A client that loses its connection sends everything again for which it has no receipt. A broker that had stored some of
it stores it a second time, unless deduplication is on. Every subscription gets those messages twice, under different
ids: this is no redelivery, and acknowledging one copy leaves the other. Two cases:

- *twice*: both SENDs have a receipt, with two ids. The first one did not reach the client, or came too late for it.
- *blind*: the first SEND had no answer in the capture when its connection ended. Whether it was stored nobody saw.

## On the wire

SEND and SEND_RECEIPT; the end of the connection; PRODUCER with the same name; a SEND of the same bytes (sequence id,
publish time, size) and a SEND_RECEIPT with another id.

## What speaks for the opposite

For *blind*: a SEND_ERROR for the first, or deduplication (a receipt of -1:-1). For *twice* nothing does.

## What to do

Turn on deduplication for the namespace or topic, and give the producer a name that lasts. Or make consumers
indifferent: producer name and sequence id are the same in both copies. Find out why the connection was lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.loops import whose_end
from pcli.codec.observe.rules.production import about_producer, producer_subject
from pcli.codec.observe.rules.wording import EDGES, HOLES, certainty, count_of, first_of, frames_text, why_unsure
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE"]


def look(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Both."""
    twice, blind, topic = producer.duplicates_stored, producer.resent_blind, producer.topic_record
    if twice.count:
        yield Finding(
            "resend-stored",
            "warning",
            _whose(producer),
            "certain",
            producer_subject(producer),
            f"{about_producer(producer)} has {count_of(twice.count, 'entry', 'entries')} in the topic twice: it sent "
            f"them again and both were stored{first_of(twice)} ({frames_text(twice.frames)}).",
            twice.first_ns,
            twice.frames,
            "Receipts with the same id, or of -1:-1: both have ids of their own.",
            "Turn on deduplication, or let consumers compare producer name and sequence id.",
            "twice",
        )
    if blind.count and producer.heard_ns >= 0 and not (topic is not None and topic.deduplicates):
        doubts = producer.doubts - EDGES
        yield Finding(
            "resend-stored",
            "note",
            "capture" if HOLES & doubts else _whose(producer),
            certainty(doubts, "possible"),
            producer_subject(producer),
            f"{about_producer(producer)} repeated {count_of(blind.count, 'SEND')} that had no answer when "
            f"{'its' if blind.count == 1 else 'their'} session ended ({frames_text(blind.frames)}): what "
            f"{'it' if blind.count == 1 else 'they'} brought may be in the topic twice.",
            blind.first_ns,
            blind.frames,
            "A second delivery under another id with the same producer name and sequence id would show it."
            + why_unsure(doubts),
            "Compare producer name and sequence id of what is delivered; with deduplication it cannot happen.",
            "blind",
        )


def _whose(producer: ProducerRecord) -> str:
    """To send again is what a client has to do: what made it is who broke the connection, or what lies between."""
    whose = whose_end(producer.ends)
    return "network" if whose == "client" else whose


RULE = Rule(
    name="resend-stored",
    group="producer",
    facts=("duplicates_stored", "resent_blind", "heard_ns", "ends", "topic_record.deduplicates"),
    title="messages that were sent again, and are or may be in the topic twice",
    issue="streamnative/pulsar-rs#358",
    look=look,
)
