"""Reading of captures as the frames that a filter may match. The other frequent frames never become objects.

Rules of this file
1. An Observer that sees these frames returns the same facts about every matching frame as one that sees all frames.
2. Rare commands change producers and consumers, so they are always yielded. So are the frequent frames that the filter
   may match on the same connection in the same window, because the names that apply to them are not known before.
3. The first frames of each connection are yielded, so columns gain nothing if connections are short.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Final

import numpy as np

from pcli.codec.capture.files import Source
from pcli.codec.capture.frames import CapturedFrame, Note, SkippedFrames, Stream, StreamEnd
from pcli.codec.capture.packets import Secrets
from pcli.codec.capture.pcapng import MAGIC
from pcli.codec.capture.reading import CaptureTotals, Files, ReadOptions, opened
from pcli.codec.errors import CaptureError
from pcli.codec.observe.filters.filter import Filter
from pcli.codec.observe.observer import Observer
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import pull_type
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.from_captured_frames import SYNC
from pcli.spark.columnar.fields.row_filter import FREQUENT, RowFilter
from pcli.spark.columnar.frame_columns import Bools, Frames, Longs
from pcli.spark.columnar.reading.capture_reader import WindowReader
from pcli.spark.columnar.reading.packet_records import Records, pcap_windows
from pcli.spark.columnar.reading.pcapng_blocks import PcapngColumns

_WINDOW: int = 4 << 20
"""Number of bytes that are read and processed together."""

_FEW: Final = 100
"""Average number of frames for each new connection below which connections are short."""

_SYNC: Final = {number: word for word, number in SYNC.items()}
_ACK: Final = BY_NAME["ACK"].number
_NAMELESS: Final = [
    BY_NAME[name].number
    for name in (
        "ACK_RESPONSE", "ACTIVE_CONSUMER_CHANGE", "GET_LAST_MESSAGE_ID", "GET_LAST_MESSAGE_ID_RESPONSE", "PING", "PONG",
        "REACHED_END_OF_TOPIC", "REDELIVER_UNACKNOWLEDGED_MESSAGES",
    )
]  # fmt: skip
"""Rare commands that change neither producers nor consumers."""

_Event = CapturedFrame | Note | StreamEnd | SkippedFrames


def has_long_connections(files: Files, options: ReadOptions) -> bool:
    """Return whether few connections begin in the second window of the captures."""
    reader, frames, begun = WindowReader(options), 0, 0
    windows = (window for _, source, _ in opened(files) if source is not None for window in _windows(source))
    try:
        for window in islice((one for one in windows if isinstance(one, Records)), 2):
            before = reader.tcp.table.count
            frames, begun = len(reader.take(window)), reader.tcp.table.count - before
    except CaptureError:
        return False
    return begun * _FEW < frames


def _windows(source: Source) -> Iterator[Records | Secrets]:
    """Yield the packets of a capture, and its secrets before them. Raise CaptureError if it is damaged."""
    is_pcapng = source.data[:4] == MAGIC
    return PcapngColumns(source).columns_and_secrets(_WINDOW) if is_pcapng else pcap_windows(source, _WINDOW)


class FilteredReader:
    """A reader of captures for one filter."""

    def __init__(
        self, condition: Filter, unneeded: Collection[int], observer: Observer, is_settled: Callable[[int], bool]
    ) -> None:
        """Create a reader.

        ``unneeded`` are the command types that neither the filter nor ``observer`` needs. ``observer`` sees the frames.
        ``is_settled`` is whether the frequent frames of a connection, given by number, have no other use.
        """
        self._rows, self._observer, self._is_settled = RowFilter(condition), observer, is_settled
        self._unneeded = np.array(sorted(unneeded), np.int64)
        self._read = 0
        """Number of frames in the windows so far."""

    def events(self, files: Files, options: ReadOptions) -> Iterator[_Event]:
        """Yield what `read_capture` yields, except for the frames that are not needed."""
        reader, totals = WindowReader(options), options.totals or CaptureTotals()
        for item in self._items(reader, files, totals):
            if options.ends or not isinstance(item, StreamEnd):
                yield item
        totals.packets = reader.packet
        totals.connections, totals.ports = reader.tcp.table.count, list(reader.tcp.table.ports)

    def _items(self, reader: WindowReader, files: Files, totals: CaptureTotals) -> Iterator[_Event]:
        for name, source, note in opened(files):
            reader.begin_file()
            totals.files.append((name, reader.packet))
            if source is not None:
                try:
                    for window in _windows(source):
                        if isinstance(window, Secrets):
                            reader.add_secrets([window])
                        else:
                            yield from self._window(reader, read_fields(reader.take(window), checksums=False))
                except CaptureError as error:
                    yield Note("file", error.text, reader.packet, offset=error.offset, source=name)
                yield from reader.unread(name)
            if note is not None:
                yield note
        yield from self._window(reader, read_fields(reader.end(), checksums=False))

    def _window(self, reader: WindowReader, frames: Frames) -> Iterator[_Event]:
        """Yield the needed frames of a window, with its notes and ends."""
        places, notes = frames.places, deque(reader.notes)
        made = _Frames(frames, reader.streams, self._read + 1)
        connections, last_rows = np.unique(places.stream[::-1], return_index=True)
        unsettled = [number for number in connections.tolist() if not self._is_settled(number)]
        needed = self._needed(frames, made)
        rows = np.flatnonzero(needed | np.isin(places.stream, unsettled))
        done = 0
        for row, sure, stream in zip(rows.tolist(), needed[rows].tolist(), places.stream[rows].tolist()):
            if sure or not self._is_settled(stream):
                while notes and notes[0][0] <= row:
                    yield notes.popleft()[1]
                yield from made.skipped(done, row)
                yield made.frame(row)
                done = row + 1
        yield from made.skipped(done, len(frames))
        yield from (item for _, item in notes)
        for number in connections[np.argsort(-last_rows)].tolist():
            self._observer.skip(reader.streams[number])
        living = reader.tcp.table.living
        if len(reader.streams) > 2 * len(living):
            reader.streams = {one.stream.number: one.stream for one in living}
        self._read += len(frames)

    def _needed(self, frames: Frames, made: _Frames) -> Bools:
        """Return which frames the observer must see."""
        kinds, streams = frames.type, frames.places.stream
        frequent = np.isin(kinds, FREQUENT)
        # The response to an ACK is about the ACK.
        decided = ~frequent | (frames.owner < 0) | ((kinds == _ACK) & (frames.request != -1))
        changed = np.unique(streams[~frequent & ~np.isin(kinds, _NAMELESS)])
        needed: Bools = (decided | np.isin(streams, changed)) & ~np.isin(kinds, self._unneeded)
        rows = np.flatnonzero(~needed & ~np.isin(kinds, self._unneeded))
        needed[rows] = self._rows.may_match(frames, rows, lambda row: self._observer.peek(made.frame(row)))
        return needed


class _Frames:
    """The frames of a window, which begins with the frame number ``first``."""

    def __init__(self, frames: Frames, streams: Mapping[int, Stream], first: int) -> None:
        self._frames, self._streams, self._first = frames, streams, first

    def frame(self, row: int) -> CapturedFrame:
        """Return a frame. Of its packets, only the last is known."""
        frames, places = self._frames, self._frames.places
        start, kept, kind = int(places.start[row]), int(places.kept[row]), int(frames.type[row])
        data = places.data[start : start + kept].tobytes()
        if kind < 0:
            kind = pull_type(data, 8, min(kept, 8 + int.from_bytes(data[4:8], "big")))
        return CapturedFrame(
            data, kind, self._first + row, int(places.packet[row]), int(places.time_ns[row]),
            self._streams[int(places.stream[row])], bool(places.from_client[row]), int(places.offset[row]),
            _SYNC[int(places.sync[row])], places.trouble.get(row, ()),
        )  # fmt: skip

    def skipped(self, start: int, end: int) -> Iterator[SkippedFrames]:
        """Yield the frames from one row to the row before another, if there are any."""
        times: Longs = self._frames.places.time_ns
        if start < end:
            yield SkippedFrames(int(times[start]), int(times[end - 1]), self._first + end - 1)
