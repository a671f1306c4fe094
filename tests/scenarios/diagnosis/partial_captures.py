"""Captures that lack a part: they start late, or contain one direction only."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PARTS: Final = ("late", "to broker", "from broker")
"""What a capture contains: packets after a moment, or packets of one direction."""

_FILE_HEADER, _PACKET_HEADER = 24, 16
_LINK_HEADERS = {1: 14, 276: 20}
"""Sizes of the headers of Ethernet and of Linux cooked v2, by link type."""


def cut(capture: Path, part: str, port: int) -> float:
    """Remove the other packets from a pcap file of tcpdump; return the time of the first that is left.

    ``port`` is the broker's.
    """
    data = capture.read_bytes()
    packets = list(_packets(data))
    if part == "late":
        kept = packets[len(packets) // 3 :]
    else:
        ip = _PACKET_HEADER + _LINK_HEADERS[struct.unpack_from("<I", data, 20)[0]]
        kept = [packet for packet in packets if _ports(packet, ip)[part == "to broker"] == port]
    capture.write_bytes(data[:_FILE_HEADER] + b"".join(kept))
    seconds, microseconds = struct.unpack_from("<II", kept[0])
    return seconds + microseconds / 1e6


def _packets(data: bytes) -> Iterator[bytes]:
    """Yield the packets with their headers."""
    place = _FILE_HEADER
    while place + _PACKET_HEADER <= len(data):
        end = place + _PACKET_HEADER + struct.unpack_from("<I", data, place + 8)[0]
        yield data[place:end]
        place = end


def _ports(packet: bytes, ip: int) -> tuple[int, int]:
    """Return the source and the destination port of a packet with TCP, and IPv4 at the offset ``ip``."""
    source, destination = struct.unpack_from(">HH", packet, ip + 4 * (packet[ip] & 15))
    return source, destination
