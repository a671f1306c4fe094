"""A client and a broker that count permits in different ways: batches as one or in full, FLOWs that only one has seen.

## What it means

Permits are counted in messages, those of batches each. A batch that comes with an `ack_set` (part of it is
acknowledged already) takes only what is left of it. Clients have erred in both directions; the third is not theirs:

- *batch as one*: the client returns one permit for each entry. With batches of ten a queue of 1000 lasts for 1000
  messages, and is full of forgotten permits after that.
- *too many*: the client returns more than it was charged, for example a whole batch of which it was sent a part. The
  broker then sends more than the queue can hold.
- *unasked*: more single messages came than FLOWs have asked for. A broker goes below zero by a batch, never by single
  messages: somebody between has repeated a FLOW or a MESSAGE, or the broker has lost count.

## On the wire

Compare the sum of FLOWs with messages and with entries: here it follows the entries, or exceeds the messages by less
than a queue.

## What speaks for the opposite

A client that is only late with its FLOW (it may collect half a queue), or one whose queue grows on purpose.

## What to do

Report it to the client library with its version and this capture. Until then: no batches for this topic, or for
*too many* batch index acknowledgements switched off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumption import FACTS, counts_batches_as_one
from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    about_consumer,
    at,
    certainty,
    consumer_subject,
    count_of,
    frames_text,
    why_unsure,
)
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]

_REPORT: Final = "Report it to the client library, with its version and this capture."
_SUM: Final = "FLOWs that bring the sum to that of the messages."

_CAUSES: Final = {
    "batch-as-one": ("error", "client", _SUM, _REPORT),
    "too-many": ("warning", "client", _SUM, _REPORT),
    "unasked": (
        "warning",
        "broker",
        "A FLOW that is not in the capture. What is between may have changed or repeated one.",
        "Capture beside the broker: do the same FLOWs arrive there?",
    ),
}
"""Severity, culprit, what would show the opposite, what to do."""


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Too few, by the number of entries; too many, by whatever it is; more sent than was asked for."""
    permits = consumer.permits
    if not permits.known:
        return
    if counts_batches_as_one(consumer):
        yield _finding(
            consumer,
            "batch-as-one",
            f"{about_consumer(consumer)} was sent {count_of(permits.delivered, 'message')} in "
            f"{count_of(consumer.received_entries, 'entry', 'entries')} and has returned "
            f"{count_of(permits.flowed - permits.queue, 'permit')}: its client counts a batch as one message.",
            permits.last_flow_ns,
            [permits.last_flow_frame, consumer.last_message_frame, permits.lowest_frame],
        )
    if permits.doubled.count and 0 < permits.surplus * 2 <= permits.queue:
        yield _finding(
            consumer,
            "too-many",
            f"{about_consumer(consumer)} has asked for {count_of(permits.surplus, 'message')} more than its queue of "
            f"{permits.queue} and what it was charged for ({frames_text(permits.doubled.frames)}).",
            permits.doubled.first_ns,
            permits.doubled.frames,
        )
    if permits.lowest < 0 and consumer.received == consumer.received_entries:
        yield _finding(
            consumer,
            "unasked",
            f"{about_consumer(consumer)} was sent up to {count_of(-permits.lowest, 'message')} that it had not asked "
            f"for, none of them in a batch ({at(permits.lowest_frame)}).",
            consumer.last_message_ns,
            [permits.lowest_frame, permits.last_flow_frame],
        )


def _finding(consumer: ConsumerRecord, cause: str, what: str, since_ns: int, frames: list[int]) -> Finding:
    severity, culprit, opposite, advice = _CAUSES[cause]
    doubts = consumer.doubts - EDGES
    return Finding(
        "permits-wrong-count",
        severity,
        culprit,
        certainty(doubts, "likely"),
        consumer_subject(consumer),
        what,
        since_ns,
        frames,
        opposite + why_unsure(doubts),
        advice,
        cause,
    )


RULE = Rule(
    name="permits-wrong-count",
    group="consumer",
    facts=("permits.flowed", "permits.lowest", "permits.delivered", "permits.doubled", "permits.surplus", *FACTS),
    title="a client and a broker that count permits in different ways",
    issue="apache/pulsar#22091",
    look=look,
)
