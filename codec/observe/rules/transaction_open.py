"""A transaction that nobody ended.

## What it means

While a transaction is open, its messages are hidden, and so is everything behind the first of them on the same topics,
other producers' messages included: consumers stand still there. Acknowledgements in it do not count yet. It ends by the
client's END_TXN, or by its time-out, when the coordinator aborts it and tells nobody. Four cases:

- *open*: it is older than its time-out, and no end of it is in the capture.
- *client-gone*: the connection that began it ended before it did. It stays open until the time-out.
- *timed-out*: the coordinator aborted it by itself. What was sent in it is gone.
- *unanswered*: END_TXN was sent, and its answer stays away.

## On the wire

NEW_TXN, its response with the id, SEND and ACK with that id, and no END_TXN. On the broker's own connection, if the
capture has it: END_TXN_ON_PARTITION with ABORT that no END_TXN preceded.

## What speaks for the opposite

An END_TXN on a connection that is not in the capture: any client may end it. A hole in the capture.

## What to do

End every transaction in a `finally`, choose the time-out by the longest work, and keep transactions short on topics
that others read. `pulsar-admin transactions slow-transactions` lists those that are open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import EDGES, HOLES, at, certainty, count_of, span, when, why_unsure
from pcli.codec.observe.tracking.records.connection_records import TransactionRecord

__all__ = ["RULE"]

ANSWER_NS: Final = 10_000_000_000
"""From when on an answer to END_TXN is missing."""


def look(transaction: TransactionRecord, moment: Moment) -> Iterator[Finding]:
    """At most one of the four."""
    if transaction.action:
        if transaction.ended_by == "coordinator" and transaction.action == "ABORT":
            yield _finding(transaction, "timed-out", "warning", "application", "certain", _aborted(transaction))
        return
    doubts = transaction.doubts - EDGES
    until = transaction.began_ns + transaction.timeout_ms * 1_000_000
    asked = transaction.end_asked_frame
    if asked and not transaction.error:
        if moment.now_ns - transaction.end_asked_ns >= ANSWER_NS:
            said = f"END_TXN in {at(asked)} has no answer, {when(moment, transaction.end_asked_ns)}"
            yield _finding(
                transaction, "unanswered", "error", "capture" if HOLES & doubts else "broker", certainty(doubts), said
            )
    elif transaction.timeout_ms and moment.now_ns > until:
        said = f"its time-out of {span(transaction.timeout_ms * 1_000_000)} is over, and no end of it was seen"
        yield _finding(transaction, "open", "error", "application", certainty(doubts, "likely"), said)
    elif transaction.left_ns >= 0 and not HOLES & doubts:
        said = f"its client's connection ended {when(moment, transaction.left_ns)}"
        if transaction.timeout_ms:
            said += f"; its time-out is {span(transaction.timeout_ms * 1_000_000)}"
        yield _finding(transaction, "client-gone", "warning", "application", certainty(doubts, "likely"), said)


def _aborted(transaction: TransactionRecord) -> str:
    lasted = span(max(0, transaction.ended_ns - transaction.began_ns))
    return f"nobody ended it, and the coordinator aborted it after {lasted} in {at(transaction.ended_frame)}"


def _finding(transaction: TransactionRecord, cause: str, severity: str, culprit: str, sure: str, said: str) -> Finding:
    most, least = transaction.id
    holds = f"{count_of(transaction.sent, 'message')} and {count_of(transaction.acked, 'acknowledgement')}"
    doubts = transaction.doubts - EDGES
    return Finding(
        "transaction-open",
        severity,
        culprit,
        sure,
        {"transaction": f"{most}:{least}", "stream": transaction.stream},
        f"Transaction ({most}, {least}), begun in {at(transaction.began_frame)}, with {holds}: {said}.",
        transaction.began_ns,
        [transaction.began_frame, transaction.end_asked_frame, transaction.ended_frame],
        "An END_TXN of it on a connection that is not in the capture." + why_unsure(doubts)
        if cause != "timed-out"
        else "An END_TXN of it before that: there is none." + why_unsure(doubts),
        "End every transaction, whatever happens, and choose its time-out by the longest work.",
        cause,
    )


RULE = Rule(
    name="transaction-open",
    group="transaction",
    facts=(
        "action",
        "ended_by",
        "timeout_ms",
        "began_ns",
        "end_asked_frame",
        "left_ns",
        "error",
        "sent",
        "acked",
        "ended_ns",
        "end_asked_ns",
    ),
    title="a transaction that nobody ended",
    issue="apache/pulsar#19786",
    look=look,
)
