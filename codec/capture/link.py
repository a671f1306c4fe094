"""Link layers: from the first byte of a packet to the network header (LINKTYPE list of tcpdump.org).

Rules of this file
1. One table maps link types to functions. Each function returns the EtherType and the position of the network header,
   or None if the packet is too short or is not IP.
2. VLAN tags (802.1Q, and QinQ with any of its EtherTypes) and MPLS labels are skipped, up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

__all__ = ["IPV4", "IPV6", "LINKS", "Place", "ethernet", "ethertype", "raw_ip"]

IPV4: Final = 0x0800
IPV6: Final = 0x86DD

_VLAN: Final = frozenset({0x8100, 0x88A8, 0x9100, 0x9200, 0x9300})
_MPLS: Final = frozenset({0x8847, 0x8848})
_PPPOE: Final = 0x8864
_MAX_TAGS: Final = 16
_BSD_IPV6: Final = frozenset({10, 24, 28, 30})
"""Values of AF_INET6 in Linux, in NetBSD and OpenBSD, in FreeBSD, and in macOS."""

_u16 = Struct(">H").unpack_from

Place = tuple[int, int] | None
"""EtherType and position of the network header."""


def ethertype(data: bytes, kind: int, position: int, end: int) -> Place:
    """Skip tags after a known EtherType. Return the position of the IPv4 or IPv6 header, or None for other content."""
    for _ in range(_MAX_TAGS):
        if kind in (IPV4, IPV6):
            return kind, position
        if kind in _VLAN and position + 4 <= end:
            kind = _u16(data, position + 2)[0]
            position += 4
        elif kind in _MPLS and position + 4 <= end:
            bottom = data[position + 2] & 1
            position += 4
            if bottom:
                return raw_ip(data, position, end)
        elif kind == _PPPOE and position + 8 <= end:
            kind = {0x0021: IPV4, 0x0057: IPV6}.get(_u16(data, position + 6)[0], 0)
            position += 8
        else:
            return None
    return None


def ethernet(data: bytes, position: int, end: int) -> Place:
    """Parse two addresses and the EtherType. 802.3 length values are below all supported EtherTypes."""
    if position + 14 > end:
        return None
    return ethertype(data, _u16(data, position + 12)[0], position + 14, end)


def raw_ip(data: bytes, position: int, end: int) -> Place:
    """Return EtherType and position for a packet without a link header, based on the IP version."""
    if position >= end:
        return None
    version = data[position] >> 4
    return (IPV4, position) if version == 4 else (IPV6, position) if version == 6 else None


def _null(data: bytes, position: int, end: int) -> Place:
    """Parse BSD loopback: the address family as a 32-bit word in the byte order of the capturing machine."""
    if position + 4 > end:
        return None
    word = data[position : position + 4]
    family = word[0] or word[3]
    if family == 2:
        return IPV4, position + 4
    return (IPV6, position + 4) if family in _BSD_IPV6 else None


def _cooked(data: bytes, position: int, end: int) -> Place:
    """Parse Linux cooked capture v1: the EtherType is the last two of 16 bytes."""
    if position + 16 > end:
        return None
    return ethertype(data, _u16(data, position + 14)[0], position + 16, end)


def _cooked_v2(data: bytes, position: int, end: int) -> Place:
    """Parse Linux cooked capture v2: the EtherType is the first two of 20 bytes."""
    if position + 20 > end:
        return None
    return ethertype(data, _u16(data, position)[0], position + 20, end)


def _ipv4(data: bytes, position: int, end: int) -> Place:
    return IPV4, position


def _ipv6(data: bytes, position: int, end: int) -> Place:
    return IPV6, position


LINKS: Final[dict[int, Callable[[bytes, int, int], Place]]] = {
    0: _null,
    1: ethernet,
    12: raw_ip,
    14: raw_ip,
    101: raw_ip,
    108: _null,
    113: _cooked,
    228: _ipv4,
    229: _ipv6,
    276: _cooked_v2,
}
"""Parsers by link type: NULL, Ethernet, RAW (also with the BSD numbers), LOOP, Linux cooked v1, IPv4, IPv6, cooked
v2."""
