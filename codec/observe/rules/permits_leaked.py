"""Permits that are never returned: a delivered message used a permit, and the client does not request another message.

## What it means

The broker adds the permits of each FLOW and subtracts the messages that it sends; nothing ever corrects the total. Each
permit that a client does not return therefore makes the client's queue permanently smaller, until the consumer receives
nothing. Two cases are reported:

- *checksum*: a MESSAGE arrived with a wrong checksum. Clients discard such a MESSAGE and request redelivery. The Java
  client returns only one permit, even if the MESSAGE was a batch of many messages (PIP-491).
- *short*: the client sent a FLOW but did not return the permits of messages that it had acknowledged; these permits
  exceed half of its queue. Clients return all such permits in one FLOW, so the remaining permits were lost.

## On the wire

The sum of FLOW permits minus the number of delivered messages, including all messages of batches, decreases over time.
`pcli stats permits` draws a chart of the permits.

## What would disprove it

A late FLOW: clients collect permits for up to half of their queue before they send a FLOW, and a paused client sends no
FLOW (paused-client). Packets missing from the capture may contain the FLOW.

## What to do

Report the problem to the developers of the client library. State its version and attach this capture. Until the library
is fixed, a new SUBSCRIBE (closing and opening the consumer) corrects the total. For wrong checksums see also wrong-crc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import FACTS, counts_batches_as_one
from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_consumer, at, consumer_subject, count_of
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_NOT_RETURNED: Final = Cause(
    "client",
    "likely",
    ("messages that were redelivered or that the client discarded",),
    "The debug log of the client library.",
)

_ADVICE = (
    "Report the problem and the version of the client library to its developers. Reopening the consumer resets its "
    "permits."
)


@rule(
    "consumer",
    facts=("permits.corrupt", "permits.corrupt_returned", "permits.short", "permits.queue", *FACTS),
    title="permits of delivered messages that the client does not return",
    issue="PIP-491",
    because_of=("wrong-crc",),
    effect=("permit was lost", "permits were lost"),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for both cases."""
    permits = consumer.permits
    doubts = consumer.doubts - EDGES
    lost = permits.corrupt.count - permits.corrupt_returned
    if lost > 0:
        yield Finding(
            "warning",
            "likely",
            _NOT_RETURNED,
            consumer_subject(consumer),
            f"{about_consumer(consumer)} received {count_of(permits.corrupt.count, 'message')} in frames with a wrong "
            f"checksum, and its client returned {count_of(permits.corrupt_returned, 'permit')} for them: {lost} of its "
            f"queue of {permits.queue} {'is' if lost == 1 else 'are'} lost.",
            permits.corrupt.first_ns,
            permits.corrupt.frames,
            "A later FLOW that returns these permits and that no other messages explain would disprove the finding.",
            _ADVICE,
            "checksum",
            count=lost,
            doubts=doubts,
        )
    short = permits.short
    if short.count and lost <= 0 and not counts_batches_as_one(consumer):
        yield Finding(
            "warning",
            "likely",
            _NOT_RETURNED,
            consumer_subject(consumer),
            f"{about_consumer(consumer)} has a queue of {permits.queue}. After {count_of(short.count, 'FLOW')}, "
            "the permits for more than half of the queue had still not been returned, "
            f"first {printable(short.sample)} in {at(short.frames[0])}.",
            opposite="A later FLOW that returns these permits would disprove the finding.",
            advice=_ADVICE,
            variant="short",
            seen=short,
            doubts=doubts,
        )
