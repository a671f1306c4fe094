"""Ranges of capture files that can be read independently.

Rules of this file
1. A split is a range of a file and the preamble that the range needs. Together they form a small capture.
2. The end position and the interfaces of a split are known after the split is read (`SplitEnd`). `corrected_splits`
   compares the end positions with the plan. If a split does not end where the next split starts, the next split is
   wrong. After damage, all splits are wrong. The splits that `corrected_splits` returns are read instead of wrong
   splits.
3. With ``split=None``, `plan` makes each file one split.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Final, cast

import numpy as np

from pcli.codec.capture.files import Source, open_source
from pcli.codec.capture.frames import Note
from pcli.codec.capture.packets import Record, Secrets
from pcli.codec.capture.pcapng import MAGIC
from pcli.codec.capture.reading import no_capture_reason
from pcli.codec.errors import CaptureError
from pcli.spark.columnar.reading.packet_records import Records, pcap_windows
from pcli.spark.columnar.reading.pcapng_blocks import PcapngColumns
from pcli.spark.input.capture_files import open_file, reason_of
from pcli.spark.input.capture_headers import PREAMBLE_BLOCKS

WINDOW: Final = 16 << 20
"""Number of bytes that are read and processed together."""


@dataclass(frozen=True, slots=True)
class Split:
    """A range of a file, and the preamble that a reader needs."""

    cluster: str
    path: str
    """Name of the file for display."""
    where: str
    """Name that opens the file."""
    part: int
    """Number of the file among the parts of its recording, from 0."""
    index: int
    """Number of the split in its recording, from 0."""
    start: int
    """Offset of the first byte; 0 for the start of the file, including the header."""
    end: int
    """Offset after the last byte; -1 for the end of the file."""
    preamble: bytes = b""
    """The bytes that a reader needs before the range."""
    first_ns: int | None = None
    """Time of the first packet; None if unknown."""


@dataclass(frozen=True, slots=True)
class SplitEnd:
    """The position at which the reading of a split ended."""

    position: int
    """Offset in the (decompressed) file after the last complete record."""
    preamble: bytes
    """The preamble for the records that follow."""
    error: str = ""
    """The error at this offset; empty if none."""


class _Range(io.RawIOBase):
    """A file object that contains a preamble and a range of a file. It can be read once, from its start."""

    def __init__(self, file: BinaryIO, before: bytes, start: int, end: int) -> None:
        super().__init__()
        self._file = file
        self._before = before
        self._left = end - start if end >= 0 else -1
        if start:
            file.seek(start)

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, or all remaining bytes if ``size`` is negative."""
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
        """Close this file and the file that contains the range."""
        if not self.closed:
            self._file.close()
        super().close()


def open_split(split: Split) -> BinaryIO:
    """Open the split as a capture that can be read once; raise OSError if the file cannot be opened."""
    return cast(BinaryIO, _Range(open_file(split.where), split.preamble, split.start, split.end))


class _Blocks(PcapngColumns):
    """A pcapng reader that keeps the blocks needed to continue from the current position."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.preamble = self._before = b""

    def records(self, data: bytes, found: list[Records]) -> tuple[int, int, int]:
        """Read as the base class does. The window may be read again from its start."""
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
    """A reader of the packets of a split, window by window. Each reading yields the same results."""

    def __init__(
        self, split: Split, since_ns: int | None = None, until_ns: int | None = None, window: int = WINDOW
    ) -> None:
        """``since_ns`` and ``until_ns`` limit the time of the packets; ``window`` is the size of a window in bytes."""
        self._split, self._since_ns, self._until_ns, self._window = split, since_ns, until_ns, window
        self._shift = split.start - len(split.preamble)
        self.notes: list[Note] = []
        """Notes about the file; complete after the last window."""
        self.secrets: list[Secrets] = []
        """TLS secrets of the file in the windows so far."""
        self.ended = SplitEnd(split.start, split.preamble)
        """The position at which the split ended; valid after the last window."""
        self.read = False
        """Whether the file exists, is a capture, and was read to its end or to damage; valid after the last window."""

    def __iter__(self) -> Iterator[Records]:
        """Yield all windows once."""
        for item in self.items():
            if isinstance(item, Note):
                self.notes.append(item)
            elif isinstance(item, Secrets):
                self.secrets.append(item)
            else:
                yield item

    def items(self) -> Iterator[Records | Secrets | Note]:
        """Yield packets, some megabytes at a time, and secrets before them.

        If the file cannot be read to its end, the last item is a note.
        """
        path = self._split.path
        try:
            with open_split(self._split) as file:
                for item in self._items(open_source(file)):
                    yield _between(item, self._since_ns, self._until_ns) if isinstance(item, Records) else item
            self.read = True
        except CaptureError as error:
            yield Note.of_file(path, error.text, error.offset)
        except OSError as error:
            yield Note.of_file(path, reason_of(error))

    def _items(self, source: Source) -> Iterator[Records | Secrets | Note]:
        source.fill(0, 24)
        reason = no_capture_reason(source)
        if reason:
            raise source.error or CaptureError(reason, 0)
        ng = _Blocks(source) if source.data[:4] == MAGIC else None
        head = source.data[:24]
        try:
            yield from pcap_windows(source, self._window) if ng is None else ng.columns_and_secrets(self._window)
        except CaptureError as error:
            # The offset of a decompression error is in the compressed file. All other offsets are in the capture.
            place = source.position if error is source.error or error.offset is None else error.offset
            self._end(place, ng, head, error.text)
            offset = error.offset if error is source.error or error.offset is None else error.offset + self._shift
            yield Note.of_file(self._split.path, error.text, offset)
        else:
            self._end(source.position, ng, head, "")

    def _end(self, place: int, ng: _Blocks | None, head: bytes, error: str) -> None:
        self.ended = SplitEnd(place + self._shift, head if ng is None else ng.preamble, error)


def _between(records: Records, since_ns: int | None, until_ns: int | None) -> Records:
    """Return the packets within a time range, as if the capture had been cut there."""
    if since_ns is None and until_ns is None:
        return records
    keep = np.ones(len(records), np.bool_)
    if since_ns is not None:
        keep &= records.time_ns >= since_ns
    if until_ns is not None:
        keep &= records.time_ns < until_ns
    if keep.all():
        return records
    columns = {name: getattr(records, name)[keep] for name in ("start", "end", "wire", "time_ns", "face")}
    return replace(records, **columns)


def corrected_splits(splits: Sequence[Split], ended: Sequence[SplitEnd]) -> list[Split]:
    """Return the splits that a file needs, given the positions at which its current splits ended.

    Correct splits are returned unchanged. The caller reads the other splits and calls this function again until nothing
    changes. After that, only the note about the file from the last split is valid. Splits after damage are removed.
    ``index`` does not change, so some indices may be missing.
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
            # If the split ended before the next split starts, the next split begins within a record, or the file is
            # damaged.
            return [*out, replace(rest[0], start=end.position, preamble=end.preamble), *rest[1:]]
        else:
            out[-1] = replace(split, end=rest[-1].end)
            break
    return out
