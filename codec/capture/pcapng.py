"""Reader of the pcapng format: windows of records from the bytes of a file (draft-ietf-opsawg-pcapng).

Rules of this file
1. A file consists of blocks. A section header starts a section. Each section has a byte order and interfaces.
2. Blocks without packets, known or unknown, are skipped by their length and are not loaded into memory.
3. A block contains its length at both ends. If the two lengths differ, the file is damaged and later blocks are not
   read.
4. Decryption secrets are passed on unchanged and are not used here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from pcli.codec.capture.files import Source
from pcli.codec.capture.packets import LEFT_OUT, Interface, Record, Secrets, Window
from pcli.codec.capture.pcap import MAX_PACKET
from pcli.codec.errors import CaptureError

MAGIC: Final = b"\x0a\x0d\x0d\x0a"
"""The type of a section header block, the same in both byte orders."""

SECTION: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_OLD_PACKET: Final = 2
_SIMPLE_PACKET: Final = 3
_ENHANCED_PACKET: Final = 6
_SECRETS: Final = 10
_WANTED: Final = frozenset({SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET, _SECRETS})

_MAX_BLOCK: Final = MAX_PACKET + 64 * 1024
"""Maximum size of a block with a packet: the largest packet and its options."""
_MAX_SECRETS: Final = 64 * 1024 * 1024
"""Maximum total size of the secrets in a file; later secrets are dropped."""
_MAX_INTERFACES: Final = 1 << 16


_WITH_COMMENT: Final = 32 + len(LEFT_OUT)
"""Minimum difference between the sizes of a packet block and its packet if the block has the comment LEFT_OUT."""

_WITH_OPTIONS: Final = 32 + 4
"""Minimum difference between these sizes if the block has an option."""


class PcapngReader:
    """A reader of the blocks of a pcapng file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.order = "<"
        self.interfaces: list[Interface] = []
        """The interfaces of the current section."""
        self.secrets: list[Secrets] = []
        """Decryption secrets so far, from all sections."""
        self.comments: list[tuple[int, str]] | None = None
        """The comments of the packets of the current window, each with the packet's position in the window; None if
        they are not read."""
        self._time = 0
        self._heads()

    def _heads(self) -> None:
        """Set the readers for the byte order of the section."""
        self.head: Callable[..., tuple[Any, ...]] = Struct(self.order + "II").unpack_from
        self.enhanced: Callable[..., tuple[Any, ...]] = Struct(self.order + "IIIIIII").unpack_from
        self.word: Callable[..., tuple[Any, ...]] = Struct(self.order + "I").unpack_from

    def windows(self) -> Iterator[Window]:
        """Yield windows of records. Raise CaptureError after the last good record if the file is damaged."""
        source, position, needed = self.source, 0, 12
        while source.fill(position, needed):
            records: list[Record] = []
            try:
                position, needed, skip = self._walk(source.data, records)
            except CaptureError:
                yield source.data, records
                raise
            yield source.data, records
            if skip:
                self.skip(position, skip)
                position = 0
        source.check_end("block")

    def skip(self, position: int, size: int) -> None:
        """Skip ``size`` bytes of a block from ``position`` in the window."""
        if not self.source.skip(position, size):
            raise self.source.error or CaptureError("the file ends inside a block", self.source.position)

    def _walk(self, data: bytes, records: list[Record]) -> tuple[int, int, int]:
        """Read the window's complete blocks.

        Return the position and size of the next block, and the number of bytes to skip.
        """
        position, size = 0, len(data)
        limit = size - 12
        while position <= limit:
            kind, length = self.head(data, position)
            if kind == SECTION:
                length = self._order(data, position)
            end = position + length
            if length < 12 or length & 3:
                raise CaptureError(f"a block of {length} bytes: the file is damaged", self.source.position + position)
            if end > size:
                return self._beyond(kind, position, length)
            if self.word(data, end - 4)[0] != length:
                raise CaptureError(
                    f"a block with the length {length} at its start and {self.word(data, end - 4)[0]} at its end: "
                    "the file is damaged",
                    self.source.position + position,
                )
            if kind == _ENHANCED_PACKET and length >= 32:
                _, _, number, high, low, captured, wire = self.enhanced(data, position)
                if number >= len(self.interfaces) or captured > length - 32:
                    raise self._bad_packet(number, captured, position)
                interface = self.interfaces[number]
                stamp = high << 32 | low
                time = stamp * interface.nanos + interface.offset_ns if interface.nanos else interface.time(stamp)
                start = position + 28
                if self.comments is not None and length - captured > _WITH_OPTIONS:
                    self._keep_comments(data, start + (captured + 3 & ~3), end - 4, len(records))
                if length - captured > _WITH_COMMENT and LEFT_OUT in data[start + captured : end]:
                    interface = interface.after_left_out()
                records.append((start, start + captured, wire if wire > captured else captured, time, interface))
                self._time = time
            elif kind in _WANTED:
                self._block(kind, data, position, length, records)
            position = end
        return position, 12, 0

    def _beyond(self, kind: int, position: int, length: int) -> tuple[int, int, int]:
        """Handle a block that extends beyond the window."""
        if kind not in _WANTED:
            return position, 12, length
        if length > _MAX_BLOCK:
            raise CaptureError(f"a block of {length} bytes: the file is damaged", self.source.position + position)
        return position, length, 0

    def _bad_packet(self, number: int, captured: int, position: int) -> CaptureError:
        if number >= len(self.interfaces):
            text = f"a packet of interface {number}, but only {len(self.interfaces)} are described: the file is damaged"
        else:
            text = f"a packet of {captured} bytes in a smaller block: the file is damaged"
        return CaptureError(text, self.source.position + position)

    def _order(self, data: bytes, position: int) -> int:
        """Determine the byte order of a new section. Return the block's length."""
        mark = data[position + 8 : position + 12]
        if mark not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
            raise CaptureError("a section of unknown byte order: the file is damaged", self.source.position + position)
        order = "<" if mark[0] == 0x4D else ">"
        if order != self.order:
            self.order = order
            self._heads()
        return int(self.word(data, position + 4)[0])

    def _block(self, kind: int, data: bytes, position: int, length: int, records: list[Record]) -> None:
        """Handle a block of any type except an enhanced packet block."""
        start, end = position + 8, position + length - 4
        if kind == SECTION:
            self.interfaces = []
        elif kind == _INTERFACE and end - start >= 8:
            self._interface(data, start, end)
        elif kind == _SECRETS and end - start >= 8:
            self._keep_secrets(data, start, end)
        elif kind == _SIMPLE_PACKET and end - start >= 4:
            self._simple(data, start, end, records)
        elif kind == _OLD_PACKET and end - start >= 20:
            self._old(data, start, end, records)
        elif kind != SECTION:
            offset = self.source.position + position
            raise CaptureError(f"a block of {length} bytes is too small: the file is damaged", offset)

    def _interface(self, data: bytes, start: int, end: int) -> None:
        if len(self.interfaces) >= _MAX_INTERFACES:
            raise CaptureError("too many interfaces: the file is damaged", self.source.position + start - 8)
        link, snaplen = Struct(self.order + "HxxI").unpack_from(data, start)
        interface = Interface(link, snaplen)
        for code, value in self._options(data, start + 8, end):
            if code == 2:
                interface.name = value.decode("utf-8", "replace")
            elif code == 9 and value:
                # if_tsresol: the highest bit selects powers of two instead of ten.
                power = value[0] & 0x7F
                interface.set_units(1 << power if value[0] & 0x80 else 10 ** min(power, 38))
            elif code == 14 and len(value) >= 8:
                interface.offset_ns = Struct(self.order + "q").unpack_from(value)[0] * 1_000_000_000
        self.interfaces.append(interface)

    def _options(self, data: bytes, position: int, end: int) -> Iterator[tuple[int, bytes]]:
        pull = Struct(self.order + "HH").unpack_from
        while position + 4 <= end:
            code, size = pull(data, position)
            if code == 0 or position + 4 + size > end:
                return
            yield code, data[position + 4 : position + 4 + size]
            position += 4 + (size + 3 & ~3)

    def _keep_comments(self, data: bytes, start: int, end: int, place: int) -> None:
        assert self.comments is not None
        for code, value in self._options(data, start, end):
            if code == 1 and value != LEFT_OUT:
                self.comments.append((place, value.decode("utf-8", "replace")))

    def _keep_secrets(self, data: bytes, start: int, end: int) -> None:
        kind, size = self.head(data, start)
        kept = sum(len(secret.data) for secret in self.secrets)
        if size <= end - start - 8 and kept + size <= _MAX_SECRETS:
            self.secrets.append(Secrets(kind, data[start + 8 : start + 8 + size]))

    def _simple(self, data: bytes, start: int, end: int, records: list[Record]) -> None:
        """Read a simple packet, which belongs to the first interface and has the previous packet's time."""
        if not self.interfaces:
            raise self._bad_packet(0, 0, start - 8)
        wire = self.word(data, start)[0]
        interface = self.interfaces[0]
        captured = min(wire, end - start - 4, interface.snaplen or wire)
        records.append((start + 4, start + 4 + captured, wire, self._time, interface))

    def _old(self, data: bytes, start: int, end: int, records: list[Record]) -> None:
        """Read the obsolete packet block, which was used before 2009."""
        number, _, high, low, captured, wire = Struct(self.order + "HHIIII").unpack_from(data, start)
        if number >= len(self.interfaces) or captured > end - start - 20:
            raise self._bad_packet(number, captured, start - 8)
        interface = self.interfaces[number]
        self._time = interface.time(high << 32 | low)
        records.append((start + 20, start + 20 + captured, max(wire, captured), self._time, interface))
