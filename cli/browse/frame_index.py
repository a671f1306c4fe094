"""The index of the frames of a capture: one file for each column, mapped into memory.

Rules of this file
1. Row n describes frame n + 1. A row has a fixed size, so a frame is found without a search, and opening an index of
   any size maps files and reads only the small tables.
2. A row contains what one frame needs to be decoded without the frames before it: its position, its connection, the
   names of its producer or consumer at that time, and its request.
3. The index can be read while it is written: `refresh` maps the rows that were written since.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pcli.codec.capture import Stream

COLUMNS: Final[dict[str, str]] = {
    "packet": "u8",
    "time": "i8",
    "stream": "u4",
    "peer": "u4",
    "type": "i4",
    "flags": "u1",
    "request": "u8",
    "ledger": "i8",
    "entry": "i8",
    "source": "u4",
    "offset": "u8",
    "size": "u4",
}
"""The columns of the index, with their numpy types. ``source`` is 0 for the file of copied bytes, else the position of
the capture file from 1; ``offset`` and ``size`` are the position of the frame's bytes in it."""

CLIENT: Final = 1
SYSTEM: Final = 2
EXTRA: Final = 4
"""The flag of a frame whose copied bytes follow a header with its packets, problems and positions."""
CUMULATIVE: Final = 8
LARGE_TYPE: Final = (1 << 31) - 1
"""The type of a frame whose type does not fit the column; its bytes contain the type."""
SYNC_SHIFT: Final = 4
SYNCS: Final = ("start", "anchored", "resync")
"""The values of ``CapturedFrame.sync``; bits 4 and 5 of the flags contain the position in this list."""

NO_ID: Final = -(1 << 63)
"""The ledger of a frame without a message id."""
SEVERAL_IDS: Final = NO_ID + 1
"""The ledger of a frame that may have message ids, which only its bytes contain."""

_READ: Final = 256 * 1024
"""Bytes per read while frames are read in sequence."""
_OPEN_FILES: Final = 16


class Peer(NamedTuple):
    """The producer or consumer of a frame, with the names known at that frame."""

    is_consumer: bool
    id: int
    topic: str
    subscription: str
    name: str
    type: str
    system: bool


class Row(NamedTuple):
    """The values of the columns for one frame."""

    packet: int
    time: int
    stream: int
    peer: int
    type: int
    flags: int
    request: int
    ledger: int
    entry: int
    source: int
    offset: int
    size: int


class Tables:
    """The values to which rows refer by number. Position 0 of ``peers`` stands for no peer."""

    def __init__(self) -> None:
        self.peers: list[Peer | None] = [None]
        self.streams: dict[int, Stream] = {}
        self.sources: list[str] = [""]
        """Paths of the files; position 0 is the file of copied bytes."""
        self.notes: list[str] = []
        """The notes of the capture reader, one line each."""
        self.damaged = False
        """Whether a file is damaged or truncated."""


class FrameIndex:
    """An index in a folder. Only `refresh` changes it, so any thread can read it."""

    def __init__(self, folder: Path, tables: Tables, count: int = 0) -> None:
        """``count`` is the number of rows; 0 for an index that is being written."""
        self.folder = folder
        self.tables = tables
        self.count = 0
        self.columns: dict[str, npt.NDArray[Any]] = {name: np.empty(0, kind) for name, kind in COLUMNS.items()}
        self._files = _OpenFiles()
        self.refresh(count)

    def refresh(self, count: int) -> None:
        """Map the first ``count`` rows, which must be on disk."""
        if count != self.count:
            self.columns = {
                name: np.memmap(self.folder / name, kind, "r", shape=(count,)) for name, kind in COLUMNS.items()
            }
            self.count = count

    def row(self, number: int) -> Row:
        """Return the row of a frame. Raises IndexError if there is none."""
        if not 0 < number <= self.count:
            raise IndexError(number)
        return Row(*(column[number - 1].item() for column in self.columns.values()))

    def rows(self, start: int, stop: int) -> list[Row]:
        """Return the rows of the frames start + 1 to stop."""
        return list(map(Row, *(column[start:stop].tolist() for column in self.columns.values())))

    def read(self, source: int, offset: int, size: int) -> bytes:
        """Return bytes of a file; fewer if the file has become shorter, none if it cannot be opened."""
        path = self.tables.sources[source] if source else str(self.folder / "bytes")
        return self._files.read(path, offset, size)

    def close(self) -> None:
        """Close the files."""
        self._files.close()


class _OpenFiles:
    """The capture files that were read last, with the last block of each."""

    def __init__(self) -> None:
        self._descriptors: OrderedDict[str, int] = OrderedDict()
        self._blocks: dict[str, tuple[int, bytes]] = {}
        self._lock = threading.Lock()

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return bytes of a file, from its last block if possible. A frame near the last one is then read with it."""
        with self._lock:
            return self._read(path, offset, size)

    def _read(self, path: str, offset: int, size: int) -> bytes:
        start, block = self._blocks.get(path, (0, b""))
        if start <= offset and offset + size <= start + len(block):
            return block[offset - start : offset - start + size]
        try:
            descriptor = self._open(path)
            if size >= _READ:
                return _read_all(descriptor, size, offset)
            block = os.pread(descriptor, _READ, offset)
        except OSError:
            return b""
        self._blocks[path] = (offset, block)
        return block[:size]

    def _open(self, path: str) -> int:
        descriptor = self._descriptors.pop(path, -1)
        if descriptor < 0:
            descriptor = os.open(path, os.O_RDONLY)
            if len(self._descriptors) >= _OPEN_FILES:
                oldest, other = self._descriptors.popitem(last=False)
                self._blocks.pop(oldest, None)
                os.close(other)
        self._descriptors[path] = descriptor
        return descriptor

    def close(self) -> None:
        """Close all files."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()


def _read_all(descriptor: int, size: int, offset: int) -> bytes:
    parts = []
    while size > 0:
        part = os.pread(descriptor, size, offset)
        if not part:
            break
        parts.append(part)
        size, offset = size - len(part), offset + len(part)
    return b"".join(parts)
