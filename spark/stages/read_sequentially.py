"""Reading of a recording from its first packet to its last, by one reader in one process.

Rules of this file
1. The reader continues from file to file. No merge is needed, and all numbers refer to the recording.
2. A split ends where it ends for independent readers, so that both write the same files. A file that cannot be divided,
   such as a compressed one, is divided after a number of bytes, so that memory does not grow with the file.
3. If a file cannot be read to its end, the reader reports this and continues with the next file, as `read_capture`
   does.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from pcli.codec.capture import fast_path
from pcli.codec.capture.flows import Connection, Encrypted, IncompleteFrame, Unclassified
from pcli.codec.capture.frames import Note, Stream
from pcli.codec.capture.packets import Secrets
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.frame_columns import Longs, Places
from pcli.spark.columnar.reading.capture_reader import WindowReader
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.input.read_plan import Recording
from pcli.spark.input.splits import Split, SplitReader
from pcli.spark.request import Request
from pcli.spark.stages.split_parser import SplitParser
from pcli.spark.stages.split_tables import PartStorage, PlacedEvent, ReadCounts, SplitParts

_TIMED: Final = 4_000_000
"""Number of packets before the current window whose times are kept (32 MB)."""

_NONE: Final = np.zeros(0, np.int64)
_NOTHING: Final = Records(b"", _NONE, _NONE, _NONE, _NONE, _NONE, [])


@dataclass(slots=True)
class Counters:
    """The position in a recording."""

    parts: int = 0
    """Number of files read."""
    fed: int = 0
    """Index of the last file with packets. The results from the end of the recording belong to this file."""
    packets: int = 0
    frames: int = 0
    first_ns: int = 0
    """Time of the first frame; 0 if none."""
    last_ns: int = 0
    """Time of the last frame."""


@dataclass(slots=True)
class Checkpoint:
    """The state after a file. It contains objects that the reader changes: pickle it before reading continues."""

    counters: Counters
    reader: fast_path.Reader
    streams: dict[int, Stream]
    """All connections by number."""
    times: dict[int, int]
    """Times of the packets that later notes may refer to."""

    def decrypts(self) -> bool:
        """Return whether a connection is being decrypted."""
        return any(connection.stream.decrypted for connection in self.reader.tcp.table.living)


@dataclass(frozen=True, slots=True)
class Keeps:
    """The states to keep during reading."""

    counts: Sequence[int]
    """The numbers of files, in ascending order, after which the state is kept."""
    keep: Callable[[Checkpoint], None]
    """The function that is called with each state. The state must be pickled before the function returns."""


NOTHING_KEPT: Final = Keeps((), lambda _: None)


@dataclass(slots=True)
class ReadSplits:
    """The result of reading a recording, or the files after a `Checkpoint`."""

    splits: list[SplitParts] = field(default_factory=list)
    ending: SplitParts | None = None
    """The results from the end of the recording, valid if no file follows."""
    streams: dict[int, Stream] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    positions: dict[int, int] = field(default_factory=dict)
    """Number of bytes read from each part, after decompression."""


def read_in_order(
    recording: Recording,
    request: Request,
    storage: PartStorage,
    *,
    on_bytes: Callable[[int, int], None],
    keeps: Keeps = NOTHING_KEPT,
    carried: Checkpoint | None = None,
    before: int = 0,
) -> ReadSplits:
    """Read the files of a recording.

    ``on_bytes`` is called with the part and the number of bytes read so far. ``carried`` and ``before`` are the state
    after earlier files, which are not read again, and the number of their splits.
    """
    with collection_disabled():
        reading = _InOrder(recording, request, storage, carried, before)
        return reading.read(on_bytes, keeps)


@contextmanager
def collection_disabled() -> Iterator[None]:
    """Disable cyclic garbage collection.

    Columns contain no reference cycles, and searching the long-lived objects for cycles takes a tenth of the reading
    time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _InOrder:
    def __init__(
        self, recording: Recording, request: Request, storage: PartStorage, carried: Checkpoint | None, before: int
    ) -> None:
        self._recording, self._request, self._wanted, self._keeper = recording, request, request.required, storage
        self._reader = WindowReader(request.reading, None if carried is None else carried.reader)
        counters = Counters() if carried is None else carried.counters
        self._before = before
        self._out = ReadSplits(counters=counters)
        if carried is not None:
            self._reader.streams = carried.streams
        self._parser = self._next(counters.parts)
        self._earlier_times = {} if carried is None else carried.times
        self._times: deque[tuple[int, Longs]] = deque()
        """For each window, the number of its first packet and the times of its packets."""
        self._timed = 0

    def read(self, on_bytes: Callable[[int, int], None], keeps: Keeps) -> ReadSplits:
        """Read all remaining files."""
        out, done = self._out, 0
        for entry in self._recording.parts[out.counters.parts :]:
            self._parser = self._next(entry.part)
            self._reader.begin_file()
            found, part = entry.found, entry.part
            cuts = deque(split.start for split in self._recording.splits if split.part == part and split.start)
            divided = bool(cuts)
            whole = Split(entry.cluster, found.path, found.where, part, part, 0, -1)
            reader = SplitReader(whole, self._request.since_ns, self._request.until_ns)
            for item in reader.items():
                if isinstance(item, Note):
                    self._add_file_note(item)
                    continue
                if isinstance(item, Secrets):
                    self._reader.add_secrets([item])
                    continue
                done += len(item.data)
                while cuts and item.offset + len(item.data) >= cuts[0]:
                    records, item = item.divided(cuts.popleft())
                    self._take(records)
                    self._end_split(part)
                self._take(item)
                on_bytes(entry.part, done)
                if not divided and self._parser.parts.counted.read_bytes >= self._request.split_bytes:
                    self._end_split(part)
            if reader.read:
                out.positions[part] = reader.ended.position
            for note in self._reader.unread(found.path):
                self._add_file_note(note)
            out.splits.append(self._parser.finish())
            out.counters.parts += 1
            if out.counters.parts in keeps.counts:
                keeps.keep(self._checkpoint())
        self._parser = self._next(out.counters.fed)
        self._add(self._reader.end(), _NOTHING)
        out.ending = self._parser.finish()
        out.streams = self._reader.streams
        return out

    def _end_split(self, part: int) -> None:
        self._out.splits.append(self._parser.finish())
        self._parser = self._next(part)

    def _checkpoint(self) -> Checkpoint:
        counters = self._out.counters
        packets = {counters.packets: None} | noted_packets(self._reader.tcp.table.living)
        times = {packet: self._time_of(packet) if time_ns is None else time_ns for packet, time_ns in packets.items()}
        known = {packet: time_ns for packet, time_ns in times.items() if time_ns is not None}
        return Checkpoint(counters, self._reader.fast, self._reader.streams, known)

    def _take(self, records: Records) -> None:
        if len(records):
            self._out.counters.fed = self._parser.parts.part
        self._parser.parts.counted.add(counted_of(records))
        self._add(self._reader.take(records), records)
        self._out.counters.packets += len(records)

    def _add(self, places: Places, records: Records) -> None:
        """Add the frames and notes of a window."""
        frames = read_fields(places, checksums=self._wanted.checksums)
        counters, notes = self._out.counters, self._reader.notes
        self._remember(records)
        numbers = np.arange(counters.frames + 1, counters.frames + 1 + len(frames), dtype=np.int64)
        self._parser.add(frames, numbers, notes)
        times = places.time_ns
        for row, item in notes:
            last_ns = int(times[row - 1]) if row else counters.last_ns
            self._parser.parts.placed_events.append(
                PlacedEvent(counters.frames + row, last_ns, self._time_of(item.packet), item)
            )
        if len(frames):
            counters.first_ns = counters.first_ns or int(times[0])
            counters.last_ns = int(times[-1])
        counters.frames += len(frames)

    def _remember(self, records: Records) -> None:
        self._times.append((self._out.counters.packets + 1, records.time_ns))
        self._timed += len(records)
        while self._timed - len(self._times[0][1]) > _TIMED:
            self._timed -= len(self._times.popleft()[1])

    def _time_of(self, packet: int) -> int | None:
        """Return the time of a packet, or None if it is unknown. A note may refer to a packet of an earlier window."""
        for first, times in reversed(self._times):
            if 0 <= packet - first < len(times):
                return int(times[packet - first])
        return self._earlier_times.get(packet)

    def _add_file_note(self, note: Note) -> None:
        """Add a note about a file after its last packet."""
        counters = self._out.counters
        note = replace(note, packet=counters.packets)
        places = self._reader.take(_NOTHING)
        self._parser.add(read_fields(places, checksums=False), np.zeros(0, np.int64), [(0, note)])
        self._parser.parts.placed_events.append(PlacedEvent(counters.frames, counters.last_ns, None, note))

    def _next(self, part: int) -> SplitParser:
        number = self._before + len(self._out.splits)
        return SplitParser(number, part, self._recording.cluster, self._wanted, self._keeper)


def noted_packets(connections: Iterable[Connection]) -> dict[int, int | None]:
    """Return the earlier packets that later notes may refer to, with their times if the connections contain them."""
    found: dict[int, int | None] = {}
    for connection in connections:
        for outer in (connection.there, connection.back):
            found.update((queued[3], queued[4]) for queued in outer.held)
            direction = outer.mode.plain if isinstance(outer.mode, Encrypted) else outer
            if isinstance(direction.mode, Unclassified):  # the beginning of TLS may be decrypted later
                found.update((packet, time_ns) for _, packet, time_ns in direction.marks)
            if isinstance(direction.mode, IncompleteFrame):
                found.setdefault(max(direction.mode.packets), None)
    return found


def counted_of(records: Records) -> ReadCounts:
    """Return the counts of a window, except the number of frames."""
    counted = ReadCounts(len(records), 0, len(records.data))
    if len(records):
        counted.first_ns, counted.last_ns = int(records.time_ns.min()), int(records.time_ns.max())
        counted.links = {records.interfaces[face].link for face in np.unique(records.face).tolist()}
    return counted
