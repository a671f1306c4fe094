"""TCP reassembly of a split in the middle of a recording, and the data about the split that the merge needs.

Rules of this file
1. A connection that starts in the split is read in the usual way. The packets of a connection without a SYN are held
   (`held_packets`) until it continues from an assumed state.
2. All data is grouped by key: the addresses and ports of both sides. A `ConnectionSpan` is the data of one key in a
   split. It is either valid as a whole or read again as a whole.
3. `ResyncMarks` record the effects of an assumed state: whether the maximum frame size mattered, from which offset
   frame boundaries are less certain, and whether a retransmission precedes the assumed state. Frames after an assumed
   state are checked like frames after a resynchronization, so the frames are valid whether or not the true boundaries
   are certain.
4. A note about damage is correct only in the last split of a file, because in other splits a wrong boundary causes it.
   The packets of a file that cannot be decoded are counted in all its splits and reported in the last split.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pcli.codec.capture.connections import Table
from pcli.codec.capture.flows import IGNORE, Connection, Direction, Skipped
from pcli.codec.capture.frames import Note, Stream, StreamEnd
from pcli.codec.capture.reading import ReadOptions
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.streams import signed_distance
from pcli.codec.capture.tunnels import ACK, FIN, SYN, Segment
from pcli.codec.capture.unread_packets import UnreadPackets
from pcli.spark.columnar.frame_columns import Places
from pcli.spark.columnar.reading.capture_reader import WindowReader
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.reading.recent_segments import RecentSegments
from pcli.spark.columnar.split_merge.deferred_tcp_ends import (
    DeferredEndsOutput,
    DeferredEndsTcp,
    ReportInterval,
    ReportIntervals,
    TimedTable,
)
from pcli.spark.columnar.split_merge.held_packets import HeldConnection, HeldSegment
from pcli.spark.columnar.split_merge.resync_certainty import EdgeFrameExtractor, ResyncMarks

Recent = tuple[int, bytes, int, bytes]
"""A data packet in the history: number of data packets before it, key, offset, bytes."""

PlacedEvent = tuple[int, int, Note | StreamEnd, ReportIntervals]
"""Turn, row that the item precedes, note or end, and the intervals in which an end could have been reported."""


@dataclass(slots=True)
class ConnectionStart:
    """The first packet of a connection, usually a SYN."""

    packet: int
    key: bytes
    seq: int
    stream: int
    row: int = 0
    """The row that the connection's frames follow. Frames that timers produce at the packet precede them."""


@dataclass(slots=True)
class ConnectionSpan:
    """The data of one key in a split. All numbers are relative to the split."""

    key: bytes
    """The value of `key_of`."""
    held: list[HeldSegment] = field(default_factory=list)
    """The first packets, if the connection started before the split."""
    given_up: bool = False
    """Whether the connection carries no Pulsar; ``held`` then contains only its first SYN, FIN and RST packets."""
    assumed: bytes = b""
    """The pickled connection after ``held``; empty if the split ended earlier or the connection was abandoned."""
    connection_starts: list[ConnectionStart] = field(default_factory=list)
    """Starts of connections within the split."""
    streams: list[int] = field(default_factory=list)
    """Numbers, in the split, of the connections with this key; the held connection is first."""
    rows: list[int] = field(default_factory=list)
    """Number of frames of each of these connections."""
    met: list[Stream] = field(default_factory=list)
    """Streams of these connections."""
    marks: dict[bytes, ResyncMarks] = field(default_factory=dict)
    """Marks of the held connection, by the keys of its directions."""
    back: bool = False
    """True if a retransmission or an end on the held connection precedes the assumed state."""
    end: bytes = b""
    """The last of these connections at the end of the split, pickled; empty if the reader had removed it."""
    ready: list[ReportInterval] = field(default_factory=list)
    """The intervals in which the pending end of that connection could have been reported (`deferred_tcp_ends`)."""
    timer_set_at: int = 0
    """The packet at which the timer of that connection was set."""
    recent: list[Recent] = field(default_factory=list)
    placed_events: list[PlacedEvent] = field(default_factory=list)
    """Notes and ends of connections, in order."""


def key_of(key: bytes) -> bytes:
    """Return one key for both directions."""
    half = (len(key) - 4) // 2
    back = key[half:-4] + key[:half] + key[-2:] + key[-4:-2]
    return min(key, back)


def recent_of(history: RecentSegments, table: Table) -> Iterator[Recent]:
    """Yield the packets in the history that belong to connections in the table."""
    for ordinal, (direction, at, data, start, end) in history.kept():
        connection = direction.connection
        key = connection.keys[0] if direction is connection.there else connection.keys[1]
        if table.directions.get(key) is direction:
            yield ordinal, key, at, bytes(data[start:end])


