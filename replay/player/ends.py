"""When the connections of a capture ended, and by whom: the FINs and RSTs among its packets.

Rules of this file
1. `read_capture` gives frames; that a client was killed is seen in its packets only. So this is a pass of its own.
2. The first FIN or RST of a connection is its end: who sent it closed it. A port may be used again later, so an end
   belongs to the last connection of these two addresses that began before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from struct import Struct
from typing import Final

from pcli.codec.capture import Note, Packet, Secrets
from pcli.codec.capture.ip import Fragments
from pcli.codec.capture.tunnels import FIN, RST, pull_segment

__all__ = ["Address", "End", "find_ends"]

Address = tuple[str, int]

_ports: Final = Struct(">HH").unpack_from


@dataclass(frozen=True, slots=True)
class End:
    """The end of a connection."""

    packet: int
    """Number of the packet that told it."""
    time_ns: int
    source: Address
    """Who closed."""
    target: Address
    reset: bool
    """By RST."""


def find_ends(packets: Iterable[Packet | Secrets | Note]) -> list[End]:
    """Every FIN and RST of a recording, in order."""
    fragments, found = Fragments(), []
    for packet in packets:
        if isinstance(packet, Packet):
            size = len(packet.data)
            segment = pull_segment(packet.data, packet.link, 0, size, packet.wire_length, packet.number, fragments)
            if segment is not None and segment.flags & (FIN | RST):
                source, target = _addresses(segment.key)
                found.append(End(packet.number, packet.time_ns, source, target, bool(segment.flags & RST)))
    return found


def _addresses(key: bytes) -> tuple[Address, Address]:
    half = (len(key) - 4) // 2
    source, target = (str(ip_address(key[start : start + half])) for start in (0, half))
    source_port, target_port = _ports(key, 2 * half)
    return (source, source_port), (target, target_port)
