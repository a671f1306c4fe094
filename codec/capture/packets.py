"""What the readers of files give to the layers above: packets as places in a window of bytes.

Rules of this file
1. Nobody slices a packet out of the window unless somebody wants to keep it. A record is a tuple of places:
   (start, end, wire length, time in ns since 1970, interface). A million packets are a million small tuples,
   which die young.
2. All that depends on the link type alone is worked out once for each interface, not for each packet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

__all__ = ["FAST", "LEFT_OUT", "Interface", "Packet", "Record", "Secrets", "Window"]

# IPv4 without options, then TCP: version and header length, total length, flags and fragment offset, protocol,
# the key (both addresses, both ports, as they stand), sequence number, acknowledgement, header length, flags.
_IPV4_TCP: Final = "BxH2xHxB2x12sIIBB"

FAST: Final[dict[int, tuple[int, Callable[..., tuple[Any, ...]]]]] = {
    1: (14, Struct(">12xH" + _IPV4_TCP).unpack_from),
    113: (16, Struct(">14xH" + _IPV4_TCP).unpack_from),
    276: (20, Struct(">H18x" + _IPV4_TCP).unpack_from),
}
"""For link types with an EtherType at a fixed place: bytes before the IP header, and how to read all that the fast
path needs at once. Ethernet, Linux cooked v1 and v2."""


LEFT_OUT: Final = b"pcli: packets of this direction were left out before this one; it begins with a frame"
"""The comment on a packet of an excerpt behind which the walk goes on without doubt: what is missing was left out
on purpose, and the packet's first byte is the first of a frame."""


class Interface:
    """Where packets were captured: one for a pcap file, one for each description block of a pcapng."""

    __slots__ = ("left_out", "link", "name", "nanos", "offset_ns", "pull", "skip", "snaplen", "units")

    def __init__(self, link: int, snaplen: int = 0, name: str = "") -> None:
        self.link = link
        """LINKTYPE number, the list of tcpdump.org."""
        self.snaplen = snaplen
        """Bytes kept of each packet; 0: no limit."""
        self.name = name
        self.units = 1_000_000
        """Units of the time stamps in a second."""
        self.nanos = 1000
        """Nanoseconds in a unit; 0 where that is no whole number."""
        self.offset_ns = 0
        """Added to each time stamp."""
        self.skip = 0
        self.pull: Callable[..., tuple[Any, ...]] | None = None
        if link in FAST:
            self.skip, self.pull = FAST[link]
        self.left_out: Interface | None = None
        """For packets with the comment LEFT_OUT: see `behind_left_out`. Of that one it is itself."""

    def set_units(self, units: int) -> None:
        """Time stamps count this many units a second."""
        self.units = units
        self.nanos = 1_000_000_000 // units if 1_000_000_000 % units == 0 else 0

    def behind_left_out(self) -> Interface:
        """The same interface for packets with the comment LEFT_OUT, which no fast path takes."""
        if self.left_out is None:
            twin = Interface(self.link, self.snaplen, self.name)
            twin.pull, twin.left_out = None, twin
            self.left_out = twin
        return self.left_out

    def time(self, stamp: int) -> int:
        """Nanoseconds since 1970 of a time stamp."""
        if self.nanos:
            return stamp * self.nanos + self.offset_ns
        return stamp * 1_000_000_000 // self.units + self.offset_ns


Record = tuple[int, int, int, int, Interface]
"""Start and end of the captured bytes in the window, bytes on the wire, time in ns, interface."""

Window = tuple[bytes, list[Record]]
"""Bytes of a file, and the packets in them."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet, cut out of the file, to be kept or written again."""

    number: int
    """Counted from 1 over all inputs."""
    time_ns: int
    link: int
    data: bytes
    """As far as it was captured."""
    wire_length: int
    """Bytes on the wire."""
    interface: str = ""
    """The interface's name, where the file has one."""
    left_out: bool = False
    """Whether it has the comment LEFT_OUT."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """A decryption secrets block of a pcapng file."""

    kind: int
    """0x544c534b: TLS key log."""
    data: bytes
