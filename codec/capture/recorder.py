"""Synthetic packets for bytes sent over a socket, as a sniffer between the two ends would capture them.

Rules of this file
1. Every connection is complete: SYN, SYN+ACK, ACK; acknowledged data in segments of at most the MTU; FIN or RST.
   Sequence numbers, acknowledgements and checksums are correct (RFC 791, 8200, 9293), so tools report no errors.
2. The output is deterministic: the same calls with the same times write the same bytes.
3. The link layer is Ethernet with locally administered addresses. The endpoints' addresses determine whether IPv4 or
   IPv6 is used.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import Struct
from typing import Final

from pcli.codec.capture.packets import Packet
from pcli.codec.capture.writer import PcapngWriter
from pcli.codec.errors import LocalError

_FIN, _SYN, _RST, _PSH, _ACK = 1, 2, 4, 8, 16
_MASK: Final = 0xFFFFFFFF
_ETHERNET: Final = 1
_WINDOW: Final = 65535
_ISN_STEP: Final = 64_000
"""Difference between the initial sequence numbers of two connections, as in RFC 793."""

_MACS: Final = (b"\x02\x00\x00\x00\x00\x01", b"\x02\x00\x00\x00\x00\x02")
"""Locally administered Ethernet addresses of the client and the server."""

_ipv4 = Struct(">BBHHHBBH4s4s").pack
_ipv6 = Struct(">IHBB16s16s").pack
_tcp = Struct(">IIBBHHH").pack
_u16 = Struct(">H").pack


class Conversation:
    """The state of a recorded connection that its next packets need."""

    __slots__ = ("addresses", "closed", "next", "ports")

    def __init__(self, client: tuple[str, int], server: tuple[str, int], first: int) -> None:
        self.addresses = (_address(client[0]), _address(server[0]))
        if len(self.addresses[0]) != len(self.addresses[1]):
            raise LocalError(f"{client[0]} and {server[0]} have different IP versions")
        self.ports = (client[1], server[1])
        if not all(0 <= port < 65536 for port in self.ports):
            raise LocalError(f"{client[1]} or {server[1]} is not a port")
        self.next = [first & _MASK, first + _ISN_STEP // 2 & _MASK]
        """Next sequence number of the client and of the server."""
        self.closed = False


class TcpRecorder:
    """A writer of connections as packets."""

    def __init__(self, writer: PcapngWriter, mtu: int = 1500, interface: str = "") -> None:
        if not 576 <= mtu <= 65535:
            raise LocalError(f"an MTU of {mtu} bytes; the range is 576 to 65535")
        self._writer = writer
        self._mtu = mtu
        self._name = interface
        self._packets = 0
        self._connections = 0

    def open(self, client: tuple[str, int], server: tuple[str, int], time_ns: int) -> Conversation:
        """Open a connection between two (IP address, port) ends. Raise LocalError for an invalid address."""
        self._connections += 1
        conversation = Conversation(client, server, self._connections * _ISN_STEP)
        mss = self._mtu - (40 if len(conversation.addresses[0]) == 4 else 60)
        option = b"\x02\x04" + _u16(mss)
        self._send(conversation, 0, _SYN, b"", time_ns, option)
        self._send(conversation, 1, _SYN | _ACK, b"", time_ns, option)
        self._send(conversation, 0, _ACK, b"", time_ns)
        return conversation

    def data(self, conversation: Conversation, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Write the segments for bytes sent over the connection."""
        if conversation.closed:
            raise LocalError("data on a closed connection")
        side = 0 if from_client else 1
        step = self._mtu - (40 if len(conversation.addresses[0]) == 4 else 60)
        for position in range(0, len(data), step):
            piece = data[position : position + step]
            last = position + step >= len(data)
            self._send(conversation, side, _ACK | (_PSH if last else 0), piece, time_ns)
        if data:
            self._send(conversation, 1 - side, _ACK, b"", time_ns)

    def close(self, conversation: Conversation, time_ns: int, *, from_client: bool, reset: bool = False) -> None:
        """Close both directions with a FIN or RST from the given side. A second close has no effect."""
        if conversation.closed:
            return
        conversation.closed = True
        side = 0 if from_client else 1
        if reset:
            self._send(conversation, side, _RST | _ACK, b"", time_ns)
            return
        self._send(conversation, side, _FIN | _ACK, b"", time_ns)
        self._send(conversation, 1 - side, _FIN | _ACK, b"", time_ns)
        self._send(conversation, side, _ACK, b"", time_ns)

    def _send(
        self, conversation: Conversation, side: int, flags: int, data: bytes, time_ns: int, options: bytes = b""
    ) -> None:
        """Write one packet from the client (0) or the server (1)."""
        source, target = (conversation.addresses[one] + _u16(conversation.ports[one]) for one in (side, 1 - side))
        ack = conversation.next[1 - side] if flags & _ACK else 0
        self._packets += 1
        frame = push_segment(source, target, side, conversation.next[side], ack, flags, data, self._packets, options)
        conversation.next[side] = conversation.next[side] + len(data) + bool(flags & (_SYN | _FIN)) & _MASK
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
    """Return one TCP segment as an Ethernet packet (LINKTYPE 1).

    ``source`` and ``target`` are an address of 4 or 16 bytes followed by the port's two bytes. ``side`` selects the
    sender's Ethernet address. ``number`` is the IPv4 identification. ``missing`` is the number of bytes after ``data``
    that were on the wire but not captured.
    """
    addresses = source[:-2], target[:-2]
    size = 20 + len(options) + len(data) + missing
    head = source[-2:] + target[-2:] + _tcp(seq, ack, (20 + len(options)) // 4 << 4, flags, _WINDOW, 0, 0) + options
    checksum = _checksum(b"".join((*addresses, size.to_bytes(4, "big"), b"\0\0\0\x06", head)), data)
    head = head[:16] + _u16(checksum) + head[18:]
    return b"".join((_MACS[1 - side], _MACS[side], _ip(*addresses, size, number), head, data))


def _ip(source: bytes, target: bytes, size: int, number: int) -> bytes:
    """Return EtherType and IP header for a segment of the given size.

    A length that does not fit the header field is written as 0, as in a packet before segmentation offload.
    """
    if len(source) == 16:
        return b"\x86\xdd" + _ipv6(0x60000000, size if size < 65536 else 0, 6, 64, source, target)
    length = 20 + size if 20 + size < 65536 else 0
    header = _ipv4(0x45, 0, length, number & 0xFFFF, 0x4000, 64, 6, 0, source, target)
    return b"\x08\x00" + header[:10] + _u16(_checksum(header)) + header[12:]


def _checksum(head: bytes, data: bytes = b"") -> int:
    """Return the internet checksum (RFC 1071). The sum of 16-bit words equals the whole number modulo 65535.

    ``head`` must have an even length. It is separate from ``data`` so that the data is not copied. For a sum of 0xFFFF
    the checksum is 0, never 0xFFFF (RFC 1624), because headers are not all zero.
    """
    return (-int.from_bytes(head, "big") - int.from_bytes(data + bytes(len(data) & 1), "big") % 0xFFFF) % 0xFFFF


def _address(text: str) -> bytes:
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        raise LocalError(f"{text!r} is not an IP address") from None
    return address.packed
