"""A consumer that was subscribed a second time on the connection on which it lives.

## What it means

The client sent SUBSCRIBE with a consumer id that is open on this very connection. Two of its code paths did the same
thing, mostly after a reconnect: one on the lost connection, one on a timer. A broker answers the second one with
success when the first is complete, and from then on the two sides may disagree on permits and on what is on its way.

## On the wire

SUBSCRIBE, SUCCESS, and SUBSCRIBE with the same `consumer_id` on the same connection without a CLOSE_CONSUMER of either
side between. Often two FLOWs follow: permits-doubled.

## What speaks for the opposite

A CLOSE_CONSUMER between them, from the client or the broker; it may be in a hole of the capture.

## What to do

Report it to the client library, with its version and this capture. If messages were lost or doubled it was right after
the second SUBSCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    about_consumer,
    certainty,
    consumer_subject,
    count_of,
    frames_text,
    why_unsure,
)
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Any second SUBSCRIBE."""
    seen = consumer.double_subscribe
    if not seen.count:
        return
    doubts = consumer.doubts - EDGES
    yield Finding(
        "double-subscribe",
        "warning",
        "client",
        certainty(doubts),
        consumer_subject(consumer),
        f"{about_consumer(consumer)} was subscribed {count_of(seen.count, 'more time')} on the connection on which it "
        f"was open ({frames_text(seen.frames)}).",
        seen.first_ns,
        seen.frames,
        "A CLOSE_CONSUMER between the two would make it right: there is none." + why_unsure(doubts),
        "Report it to the client library, with its version.",
    )


RULE = Rule(
    name="double-subscribe",
    group="consumer",
    facts=("double_subscribe",),
    title="a SUBSCRIBE for a consumer that is open on the same connection",
    issue="apache/pulsar#20737",
    look=look,
)
