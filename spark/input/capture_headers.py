"""The beginning of a file: whether the file is a capture, its format, and the bytes that a reader needs before packets.

Rules of this file
1. A file is read up to its first packet. Later damage is found when the whole file is read.
2. ``preamble`` consists of bytes of the file. The preamble and any later records of the file (in a pcapng, records of
   its first section) together form a capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import BinaryIO, Final

from pcli.codec.capture.files import open_source, packing_of
from pcli.codec.capture.packets import Packet
from pcli.codec.capture.pcapng import MAGIC
from pcli.codec.capture.reading import read_packets
from pcli.codec.errors import CaptureError
from pcli.spark.input.capture_files import reason_of

PREAMBLE_BLOCKS: Final = frozenset({0x0A0D0D0A, 1})
"""Block types that are needed to read the packets that follow: section header, interface description."""

_PACKET_BLOCKS: Final = frozenset({2, 3, 6})
_READ: Final = 1 << 20
"""Maximum number of bytes before the first packet of a pcapng that can be split."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file."""

    status: str = "read"
    """One of `pcli.spark.tables.catalog.STATUSES`; ``read`` if the file looks like a capture."""
    error: str = ""
    """The reason why the file is not a capture or cannot be read."""
    format: str = ""
    """``pcap`` or ``pcapng``; empty if the file is not a capture."""
    packing: str = ""
    """``gzip``, ``zstd``, ``xz``, ``bzip2`` or ``lz4``; empty if the file is not compressed."""
    first_ns: int | None = None
    """Time of the first packet, or None if there is none."""
    preamble: bytes = b""
    """The bytes that must precede records from the middle of the file; empty if the file cannot be split."""
    records: int = 0
    """Offset of the first record; 0 if the file cannot be split."""


def read_head(file: BinaryIO) -> Head:
    """Return the head of a seekable file positioned at its start. Errors are stored in the head, not raised."""
    try:
        head = file.read(_READ)
        file.seek(0)
        source = open_source(file)
        source.fill(0, 4)
        magic = source.data[:4]
        file.seek(0)
        first = next((item for item in read_packets([("", file)]) if isinstance(item, Packet)), None)
    except CaptureError as error:
        return Head("not a capture" if source.error is None else "unreadable", str(error))
    except OSError as error:
        return Head("unreadable", reason_of(error))
    packing = packing_of(head)
    kind = "pcapng" if magic == MAGIC else "pcap"
    preamble, records = (b"", 0) if packing else _preamble(head, kind)
    return Head("read", "", kind, packing, first.time_ns if first else None, preamble, records)


def _preamble(head: bytes, kind: str) -> tuple[bytes, int]:
    """Return the header of a pcap, or the blocks that precede the first packet of a pcapng, and the packet's offset."""
    if kind == "pcap":
        return (head[:24], 24) if len(head) >= 24 else (b"", 0)
    found = b""
    for position, number, length in blocks(head, 0):
        if number in _PACKET_BLOCKS:
            return found, position
        if number in PREAMBLE_BLOCKS:
            found += head[position : position + length]
    return b"", 0


def section_order(data: bytes, position: int) -> str:
    """Return the byte order from the byte-order magic of a section header; empty if there is none."""
    word = data[position + 8 : position + 12]
    return {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}.get(word, "")


def blocks(data: bytes, position: int, order: str = "") -> Iterator[tuple[int, int, int]]:
    """Yield position, type and length of complete pcapng blocks, up to the first damaged or incomplete block."""
    while position + 12 <= len(data):
        if data[position : position + 4] == MAGIC:
            order = section_order(data, position)
        if not order:
            return
        word = Struct(order + "I").unpack_from
        number, length = Struct(order + "II").unpack_from(data, position)
        end = position + length
        if length < 12 or length & 3 or end > len(data) or word(data, end - 4)[0] != length:
            return
        yield position, number, length
        position = end
