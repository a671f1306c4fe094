"""IPv4 and IPv6: from the network header to the packet's content, with reassembly of fragments.

Rules of this file
1. The length in the header excludes Ethernet padding. A length of 0 marks a packet that was captured before the network
   card split it (segmentation offload, big TCP). The length on the wire is then used.
2. Truncated bytes of the packet are counted and not reconstructed: ``Inner.missing``.
3. Fragments wait in a bounded table, and the oldest datagrams are evicted. If fragments overlap, the bytes received
   first are used. (RFC 791, RFC 815, RFC 8200. RFC 5722 forbids overlapping fragments, but an observer shows the
   received data.)
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.capture.link import IPV4

MAX_DATAGRAMS: Final = 256
"""Maximum number of incomplete datagrams."""
MAX_DATAGRAM: Final = 65535
_MAX_FRAGMENTS: Final = 512
_MAX_HEADERS: Final = 16

_u16 = Struct(">H").unpack_from
_u32 = Struct(">I").unpack_from

_EXTENSIONS: Final = frozenset({0, 43, 60, 135, 139, 140})
"""IPv6 extension headers with the standard layout: hop-by-hop, routing, destination, mobility, HIP, shim6."""
_FRAGMENT: Final = 44
_AUTHENTICATION: Final = 51


class Inner:
    """The content of an IP packet."""

    __slots__ = ("addresses", "data", "end", "fragment", "missing", "packets", "protocol", "start")

    def __init__(self, addresses: bytes, protocol: int, data: bytes, start: int, end: int, missing: int) -> None:
        self.addresses = addresses
        """Source and destination address: 8 bytes for IPv4, 32 for IPv6."""
        self.protocol = protocol
        self.data = data
        self.start = start
        self.end = end
        self.missing = missing
        """Number of bytes at the end of the packet that the capture lacks."""
        self.fragment: tuple[int, int, bool] | None = None
        """Identification, offset in bytes, and whether more fragments follow; None if the packet is not a fragment."""
        self.packets: tuple[int, ...] = ()
        """The packets of all fragments; empty if the packet was not fragmented."""


def pull_ip(data: bytes, kind: int, start: int, end: int, wire_end: int) -> Inner | None:
    """Parse the header at ``start``. The captured bytes end at ``end``; the packet on the wire ends at ``wire_end``."""
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
            break  # only the first fragment contains the next header
    inner = Inner(data[start + 8 : start + 40], protocol, data, position, min(stop, end), max(0, stop - end))
    inner.fragment = fragment
    return inner if position <= inner.end else None


class _Datagram:
    """The fragments of one datagram."""

    __slots__ = ("count", "packets", "pieces", "protocol", "size")

    def __init__(self) -> None:
        self.pieces: dict[int, bytes] = {}
        self.packets: list[int] = []
        self.size = -1
        """Size of the datagram; -1 until the last fragment arrives."""
        self.protocol = -1
        self.count = 0


class Fragments:
    """A reassembler of fragments that uses bounded memory."""

    def __init__(self) -> None:
        self._open: BoundedDict[tuple[bytes, int, int], _Datagram] = BoundedDict(MAX_DATAGRAMS)

    def add(self, inner: Inner, packet: int) -> Inner | None:
        """Add a fragment. Return the datagram if it is now complete."""
        assert inner.fragment is not None
        identification, offset, more = inner.fragment
        if inner.missing or offset + inner.end - inner.start > MAX_DATAGRAM:
            return None
        # In IPv6, only the first fragment's headers contain the upper-layer protocol.
        key = (inner.addresses, identification, inner.protocol if len(inner.addresses) == 8 else -1)
        datagram = self._open.get(key)
        if datagram is None:
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
