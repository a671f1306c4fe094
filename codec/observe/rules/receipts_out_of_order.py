"""Receipts that came in another order than the SENDs, or that were left out.

## What it means

A broker writes the receipts of a producer in the order in which the messages came: clients rely on it. They compare
each receipt with the oldest message that waits. On a later one they take the connection for broken and drop it, or
ignore the receipt and wait for the send time-out; then they send again, and messages may be stored twice. So it is with
a receipt that never comes though later ones do.

## On the wire

SEND 7, SEND 8, SEND_RECEIPT 8, SEND_RECEIPT 7 (or none for 7), on one producer. Only receipts with an id count: the
answer to a duplicate (-1:-1) and SEND_ERROR are written at once, and may overtake.

## What speaks for the opposite

The same sequence id sent more than once: then it is not certain which SEND a receipt answers.

## What to do

Note the broker's version and report it with this capture. Something between that speaks the protocol (a proxy, a
protocol handler) may do it too: capture on both of its sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.production import about_producer, producer_subject
from pcli.codec.observe.rules.wording import HOLES, at, count_of, frames_text, why_unsure
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE"]

_ADVICE: Final = "Report it with the broker's version. Capture on both sides of any proxy between."


def look(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Any receipt that another has overtaken, and those that never came."""
    if producer.out_of_order.count:
        yield _late(producer)
    if producer.skipped.count and not producer.doubts & HOLES:
        yield _missing(producer)


def _late(producer: ProducerRecord) -> Finding:
    seen = producer.out_of_order
    twice = producer.backwards.count + producer.resent.count
    guessed = producer.doubts & {"weak_sync", "evicted"}
    return Finding(
        "receipts-out-of-order",
        "error",
        "broker",
        "possible" if guessed else "likely" if twice else "certain",
        producer_subject(producer),
        f"{about_producer(producer)} got {count_of(seen.count, 'receipt')} after that of a later SEND, the first for "
        f"sequence id {printable(seen.sample)}: {frames_text(seen.frames[:3])} are its SEND, its receipt and the "
        "receipt that came before.",
        seen.first_ns,
        seen.frames,
        ("Sequence ids were sent more than once: the receipt may belong to another SEND." if twice else "")
        + (why_unsure(guessed) or "" if twice or guessed else "Both receipts and both SENDs are in the capture."),
        _ADVICE,
        "late",
    )


def _missing(producer: ProducerRecord) -> Finding:
    seen = producer.skipped
    return Finding(
        "receipts-out-of-order",
        "error",
        "broker",
        "likely",
        producer_subject(producer),
        f"{about_producer(producer)} never got the receipt for {count_of(seen.count, 'SEND')}, the first with sequence "
        f"id {printable(seen.sample)} ({at(seen.frames[0])}), though that for a later one came, in "
        f"{at(seen.frames[1])}. Then the session ended.",
        seen.first_ns,
        seen.frames,
        "A receipt for it before the session ended: there is none. The broker may have sent it all the same, and "
        "something between lost it.",
        _ADVICE,
        "missing",
    )


RULE = Rule(
    name="receipts-out-of-order",
    group="producer",
    facts=("out_of_order", "skipped", "backwards", "resent"),
    title="receipts that came in another order than the SENDs, or were left out",
    issue="apache/pulsar-client-go#335",
    look=look,
)
