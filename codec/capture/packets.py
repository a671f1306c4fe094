"""The types that file readers return: packets as positions in a window of bytes.

Rules of this file
1. Each packet is read as a record, a small, short-lived tuple (start, end, wire length, time in ns since 1970,
   interface). Its bytes are sliced from the window only if the packet is kept.
2. Everything that depends only on the link type is computed once per interface, not per packet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from pcli.codec.capture.link import TYPED

# IPv4 without options, then TCP: version and header length, total length, flags and fragment offset, protocol,
# the key (both addresses and both ports, unconverted), sequence number, acknowledgement, header length, flags.
_IPV4_TCP: Final = "BxH2xHxB2x12sIIBB"

FAST: Final[dict[int, tuple[int, Callable[..., tuple[Any, ...]]]]] = {
    link: (header, Struct(f">{kind}xH{header - kind - 2}x{_IPV4_TCP}").unpack_from)
    for link, (kind, header) in TYPED.items()
}
"""For link types with an EtherType at a fixed position: the number of bytes before the IP header, and the reader of all
fields that the fast path needs."""


LEFT_OUT: Final = b"pcli: packets of this direction were left out before this one; it begins with a frame"
"""The comment on a packet of an excerpt after which reading continues without a search: the missing packets were
omitted on purpose, and the packet's first byte is the first byte of a frame."""


class Interface:
    """A capture interface: one per pcap file, or one per interface description block of a pcapng file."""

    __slots__ = ("left_out", "link", "name", "nanos", "offset_ns", "pull", "skip", "snaplen", "units")

    def __init__(self, link: int, snaplen: int = 0, name: str = "") -> None:
        self.link = link
        """LINKTYPE number, from the list at tcpdump.org."""
        self.snaplen = snaplen
        """Maximum number of bytes captured per packet; 0 for no limit."""
        self.name = name
        self.units = 1_000_000
        """Timestamp units per second."""
        self.nanos = 1000
        """Nanoseconds per unit; 0 if not a whole number."""
        self.offset_ns = 0
        """Offset added to each timestamp, in ns."""
        self.skip = 0
        self.pull: Callable[..., tuple[Any, ...]] | None = None
        if link in FAST:
            self.skip, self.pull = FAST[link]
        self.left_out: Interface | None = None
        """The variant for packets with the comment LEFT_OUT (`after_left_out`). A variant refers to itself."""

    def set_units(self, units: int) -> None:
        """Set the number of timestamp units per second."""
        self.units = units
        self.nanos = 1_000_000_000 // units if 1_000_000_000 % units == 0 else 0

    def after_left_out(self) -> Interface:
        """Return the variant for packets with the comment LEFT_OUT, which excludes them from the fast path."""
        if self.left_out is None:
            variant = Interface(self.link, self.snaplen, self.name)
            variant.pull, variant.left_out = None, variant
            self.left_out = variant
        return self.left_out

    def time(self, stamp: int) -> int:
        """Convert a timestamp to nanoseconds since 1970."""
        if self.nanos:
            return stamp * self.nanos + self.offset_ns
        return stamp * 1_000_000_000 // self.units + self.offset_ns


Record = tuple[int, int, int, int, Interface]
"""Start and end of the captured bytes in the window, bytes on the wire, time in ns, interface."""

Window = tuple[bytes, list[Record]]
"""Bytes of a file, and the records of the packets in them."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet copied from the file, to be kept or written."""

    number: int
    """Packet number across all inputs, from 1."""
    time_ns: int
    link: int
    data: bytes
    """The captured bytes."""
    wire_length: int
    """Length of the packet on the wire, in bytes."""
    interface: str = ""
    """The interface's name, if the file contains one."""
    left_out: bool = False
    """Whether the packet has the comment LEFT_OUT."""


TLS_KEY_LOG: Final = 0x544C534B
"""The type of secrets in the format of SSLKEYLOGFILE."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """A decryption secrets block of a pcapng file."""

    kind: int
    """TLS_KEY_LOG, or the type of other secrets."""
    data: bytes
