"""Frames that are larger than the maximum size that the broker announced.

## What it means

CONNECTED contains `max_message_size`, 5 MiB by default. A frame may be 10 KiB larger, to contain the command and the
metadata. If a frame exceeds this limit, the receiver closes the connection with TooLongFrameException. The sender is
not notified of the reason, reconnects and sends the frame again.

## On the wire

A frame length above the limit. Such frames from clients are SENDs. Such frames from brokers are mostly
GET_TOPICS_OF_NAMESPACE_RESPONSEs, because a pattern consumer requests all topics of a namespace at once.

## What would disprove it

A new CONNECTED with a higher `max_message_size` in the meantime. If the capture contains no CONNECTED, nothing is
reported. After a gap a length may be misread.

## What to do

If the frame is a SEND, enable chunking in the producer, or raise `maxMessageSize` in the brokers and the bookies. If
the frame is a response, it lists too many topics: upgrade the client to a version that sends the pattern to the broker,
or split the namespace.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.connection_text import about_connection, connection_subject
from pcli.codec.observe.rules.finding import GAPS, Cause, Finding, Moment, rule, why_unsure
from pcli.codec.observe.rules.finding_text import count_of
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord


@rule(
    "connection",
    facts=("oversize", "max_message_size", "doubts"),
    title="frames that are larger than the maximum size that the broker announced",
    issue="apache/pulsar#15688",
)
def evaluate(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """Return at most one finding per connection."""
    tally = record.oversize
    if not tally.count:
        return
    by_client = tally.sample.startswith(("SEND", "a client frame"))
    yield Finding(
        "error",
        "possible" if GAPS.intersection(record.doubts) else "certain",
        Cause(
            "client" if by_client else "broker",
            "likely",
            ("brokers with different values of maxMessageSize",),
            "maxMessageSize of each broker.",
        ),
        connection_subject(record),
        f"{count_of(tally.count, 'frame')} on {about_connection(record)} exceeded the maxMessageSize of "
        f"{record.max_message_size:,} bytes plus 10 KiB: {tally.sample}.",
        opposite="A later CONNECTED with a larger max_message_size would disprove the finding; there is none."
        + why_unsure(record.doubts),
        advice="The receiver closes the connection (TooLongFrameException). For a SEND, use chunking or a larger "
        "`maxMessageSize`. A response lists too many entries, usually topics of a namespace: narrow the pattern or "
        "split the namespace.",
        seen=tally,
    )
