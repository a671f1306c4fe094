"""Acknowledgements without effect: never answered, refused, or the message came again all the same.

## What it means

An ACK without a request id is fire and forget: when it is lost nobody notices, until the message comes again. With
acknowledgement receipts (`isAckReceiptEnabled`, and always in transactions) the broker answers each. Three things are
told apart:

- *unanswered*: an ACK asked for an answer and none came before its connection or consumer ended;
- *back again*: a message was delivered once more although an ACK covered it: the broker never got the ACK, or forgot it
  (its cursor was not stored yet, or had more holes than `managedLedgerMaxUnackedRangesToPersist`);
- the name of an error: the broker answered that it did not take it (a conflict of transactions, say).

## On the wire

ACK with `request_id` and no ACK_RESPONSE with it; or MESSAGE, ACK, MESSAGE with one id, without a SEEK between them.
For a batch of which a part was acknowledged without batch index acknowledgements it is ordinary: whole-batches-again.

## What speaks for the opposite

For *unanswered*: an answer in a hole of the capture. For *back again*: an ACK that this recorder saw on its side of the
network and the broker never did, when the connection broke right behind it.

## What to do

Switch acknowledgement receipts on, so that the application hears of it. Make the application bear messages that come
twice: at least once is what is promised. Many holes in the acknowledgements make the cursor forget: acknowledge in
order, or raise the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumption import attached, seen_until
from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    HOLES,
    about_consumer,
    certainty,
    consumer_subject,
    count_of,
    first_of,
    frames_text,
    said,
    span,
    why_unsure,
)
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]

_LATE_NS: Final = 1_000_000_000
"""An answer that is younger than this at the end of the capture may be on its way."""


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """The three ways."""
    yield from _unanswered(consumer, moment)
    yield from _back(consumer)
    subject = consumer_subject(consumer)
    for error, seen in consumer.acks_failed.items():
        yield Finding(
            "ack-lost",
            "warning",
            "application",
            "certain",
            subject,
            f"The broker refused {count_of(seen.count, 'acknowledgement')} of {about_consumer(consumer)} with {error}: "
            f"{said(seen.sample)}",
            seen.first_ns,
            seen.frames,
            "A later ACK of the same messages without an error.",
            "The error says why; in transactions TransactionConflict means that another one has acknowledged it.",
            error,
        )


def _unanswered(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    seen, session = consumer.acks_unanswered, consumer.session
    if not seen.count or session is None:
        return
    until = seen_until(consumer, moment)
    broke = not attached(consumer) and session.end != "closed"
    if until - seen.last_ns < _LATE_NS and not broke:
        return
    doubts = consumer.doubts - {"start"}
    yield Finding(
        "ack-lost",
        "warning",
        "capture" if HOLES & doubts else "network" if broke else "broker",
        certainty(doubts, "certain" if broke else "likely"),
        consumer_subject(consumer),
        f"{count_of(seen.count, 'acknowledgement')} of {about_consumer(consumer)} asked for an answer and got none in "
        f"the {span(until - seen.last_ns)} until {'its connection ended' if broke else 'the end'} "
        f"({frames_text(seen.frames)}).",
        seen.first_ns,
        seen.frames,
        "An ACK_RESPONSE with the request id." + why_unsure(doubts),
        "Whether they took effect shows when the messages come again. Make the application bear that.",
        "unanswered",
    )


def _back(consumer: ConsumerRecord) -> Iterator[Finding]:
    seen = consumer.acked_but_back
    if not seen.count:
        return
    doubts = consumer.doubts - EDGES
    broke = any(end not in ("closed", "broker") for end in consumer.ends)
    yield Finding(
        "ack-lost",
        "warning",
        "network" if broke else "broker",
        certainty(doubts, "likely"),
        consumer_subject(consumer),
        f"{count_of(seen.count, 'message')} that {about_consumer(consumer)} had acknowledged came again"
        f"{first_of(seen)} ({frames_text(seen.frames)}).",
        seen.first_ns,
        seen.frames,
        "A SEEK or a reset of the cursor between the ACK and the delivery: there is none in the capture. A proxy "
        "between here and the broker may have lost the ACK." + why_unsure(doubts),
        "Switch acknowledgement receipts on. Make the application bear messages that come twice.",
        "back-again",
    )


RULE = Rule(
    name="ack-lost",
    group="consumer",
    facts=("acks_unanswered", "acked_but_back", "acks_failed", "ends", "session"),
    title="acknowledgements that were not answered, were refused, or did not keep the message from coming again",
    issue="apache/pulsar#23262",
    look=look,
)
