"""Acknowledgements without effect: unanswered, refused, or followed by a redelivery of the message.

## What it means

The broker does not respond to an ACK without a request id. If such an ACK is lost, nothing reports the loss until the
message is redelivered. If acknowledgement receipts are enabled with `isAckReceiptEnabled`, and always in transactions,
the broker responds to each ACK. There are four cases:

- *unanswered*: an ACK requested a response, and none arrived before the connection ended or the consumer was closed.
- *back again*: a message was delivered again although an ACK covered it. The broker did not receive the ACK, or it
  lost the acknowledgement because the cursor was not stored yet or had more gaps than
  `managedLedgerMaxUnackedRangesToPersist`.
- *not delivered*: TCP retransmitted the ACKs, and the broker's host never acknowledged them.
- *the name of an error*: the broker refused the ACK, for example because of a transaction conflict. Brokers since 5.0
  also refuse a cumulative ACK behind the mark-delete position, which has no effect (a note), and an ACK of an entry
  that the topic does not contain.

## On the wire

ACK with `request_id` and no ACK_RESPONSE with that id; or MESSAGE, ACK, MESSAGE with the same id and no SEEK in
between. The second sequence is normal for a batch that was acknowledged in part without batch index acknowledgements:
see whole-batches-again.

## What would disprove it

For *unanswered*: a response in a gap in the capture. For *back again*: an ACK that was captured on the client's side of
the network but never reached the broker, because the connection broke immediately afterwards.

## What to do

Enable acknowledgement receipts, so that the application is notified of failures. Make the application tolerate
duplicates: Pulsar guarantees at-least-once delivery. If the acknowledgements have many gaps, the cursor cannot be
stored completely: acknowledge messages in order, or raise the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import attached, seen_until
from pcli.codec.observe.rules.finding import EDGES, GAPS, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import (
    about_consumer,
    consumer_subject,
    count_of,
    error_message,
    first_of,
    frames_text,
    span,
)
from pcli.codec.observe.rules.network_losses import ADVICE, connection_at, loss_of
from pcli.codec.observe.rules.reconnect_causes import cause_of_loss
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_REFUSED: Final = Cause(
    "application",
    "likely",
    ("a transaction that the broker had already ended",),
    "The error message, and the broker's log at that time.",
)
_BEHIND: Final = Cause(
    "client", "likely", ("an application that acknowledges an old id",), "The id in the ACK, and the ACKs before it."
)
_BEYOND: Final = Cause(
    "application", "likely", ("a client library that sends a wrong id",), "The id in the ACK, and the topic's last id."
)
_REFUSALS: Final = {
    "already mark-deleted position": (
        "note", _BEHIND, "Nothing: an earlier cumulative acknowledgement contains the messages.",
    ),
    "Invalid mark deleted position": (
        "warning", _BEYOND, "The topic has no entry with this id: acknowledge the ids of messages that it delivered.",
    ),
}  # fmt: skip
"""Severity, cause and advice by a part of the message of an UnknownError, which brokers since 5.0 send."""

_IN_GAP: Final = Cause(
    "capture",
    "possible",
    ("a broker that did not respond", "a connection that broke before the response"),
    "A capture without gaps.",
)
_BROKE: Final = Cause(
    "network",
    "likely",
    ("a broker that did not respond before the connection ended",),
    "A capture on the broker's host: it shows whether the ACK arrived there.",
)
_NOT_STORED: Final = Cause(
    "broker",
    "likely",
    ("a reset of the cursor by an administrator", "an ACK that was lost between the point of capture and the broker"),
    "The broker's log, or a capture on the broker's host.",
)
_NO_RESPONSE: Final = Cause(
    "broker",
    "likely",
    ("a response that was lost between the broker and the point of capture",),
    "A capture on the broker's host: it shows whether the ACK arrived there.",
)

_AFTER: Final = {
    "lost": "after its connection broke",
    "unload": "after the broker closed the consumer (unload, restart)",
    "left": "after the consumer was closed",
    "takeover": "after another consumer became active",
    "reopened": "after the last consumer was closed",
}
"""The event before the redelivery, by key of AGAIN."""

_LATE_NS: Final = 1_000_000_000
"""Minimum age of an unanswered ACK at the end of the capture. A younger ACK can still be answered."""


@rule(
    "consumer",
    facts=("acks_unanswered", "acked_but_back", "acks_failed", "ends", "session", "connections", "last_ack_ns"),
    title="acknowledgements that were unanswered or refused, or that did not prevent a redelivery",
    issue="apache/pulsar#23262",
    because_of=("broker-unavailable", "keep-alive-missed"),
    effect=("acknowledgement was lost", "acknowledgements were lost"),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for all four cases."""
    yield from _unanswered(consumer, moment)
    yield from _back(consumer, moment)
    yield from _not_delivered(consumer, moment)
    subject = consumer_subject(consumer)
    for error, seen in consumer.acks_failed.items():
        severity, cause, advice = next(
            (known for part, known in _REFUSALS.items() if part in seen.sample),
            (
                "warning",
                _REFUSED,
                "The error names the reason; in a transaction, TransactionConflict means that another transaction "
                "acknowledged the messages.",
            ),
        )
        yield Finding(
            severity,
            "certain",
            cause,
            subject,
            f"The broker refused {count_of(seen.count, 'acknowledgement')} of {about_consumer(consumer)} with {error}: "
            f"{error_message(seen.sample)}",
            opposite="A later ACK of the same messages without an error would disprove the finding.",
            advice=advice,
            variant=error,
            seen=seen,
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
    loss = loss_of(moment, session.stream, seen.frames[0] if seen.frames else 0)
    cause, delivered = loss or (_IN_GAP if GAPS & doubts else _BROKE if broke else _NO_RESPONSE, "")
    yield Finding(
        "warning",
        "certain" if broke else "likely",
        cause,
        consumer_subject(consumer),
        f"{count_of(seen.count, 'acknowledgement')} of {about_consumer(consumer)} requested a response and received "
        "none "
        f"in the {span(until - seen.last_ns)} until {'the connection ended' if broke else 'the end'} "
        f"({frames_text(seen.frames)}).{delivered}",
        opposite="An ACK_RESPONSE with the request id would disprove the finding; there is none.",
        advice="If the messages are redelivered, the ACKs had no effect. Make the application tolerate duplicates.",
        variant="unanswered",
        seen=seen,
        doubts=doubts,
    )


def _not_delivered(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Yield a finding for the last ACKs of a session if TCP did not deliver them and no other finding reports this."""
    frame = consumer.last_ack_frame
    loss = loss_of(moment, connection_at(consumer, frame), frame)
    if loss is None or consumer.acks_unanswered.count or "lost" in consumer.acked_but_back:
        return
    cause, delivered = loss
    yield Finding(
        "warning",
        "certain",
        cause,
        consumer_subject(consumer),
        f"The last acknowledgements of {about_consumer(consumer)} had no effect.{delivered}",
        consumer.last_ack_ns,
        [frame],
        "An acknowledgement of these bytes by TCP would disprove the finding; there is none.",
        f"The broker redelivers the messages: make the application tolerate duplicates. {ADVICE}",
        "not-delivered",
    )


def _back(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    for why, seen in consumer.acked_but_back.items():
        frame = seen.frames[0] if seen.frames else 0
        loss = loss_of(moment, connection_at(consumer, frame), frame)
        ends = cause_of_loss(consumer.ends).culprit
        cause, delivered = loss or (_NOT_STORED._replace(culprit=ends) if why == "lost" else _NOT_STORED, "")
        yield Finding(
            "warning",
            "certain" if loss else "likely",
            cause,
            consumer_subject(consumer),
            f"{count_of(seen.count, 'message')} that {about_consumer(consumer)} had acknowledged "
            f"{'was' if seen.count == 1 else 'were'} redelivered {_AFTER.get(why, 'without a reconnect or a seek')}"
            f"{first_of(seen)} ({frames_text(seen.frames)}): the broker had not received or not stored the "
            f"{'ACK' if seen.count == 1 else 'ACKs'}.{delivered}",
            opposite="A SEEK between the ACK and the delivery would disprove the finding; there is none.",
            advice="Enable acknowledgement receipts. Make the application tolerate duplicates.",
            variant=f"back-again-{why}",
            seen=seen,
            doubts=consumer.doubts - EDGES,
        )