class EdgeTcp(DeferredEndsTcp):
    """TCP reassembly of a split."""

    def __init__(self, extractor: EdgeFrameExtractor, limit: int, *, first: bool) -> None:
        """Create the reassembly; ``first`` is true if the split is the first split of the recording."""
        super().__init__(extractor, limit, TimedTable())
        self._first = first
        self.history = self._recent = RecentSegments()
        self.spans: dict[bytes, ConnectionSpan] = {}
        self.connection_starts: list[ConnectionStart] = []
        """Starts of connections, in order."""
        self._extractor = extractor
        self._holds: dict[Connection, HeldConnection] = {}
        self._edges: dict[Connection, ConnectionSpan] = {}
        """Connections that continue from an assumed state."""
        self._starts: dict[Direction, int] = {}
        """The offset at which each direction of these connections continued."""
        self._left_out = 0

    def segment(self, segment: Segment, packet: int, time_ns: int) -> None:
        """Process a segment in the general way."""
        direction = self.table.directions.get(segment.key)
        syn = segment.flags & (SYN | ACK) == SYN
        if direction is None and not (syn or self._first or key_of(segment.key) in self.spans):
            direction = self._hold_new(segment, packet)
        hold = self._holds.get(direction.connection) if direction is not None else None
        if direction is not None and self._precedes_start(direction, segment):
            self._edges[direction.connection].back = True
        if hold is not None and not (syn and hold.given_up):
            self._keep(hold, segment, packet, time_ns)
            return
        if hold is not None:
            self._release(hold)
        super().segment(segment, packet, time_ns)
        if self.table.directions[segment.key] is not direction:
            self._add_start(segment, packet)

    def _precedes_start(self, direction: Direction, segment: Segment) -> bool:
        """Return whether a retransmission, or a FIN, precedes the offset at which the direction continued.

        The history lacks the first transmission, and a FIN whose true offset is negative does not end the connection.
        """
        start = self._starts.get(direction)
        if start is None:
            return False
        offset = direction.offset + signed_distance(segment.seq - direction.base - direction.offset)
        is_data = segment.start < segment.end and segment.end - segment.start + segment.missing > 1
        return offset < start and (bool(segment.flags & FIN) or (is_data and not direction.skipped))

    def _add_start(self, segment: Segment, packet: int) -> None:
        """Record the start of a connection."""
        key, stream = key_of(segment.key), self.table.directions[segment.key].stream
        span = self.spans.setdefault(key, ConnectionSpan(key))
        start = ConnectionStart(packet, segment.key, segment.seq, stream.number)
        span.connection_starts.append(start)
        self.connection_starts.append(start)
        span.streams.append(stream.number)
        span.met.append(stream)

    def _hold_new(self, segment: Segment, packet: int) -> Direction:
        """Hold a connection that started before the split."""
        direction = self.table.create(segment, packet, self.limit, self.classifier)
        key = key_of(segment.key)
        span = self.spans[key] = ConnectionSpan(key, streams=[direction.stream.number], met=[direction.stream])
        hold = HeldConnection(direction.connection)
        span.held = hold.held
        self._holds[direction.connection] = hold
        return direction

    def _keep(self, hold: HeldConnection, segment: Segment, packet: int, time_ns: int) -> None:
        data = bytes(segment.data[segment.start : segment.end])
        left_out = self._left_out == packet
        numbers = (segment.seq, segment.ack, segment.flags)
        fed = self._recent.count_before_turn()
        held = HeldSegment(
            packet, time_ns, segment.key, *numbers, data, segment.missing, segment.packets, left_out, fed
        )
        if hold.take(held, self.classifier):
            hold.go(self.classifier)
            self._release(hold)
        elif hold.given_up:
            for direction in (hold.connection.there, hold.connection.back):
                direction.mode, direction.next = Skipped(), IGNORE
        if data:
            # Add an empty entry to the history, so that older entries are removed in time.
            self.history.append((hold.connection.there, 0, b"", 0, 0))

    def _release(self, hold: HeldConnection) -> None:
        """Let a connection continue from its assumed state."""
        connection = hold.connection
        del self._holds[connection]
        span = self.spans[key_of(connection.keys[0])]
        span.held, span.given_up = hold.held, hold.given_up
        self._edges[connection] = span
        if not hold.given_up:
            directions = (connection.there, connection.back)
            span.marks = {key: ResyncMarks() for key in connection.keys}
            self._extractor.marks.update(zip(directions, span.marks.values()))
            self._starts.update((direction, direction.offset) for direction in directions)
            self.arm(connection.there)
            self.arm(connection.back)
            span.assumed = pickle.dumps(connection)

    def skip_left_out(self, segment: Segment, packet: int) -> None:
        """Skip bytes that were omitted on purpose. For a held packet, the omission is recorded instead."""
        self._left_out = packet
        direction = self.table.directions.get(segment.key)
        if direction is not None and direction.connection not in self._holds:
            super().skip_left_out(segment, packet)

    # -- the end of the split --------------------------------------------------------------------------------------

    def close(self, rows: Mapping[int, int], placed_events: list[PlacedEvent]) -> list[ConnectionSpan]:
        """Return the spans, given the number of frames of each stream in ``rows`` and all notes and stream ends."""
        for hold in self._holds.values():
            span = self.spans[key_of(hold.connection.keys[0])]
            span.held, span.given_up = hold.held, hold.given_up
        by_stream: dict[int, ConnectionSpan] = {}
        for span in self.spans.values():
            span.rows = [rows.get(number, 0) for number in span.streams]
            by_stream.update(dict.fromkeys(span.streams, span))
            direction = self.table.directions.get(span.key)
            if direction is not None and direction.connection not in self._holds:
                span.end = pickle.dumps(direction.connection)
                span.ready = self.deferred.open.get(direction.connection, [])
                span.timer_set_at = self.table.timers_set_at.get(direction.connection, 0)
        for entry in placed_events:
            if entry[2].stream is not None:
                by_stream[entry[2].stream.number].placed_events.append(entry)
        for recent in recent_of(self._recent, self.table):
            self.spans[key_of(recent[1])].recent.append(recent)
        return list(self.spans.values())


