"""What the beginning of a file says: whether it is a capture, of which kind, and what a reader needs before packets.

Rules of this file
1. A file is read as far as its first packet, not further. Damage behind that is found by who reads it all.
2. ``preamble`` is the file's own bytes: put in front of any records of the (section of the) file they are a capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import BinaryIO, Final

from pcli.codec.capture.files import open_source
from pcli.codec.capture.packets import Packet
from pcli.codec.capture.pcap import MAGICS
from pcli.codec.capture.pcapng import MAGIC
from pcli.codec.capture.reading import read_packets
from pcli.codec.errors import CaptureError
from pcli.spark.input.capture_files import reason_of

__all__ = ["PREAMBLE_BLOCKS", "Head", "blocks", "read_head", "section_order"]

PREAMBLE_BLOCKS: Final = frozenset({0x0A0D0D0A, 1})
"""Blocks that are needed to read the packets behind them: section header, interface description."""

_PACKET_BLOCKS: Final = frozenset({2, 3, 6})
_READ: Final = 1 << 20
"""Bytes in which the first packet of a pcapng must begin for the file to be split."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file."""

    status: str = "read"
    """One of `pcli.spark.tables.inventory_schemas.STATUSES`; ``read`` if the file looks like a capture."""
    error: str = ""
    """Why it is none, or can't be read."""
    format: str = ""
    """pcap, pcapng."""
    packing: str = ""
    """gzip, zstd; empty: it is not packed."""
    first_ns: int | None = None
    """Time of its first packet; None: it has none."""
    preamble: bytes = b""
    """What must stand before records from its middle; empty: it can't be split."""
    records: int = 0
    """Where its records begin; 0: it can't be split."""


def read_head(file: BinaryIO) -> Head:
    """The head of a file that stands at its beginning and can be rewound. Raises nothing: errors are in the head."""
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
    packing = _packing(head)
    kind = "pcapng" if magic == MAGIC else "pcap"
    preamble, records = (b"", 0) if packing else _preamble(head, kind)
    return Head("read", "", kind, packing, first.time_ns if first else None, preamble, records)


def _packing(head: bytes) -> str:
    if head[:4] == MAGIC or head[:4] in MAGICS:
        return ""
    return "gzip" if head.startswith(b"\x1f\x8b") else "zstd"


def _preamble(head: bytes, kind: str) -> tuple[bytes, int]:
    """The header of a pcap; the section header and interfaces before the first packet of a pcapng."""
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
    """The byte order of a section, by the word behind its header's length; empty: it is no section header."""
    word = data[position + 8 : position + 12]
    return {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}.get(word, "")


def blocks(data: bytes, position: int, order: str = "") -> Iterator[tuple[int, int, int]]:
    """Whole blocks of a pcapng: place, type, length; up to one that is damaged or not all there."""
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
