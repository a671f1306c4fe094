"""A consumer that has permits, but whose entries follow the first message of an open transaction.

## What it means

The broker delivers no entry after the first message of an open transaction on a topic. This includes messages that do
not belong to the transaction, and messages of other producers. They are delivered when the transaction is committed or
aborted. The consumer and the dispatcher work correctly.

## On the wire

A SEND with a transaction id and its receipt, later SENDs with receipts, a consumer with permits, and no MESSAGE until
END_TXN.

## What would disprove it

An END_TXN of the transaction that is not in the capture. The consumer would then wait for another reason: see
dispatcher-silent.

## What to do

If transaction-open is reported, find out why the transaction was not ended. Otherwise use shorter transactions, or
publish the other messages to another topic. A job that commits at each checkpoint delays its consumers by the interval
of the checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import FACTS, doubts_of, how_long, stop_of, waiting
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import about_consumer, at, consumer_subject, count_of, span
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_DURATION: Final = Threshold("stuck-open-transaction.duration", 3_000_000_000, "minimum time of the wait")
_WARNING: Final = Threshold("stuck-open-transaction.warning", 60_000_000_000, "time from which a wait is a warning")
"""Transactions have a timeout of about a minute, and ordinary jobs commit several times per minute."""

_OPEN: Final = Cause(
    "application",
    "likely",
    ("an END_TXN that was not captured",),
    "The application's log of the transaction, and the endpoint transactionMetadata of the broker.",
)


@rule(
    "consumer",
    facts=("behind_transaction", "transaction", "permits.last_flow_frame", "session", *FACTS),
    title="a consumer that receives nothing until an open transaction ends",
    issue="apache/pulsar#19786",
    because_of=("transaction-open", "broker-unavailable"),
    thresholds=(_DURATION, _WARNING),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for the current wait, or for the longest wait."""
    stop = stop_of(consumer.behind_transaction, consumer, moment)
    if stop is None or stop.lasted_ns < moment.value(_DURATION):
        return
    doubts, left = doubts_of(consumer), waiting(consumer)
    entries = f"at least {count_of(left, 'entry', 'entries')}" if left and not stop.over_frame else "entries"
    how = (
        f"for {span(stop.lasted_ns)}, from {at(stop.frame)} to {at(stop.over_frame)}"
        if stop.over_frame
        else how_long(stop, consumer, moment)
    )
    yield Finding(
        "warning" if not stop.over_frame and stop.lasted_ns >= moment.value(_WARNING) else "note",
        "likely",
        _OPEN,
        consumer_subject(consumer) | {"transaction": consumer.transaction},
        f"{about_consumer(consumer)} received nothing {how}, although it had permits: the broker holds {entries} back "
        f"until the end of transaction {consumer.transaction}, which has an earlier message on the topic.",
        stop.since_ns,
        [stop.frame, stop.over_frame, consumer.permits.last_flow_frame, consumer.last_message_frame],
        "A MESSAGE to this consumer in that time would disprove the finding; there is none.",
        "Find out why the transaction is not ended, or keep transactions short on topics with other producers.",
        until_ns=stop.until_ns,
        doubts=doubts,
    )
