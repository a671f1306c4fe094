"""Link layers: from the first byte of a packet to the network header (LINKTYPE list of tcpdump.org).

Rules of this file
1. One table maps link types to functions. Each function returns a `Place`.
2. Tags are skipped, up to a limit: VLAN (802.1Q, QinQ with any of its EtherTypes), VN-tag, 802.1BR E-tag, Cisco
   metadata, MPLS labels.
3. TYPED, RAW and LOOPS describe the link types with the simplest headers, which the columnar reader parses in bulk.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

IPV4: Final = 0x0800
IPV6: Final = 0x86DD

CUT: Final = -1
UNKNOWN: Final = -2

Place = tuple[int, int] | None
"""EtherType and position of the network header; None if the packet is not IP. ``(CUT, 0)`` if the packet ends inside
the link header or the header is invalid, ``(UNKNOWN, link type)`` for an unknown link type inside another."""

VLAN: Final = (0x8100, 0x88A8, 0x9100, 0x9200, 0x9300)
_TAGS: Final = {**dict.fromkeys(VLAN, 4), 0x8926: 6, 0x8909: 8, 0x893F: 8}
"""Number of bytes of a tag, which ends with the next EtherType: VLAN, VN-tag, Cisco metadata, 802.1BR E-tag."""
_MPLS: Final = frozenset({0x8847, 0x8848})
_PPPOE: Final = 0x8864
_MAX_TAGS: Final = 16
BSD_IPV6: Final = (10, 24, 28, 30)
"""Values of AF_INET6 in Linux, in NetBSD and OpenBSD, in FreeBSD, and in macOS."""

TYPED: Final = {1: (12, 14), 113: (14, 16), 276: (0, 20)}
"""Link types with an EtherType (Ethernet, Linux cooked v1 and v2): its offset, and the size of the header."""
RAW: Final = {12: 0, 14: 0, 101: 0, 228: IPV4, 229: IPV6}
"""Link types without a header, with the network protocol; 0 if the IP version field determines the protocol."""
LOOPS: Final = (0, 108)
"""Link types of BSD loopback: the address family as a 32-bit word in the byte order of the capturing machine."""

_PPP_PROTOCOLS: Final = {0x0021: IPV4, 0x0057: IPV6, 0x0281: 0x8847, 0x0283: 0x8848}
_PKTAP_LEAST: Final = 108
"""Size of the first version of the PKTAP header."""
_PAYLOAD: Final = 9
"""The type of the NFLOG attribute that contains the packet (NFULA_PAYLOAD)."""

_u16 = Struct(">H").unpack_from
_u32s = Struct("<III").unpack_from
_ATTRIBUTE: Final = (Struct("<HH").unpack_from, Struct(">HH").unpack_from)

_Reader = Callable[[bytes, int, int], Place]


def ethertype(data: bytes, kind: int, position: int, end: int) -> Place:
    """Skip tags after a known EtherType. Return the position of the IPv4 or IPv6 header."""
    for _ in range(_MAX_TAGS):
        if kind in (IPV4, IPV6):
            return kind, position
        size = _TAGS.get(kind)
        if size is not None:
            if position + size > end:
                return CUT, 0
            kind = _u16(data, position + size - 2)[0]
            position += size
        elif kind in _MPLS:
            if position + 4 > end:
                return CUT, 0
            bottom = data[position + 2] & 1
            position += 4
            if bottom:
                return raw_ip(data, position, end)
        elif kind == _PPPOE:
            return ppp(data, position + 6, end)
        else:
            return None
    return None


def ethernet(data: bytes, position: int, end: int) -> Place:
    """Parse two addresses and the EtherType. 802.3 length values are below all supported EtherTypes."""
    if position + 14 > end:
        return CUT, 0
    return ethertype(data, _u16(data, position + 12)[0], position + 14, end)


def raw_ip(data: bytes, position: int, end: int) -> Place:
    """Return EtherType and position for a packet without a link header, based on the IP version."""
    if position >= end:
        return CUT, 0
    version = data[position] >> 4
    return (IPV4, position) if version == 4 else (IPV6, position) if version == 6 else None


def ppp(data: bytes, position: int, end: int) -> Place:
    """Parse PPP (RFC 1661), with or without the address and control field of RFC 1662."""
    if data[position : position + 2] == b"\xff\x03":
        position += 2
    if position + 2 > end:
        return CUT, 0
    if data[position] & 1:  # the protocol field is compressed to one byte
        return ethertype(data, _PPP_PROTOCOLS.get(data[position], 0), position + 1, end)
    return ethertype(data, _PPP_PROTOCOLS.get(_u16(data, position)[0], 0), position + 2, end)


def _null(data: bytes, position: int, end: int) -> Place:
    """Parse BSD loopback."""
    if position + 4 > end:
        return CUT, 0
    word = data[position : position + 4]
    family = word[0] or word[3]
    if family == 2:
        return IPV4, position + 4
    return (IPV6, position + 4) if family in BSD_IPV6 else None


def _typed(kind: int, header: int) -> _Reader:
    """Return the parser of a header of a fixed size that contains the EtherType."""

    def parse(data: bytes, position: int, end: int) -> Place:
        if position + header > end:
            return CUT, 0
        return ethertype(data, _u16(data, position + kind)[0], position + header, end)

    return parse


def _raw(protocol: int) -> _Reader:
    """Return the parser of packets without a header."""
    return (lambda _data, position, _end: (protocol, position)) if protocol else raw_ip


def _after(header: int, inner: _Reader) -> _Reader:
    """Return the parser of a header of a fixed size before another link layer."""
    return lambda data, position, end: inner(data, position + header, end)


def _hdlc(data: bytes, position: int, end: int) -> Place:
    """Parse PPP in HDLC framing, or Cisco HDLC, whose address byte is 0x0f or 0x8f."""
    if data[position : position + 1] in (b"\x0f", b"\x8f"):
        return _cisco_hdlc(data, position, end)
    return ppp(data, position, end)


_cisco_hdlc = _typed(2, 4)


def _pflog(data: bytes, position: int, end: int) -> Place:
    """Parse a log of the BSD packet filter: a header whose first byte is its size without padding, then IP."""
    if position >= end or data[position] < 4:
        return CUT, 0
    return raw_ip(data, position + (data[position] + 3 & ~3), end)


def _nflog(data: bytes, position: int, end: int) -> Place:
    """Parse a log of Linux netfilter: attributes in the byte order of the capturing machine, one of them the packet."""
    for pull in _ATTRIBUTE:
        at = position + 4
        while at + 4 <= end:
            size, kind = pull(data, at)
            kind &= 0x7FFF  # the highest bit marks nested attributes
            if size < 4 or kind > 255 or (at + size > end and kind != _PAYLOAD):
                break
            if kind == _PAYLOAD:
                return raw_ip(data, at + 4, end)
            at += size + 3 & ~3
    return CUT, 0


def _pktap(data: bytes, position: int, end: int) -> Place:
    """Parse PKTAP of macOS: a header with its size, the kind of record (1: a packet) and the packet's link type."""
    if position + _PKTAP_LEAST > end:
        return CUT, 0
    size, record, link = _u32s(data, position)
    if size < _PKTAP_LEAST or position + size > end:
        return CUT, 0
    if record != 1:
        return None
    reader = LINKS.get(link)
    return (UNKNOWN, link) if reader is None else reader(data, position + size, end)


