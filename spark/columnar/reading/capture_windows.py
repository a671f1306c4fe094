"""Windows of many records, read from capture files. They contain the packets and notes that `read_capture` reads.

Rules of this file
1. The modules of codec.capture open, decompress and validate a file; this module only forms the windows.
2. Decryption secrets are skipped, because the columnar reader does not decrypt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.capture.files import Source
from pcli.codec.capture.frames import Note
from pcli.codec.capture.pcapng import MAGIC
from pcli.codec.errors import CaptureError
from pcli.spark.columnar.reading.packet_records import Records, pcap_windows
from pcli.spark.columnar.reading.pcapng_blocks import PcapngColumns

__all__ = ["WINDOW", "windows"]

WINDOW: Final = 16 * 1024 * 1024
"""Size of a window in bytes, large enough to make the cost of a call negligible and small enough for caches and
memory."""


def windows(name: str, source: Source, size: int = WINDOW) -> Iterator[Records | Note]:
    """Yield the windows of a capture. If it is damaged or truncated, the last item is a Note (of packet 0)."""
    try:
        if source.data[:4] == MAGIC:
            yield from PcapngColumns(source).columns(size)
        else:
            yield from pcap_windows(source, size)
    except CaptureError as error:
        yield Note("file", error.text, offset=error.offset, source=name)
