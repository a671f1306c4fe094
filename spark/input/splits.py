"""Pieces of capture files that can be read apart from each other.

Rules of this file
1. A split is a range of a file and what must stand before it: opened, it is a small capture of its own.
2. Where a split truly ends, and with which interfaces, is known when it was read: `Ended`. `mend` holds that against
   the plan. A split that began at a place which the one before it does not end at was a mistake, as were all behind
   damage; what `mend` gives is read instead.
3. In one process there is nothing to gain from splits: `plan` with ``split=None`` makes each file one.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Final, cast

from pcli.codec.capture.files import Source, open_source
from pcli.codec.capture.frames import Note
from pcli.codec.capture.packets import Record
from pcli.codec.capture.pcap import MAGICS
from pcli.codec.capture.pcapng import MAGIC
from pcli.codec.errors import CaptureError
from pcli.spark.columnar.reading.packet_records import Records, pcap_windows
from pcli.spark.columnar.reading.pcapng_blocks import PcapngColumns
from pcli.spark.input.capture_files import Place, open_file, place_of
from pcli.spark.input.capture_headers import PREAMBLE_BLOCKS

__all__ = ["WINDOW", "Ended", "Split", "SplitReader", "mend", "open_split"]

WINDOW: Final = 16 << 20
"""Bytes that are read and looked at together."""


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of a file."""

    cluster: str
    path: str
    """The file, for people."""
    where: str
    """The file, to be opened."""
    part: int
    """Which part of its recording the file is, from 0."""
    index: int
    """Which split of its recording it is, from 0."""
    start: int
    """Offset of its first byte; 0: the file from its beginning, header and all."""
    end: int
    """Offset behind its last byte; -1: to the end of the file, whatever that is."""
    preamble: bytes = b""
    """What stands before the range."""
    first_ns: int | None = None
    """Time of its first packet, where the plan knows it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Where the reading of a split ended."""

    position: int
    """Offset in the file (unpacked, if it is packed) behind the last whole record."""
    preamble: bytes
    """What would have to stand before records from there on."""
    error: str = ""
    """What was wrong there; empty: nothing."""


class _Range(io.RawIOBase):
    """Some bytes, then a range of a file, as a file that is read once from its beginning."""

    def __init__(self, file: BinaryIO, before: bytes, start: int, end: int) -> None:
        super().__init__()
        self._file = file
        self._before = before
        self._left = end - start if end >= 0 else -1
        if start:
            file.seek(start)

    def readable(self) -> bool:
        """True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; all when negative."""
        if self._before:
            piece = self._before if size < 0 else self._before[:size]
            self._before = self._before[len(piece) :]
            return piece
        if self._left >= 0:
            size = self._left if size < 0 else min(size, self._left)
        data = self._file.read(size)
        self._left -= len(data) if self._left >= 0 else 0
        return data

    def close(self) -> None:
        """Close the file too."""
        if not self.closed:
            self._file.close()
        super().close()


def open_split(split: Split, place: Place = place_of) -> BinaryIO:
    """The split as a capture, to be read once; OSError when the file can't be opened or read."""
    return cast(BinaryIO, _Range(open_file(split.where, place), split.preamble, split.start, split.end))


class _Blocks(PcapngColumns):
    """Keeps the bytes of the blocks that are needed to read on from where it is."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.preamble = self._before = b""

    def records(self, data: bytes, found: list[Records]) -> tuple[int, int, int]:
        """As its base; a window may be walked a second time, from its beginning."""
        self._before = self.preamble
        return super().records(data, found)

    def _walk(self, data: bytes, records: list[Record]) -> tuple[int, int, int]:
        self.preamble = self._before
        return super()._walk(data, records)

    def _block(self, kind: int, data: bytes, position: int, length: int, records: list[Record]) -> None:
        super()._block(kind, data, position, length, records)
        if kind in PREAMBLE_BLOCKS:
            self.preamble = (self.preamble if kind == 1 else b"") + data[position : position + length]


class SplitReader:
    """Reads a split, window by window."""

    def __init__(self, split: Split, file: BinaryIO, window: int = WINDOW) -> None:
        """``file`` as `open_split` gives it."""
        self.split = split
        self._window = window
        self._source = open_source(file)
        self._shift = split.start - len(split.preamble)
        self.ended = Ended(split.start, split.preamble)
        """After the last window: where it ended."""

    def windows(self) -> Iterator[Records | Note]:
        """Packets, some megabytes of the file at a time; at the end a note if the file is damaged or cut there.

        Raises OSError when the file can't be read on, and CaptureError when it is no capture, as `read_capture` does.
        """
        source = self._source
        source.fill(0, 24)
        if source.data[:4] not in MAGICS and source.data[:4] != MAGIC:
            raise source.error or CaptureError(f"neither pcap nor pcapng: it begins with {source.data[:4].hex(' ')}", 0)
        ng = _Blocks(source) if source.data[:4] == MAGIC else None
        head = source.data[:24]
        try:
            yield from pcap_windows(source, self._window) if ng is None else ng.columns(self._window)
        except CaptureError as error:
            # What is wrong with the packing has its place in the packed file, all else in the capture.
            place = source.position if error is source.error or error.offset is None else error.offset
            self._end(place, ng, head, error.text)
            offset = error.offset if error is source.error or error.offset is None else error.offset + self._shift
            yield Note("file", error.text, offset=offset, source=self.split.path)
        else:
            self._end(source.position, ng, head, "")

    def _end(self, place: int, ng: _Blocks | None, head: bytes, error: str) -> None:
        self.ended = Ended(place + self._shift, head if ng is None else ng.preamble, error)


def mend(splits: Sequence[Split], ended: Sequence[Ended]) -> list[Split]:
    """The splits by which a file should be read, after it was read by these, all splits of one file.

    A split that stands is equal to what it was; others are to be read, and then `mend` asked again. When nothing is new
    the file is right: then a note on the file counts only if it is of the last split. Of splits behind damage none is
    left. ``index`` is not changed: it may have holes.
    """
    out: list[Split] = []
    for number, (split, end) in enumerate(zip(splits, ended, strict=True)):
        out.append(split)
        rest = splits[number + 1 :]
        if not rest:
            break
        if end.position == rest[0].start:
            if end.preamble != rest[0].preamble:
                return out + [replace(one, preamble=end.preamble) for one in rest]
        elif end.position > split.start:
            # It stopped before its end: the cut was in the middle of a record, or there is damage.
            return [*out, replace(rest[0], start=end.position, preamble=end.preamble), *rest[1:]]
        else:
            out[-1] = replace(split, end=rest[-1].end)
            break
    return out
