"""Extraction of the TCP segment from a packet, through any supported tunnels.

Rules of this file
1. The supported tunnels are IP in IP (RFC 2003), 6in4 (RFC 4213), GRE (RFC 2784, 2890), PPTP (RFC 2637), ERSPAN types I
   to III (draft-foschiano-erspan), VXLAN (RFC 7348), VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe), NSH (RFC 8300), Geneve
   (RFC 8926) and GTP-U (3GPP TS 29.281). They may be nested, up to MAX_DEPTH.
2. UDP is examined only on the ports of the tunnels. A packet on these ports that contains no tunnel is ignored.
3. Packets that cannot be decoded are counted: their link type is unknown, or they end inside a header.
4. This module handles the general case in a few microseconds per packet; ``fast_path`` handles ordinary packets.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.capture.ip import Fragments, Inner, pull_ip
from pcli.codec.capture.link import IPV4, IPV6, LINKS, UNKNOWN, Place, ethernet, ethertype, ppp, raw_ip
from pcli.codec.capture.unread_packets import UnreadPackets

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
_PPTP: Final = 0x880B
_ERSPAN: Final = 0x88BE
"""ERSPAN I, or ERSPAN II if the GRE header has a sequence number."""
_ERSPAN_III: Final = 0x22EB
_NSH: Final = 0x894F
_NEXT: Final = {1: IPV4, 2: IPV6, 3: _ETHERNET, 4: _NSH, 5: 0x8847}
"""EtherTypes by the protocol numbers of VXLAN-GPE and NSH."""

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
    data: bytes,
    link: int,
    start: int,
    end: int,
    wire: int,
    packet: int,
    fragments: Fragments,
    unread: UnreadPackets | None = None,
) -> Segment | None:
    """Return the TCP segment in a packet, or None if there is none or fragments are still missing.

    A packet that cannot be decoded is added to ``unread``.
    """
    reader = LINKS.get(link)
    place = reader(data, start, end) if reader else (UNKNOWN, link)
    if unread is not None and place is not None and place[0] < 0:
        unread.add(place[1] if place[0] == UNKNOWN else link, unknown=place[0] == UNKNOWN)
        return None
    wire_end = start + wire
    packets: tuple[int, ...] = ()
    for _ in range(MAX_DEPTH):
        if place is None:
            return None
        inner = pull_ip(data, place[0], place[1], end, wire_end) if place[0] >= 0 else None
        if inner is None or (inner.fragment and inner.missing):
            break
        if inner.fragment:
            inner = fragments.add(inner, packet)
            if inner is None:
                return None
        packets = inner.packets or packets
        data, end, wire_end = inner.data, inner.end, inner.end + inner.missing
        if inner.protocol == _TCP:
            inner.packets = packets
            segment = _segment(inner)
            if segment is not None:
                return segment
            break
        place = _tunnel(inner)
    if unread is not None and end < wire_end:
        unread.add(link, unknown=False)
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
        reader = _UDP_TUNNELS.get(_u16(inner.data, inner.start + 2)[0])
        return None if reader is None else reader(inner.data, inner.start + 8, inner.end)
    return None


def _gre(data: bytes, start: int, end: int) -> Place:
    """Parse GRE. Flags indicate which of checksum, key, sequence number and acknowledgement are present."""
    if start + 4 > end:
        return None
    flags, kind = _u16(data, start)[0], _u16(data, start + 2)[0]
    size = 4 + 4 * (bool(flags & 0x8000) + bool(flags & 0x2000) + bool(flags & 0x1000))
    if flags & 7 == 1 and kind == _PPTP:
        return ppp(data, start + size + 4 * bool(flags & 0x80), end)
    if flags & 7:
        return None
    if kind == _ERSPAN:
        return ethernet(data, start + size + 8 * bool(flags & 0x1000), end)
    return _carried(data, kind, start + size, end)


def _erspan_iii(data: bytes, start: int, end: int) -> Place:
    """Parse ERSPAN type III: a header of twelve bytes, and eight more bytes if its last bit is set."""
    if start + 12 > end:
        return None
    kind = _u16(data, start + 10)[0]
    reader = {0: ethernet, 2: raw_ip}.get(kind >> 10 & 31)
    return None if reader is None else reader(data, start + 12 + 8 * (kind & 1), end)


def _vxlan(data: bytes, start: int, end: int) -> Place:
    """Parse VXLAN: a header of eight bytes with the flag for a valid network identifier, then Ethernet."""
    return ethernet(data, start + 8, end) if data[start] & 0x08 else None


def _vxlan_gpe(data: bytes, start: int, end: int) -> Place:
    """Parse VXLAN-GPE: a header of eight bytes; a flag indicates that the fourth byte is the protocol."""
    kind = _NEXT.get(data[start + 3], 0) if data[start] & 0x04 else _ETHERNET
    return _carried(data, kind, start + 8, end)


def _nsh(data: bytes, start: int, end: int) -> Place:
    """Parse a network service header: its size in four-byte words, and the protocol after it."""
    if start + 8 > end:
        return None
    return _carried(data, _NEXT.get(data[start + 3], 0), start + (data[start + 1] & 0x3F) * 4, end)


def _geneve(data: bytes, start: int, end: int) -> Place:
    """Parse Geneve version 0: a header with options in four-byte words, then the protocol of its EtherType."""
    if data[start] >> 6:
        return None
    position = start + 8 + (data[start] & 0x3F) * 4
    return _carried(data, _u16(data, start + 2)[0], position, end)


def _gtp(data: bytes, start: int, end: int) -> Place:
    """Parse GTP-U: a user packet (message 255) after eight bytes, optional fields, and extension headers."""
    if data[start] >> 4 != 3 or data[start + 1] != 255:
        return None
    position = start + 8
    if data[start] & 7:
        position += 4
        following = data[position - 1] if data[start] & 4 and position <= end else 0
        while following:
            size = data[position] * 4 if position < end else 0
            if not size or position + size > end:
                return None
            position += size
            following = data[position - 1]
    return raw_ip(data, position, end)


_UDP_TUNNELS: Final = {4789: _vxlan, 8472: _vxlan, 4790: _vxlan_gpe, 6081: _geneve, 2152: _gtp}
"""Tunnels by UDP port. Linux used port 8472 before VXLAN had a registered port."""


def _carried(data: bytes, kind: int, position: int, end: int) -> Place:
    """Return the network header after a header that contains an EtherType."""
    reader = _CARRIED.get(kind)
    return ethertype(data, kind, position, end) if reader is None else reader(data, position, end)


_CARRIED: Final = {_ETHERNET: ethernet, _ERSPAN_III: _erspan_iii, _NSH: _nsh}
