"""Windows of many records, read from capture files. They contain the packets and notes that `read_capture` reads.

Rules of this file
1. The modules of codec.capture open, decompress and validate a file; this module only forms the windows.
2. Decryption secrets precede the packets of their window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.capture.files import Source
from pcli.codec.capture.frames import Note
from pcli.codec.capture.packets import Secrets
from pcli.codec.capture.pcapng import MAGIC
from pcli.codec.errors import CaptureError
from pcli.spark.columnar.reading.packet_records import Records, pcap_windows
from pcli.spark.columnar.reading.pcapng_blocks import PcapngColumns

__all__ = ["WINDOW", "windows", "with_secrets"]

WINDOW: Final = 16 * 1024 * 1024
"""Size of a window in bytes, large enough to make the cost of a call negligible and small enough for caches and
memory."""


def with_secrets(ng: PcapngColumns, found: Iterator[Records]) -> Iterator[Records | Secrets]:
    """Yield the windows of a pcapng file, each after the secrets that were read with it."""
    emitted = 0
    for records in found:
        yield from ng.secrets[emitted:]
        emitted = len(ng.secrets)
        yield records


def windows(name: str, source: Source, size: int = WINDOW) -> Iterator[Records | Secrets | Note]:
    """Yield the windows and secrets of a capture. If it is damaged or truncated, the last item is a Note (packet 0)."""
    try:
        if source.data[:4] == MAGIC:
            ng = PcapngColumns(source)
            yield from with_secrets(ng, ng.columns(size))
        else:
            yield from pcap_windows(source, size)
    except CaptureError as error:
        yield Note("file", error.text, offset=error.offset, source=name)
