"""Frames that are larger than the broker has announced to take or give.

## What it means

CONNECTED tells maxMessageSize, 5 MiB by default. A frame may have 10 KiB more for command and metadata. The receiver of
a larger one does not read it: it ends the connection with TooLongFrameException, and the sender, knowing nothing,
connects and sends it again.

## On the wire

A frame length above the limit. From a client it is a SEND; from a broker mostly GET_TOPICS_OF_NAMESPACE_RESPONSE, since
a pattern consumer asks for all topics of a namespace at once.

## What speaks for the opposite

A max_message_size that was raised in the meantime, with a new CONNECTED. Without a CONNECTED in the capture nothing is
said. Behind a hole a length may be misread.

## What to do

Of a SEND: switch on chunking in the producer, or raise maxMessageSize in brokers and bookies alike. Of an answer: it
lists too much; let the broker evaluate the pattern (newer clients ask for that), or split the namespace.
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
    tally = record.oversize
    if not tally.count:
        return
    by_client = tally.sample.startswith("SEND")
    yield Finding(
        "oversize-frame",
        "error",
        "client" if by_client else "broker",
        "possible" if HOLES.intersection(record.doubts) else "certain",
        connection_subject(record),
        f"{count_of(tally.count, 'frame')} on {about_connection(record)} above the maxMessageSize of "
        f"{record.max_message_size:,} bytes and the 10 KiB around it: {tally.sample}.",
        tally.first_ns,
        tally.frames,
        "A CONNECTED with a larger max_message_size: the last one says this one." + why_unsure(record.doubts),
        "The receiver ends the connection (TooLongFrameException). Of a SEND: use chunking or a larger maxMessageSize. "
        "Of an answer: it lists too much, mostly topics of a namespace; narrow the pattern or split the namespace.",
    )


RULE = Rule(
    name="oversize-frame",
    group="connection",
    facts=("oversize", "max_message_size", "doubts"),
    title="frames above the size that the broker announced",
    issue="apache/pulsar#15688",
    look=look,
)
