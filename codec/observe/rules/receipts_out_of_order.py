"""Receipts in a different order than their SENDs, or missing receipts.

## What it means

A broker sends the receipts of a producer in the order in which the messages arrived, and clients rely on this order.
They compare each receipt with the oldest pending message. If the receipt is for a later message, they treat the
connection as broken and close it, or ignore the receipt and wait for the send timeout. Then they resend, and messages
may be stored twice. The same happens if a receipt never arrives although later receipts arrive.

## On the wire

SEND 7, SEND 8, SEND_RECEIPT 8, SEND_RECEIPT 7 (or no receipt for 7) for one producer. Only receipts with a message id
count: the response to a duplicate (-1:-1) and SEND_ERROR are sent immediately and may overtake other receipts.

## What would disprove it

If the same sequence id was sent more than once, it is uncertain to which SEND a receipt belongs.

## What to do

Report the problem to the developers of the broker. State its version and attach this capture. An intermediary that
parses the protocol (a proxy, a protocol handler) can also change the order: capture on both sides of the intermediary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import GAPS, Cause, Finding, Moment, rule, why_unsure
from pcli.codec.observe.rules.finding_text import at, count_of, frames_text
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

_BROKER: Final = Cause(
    "broker", "likely", ("a proxy that reorders or loses responses",), "A capture on the broker's host."
)

_ADVICE: Final = "Report the problem with the broker's version. Capture on both sides of any proxy in between."


@rule(
    "producer",
    facts=("out_of_order", "skipped", "backwards", "resent"),
    title="receipts in a different order than their SENDs, or missing receipts",
    issue="apache/pulsar-client-go#335",
)
def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for late and for missing receipts."""
    if producer.out_of_order.count:
        yield _late(producer)
    if producer.skipped.count and not producer.doubts & GAPS:
        yield _missing(producer)


def _late(producer: ProducerRecord) -> Finding:
    seen = producer.out_of_order
    twice = producer.backwards.count + producer.resent.count
    guessed = producer.doubts & {"weak_sync", "evicted"}
    return Finding(
        "error",
        "possible" if guessed else "likely" if twice else "certain",
        _BROKER,
        producer_subject(producer),
        f"{about_producer(producer)} received {count_of(seen.count, 'receipt')} after the receipt of a later SEND, the "
        f"first for sequence id {printable(seen.sample)}: {frames_text(seen.frames[:3])} are its SEND, its receipt and "
        "the earlier receipt of the later SEND.",
        opposite=("Sequence ids were sent more than once: the receipt may belong to another SEND." if twice else "")
        + (why_unsure(guessed) or "" if twice or guessed else "Both receipts and both SENDs are in the capture."),
        advice=_ADVICE,
        variant="late",
        seen=seen,
    )


def _missing(producer: ProducerRecord) -> Finding:
    seen = producer.skipped
    return Finding(
        "error",
        "certain",
        _BROKER,
        producer_subject(producer),
        f"{about_producer(producer)} never received the receipt for {count_of(seen.count, 'SEND')}, the first with "
        f"sequence id {printable(seen.sample)} ({at(seen.frames[0])}), although the receipt for a later SEND arrived "
        f"in {at(seen.frames[1])}. Then the session ended.",
        opposite="A receipt for that SEND before the session ended would disprove the finding; there is none.",
        advice=_ADVICE,
        variant="missing",
        seen=seen,
    )
