"""Messages that the broker's deduplication dropped, with the receipt -1:-1.

## What it means

If deduplication is enabled, a broker keeps the highest sequence id of each producer name and stores no message with an
equal or lower id. The SEND receives a normal receipt with the message id -1:-1. There are two cases:

- *resend*: after a reconnect the client resent the same bytes because it had not received the first receipt. This is
  the purpose of deduplication; the message is stored once.
- *reused*: different messages were sent with ids that had been used before. These messages are lost, although the
  application was notified of success. Possible causes are that the application sets ids itself and restarts from the
  beginning, two programs share a producer name, or a client's counter decreased.

## On the wire

SEND_RECEIPT with ledger and entry 18446744073709551615. A batch is compared by its lowest id and dropped as a whole.

## What would disprove it

For *reused*: an application that repeats ids on purpose, so that a message is stored only once regardless of how often
it is sent. Only publish time, size and number of messages are compared, not payloads.

## What to do

For *reused*: continue from `last_sequence_id` of PRODUCER_SUCCESS, use a separate producer name for each program, or
let the client assign the ids. Check the result of send for the id -1:-1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import count_of, frames_text
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

_REUSED: Final = Cause(
    "application",
    "likely",
    (
        "several programs that use the same producer name",
        "an application that repeats ids on purpose, to store a message only once",
    ),
    "The programs that use this producer name.",
)


@rule(
    "producer",
    facts=("resends_refused", "reuses_refused"),
    title="messages that the broker's deduplication dropped",
    issue="apache/pulsar-client-go#1407",
    because_of=("broker-unavailable", "keep-alive-missed", "auth-expired", "receipts-out-of-order"),
    effect=("resent message was dropped as a duplicate", "resent messages were dropped as duplicates"),
)
def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for resends and for different messages with ids that were already used."""
    resends, reused = producer.resends_refused, producer.reuses_refused
    if resends.count:
        yield Finding(
            "note",
            "certain",
            Cause("client"),
            producer_subject(producer),
            f"{about_producer(producer)} resent {count_of(resends.count, 'message')} that the broker had "
            "already "
            f"stored and therefore dropped ({frames_text(resends.frames)}): deduplication worked.",
            opposite="A receipt with a new message id for the second SEND would disprove the finding; there is none.",
            advice="Nothing. The loss of the first connection may need attention.",
            variant="resend",
            seen=resends,
        )
    if reused.count:
        yield Finding(
            "error",
            "possible" if producer.doubts & {"start"} else "likely",
            _REUSED,
            producer_subject(producer),
            f"The broker dropped {count_of(reused.count, 'message')} of {about_producer(producer)} as "
            f"duplicates (-1:-1, {frames_text(reused.frames)}): their sequence ids, first {reused.sample}, "
            "had already been used" + ("." if producer.doubts & {"start"} else " by other messages."),
            opposite="A receipt with a message id would disprove the finding; there is none.",
            advice="Continue from last_sequence_id of PRODUCER_SUCCESS, or let the client assign ids. Use a separate "
            "producer name for each program.",
            variant="reused",
            seen=reused,
        )
