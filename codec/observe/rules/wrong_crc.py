"""Messages with a wrong checksum, and the hop on which they were damaged.

## What it means

A producer computes a CRC-32C of metadata and payload; the broker and its storage keep the checksum with the bytes. If
the checksum does not match at the point of capture, the bytes were changed between the producer and this point. TCP has
its own checksums, so a network rarely causes this. Likely causes are memory errors, a proxy, a load balancer that
rewrites data, or a faulty client library.

## On the wire

A SEND or MESSAGE whose bytes were captured completely, with a CRC-32C that does not match them. If a proxied
conversation was captured on both sides of the proxy, the finding is reported for the connection that shows the damage
first, in the direction of the message. If only the second connection shows the damage, the proxy changed the bytes.

## What would disprove it

Truncated frames, and frames with a retransmission that has different bytes, are excluded, because the capture itself
may be wrong. Frames found by search after a gap may be false matches.

## What to do

A broker responds to such a SEND with ChecksumError. A client discards such a MESSAGE, and may lose permits (PIP-491,
permits-leaked). Capture on both sides of the next hop and compare. If the broker sends a MESSAGE with a wrong checksum
although the SEND of that message was correct, check the broker's memory and the bookies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import about_connection, connection_subject
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule, why_unsure
from pcli.codec.observe.rules.finding_text import count_of
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

_WORDS: Final = {True: ("SEND", "client", "client"), False: ("MESSAGE", "broker", "broker")}
"""Command, sender and culprit by direction."""


@rule(
    "connection",
    facts=("wrong_crc", "leg_of", "other_leg.wrong_crc", "doubts"),
    title="messages whose checksum does not match their bytes",
    issue="apache/pulsar#21557",
)
def evaluate(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding for each direction in which this connection shows the damage first."""
    for from_client, tally in record.wrong_crc.items():
        command, writer, culprit = _WORDS[from_client]
        other = record.other_leg
        # Whether the message passes the proxy before this connection.
        past_proxy = other is not None and (record.leg_of >= 0) == from_client
        if other is not None and past_proxy and other.wrong_crc.get(from_client) is not None:
            continue
        where = (
            "the bytes were correct on the other side of the proxy, so the proxy changed them"
            if past_proxy
            else f"the bytes were already wrong when the {writer} sent them"
        )
        yield Finding(
            "error",
            "possible" if "weak_sync" in record.doubts else "certain",
            Cause(
                "network" if past_proxy else culprit,
                "likely",
                ("damage between the sender and the point of capture", "faulty memory"),
                "A capture on the other side of the next hop.",
            ),
            connection_subject(record),
            f"{count_of(tally.count, command)} on {about_connection(record)} had a CRC-32C that did not match the "
            f"bytes; {where}, or they were damaged on the way to the point of capture.",
            opposite="TCP has its own checksums, so a network rarely causes this. Faulty memory, proxies and load "
            "balancers are more likely. All bytes of these frames were captured." + why_unsure(record.doubts),
            advice="A broker refuses such a SEND (ChecksumError); a client discards such a MESSAGE and may lose "
            "permits (PIP-491). Capture on the other side of the next hop to locate the damage.",
            variant=command.lower(),
            seen=tally,
        )
