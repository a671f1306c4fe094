"""Extraction of the TCP segment from a packet, through any supported tunnels.

Rules of this file
1. The supported tunnels are IP in IP (RFC 2003), 6in4 (RFC 4213), GRE (RFC 2784, 2890), VXLAN (RFC 7348) and Geneve
   (RFC 8926). They may be nested, up to MAX_DEPTH.
2. UDP is examined only on the two tunnel ports. A packet on these ports that contains no tunnel is ignored.
3. This module handles the general case in a few microseconds per packet; ``fast_path`` handles ordinary packets.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.capture.ip import Fragments, Inner, pull_ip
from pcli.codec.capture.link import IPV4, IPV6, LINKS, Place, ethernet, ethertype

__all__ = ["ACK", "FIN", "RST", "SYN", "Segment", "pull_segment"]

MAX_DEPTH: Final = 8

FIN: Final = 1
SYN: Final = 2
RST: Final = 4
ACK: Final = 16
"""Flags of the TCP header."""

_TCP: Final = 6
_UDP: Final = 17
_GRE: Final = 47
_IP_IN_IP: Final = {4: IPV4, 41: IPV6}
_ETHERNET: Final = 0x6558
_VXLAN_PORTS: Final = frozenset({4789, 8472})
"""The registered VXLAN port, and the port that Linux used before the registration."""
_GENEVE_PORT: Final = 6081

_u16 = Struct(">H").unpack_from
_tcp = Struct(">4sIIBB").unpack_from


class Segment:
    """One TCP segment: its header fields, and the position of its bytes."""

    __slots__ = ("ack", "data", "end", "flags", "key", "missing", "packets", "seq", "start")

    def __init__(self, key: bytes, seq: int, ack: int, flags: int, inner: Inner, start: int) -> None:
        self.key = key
        """Source, destination, source port, destination port: 12 bytes for IPv4, 36 for IPv6."""
        self.seq = seq
        self.ack = ack
        self.flags = flags
        self.data = inner.data
        self.start = start
        self.end = inner.end
        self.missing = inner.missing
        """Number of bytes after ``end`` that were on the wire but not captured."""
        self.packets = inner.packets
        """The packets of all fragments; empty if the packet was not fragmented."""


def pull_segment(
    data: bytes, link: int, start: int, end: int, wire: int, packet: int, fragments: Fragments
) -> Segment | None:
    """Return the TCP segment in a packet, or None if there is none or fragments are still missing."""
    reader = LINKS.get(link)
    place = reader(data, start, end) if reader else None
    wire_end = start + wire
    packets: tuple[int, ...] = ()
    for _ in range(MAX_DEPTH):
        if place is None:
            return None
        inner = pull_ip(data, place[0], place[1], end, wire_end)
        if inner is not None and inner.fragment:
            inner = fragments.add(inner, packet)
        if inner is None:
            return None
        packets = inner.packets or packets
        if inner.protocol == _TCP:
            inner.packets = packets
            return _segment(inner)
        data, end, wire_end = inner.data, inner.end, inner.end + inner.missing
        place = _tunnel(inner)
    return None


def _segment(inner: Inner) -> Segment | None:
    start = inner.start
    if start + 20 > inner.end:
        return None
    ports, seq, ack, offset, flags = _tcp(inner.data, start)
    payload = start + (offset >> 4) * 4
    if payload < start + 20:
        return None
    segment = Segment(inner.addresses + ports, seq, ack, flags, inner, payload)
    if payload > inner.end:
        # The options themselves are truncated: no payload was captured, but the segment may have had a payload.
        over = payload - inner.end
        if over > inner.missing:
            return None
        segment.missing = inner.missing - over
        segment.start = segment.end = inner.end
    return segment


def _tunnel(inner: Inner) -> Place:
    """Return the position of the packet inside an IP packet that is not TCP."""
    if inner.protocol in _IP_IN_IP:
        return _IP_IN_IP[inner.protocol], inner.start
    if inner.protocol == _GRE:
        return _gre(inner.data, inner.start, inner.end)
    if inner.protocol == _UDP and inner.start + 16 <= inner.end:
        port = _u16(inner.data, inner.start + 2)[0]
        if port in _VXLAN_PORTS:
            return _vxlan(inner.data, inner.start + 8, inner.end)
        if port == _GENEVE_PORT:
            return _geneve(inner.data, inner.start + 8, inner.end)
    return None


def _gre(data: bytes, start: int, end: int) -> Place:
    """Parse GRE version 0. Flags indicate which of checksum, key and sequence number are present, four bytes each."""
    if start + 4 > end:
        return None
    flags, kind = _u16(data, start)[0], _u16(data, start + 2)[0]
    if flags & 7:
        return None
    position = start + 4 + 4 * (bool(flags & 0x8000) + bool(flags & 0x2000) + bool(flags & 0x1000))
    return _carried(data, kind, position, end)


def _vxlan(data: bytes, start: int, end: int) -> Place:
    """Parse VXLAN: a header of eight bytes with the flag for a valid network identifier, then Ethernet."""
    return ethernet(data, start + 8, end) if data[start] & 0x08 else None


def _geneve(data: bytes, start: int, end: int) -> Place:
    """Parse Geneve version 0: a header with options in four-byte words, then the protocol of its EtherType."""
    if data[start] >> 6:
        return None
    position = start + 8 + (data[start] & 0x3F) * 4
    return _carried(data, _u16(data, start + 2)[0], position, end)


def _carried(data: bytes, kind: int, position: int, end: int) -> Place:
    return ethernet(data, position, end) if kind == _ETHERNET else ethertype(data, kind, position, end)
