"""Checks of single frames: checksum, size, deprecated commands and fields.

Rules of this file
1. Only complete frames without capture problems are checked, because incomplete or damaged frames prove nothing about
   the peer.
2. CONNECTED contains the maximum size. If CONNECTED was not captured, no frame is too large.
"""

from __future__ import annotations

from pcli.codec.capture.frames import RESYNC
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.wire.commands import name_of
from pcli.codec.wire.frame import SEND


def check_checksum(connection: ConnectionState, facts: Facts) -> None:
    """Check the checksum of a SEND or MESSAGE, if it has one."""
    frame = facts.frame
    if frame.capture_problems:
        return
    checksum = frame.checksum
    if checksum == "bad":
        connection.record.wrong_crc.setdefault(frame.from_client, Occurrences()).add(frame.time_ns, frame.number)
    elif checksum == "none" and frame.type == SEND and frame.sync != RESYNC:
        deprecated(connection, facts, "SEND without checksum")


def oversize(connection: ConnectionState, facts: Facts) -> None:
    """Count a frame that is larger than the limit."""
    frame = facts.frame
    sample = f"{name_of(frame.type)} of {frame.length:,} bytes"
    connection.record.oversize.add(frame.time_ns, frame.number, sample=sample)


def deprecated(connection: ConnectionState, facts: Facts, what: str) -> None:
    """Count the use of a deprecated command or field."""
    connection.record.deprecated.setdefault(what, Occurrences()).add(facts.frame.time_ns, facts.frame.number)
