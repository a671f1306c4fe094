"""IPv4 and IPv6: from the network header to what it carries, with fragments put together.

Rules of this file
1. The length in the header trims what Ethernet padded. A length of 0 is a packet that the network card would have cut
   (segmentation offload, big TCP): then the bytes on the wire count.
2. Bytes of the packet that the capture did not keep are counted, not guessed: ``Inner.missing``.
3. Fragments wait in a bounded table; the oldest leave it unfinished. Of overlapping ones the first byte wins.
   (RFC 791, RFC 815, RFC 8200; RFC 5722 would drop overlapping ones, but an observer shows what was there.)
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.capture.link import IPV4

__all__ = ["Fragments", "Inner", "pull_ip"]

MAX_DATAGRAMS: Final = 256
"""Datagrams whose fragments are waited for at one time."""
MAX_DATAGRAM: Final = 65535
_MAX_FRAGMENTS: Final = 512
_MAX_HEADERS: Final = 16

_u16 = Struct(">H").unpack_from
_u32 = Struct(">I").unpack_from

_EXTENSIONS: Final = frozenset({0, 43, 60, 135, 139, 140})
"""IPv6 extension headers of the usual shape: hop-by-hop, routing, destination, mobility, HIP, shim6."""
_FRAGMENT: Final = 44
_AUTHENTICATION: Final = 51


class Inner:
    """What an IP packet carries."""

    __slots__ = ("addresses", "data", "end", "fragment", "missing", "packets", "protocol", "start")

    def __init__(self, addresses: bytes, protocol: int, data: bytes, start: int, end: int, missing: int) -> None:
        self.addresses = addresses
        """Source and destination: 8 bytes for IPv4, 32 for IPv6."""
        self.protocol = protocol
        self.data = data
        self.start = start
        self.end = end
        self.missing = missing
        """Bytes at the end that the packet had and the capture has not."""
        self.fragment: tuple[int, int, bool] | None = None
        """Identification, offset in bytes, whether more follow; None: the packet is whole."""
        self.packets: tuple[int, ...] = ()
        """The packets of all fragments, when there were any."""


def pull_ip(data: bytes, kind: int, start: int, end: int, wire_end: int) -> Inner | None:
    """The header at ``start``. ``end``: of the captured bytes; ``wire_end``: where the packet ended on the wire."""
    if kind == IPV4:
        return _pull_ipv4(data, start, end, wire_end)
    return _pull_ipv6(data, start, end, wire_end)


def _pull_ipv4(data: bytes, start: int, end: int, wire_end: int) -> Inner | None:
    if start + 20 > end or data[start] >> 4 != 4:
        return None
    header = (data[start] & 15) * 4
    length = _u16(data, start + 2)[0] or wire_end - start
    if header < 20 or length < header or start + header > end:
        return None
    stop = start + length
    inner = Inner(
        data[start + 12 : start + 20], data[start + 9], data, start + header, min(stop, end), max(0, stop - end)
    )
    word = _u16(data, start + 6)[0]
    if word & 0x3FFF:
        inner.fragment = (_u16(data, start + 4)[0], (word & 0x1FFF) * 8, bool(word & 0x2000))
    return inner


def _pull_ipv6(data: bytes, start: int, end: int, wire_end: int) -> Inner | None:
    if start + 40 > end or data[start] >> 4 != 6:
        return None
    length = _u16(data, start + 4)[0]
    stop = start + 40 + length if length else wire_end
    position, protocol, fragment = start + 40, data[start + 6], None
    for _ in range(_MAX_HEADERS):
        if protocol in _EXTENSIONS:
            size = 8 + data[position + 1] * 8 if position + 8 <= end else 0
        elif protocol == _AUTHENTICATION:
            size = 8 + data[position + 1] * 4 if position + 8 <= end else 0
        elif protocol == _FRAGMENT and fragment is None:
            size = 8 if position + 8 <= end else 0
            if size and _u16(data, position + 2)[0] & 0xFFF9:
                word = _u16(data, position + 2)[0]
                fragment = (_u32(data, position + 4)[0], word & 0xFFF8, bool(word & 1))
        else:
            break
        if not size or position + size > stop:
            return None
        protocol = data[position]
        position += size
        if fragment and fragment[1]:
            break  # behind the first fragment no header is to be read
    inner = Inner(data[start + 8 : start + 40], protocol, data, position, min(stop, end), max(0, stop - end))
    inner.fragment = fragment
    return inner if position <= inner.end else None


class _Datagram:
    """Fragments of one datagram."""

    __slots__ = ("count", "packets", "pieces", "protocol", "size")

    def __init__(self) -> None:
        self.pieces: dict[int, bytes] = {}
        self.packets: list[int] = []
        self.size = -1
        """Bytes of the whole; -1: the last fragment is not here yet."""
        self.protocol = -1
        self.count = 0


class Fragments:
    """Puts fragments together, in bounded memory."""

    def __init__(self) -> None:
        self._open: dict[tuple[bytes, int, int], _Datagram] = {}

    def add(self, inner: Inner, packet: int) -> Inner | None:
        """Take a fragment; the whole datagram when this was the last that was missing."""
        assert inner.fragment is not None
        identification, offset, more = inner.fragment
        if inner.missing or offset + inner.end - inner.start > MAX_DATAGRAM:
            return None
        # The protocol of an IPv6 fragment stands behind the first one's headers only.
        key = (inner.addresses, identification, inner.protocol if len(inner.addresses) == 8 else -1)
        datagram = self._open.get(key)
        if datagram is None:
            if len(self._open) >= MAX_DATAGRAMS:
                del self._open[next(iter(self._open))]
            datagram = self._open[key] = _Datagram()
        datagram.count += 1
        if datagram.count > _MAX_FRAGMENTS:
            return None
        datagram.pieces.setdefault(offset, inner.data[inner.start : inner.end])
        datagram.packets.append(packet)
        if not offset:
            datagram.protocol = inner.protocol
        if not more:
            datagram.size = offset + inner.end - inner.start
        if datagram.size < 0 or 0 not in datagram.pieces:
            return None
        return self._whole(key, datagram)

    def _whole(self, key: tuple[bytes, int, int], datagram: _Datagram) -> Inner | None:
        data = bytearray()
        for offset in sorted(datagram.pieces):
            if offset > len(data):
                return None
            data += datagram.pieces[offset][len(data) - offset :]
        if len(data) < datagram.size:
            return None
        del self._open[key]
        whole = Inner(key[0], datagram.protocol, bytes(data[: datagram.size]), 0, datagram.size, 0)
        whole.packets = tuple(datagram.packets)
        return whole
