"""Answers about a producer or consumer that came before it was said to be open.

## What it means

Answers may overtake each other: the broker works on many things at once. But what opens a producer or consumer is
answered before anything else about it. If not, client and broker may disagree about which of two producers or consumers
with the same id holds now, as when a connection was lost while SUBSCRIBE was under way.

## On the wire

SUBSCRIBE with a consumer id, then another request about that id, and the answer to the second one first. For producers
likewise.

## What speaks for the opposite

Packets that the capture has in another order than the wire: look at their times and sequence numbers. Where packets
are missing nothing is said. A client may
close what it is just opening, and a broker may answer that at once.

## What to do

Compare with `topics stats`: is the consumer there twice, or not at all? Then report it with this capture to the
broker's developers; opening the consumer or producer anew makes both sides agree again.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import about_connection, connection_subject
from pcli.codec.observe.rules.wording import HOLES, count_of, why_unsure
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

__all__ = ["RULE", "look"]


def look(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding a connection."""
    tally = record.out_of_order
    if not tally.count or HOLES.intersection(record.doubts):
        return
    yield Finding(
        "answers-out-of-order",
        "warning",
        "broker",
        "likely",
        connection_subject(record),
        f"{count_of(tally.count, 'answer')} on {about_connection(record)} came before that to the PRODUCER or "
        "SUBSCRIBE of the same producer or consumer.",
        tally.first_ns,
        tally.frames,
        "Packets that the capture shows in another order than they had on the wire." + why_unsure(record.doubts),
        "The state of that producer or consumer may differ between client and broker: compare with the topic's stats.",
    )


RULE = Rule(
    name="answers-out-of-order",
    group="connection",
    facts=("out_of_order", "doubts"),
    title="answers about a producer or consumer that came before it was opened",
    issue="apache/pulsar#20737",
    look=look,
)
