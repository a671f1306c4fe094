"""TCP of a split that begins in the middle of a recording, and what is told of it to whoever stitches.

Rules of this file
1. A connection that begins in the split is read as always. One that is met without SYN is held (``hold``), and goes on
   alone from a guessed state.
2. Everything is told by key: the addresses and ports of both sides. A `Span` is all that a split saw of a key; it
   stands or is read again as a whole.
3. What a guess does not tell is watched (`Marks`): whether the walk had to ask for the largest frame's size, from
   where on places are less certain, whether a retransmission reaches back before the guess. Frames of a guess are
   checked like those behind a search, so they stand whether the true direction is certain of its places or not.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pcli.codec.capture.flows import IGNORE, SKIP, Connection, Direction
from pcli.codec.capture.frames import Note, Stream, StreamEnd
from pcli.codec.capture.judge import Judge
from pcli.codec.capture.reading import ReadOptions
from pcli.codec.capture.streams import signed_distance
from pcli.codec.capture.tunnels import ACK, FIN, SYN, Segment
from pcli.spark.columnar.frame_columns import Places
from pcli.spark.columnar.reading import Reader
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.reading.recent_segments import Past
from pcli.spark.columnar.split_merge.deferred_tcp_ends import PatientOutput, PatientTcp, Ready, Time
from pcli.spark.columnar.split_merge.held_packets import Held, Hold
from pcli.spark.columnar.split_merge.resync_certainty import EdgeWalker, Marks

__all__ = ["Birth", "EdgeReader", "Edges", "Recent", "Span", "Told", "key_of"]

Recent = tuple[int, bytes, int, bytes]
"""A data packet that is remembered: how many were before it, key, offset, bytes."""

Told = tuple[int, int, Note | StreamEnd, Ready]
"""Turn, row before which it stands, note or end; of an end when it could have been told."""


@dataclass(slots=True)
class Birth:
    """The first packet of a connection, mostly a SYN."""

    packet: int
    key: bytes
    seq: int
    stream: int
    row: int = 0
    """The row before which its own frames stand: alarms that rang at the packet came before."""


@dataclass(slots=True)
class Span:
    """What a split saw of a key. All numbers are the split's own."""

    key: bytes
    """See `key_of`."""
    held: list[Held] = field(default_factory=list)
    """The first packets, if the connection was met in the middle."""
    given_up: bool = False
    """Of a connection without Pulsar: ``held`` are its first SYN, FIN and RST packets only."""
    guess: bytes = b""
    """The connection behind ``held``, pickled; empty: the split ended before, or it was given up."""
    births: list[Birth] = field(default_factory=list)
    """How connections of the split's own began."""
    streams: list[int] = field(default_factory=list)
    """The split's numbers of the connections on this key, the one that was held first."""
    rows: list[int] = field(default_factory=list)
    """Frames of each of these."""
    met: list[Stream] = field(default_factory=list)
    """These themselves."""
    marks: dict[bytes, Marks] = field(default_factory=dict)
    """Of the one that was held, by the keys of its directions."""
    back: bool = False
    """Of the one that was held: whether a retransmission or an end reached back before the guess."""
    end: bytes = b""
    """The last of these at the end of the split, pickled; empty: it is forgotten."""
    ready: list[Time] = field(default_factory=list)
    """When the end of that could have been told, if it waits, see `patient`."""
    alarmed: int = 0
    """When its alarm was set."""
    recent: list[Recent] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    """Notes and ends, in order."""


def key_of(key: bytes) -> bytes:
    """One key for both directions."""
    half = (len(key) - 4) // 2
    back = key[half:-4] + key[:half] + key[-2:] + key[-4:-2]
    return min(key, back)


class _Past(Past):
    """The history; it tells how many there were, and all that it remembers."""

    def count(self) -> int:
        """Data packets before the one at hand."""
        ahead = int(np.count_nonzero(self._taken[0][self.turn :] >= 0)) if self._taken else 0
        return self.fed - ahead

    def kept(self) -> list[tuple[Direction, Recent]]:
        """Between two windows: all that is remembered."""
        out = []
        for ordinal, (way, at, data, start, end) in enumerate(self._before, self.fed - len(self._before)):
            connection = way.connection
            key = connection.keys[0] if way is connection.there else connection.keys[1]
            if end > start:
                out.append((way, (ordinal, key, at, bytes(data[start:end]))))
        return out


