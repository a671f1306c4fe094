"""Receipts for which no message is pending.

## What it means

The broker sent a receipt for a sequence id that is not pending on that producer: it is a second receipt, or the id was
never sent. Some clients then close the connection (the Go client did for a long time), resend everything and create
duplicates. A receipt that is only late is not reported: its SEND is in the capture, although the client may have given
up.

## On the wire

SEND_RECEIPT with a producer and sequence id for which no SEND is pending: the id was never sent, or its SEND had
already been answered.

## What would disprove it

The SEND in a gap in the capture, or before the beginning of the capture. If the capture has gaps, nothing is reported.

## What to do

Report the problem to the developers of the broker. State its version and attach this capture. Check whether an
intermediary that parses the protocol, such as a proxy or a fault injector, repeats frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import GAPS, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import count_of, frames_text
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

_BROKER: Final = Cause("broker", "likely", ("a proxy that repeats frames",), "A capture on the broker's host.")


@rule(
    "producer",
    facts=("unexpected",),
    title="receipts for sequence ids that are not pending",
    issue="apache/pulsar-client-go#697",
)
def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for unexpected receipts if all SENDs were captured."""
    seen = producer.unexpected
    if not seen.count or producer.doubts & (GAPS | {"start"}):
        return
    yield Finding(
        "warning",
        "certain",
        _BROKER,
        producer_subject(producer),
        f"{about_producer(producer)} received {count_of(seen.count, 'receipt')} for which no SEND was pending "
        f"({frames_text(seen.frames)}), the first for sequence id {printable(seen.sample)}.",
        opposite="An unanswered SEND with that id before the receipt would disprove the finding; there is none.",
        advice="Report the problem with the broker's version. Check for a proxy in between that repeats frames.",
        seen=seen,
    )
