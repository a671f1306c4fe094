"""Capture files to windows of records, large ones: the same packets and notes that `read_capture` sees.

Rules of this file
1. A file is opened, unpacked and judged by the modules of codec.capture; only the windows are made here.
2. Decryption secrets are passed over: nothing here decrypts.
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
"""Bytes of a window: enough that the cost of a call does not count, few enough for the caches and for memory."""


def windows(name: str, source: Source, size: int = WINDOW) -> Iterator[Records | Note]:
    """The windows of a capture, and at the end a Note (of packet 0) if it is damaged or cut."""
    try:
        if source.data[:4] == MAGIC:
            yield from PcapngColumns(source).columns(size)
        else:
            yield from pcap_windows(source, size)
    except CaptureError as error:
        yield Note("file", error.text, offset=error.offset, source=name)
