"""The packets of one key, given to its connection one by one, in the recording's numbers: exact, and slow.

Rules of this file
1. It is `codec.capture.streams` that works here, alone with one key. What other connections do to this one is told to
   it: a packet of any connection lets alarms ring, data packets fill the history. What a new one does: see `patient`.
2. Streams are numbered by the recording's packet at which they began: that is unique, and known to everybody.
3. What comes out is told with its turn, and its place within the turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pcli.codec.capture.flows import IGNORE, Connection, Direction
from pcli.codec.capture.frames import Stream
from pcli.codec.capture.history import HISTORY, Entry, History
from pcli.codec.capture.judge import Judge
from pcli.codec.capture.reading import ReadOptions
from pcli.codec.capture.tunnels import FIN, RST, SYN, Segment
from pcli.spark.columnar.split_merge.connection_state import way_of
from pcli.spark.columnar.split_merge.deferred_tcp_ends import PatientOutput, PatientTcp, Time
from pcli.spark.columnar.split_merge.held_packets import Held, held_segment
from pcli.spark.columnar.split_merge.merge_results import AFTER, Extra
from pcli.spark.columnar.split_merge.resync_certainty import EdgeWalker
from pcli.spark.columnar.split_merge.split_reader import Recent

__all__ = ["LAST", "Carried", "Replay", "fill"]

_RING: Final = -1
LAST: Final = 1 << 59
_END: Final = 1 << 60
"""Places within a turn: what alarms give, the end of a file, the end of all."""


@dataclass(slots=True)
class Carried:
    """A key between two splits, in the recording's numbers."""

    connection: Connection | None = None
    """None: it is not known."""
    recent: list[Recent] = field(default_factory=list)
    """Data packets that may be remembered still; their ordinals count over the recording."""
    packet: int = 0
    """The last packet that it has heard of: alarms up to here have rung."""
    ready: list[Time] = field(default_factory=list)
    """When the end of the connection could have been told, see `patient`."""
    alarmed: int = 0
    """When its alarm was set."""


