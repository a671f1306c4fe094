"""A transaction that was not ended.

## What it means

While a transaction is open, its messages are not delivered, and neither are later messages on the same topics,
including messages of other producers: the consumers of these topics receive nothing. The acknowledgements in the
transaction have no effect yet. The transaction ends with the client's END_TXN, or when its timeout expires and the
coordinator aborts it without notification. There are four cases:

- *open*: the transaction is older than its timeout, and the capture does not contain its end.
- *client-gone*: the connection on which the transaction began has ended. The transaction stays open until its timeout
  expires.
- *timed-out*: the coordinator aborted the transaction. The messages sent in the transaction are discarded.
- *unanswered*: END_TXN was sent, but there is no response.

## On the wire

NEW_TXN, its response with the id, SEND and ACK with that id, and no END_TXN. On the broker's internal connection, if it
was captured: END_TXN_ON_PARTITION with ABORT without a preceding END_TXN.

## What would disprove it

An END_TXN in a gap in the capture or on a connection that was not captured: any client may end the transaction.

## What to do

End every transaction in a `finally` block, set the timeout above the longest processing time, and keep transactions
short on topics with other consumers. `pulsar-admin transactions slow-transactions` lists open transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, GAPS, Cause, Finding, Moment, certainty, rule, why_unsure
from pcli.codec.observe.rules.finding_text import at, count_of, span, when
from pcli.codec.observe.rules.network_losses import loss_of
from pcli.codec.observe.tracking.records.connection_records import TransactionRecord

ANSWER_NS: Final = 10_000_000_000
"""Time after which a response to END_TXN counts as missing."""

_SWEEP_NS: Final = 60_000_000_000
"""Interval in which the coordinator of V5 clients searches for expired transactions."""


_NOT_ENDED: Final = Cause(
    "application",
    "likely",
    ("an END_TXN on a connection that was not captured", "a client process that was killed"),
    "The application's log, and the endpoint transactionMetadata of the broker.",
)
_IN_GAP: Final = Cause("capture", "possible", ("a coordinator that did not respond",), "A capture without gaps.")
_NO_RESPONSE: Final = Cause(
    "broker", "likely", ("a network that lost the request or the response",), "The broker's log of the coordinator."
)


@rule(
    "transaction",
    facts=(
        "action",
        "ended_by",
        "timeout_ms",
        "scalable",
        "began_ns",
        "end_asked_frame",
        "left_ns",
        "error",
        "sent",
        "acked",
        "ended_ns",
        "end_asked_ns",
    ),
    title="a transaction that was not ended",
    issue="apache/pulsar#19786",
    because_of=("broker-unavailable",),
)
def evaluate(transaction: TransactionRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for at most one of the four cases."""
    if transaction.ended_ns >= 0:
        if transaction.ended_by == "coordinator" and transaction.action == "ABORT":
            yield _finding(transaction, "timed-out", "warning", _NOT_ENDED, "certain", _aborted(transaction))
        return
    doubts = transaction.doubts - EDGES
    until = transaction.began_ns + transaction.timeout_ms * 1_000_000 + _SWEEP_NS * transaction.scalable
    end_request = transaction.end_asked_frame
    if end_request and not transaction.error:
        if moment.now_ns - transaction.end_asked_ns >= ANSWER_NS:
            text = f"END_TXN in {at(end_request)} has no response, {when(moment, transaction.end_asked_ns)}"
            loss = loss_of(moment, transaction.stream, end_request)
            cause, delivered = loss or (_IN_GAP if GAPS & doubts else _NO_RESPONSE, "")
            yield _finding(transaction, "unanswered", "error", cause, certainty(doubts), text, delivered)
    elif transaction.timeout_ms and moment.now_ns > until:
        text = f"its timeout of {span(transaction.timeout_ms * 1_000_000)} has expired, and the capture lacks its end"
        yield _finding(transaction, "open", "error", _NOT_ENDED, certainty(doubts, "likely"), text)
    elif transaction.left_ns >= 0 and not GAPS & doubts:
        text = f"its client's connection ended {when(moment, transaction.left_ns)}"
        if transaction.timeout_ms:
            text += f"; its timeout is {span(transaction.timeout_ms * 1_000_000)}"
        yield _finding(transaction, "client-gone", "warning", _NOT_ENDED, certainty(doubts, "likely"), text)


def _aborted(transaction: TransactionRecord) -> str:
    lasted = span(max(0, transaction.ended_ns - transaction.began_ns))
    return f"it was not ended, and the coordinator aborted it after {lasted} in {at(transaction.ended_frame)}"


def _finding(
    transaction: TransactionRecord, variant: str, severity: str, cause: Cause, sure: str, text: str, delivered: str = ""
) -> Finding:
    most, least = transaction.id
    holds = f"{count_of(transaction.sent, 'message')} and {count_of(transaction.acked, 'acknowledgement')}"
    doubts = transaction.doubts - EDGES
    return Finding(
        severity,
        sure,
        cause,
        {"transaction": f"{most}:{least}", "stream": transaction.stream},
        f"Transaction ({most}, {least}) began in {at(transaction.began_frame)} and contains {holds}: "
        f"{text}.{delivered}",
        transaction.began_ns,
        [transaction.began_frame, transaction.end_asked_frame, transaction.ended_frame],
        "An END_TXN in that time would disprove the finding; there is none." + why_unsure(doubts)
        if variant != "timed-out"
        else "An END_TXN before that would disprove the finding; there is none." + why_unsure(doubts),
        "End every transaction, even after an error, and set its timeout above the longest processing time.",
        variant,
    )