class EdgeTcp(PatientTcp):
    """TCP of a split."""

    def __init__(self, walker: EdgeWalker, limit: int, *, first: bool) -> None:
        """``first``: nothing of the recording comes before."""
        super().__init__(walker, walker.judge, limit)
        self._first = first
        self.history = self._past = _Past()
        self.spans: dict[bytes, Span] = {}
        self.births: list[Birth] = []
        """In order."""
        self._walker = walker
        self._holds: dict[Connection, Hold] = {}
        self._edges: dict[Connection, Span] = {}
        """Connections that go alone since a guess."""
        self._starts: dict[Direction, int] = {}
        """And at which offset."""
        self._left_out = 0

    def segment(self, segment: Segment, packet: int, time_ns: int) -> None:
        """Take a segment in the general way."""
        way = self.table.ways.get(segment.key)
        syn = segment.flags & (SYN | ACK) == SYN
        if way is None and not (syn or self._first or key_of(segment.key) in self.spans):
            way = self._meet(segment, packet)
        hold = self._holds.get(way.connection) if way is not None else None
        if way is not None and way in self._starts and segment.flags & FIN:
            ahead = signed_distance(segment.seq - way.base - way.offset)
            if way.offset + ahead < self._starts[way]:
                # Truly its offset may be below 0, and then it is no end.
                self._edges[way.connection].back = True
        if hold is None:
            super().segment(segment, packet, time_ns)
        elif syn and hold.given_up:
            self._let_go(hold)
            super().segment(segment, packet, time_ns)
        else:
            self._keep(hold, segment, packet, time_ns)

    def _meet(self, segment: Segment, packet: int) -> Direction:
        """A connection in its middle."""
        way = self.table.create(segment, packet, self.limit, self.judge)
        key = key_of(segment.key)
        span = self.spans[key] = Span(key, streams=[way.stream.number], met=[way.stream])
        hold = Hold(way.connection)
        span.held = hold.held
        self._holds[way.connection] = hold
        return way

    def _keep(self, hold: Hold, segment: Segment, packet: int, time_ns: int) -> None:
        data = bytes(segment.data[segment.start : segment.end])
        left_out = self._left_out == packet
        numbers = (segment.seq, segment.ack, segment.flags)
        fed = self._past.count()
        held = Held(packet, time_ns, segment.key, *numbers, data, segment.missing, segment.packets, left_out, fed)
        if hold.take(held, self.judge):
            hold.go(self.judge)
            self._let_go(hold)
        elif hold.given_up:
            for way in (hold.connection.there, hold.connection.back):
                way.mode, way.next = SKIP, IGNORE
        if data:
            # A place in the history is taken, so that others are forgotten in time.
            self.history.append((hold.connection.there, 0, b"", 0, 0))

    def _let_go(self, hold: Hold) -> None:
        """The connection goes alone."""
        connection = hold.connection
        del self._holds[connection]
        span = self.spans[key_of(connection.keys[0])]
        span.held, span.given_up = hold.held, hold.given_up
        self._edges[connection] = span
        if not hold.given_up:
            ways = (connection.there, connection.back)
            span.marks = {key: Marks() for key in connection.keys}
            self._walker.marks.update(zip(ways, span.marks.values()))
            self._starts.update((way, way.offset) for way in ways)
            self._arm(connection.there)
            self._arm(connection.back)
            span.guess = pickle.dumps(connection)

    def skip_left_out(self, segment: Segment, packet: int) -> None:
        """As its base; whoever is held remembers it."""
        self._left_out = packet
        way = self.table.ways.get(segment.key)
        if way is not None and way.connection not in self._holds:
            super().skip_left_out(segment, packet)

    def _new(self, segment: Segment, packet: int, old: Direction | None) -> Direction:
        way = super()._new(segment, packet, old)
        key = key_of(segment.key)
        span = self.spans.setdefault(key, Span(key))
        birth = Birth(packet, segment.key, segment.seq, way.stream.number)
        span.births.append(birth)
        self.births.append(birth)
        span.streams.append(way.stream.number)
        span.met.append(way.stream)
        return way

    def _compare_old(self, way: Direction, offset: int, data: bytes, start: int, end: int, packet: int) -> None:
        if way in self._starts and offset < self._starts[way]:
            self._edges[way.connection].back = True
        super()._compare_old(way, offset, data, start, end, packet)

    # -- the end of the split --------------------------------------------------------------------------------------

    def close(self, rows: Mapping[int, int], told: list[Told]) -> list[Span]:
        """What was seen, by keys. ``rows``: frames of each stream; ``told``: all notes and ends of streams."""
        for hold in self._holds.values():
            span = self.spans[key_of(hold.connection.keys[0])]
            span.held, span.given_up = hold.held, hold.given_up
        by_stream: dict[int, Span] = {}
        for span in self.spans.values():
            span.rows = [rows.get(number, 0) for number in span.streams]
            by_stream.update(dict.fromkeys(span.streams, span))
            way = self.table.ways.get(span.key)
            if way is not None and way.connection not in self._holds:
                span.end = pickle.dumps(way.connection)
                span.ready = self.patient.open.get(way.connection, [])
                span.alarmed = self.alarmed.get(way.connection, 0)
        for entry in told:
            if entry[2].stream is not None:
                by_stream[entry[2].stream.number].told.append(entry)
        for way, recent in self._past.kept():
            if self.table.ways.get(recent[1]) is way:
                self.spans[key_of(recent[1])].recent.append(recent)
        return list(self.spans.values())