class _Recent(History):
    """A history of which others fill the most."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[int, Entry]] = []
        self.now = 0
        """Data packets of the recording so far."""

    def append(self, entry: Entry) -> None:
        """Remember a packet."""
        self.kept.append((self.now, entry))
        self.now += 1

    def of(self, way: Direction) -> list[Entry]:
        """What is remembered of a direction."""
        self.kept = [one for one in self.kept if one[0] >= self.now - HISTORY]
        return [entry for _, entry in self.kept if entry[0] is way]


class _Tcp(PatientTcp):
    """Numbers streams by packets."""

    met: list[Stream]

    def _new(self, segment: Segment, packet: int, old: Direction | None) -> Direction:
        self.table.count = packet
        way = super()._new(segment, packet, old)
        self.met.append(way.stream)
        return way


class Replay:
    """One key."""

    def __init__(self, options: ReadOptions, carried: Carried) -> None:
        self._output = PatientOutput()
        judge = Judge(options.decode_as)
        self._tcp = _Tcp(EdgeWalker(self._output, judge), judge, options.max_frame_size)
        self._tcp.met = []
        self._history = self._tcp.history = _Recent()
        self._packet = carried.packet
        self.extra: list[Extra] = []
        """What came out."""
        self.connection = carried.connection
        if carried.connection is not None:
            self._take_up(carried.connection, carried)

    @property
    def met(self) -> list[Stream]:
        """The stream that was carried here, and those that began here."""
        return self._tcp.met

    def _take_up(self, connection: Connection, carried: Carried) -> None:
        table = self._tcp.table
        self._tcp.met.append(connection.stream)
        for key in connection.keys:
            table.ways[key] = way_of(connection, key)
        table.living[connection] = None
        for ordinal, key, at, data in carried.recent:
            self._history.kept.append((ordinal, (way_of(connection, key), at, data, 0, len(data))))
        if connection.finished:
            return
        if connection.closing >= 0:
            self._tcp.closing[connection] = None
            self._output.take_up(connection, carried.ready)
        if connection.alarm >= 0:
            due, connection.alarm = connection.alarm, -1
            table.set_alarm(connection, due, carried.packet)
            self._tcp.alarmed[connection] = carried.alarmed

    def carried(self) -> Carried:
        """The key as it is now; the replay is not to be used any more."""
        ways = [] if self.connection is None else [self.connection.there, self.connection.back]
        recent = [
            (ordinal, self._key(entry[0]), entry[1], bytes(entry[2][entry[3] : entry[4]]))
            for ordinal, entry in self._history.kept
            if entry[0] in ways
        ]
        if self.connection is None:
            return Carried(None, recent, self._packet)
        ready, alarmed = self._output.open.get(self.connection, []), self._tcp.alarmed.get(self.connection, 0)
        return Carried(self.connection, recent, self._packet, ready, alarmed)

    def _key(self, way: Direction) -> bytes:
        keys = way.connection.keys
        return keys[0] if way is way.connection.there else keys[1]

    # -- what happens ----------------------------------------------------------------------------------------------

    def packet(self, held: Held, fed: int) -> None:
        """A packet of this key; ``fed``: data packets of the recording before it."""
        self._pass(held.packet)
        self._history.now = max(self._history.now, fed)
        way = self._tcp.table.ways.get(held.key)
        if way is not None and way.next == IGNORE and _is_plain(held):
            # So does `capture.fast`: nobody looks at these, not even whether the direction was seen.
            way.ack = way.ack if held.data or held.missing else held.ack
            return
        segment = held_segment(held)
        if held.left_out:
            self._tcp.skip_left_out(segment, held.packet)
        self._tcp.segment(segment, held.packet, held.time_ns)
        self.connection = self._tcp.table.ways[held.key].connection
        self._collect_own(held.packet)
        self._packet = held.packet

    def renew(self, packet: int, row: int) -> None:
        """A new connection begins on this key at a packet that is not given here: the old one is over.

        ``row``: the row of the split before which the new one's own stand.
        """
        self._pass(packet)
        if self.connection is not None:
            self._tcp._finish(self.connection, packet, "the connection ends")
            self._tcp.table.forget(self.connection)
            self._collect(packet, row, rank=1)
        self.connection = None
        self._packet = packet

    def end(self, packet: int) -> None:
        """The recording ends with this packet."""
        self._pass(packet)
        stream = self.connection.stream.number if self.connection is not None else 0
        self._tcp.end(packet)
        self._collect(packet, _END, ticket=stream)

    def _pass(self, packet: int) -> None:
        """Ring the alarms up to a packet, which is not taken yet."""
        table = self._tcp.table
        while (alarm := max(table.alarm, self._packet + 1)) <= packet:
            ticket = self._tcp.alarmed.get(self.connection, 0) if self.connection is not None else 0
            self._tcp.ring(alarm)
            self._collect(alarm, _RING, ticket=ticket)
        self._packet = max(self._packet, packet - 1)

    def _collect_own(self, packet: int) -> None:
        """What a packet gave; what is of a connection before one that it began comes first."""
        for item in self._output.out:
            assert item.stream is not None
            old = self.connection is not None and self.connection.stream.number == packet != item.stream.number
            place, rank = (AFTER - 1, 1) if old else (AFTER, 0)
            self.extra.append(Extra(packet, place, item, rank, 0, self._output.ready(item)))
        self._output.out = []

    def _collect(self, turn: int, place: int, rank: int = 0, ticket: int = 0) -> None:
        for item in self._output.out:
            self.extra.append(Extra(turn, place, item, rank, ticket, self._output.ready(item)))
        self._output.out = []


def _is_plain(held: Held) -> bool:
    """Whether the fast path takes such a packet, as far as it can be told of the segment: not in tunnels."""
    return len(held.key) == 12 and not (held.flags & (SYN | FIN | RST) or held.packets or held.left_out)


def fill(replay: Replay, held: Iterable[Held], packets: int, fed: int) -> None:
    """Give the replay the held packets of a split, whose first packet and data packet have these many before them."""
    for one in held:
        replay.packet(shifted(one, packets), one.fed + fed)


def shifted(held: Held, packets: int) -> Held:
    """The same in the recording's numbers."""
    parts = tuple(packet + packets for packet in held.packets)
    return Held(
        held.packet + packets,
        held.time_ns,
        held.key,
        held.seq,
        held.ack,
        held.flags,
        held.data,
        held.missing,
        parts,
        held.left_out,
        held.fed,
    )
