"""Receipts for messages that nobody waits for.

## What it means

The broker answered a sequence id that is not open on that producer: it answered twice, or a number that was never
sent. Some clients close the connection then (the Go client did for long), send everything again and so make duplicates.

A receipt that is only late is not meant: its SEND is there, though the client may have given it up.

## On the wire

SEND_RECEIPT with a producer and sequence id for which no SEND is open: none came before, or it had its answer.

## What speaks for the opposite

The SEND in a hole of the capture, or before its beginning: with holes nothing is said at all.

## What to do

Report it with the broker's version and this capture. Look whether something between speaks the protocol and repeats
frames: a proxy, a fault injector.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.production import about_producer, producer_subject
from pcli.codec.observe.rules.wording import HOLES, count_of, frames_text
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE"]


def look(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Any, where all SENDs were seen."""
    seen = producer.unexpected
    if not seen.count or producer.doubts & (HOLES | {"start"}):
        return
    yield Finding(
        "receipts-unexpected",
        "warning",
        "broker",
        "certain",
        producer_subject(producer),
        f"{about_producer(producer)} got {count_of(seen.count, 'receipt')} for which no SEND was open "
        f"({frames_text(seen.frames)}), the first for sequence id {printable(seen.sample)}.",
        seen.first_ns,
        seen.frames,
        "A SEND with that id before it and without another answer: there is none.",
        "Report it with the broker's version. Look for a proxy between that repeats frames.",
    )


RULE = Rule(
    name="receipts-unexpected",
    group="producer",
    facts=("unexpected",),
    title="receipts for sequence ids that are not open",
    issue="apache/pulsar-client-go#697",
    look=look,
)
