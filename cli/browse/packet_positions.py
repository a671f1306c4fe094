"""The positions of frames in capture files: the parts of the files that contain the bytes of a frame.

Rules of this file
1. Only uncompressed regular files have positions. The bytes of other frames are copied to the index.
2. A position is the result of a comparison of bytes, so it is always correct. A frame that is not found in its packets,
   as after decryption or with retransmissions, it is copied.
3. The packets of the last WINDOWS windows are known, which is about 16 MB of a file.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from pcli.codec.capture import CapturedFrame
from pcli.codec.capture.files import packing_of
from pcli.codec.capture.packets import Record, Window

WINDOWS: Final = 64
_ANCHOR: Final = 24
"""Number of bytes that are searched for in a packet before the rest is compared."""


class Part(NamedTuple):
    """A part of a file."""

    source: int
    offset: int
    size: int


class _Window(NamedTuple):
    first: int
    """Number of its first packet."""
    source: int
    offset: int
    records: list[Record]


class PacketPositions:
    """The positions of recent packets."""

    def __init__(self, source_number: Callable[[str], int]) -> None:
        """``source_number`` returns the number of a file by its name."""
        self._source_number = source_number
        self._sources: dict[str, int] = {}
        self._windows: deque[_Window] = deque(maxlen=WINDOWS)
        self._data = b""
        self._packets = 0
        self._last = (0, 0)
        """The packet of the last part that was found, and the end of this part in the bytes that were searched."""
        self._files: dict[int, int] = {}
        """Descriptors by number of the file."""

    def on_window(self, name: str, offset: int, window: Window) -> None:
        """Record a window of the capture reader."""
        data, records = window
        source = self._sources.get(name)
        if source is None:
            source = self._sources[name] = self._open(name)
        self._data = data
        self._windows.append(_Window(self._packets + 1, source, offset, records))
        self._packets += len(records)

    def _open(self, name: str) -> int:
        """Return the number of an uncompressed regular file, or 0."""
        if name == "-" or not os.path.isfile(name):  # noqa: PTH113  (names are strings)
            return 0
        try:
            descriptor = os.open(name, os.O_RDONLY)
        except OSError:
            return 0
        if packing_of(os.pread(descriptor, 4, 0)):
            os.close(descriptor)
            return 0
        number = self._source_number(os.path.abspath(name))  # noqa: PTH100
        self._files[number] = descriptor
        return number

    def find(self, frame: CapturedFrame) -> list[Part]:
        """Return the parts of the files that contain a frame's bytes, or an empty list."""
        data = frame.data
        parts: list[Part] = []
        place = 0
        for number in frame.packets:
            found = self._packet(number)
            if found is None:
                return []
            source, offset, packet, start, end = found
            # The frames of a packet follow each other, so the search begins after the last one.
            after = self._last[1] if self._last[0] == number else start
            at, size = _longest(packet, after, end, data, place)
            if not size and after > start:
                at, size = _longest(packet, start, end, data, place)
            if not size:
                return []
            self._last = (number, at + size)
            parts.append(Part(source, offset + at, size))
            place += size
        return parts if place == len(data) else []

    def _packet(self, number: int) -> tuple[int, int, bytes, int, int] | None:
        """Return the file of a packet, bytes of the file and their offset, and the packet's start and end in them."""
        for window in reversed(self._windows):
            if window.first <= number < window.first + len(window.records):
                start, end = window.records[number - window.first][:2]
                if not window.source:
                    return None
                if window is self._windows[-1]:
                    return window.source, window.offset, self._data, start, end
                offset = window.offset + start
                with suppress(OSError):
                    packet = os.pread(self._files[window.source], end - start, offset)
                    return window.source, offset, packet, 0, len(packet)
                return None
        return None

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()


def _longest(packet: bytes, start: int, end: int, data: bytes, place: int) -> tuple[int, int]:
    """Return the start and size of the part of packet[start:end] that continues the frame at ``place``, size 0 if none.

    The frame ends inside the packet, or the packet ends with a part of the frame.
    """
    left = len(data) - place
    anchor = data[place : place + _ANCHOR]
    at = packet.find(anchor, start, end)
    while at >= 0:
        size = min(left, end - at)
        if packet[at : at + size] == data[place : place + size]:
            return at, size
        at = packet.find(anchor, at + 1, end)
    for size in range(min(len(anchor) - 1, end - start), 0, -1):
        if packet.endswith(anchor[:size], start, end):
            return end - size, size
    return 0, 0
