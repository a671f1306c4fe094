"""Messages whose checksum is wrong, and on which side of which hop they became so.

## What it means

A producer writes a CRC-32C over metadata and payload; broker, storage and consumer keep it with the bytes. If it does
not fit where the capture was taken, the bytes were changed between the producer and here. TCP has checksums of its own,
so a network hardly ever does this: memory, a proxy, a balancer that rewrites, a broken client library do.

## On the wire

A SEND or MESSAGE whose bytes were all captured, with a CRC-32C that the bytes do not give. Of the two legs of a proxied
conversation the one that shows it first, in the direction of the message, is told; if only the second one does, the
proxy changed it.

## What speaks for the opposite

Frames that are cut, or of which a retransmission had other bytes, are left out, since the capture may have done it.
Frames found by search behind a hole may be none at all.

## What to do

A broker answers such a SEND with ChecksumError; a client throws such a MESSAGE away, and may lose permits with it
(PIP-491, permits-leaked). Capture on both sides of the next hop and compare. If a MESSAGE leaves the broker like this
and its SEND was right, look at the broker's memory and at the bookies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import about_connection, connection_subject
from pcli.codec.observe.rules.wording import count_of, why_unsure
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

__all__ = ["RULE", "look"]

_WORDS: Final = {True: ("SEND", "client", "client"), False: ("MESSAGE", "broker", "broker")}
"""By direction: the command, who wrote it, culprit."""


def look(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding for each direction in which it is this connection that shows it first."""
    for from_client, tally in record.wrong_crc.items():
        command, writer, culprit = _WORDS[from_client]
        other = record.other_leg
        # Behind the proxy, seen in the direction in which the message goes.
        behind = other is not None and (record.leg_of >= 0) == from_client
        if other is not None and behind and other.wrong_crc.get(from_client) is not None:
            continue
        where = "the proxy changed it: the other leg has it right" if behind else f"it left the {writer} like this"
        yield Finding(
            "wrong-crc",
            "error",
            "network" if behind else culprit,
            "possible" if "weak_sync" in record.doubts else "likely",
            connection_subject(record),
            f"{count_of(tally.count, command)} on {about_connection(record)} with a CRC-32C that does not fit the "
            f"bytes; {where}, or was damaged between there and the point of capture.",
            tally.first_ns,
            tally.frames,
            "TCP has checksums of its own, so a network rarely does this; memory, proxies and load balancers do. "
            "All bytes of these frames were captured." + why_unsure(record.doubts),
            "A broker refuses such a SEND (ChecksumError); a client throws such a MESSAGE away, and may lose permits "
            "with it (PIP-491). Capture on the other side of the next hop to narrow it down.",
            command.lower(),
        )


RULE = Rule(
    name="wrong-crc",
    group="connection",
    facts=("wrong_crc", "leg_of", "other_leg.wrong_crc", "doubts"),
    title="messages whose checksum does not fit their bytes",
    issue="apache/pulsar#21557",
    look=look,
)