@dataclass(slots=True)
class Edges:
    """What a split has to say to its neighbours. Small, and can be pickled."""

    packets: int
    fed: int
    """Data packets."""
    streams: int
    """Connections that it met."""
    spans: list[Span]
    births: dict[int, int]
    """By packet: `Birth.row`."""
    notes: list[Note]
    """Of the file: if there is one, reading ended here."""


class EdgeReader:
    """A split's windows to places, in the split's own numbers."""

    def __init__(self, options: ReadOptions, *, first: bool) -> None:
        """``first``: the split is the first of its recording."""
        self._output = PatientOutput()
        self._tcp = EdgeTcp(EdgeWalker(self._output, Judge(options.decode_as)), options.max_frame_size, first=first)
        self._reader = Reader(options, tcp=self._tcp)
        self._rows: Counter[int] = Counter()
        self._placed = 0
        """Births whose rows are known."""
        self._told: list[Told] = []
        self._notes: list[Note] = []
        self.noted = False
        """Whether anything is noted of a connection so far: bytes that are missing, mostly."""

    def take(self, records: Records) -> Places:
        """The frames that became known with these packets; those of connections that are held will come later."""
        before = self._rows.total()
        places = self._reader.take(records)
        turns = self._reader.note_turns
        for turn, (row, item) in zip(turns, self._reader.notes, strict=True):
            self._told.append((turn, before + row, item, self._output.ready(item)))
            self.noted = self.noted or isinstance(item, Note)
        while self._placed < len(self._tcp.births):
            birth = self._tcp.births[self._placed]
            low, high = np.searchsorted(places.turn, (birth.packet, birth.packet + 1)).tolist()
            own = np.count_nonzero(places.stream[low:high] == birth.stream)
            birth.row = before + high - int(own)
            self._placed += 1
        counts = np.bincount(places.stream)
        self._rows.update({number: int(counts[number]) for number in np.flatnonzero(counts).tolist()})
        return places

    def note(self, note: Note) -> None:
        """The note on the file at its end."""
        self._notes.append(note)

    def close(self) -> Edges:
        """The split is read."""
        spans = self._tcp.close(self._rows, self._told)
        births = {birth.packet: birth.row for birth in self._tcp.births}
        return Edges(self._reader.packet, self._reader.fed, self._tcp.table.count, spans, births, self._notes)
