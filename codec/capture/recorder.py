"""Made-up packets for bytes that went over a socket, as a sniffer between the two would have seen them.

Rules of this file
1. Every connection is whole: SYN, SYN and ACK, ACK; data in segments of the MTU at most, acknowledged; FIN or RST.
   Sequence numbers, acknowledgements and checksums are right (RFC 791, 8200, 9293), so that tools find no fault.
2. Nothing is random and no clock is read: the same calls with the same times write the same bytes.
3. Ethernet with addresses of the private range, IPv4 or IPv6 as the endpoints' addresses say.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import Struct
from typing import Final

from pcli.codec.capture.packets import Packet
from pcli.codec.capture.writer import PcapngWriter
from pcli.codec.errors import LocalError

__all__ = ["Conversation", "TcpRecorder", "push_segment"]

_FIN, _SYN, _RST, _PSH, _ACK = 1, 2, 4, 8, 16
_MASK: Final = 0xFFFFFFFF
_ETHERNET: Final = 1
_WINDOW: Final = 65535
_ISN_STEP: Final = 64_000
"""Between the first sequence numbers of two connections, as RFC 793 lets them run."""

_MACS: Final = (b"\x02\x00\x00\x00\x00\x01", b"\x02\x00\x00\x00\x00\x02")
"""Locally administered addresses: the client's, the server's."""

_ipv4 = Struct(">BBHHHBBH4s4s").pack
_ipv6 = Struct(">IHBB16s16s").pack
_tcp = Struct(">IIBBHHH").pack
_u16 = Struct(">H").pack


class Conversation:
    """A recorded connection: what its next packets must say."""

    __slots__ = ("addresses", "closed", "next", "ports")

    def __init__(self, client: tuple[str, int], server: tuple[str, int], first: int) -> None:
        self.addresses = (_address(client[0]), _address(server[0]))
        if len(self.addresses[0]) != len(self.addresses[1]):
            raise LocalError(f"{client[0]} and {server[0]} have different IP versions")
        self.ports = (client[1], server[1])
        if not all(0 <= port < 65536 for port in self.ports):
            raise LocalError(f"{client[1]} or {server[1]} is not a port")
        self.next = [first & _MASK, first + _ISN_STEP // 2 & _MASK]
        """Next sequence number: the client's, the server's."""
        self.closed = False


class TcpRecorder:
    """Writes connections as packets."""

    def __init__(self, writer: PcapngWriter, mtu: int = 1500, interface: str = "") -> None:
        if not 576 <= mtu <= 65535:
            raise LocalError(f"an MTU of {mtu} bytes; the range is 576 to 65535")
        self._writer = writer
        self._mtu = mtu
        self._name = interface
        self._packets = 0
        self._connections = 0

    def open(self, client: tuple[str, int], server: tuple[str, int], time_ns: int) -> Conversation:
        """A connection begins: (IP address, port) of both ends. LocalError for what is no address."""
        self._connections += 1
        talk = Conversation(client, server, self._connections * _ISN_STEP)
        mss = self._mtu - (40 if len(talk.addresses[0]) == 4 else 60)
        option = b"\x02\x04" + _u16(mss)
        self._send(talk, 0, _SYN, b"", time_ns, option)
        self._send(talk, 1, _SYN | _ACK, b"", time_ns, option)
        self._send(talk, 0, _ACK, b"", time_ns)
        return talk

    def data(self, talk: Conversation, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Bytes went over the connection."""
        if talk.closed:
            raise LocalError("data on a closed connection")
        side = 0 if from_client else 1
        step = self._mtu - (40 if len(talk.addresses[0]) == 4 else 60)
        for position in range(0, len(data), step):
            piece = data[position : position + step]
            last = position + step >= len(data)
            self._send(talk, side, _ACK | (_PSH if last else 0), piece, time_ns)
        if data:
            self._send(talk, 1 - side, _ACK, b"", time_ns)

    def close(self, talk: Conversation, time_ns: int, *, from_client: bool, reset: bool = False) -> None:
        """That side closes: both directions end, by FIN, or at once by RST. A second close does nothing."""
        if talk.closed:
            return
        talk.closed = True
        side = 0 if from_client else 1
        if reset:
            self._send(talk, side, _RST | _ACK, b"", time_ns)
            return
        self._send(talk, side, _FIN | _ACK, b"", time_ns)
        self._send(talk, 1 - side, _FIN | _ACK, b"", time_ns)
        self._send(talk, side, _ACK, b"", time_ns)

    def _send(self, talk: Conversation, side: int, flags: int, data: bytes, time_ns: int, options: bytes = b"") -> None:
        """One packet from the client (0) or the server (1)."""
        source, target = (talk.addresses[one] + _u16(talk.ports[one]) for one in (side, 1 - side))
        ack = talk.next[1 - side] if flags & _ACK else 0
        self._packets += 1
        frame = push_segment(source, target, side, talk.next[side], ack, flags, data, self._packets, options)
        talk.next[side] = talk.next[side] + len(data) + bool(flags & (_SYN | _FIN)) & _MASK
        self._writer.packet(Packet(self._packets, time_ns, _ETHERNET, frame, len(frame), self._name))


def push_segment(
    source: bytes,
    target: bytes,
    side: int,
    seq: int,
    ack: int,
    flags: int,
    data: bytes,
    number: int,
    options: bytes = b"",
    missing: int = 0,
) -> bytes:
    """One TCP segment as an Ethernet packet (LINKTYPE 1).

    ``source`` and ``target`` are an address of 4 or 16 bytes and the port's two; ``side`` says whose Ethernet address
    is the sender's; ``number`` identifies an IPv4 packet. ``missing`` bytes behind ``data`` were on the wire, too.
    """
    addresses = source[:-2], target[:-2]
    size = 20 + len(options) + len(data) + missing
    head = source[-2:] + target[-2:] + _tcp(seq, ack, (20 + len(options)) // 4 << 4, flags, _WINDOW, 0, 0) + options
    checksum = _checksum(b"".join((*addresses, size.to_bytes(4, "big"), b"\0\0\0\x06", head)), data)
    head = head[:16] + _u16(checksum) + head[18:]
    return b"".join((_MACS[1 - side], _MACS[side], _ip(*addresses, size, number), head, data))


def _ip(source: bytes, target: bytes, size: int, number: int) -> bytes:
    """EtherType and IP header in front of a segment of that size.

    A length that has no room is 0, as sniffers see it before the network card cuts the packet.
    """
    if len(source) == 16:
        return b"\x86\xdd" + _ipv6(0x60000000, size if size < 65536 else 0, 6, 64, source, target)
    length = 20 + size if 20 + size < 65536 else 0
    header = _ipv4(0x45, 0, length, number & 0xFFFF, 0x4000, 64, 6, 0, source, target)
    return b"\x08\x00" + header[:10] + _u16(_checksum(header)) + header[12:]


def _checksum(head: bytes, data: bytes = b"") -> int:
    """The internet checksum (RFC 1071): the sum of the 16-bit words is the number modulo 65535.

    ``head`` has whole words; it is apart from ``data`` so that nobody copies that. A sum of 0xFFFF gives 0, never
    0xFFFF (RFC 1624): headers are not all zero.
    """
    return (-int.from_bytes(head, "big") - int.from_bytes(data + bytes(len(data) & 1), "big") % 0xFFFF) % 0xFFFF


def _address(text: str) -> bytes:
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        raise LocalError(f"{text!r} is not an IP address") from None
    return address.packed