@dataclass(slots=True)
class SplitEdges:
    """The data about a split that the merge needs. It is small and can be pickled."""

    packets: int
    fed: int
    """Number of data packets."""
    streams: int
    """Number of connections."""
    spans: list[ConnectionSpan]
    connection_starts: dict[int, int]
    """`ConnectionStart.row` by the packet that started the connection."""
    notes: list[Note]
    """Notes about the file, if its reading ended in this split."""
    unread: UnreadPackets


class EdgeReader:
    """A reader of a split's windows. The places that it returns contain numbers of the split."""

    def __init__(self, options: ReadOptions, *, first: bool) -> None:
        """Create a reader; ``first`` is true if the split is the first split of its recording."""
        self._output = DeferredEndsOutput()
        self._tcp = EdgeTcp(
            EdgeFrameExtractor(self._output, StreamClassifier(options.decode_as)), options.max_frame_size, first=first
        )
        self._reader = WindowReader(options, tcp=self._tcp)
        self._rows: Counter[int] = Counter()
        self._placed = 0
        """Number of starts whose rows are known."""
        self._placed_events: list[PlacedEvent] = []
        self._notes: list[Note] = []
        self.noted = False
        """Whether a note about a connection, usually about missing bytes, exists so far."""

    def take(self, records: Records) -> Places:
        """Return the frames that these packets completed, without the frames of held connections."""
        before = self._rows.total()
        places = self._reader.take(records)
        turns = self._reader.note_turns
        for turn, (row, item) in zip(turns, self._reader.notes, strict=True):
            self._placed_events.append((turn, before + row, item, self._output.ready(item)))
            self.noted = self.noted or isinstance(item, Note)
        while self._placed < len(self._tcp.connection_starts):
            start = self._tcp.connection_starts[self._placed]
            low, high = np.searchsorted(places.turn, (start.packet, start.packet + 1)).tolist()
            own = np.count_nonzero(places.stream[low:high] == start.stream)
            start.row = before + high - int(own)
            self._placed += 1
        counts = np.bincount(places.stream)
        self._rows.update({number: int(counts[number]) for number in np.flatnonzero(counts).tolist()})
        return places

    def note(self, note: Note) -> None:
        """Add the note about the file at its end."""
        self._notes.append(note)

    def close(self) -> SplitEdges:
        """Finish the split and return its data for the merge."""
        spans = self._tcp.close(self._rows, self._placed_events)
        connection_starts = {start.packet: start.row for start in self._tcp.connection_starts}
        return SplitEdges(
            self._reader.packet,
            self._reader.fed,
            self._tcp.table.count,
            spans,
            connection_starts,
            self._notes,
            self._reader.fast.unread,
        )


def with_file_notes(splits: Sequence[SplitEdges], parts: Sequence[int], names: Sequence[str]) -> list[SplitEdges]:
    """Return the splits with correct notes. ``parts`` and ``names`` are the number and name of each split's file."""
    out, unread = [], UnreadPackets()
    for edges, part, following, name in zip(splits, parts, [*parts[1:], -1], names, strict=True):
        unread.counts += edges.unread.counts
        out.append(replace(edges, notes=[] if following == part else [*edges.notes, *unread.take(name, 0)]))
    return out