def _user(number: int) -> _Reader:
    """Return the parser of a link type for private use, which older versions of macOS use for PKTAP."""

    def parse(data: bytes, position: int, end: int) -> Place:
        if position + 12 <= end:
            size, record, link = _u32s(data, position)
            if _PKTAP_LEAST <= size < 1024 and record <= 1 and link in LINKS:
                return _pktap(data, position, end)
        return UNKNOWN, number

    return parse


LINKS: Final[dict[int, _Reader]] = {
    **{link: _typed(*place) for link, place in TYPED.items()},
    **{link: _raw(protocol) for link, protocol in RAW.items()},
    **dict.fromkeys(LOOPS, _null),
    9: ppp,
    50: _hdlc,
    51: _after(6, ppp),
    104: _cisco_hdlc,
    109: _after(12, raw_ip),
    117: _pflog,
    147: _user(147),
    149: _user(149),
    166: _after(2, ppp),
    204: _after(1, ppp),
    219: lambda data, position, end: ethertype(data, 0x8847, position, end),
    239: _nflog,
    258: _pktap,
}
"""Parsers by link type: those above, PPP, PPP or Cisco HDLC, PPPoE, Cisco HDLC, OpenBSD ENC, PFLOG, USER0 and USER2,
PPP of pppd and PPP with a direction, MPLS, NFLOG, PKTAP."""
