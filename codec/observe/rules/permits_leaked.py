"""Permits that never come back: a message was delivered and took one, and the client does not ask for another.

## What it means

The broker only adds what FLOW brings and subtracts what it sends; nothing ever sets the sum right again. So every
permit that a client forgets makes its queue smaller for good, until the consumer stands still. Two ways are told:

- *checksum*: a MESSAGE arrived with a wrong checksum. Clients throw it away and ask for redelivery; the Java client
  returns one permit for it, even if it was a batch of many (PIP-491).
- *short*: a FLOW came, and after it the client still owed more than half of its queue, for messages that are
  acknowledged. Clients return all that they owe with one FLOW, so what is left over was forgotten.

## On the wire

Σ FLOW less Σ messages delivered, batches counted in full, sinks with every round. `pcli stats permits` draws it.

## What speaks for the opposite

A FLOW that is late: clients collect up to half of their queue before they send one, and a paused one sends none
(paused-client). And packets that are missing in the capture may hold the FLOW.

## What to do

Report it to the client library with its version and this capture. Until it is mended a new SUBSCRIBE (closing and
opening the consumer) makes the sum right again. For wrong checksums see also wrong-crc: who damages the frames?
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.consumption import FACTS, counts_batches_as_one
from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    about_consumer,
    at,
    certainty,
    consumer_subject,
    count_of,
    why_unsure,
)
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]

_ADVICE = "Report it to the client library, with its version. Opening the consumer anew sets its permits right again."


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Both ways."""
    permits = consumer.permits
    doubts = consumer.doubts - EDGES
    lost = permits.corrupt.count - permits.corrupt_returned
    if lost > 0:
        yield Finding(
            "permits-leaked",
            "warning",
            "client",
            certainty(doubts, "likely"),
            consumer_subject(consumer),
            f"{about_consumer(consumer)} was sent {count_of(permits.corrupt.count, 'message')} in frames with a wrong "
            f"checksum, and its client has returned {count_of(permits.corrupt_returned, 'permit')} for them: {lost} of "
            f"its queue of {permits.queue} are gone.",
            permits.corrupt.first_ns,
            permits.corrupt.frames,
            "A FLOW that returns them later, without messages that explain it." + why_unsure(doubts),
            _ADVICE,
            "checksum",
        )
    short = permits.short
    if short.count and lost <= 0 and not counts_batches_as_one(consumer):
        yield Finding(
            "permits-leaked",
            "warning",
            "client",
            certainty(doubts, "likely"),
            consumer_subject(consumer),
            f"{about_consumer(consumer)} has a queue of {permits.queue}, and after {count_of(short.count, 'FLOW')} of "
            f"its client more than half of that was missing still, first {printable(short.sample)} in "
            f"{at(short.frames[0])}.",
            short.first_ns,
            short.frames,
            "Messages that came again or were thrown away by the client would explain it." + why_unsure(doubts),
            _ADVICE,
            "short",
        )


RULE = Rule(
    name="permits-leaked",
    group="consumer",
    facts=("permits.corrupt", "permits.corrupt_returned", "permits.short", "permits.queue", *FACTS),
    title="permits of delivered messages that the client does not return",
    issue="PIP-491",
    look=look,
)
