"""Responses about a producer or consumer that arrived before the response to the request that creates it.

## What it means

Responses can overtake each other, because the broker processes requests concurrently. But the request that creates a
producer or consumer must be answered before any other request about it. Otherwise client and broker may disagree on
which of two producers or consumers with the same id is active, for example after a connection was lost during
SUBSCRIBE.

## On the wire

SUBSCRIBE with a consumer id, then another request with that id, whose response arrives first. The same applies to
producers.

## What would disprove it

Packets whose order in the capture differs from their order on the wire: check times and sequence numbers. If packets
are missing, nothing is reported. A client that does not wait for the response to SUBSCRIBE receives errors, which do
not count. A client may close a consumer while it is being created, and a broker may respond to
the close immediately.

## What to do

Check `topics stats`: is the consumer present twice, or absent? Report the problem to the developers of the broker, and
attach this capture. Creating the consumer or producer again restores a consistent state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import about_connection, connection_subject
from pcli.codec.observe.rules.finding import GAPS, Cause, Finding, Moment, rule, why_unsure
from pcli.codec.observe.rules.finding_text import count_of
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

_ORDER: Final = Cause(
    "broker",
    "likely",
    ("packets whose order in the capture differs from their order on the wire",),
    "A capture on the other side.",
)


@rule(
    "connection",
    facts=("out_of_order", "doubts"),
    title="responses about a producer or consumer that arrived before the response to its PRODUCER or SUBSCRIBE",
    issue="apache/pulsar#20737",
)
def evaluate(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """Return at most one finding per connection."""
    tally = record.out_of_order
    if not tally.count or GAPS.intersection(record.doubts):
        return
    yield Finding(
        "warning",
        "likely",
        _ORDER,
        connection_subject(record),
        f"{count_of(tally.count, 'response')} on {about_connection(record)} arrived before the response to the "
        "PRODUCER "
        "or SUBSCRIBE of the same producer or consumer.",
        opposite="Packets whose order in the capture differs from their order on the wire would explain this."
        + why_unsure(record.doubts),
        advice="Client and broker may disagree on the state of that producer or consumer: check it in `topics stats`.",
        seen=tally,
    )
