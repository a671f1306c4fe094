"""Reader of the pcap format: windows of records from the bytes of a file (draft-ietf-opsawg-pcap).

Rules of this file
1. The reader supports microseconds and nanoseconds, both byte orders, and Kuznetzov's patched tcpdump, whose record
   headers have eight more bytes.
2. A record that exceeds the end of the file ends the reading: the records before it are returned, then CaptureError
   is raised with the offset. This also happens if the file is still being written.
3. Lengths up to MAX_PACKET are accepted. Memory is allocated only for bytes that the file contains.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from pcli.codec.capture.files import Source
from pcli.codec.capture.packets import Interface, Record, Window
from pcli.codec.errors import CaptureError

MAX_PACKET: Final = 16 * 1024 * 1024
"""Largest accepted packet in bytes. tcpdump and Wireshark limit Ethernet packets to 256 KB; if big TCP is used,
offloaded packets reach 512 KB."""

MAGICS: Final[dict[bytes, tuple[str, int, int]]] = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000, 16),
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000, 16),
    b"\x34\xcd\xb2\xa1": ("<", 1_000_000, 24),
    b"\xa1\xb2\xcd\x34": (">", 1_000_000, 24),
}
"""Byte order, time units per second and size of a record header, by the first four bytes."""


class PcapFormat:
    """The format of a pcap's records, according to the file header."""

    __slots__ = ("header", "interface", "order")

    def __init__(self, head: bytes) -> None:
        """Read the first 24 bytes of a file whose magic is known."""
        self.order, units, self.header = MAGICS[head[:4]]
        snaplen, link = Struct(self.order + "16xII").unpack_from(head)
        self.interface = Interface(link & 0xFFFF, snaplen)
        self.interface.set_units(units)


def read_format(source: Source) -> PcapFormat:
    """Read the file header of a source at its magic number."""
    if not source.fill(0, 24):
        raise source.error or CaptureError("the file ends inside the pcap header", source.position + len(source.data))
    return PcapFormat(source.data[:24])


def check_size(size: int, place: int) -> None:
    """Raise CaptureError if no packet has this size; ``place`` is the position of its record in the file."""
    if size > MAX_PACKET:
        raise CaptureError(f"a packet of {size} bytes: the file is damaged", place)


def pcap_windows(source: Source) -> Iterator[Window]:
    """Yield windows of records from a source at its magic number. Raise CaptureError if the file is damaged."""
    form = read_format(source)
    header, interface = form.header, form.interface
    pull = Struct(form.order + "IIII").unpack_from
    position, needed = 24, header
    while source.fill(position, needed):
        data = source.data
        records: list[Record] = []
        position = 0
        limit = len(data) - header
        nanos, add = interface.nanos, records.append
        needed = header
        while position <= limit:
            seconds, fraction, size, wire = pull(data, position)
            end = position + header + size
            if end > len(data):
                if size > MAX_PACKET:
                    yield data, records
                    check_size(size, source.position + position)
                needed = header + size
                break
            time_ns = seconds * 1_000_000_000 + fraction * nanos
            add((position + header, end, wire if wire > size else size, time_ns, interface))
            position = end
        yield data, records
    source.check_end("packet")
