"""The packets of one connection, processed one by one with the recording's numbers. This replay is exact but slow.

Rules of this file
1. `codec.capture.streams` processes this connection alone. Two effects of other connections are added: every packet may
   trigger timers, and data packets fill the history. `deferred_tcp_ends` describes the effect of other connections'
   starts.
2. Streams are numbered by the recording's packet that started them, which is unique and known in every split.
3. Each result has a turn and a place within the turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pcli.codec.capture.flows import IGNORE, Connection, Direction
from pcli.codec.capture.frames import Stream
from pcli.codec.capture.reading import ReadOptions
from pcli.codec.capture.recent_packets import HISTORY, Entry, History
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.tunnels import FIN, RST, SYN, Segment
from pcli.spark.columnar.split_merge.boundary_states import direction_of
from pcli.spark.columnar.split_merge.deferred_tcp_ends import (
    DeferredEndsOutput,
    DeferredEndsTcp,
    ReportInterval,
    TimedTable,
)
from pcli.spark.columnar.split_merge.held_packets import HeldSegment, segment_of
from pcli.spark.columnar.split_merge.merge_results import AFTER, Extra
from pcli.spark.columnar.split_merge.resync_certainty import EdgeFrameExtractor
from pcli.spark.columnar.split_merge.split_reader import Recent

_TIMERS: Final = -1
LAST: Final = 1 << 59
END: Final = 1 << 60
"""Places of items within a turn: from timers, from the end of a file, and from the end of the recording."""


@dataclass(slots=True)
class CarriedState:
    """The state of a connection between two splits, with the recording's numbers."""

    connection: Connection | None = None
    """The connection; None if there is none."""
    recent: list[Recent] = field(default_factory=list)
    """Data packets that may still be in the history, with their ordinals in the recording."""
    packet: int = 0
    """The last processed packet. Timers up to this packet have been triggered."""
    ready: list[ReportInterval] = field(default_factory=list)
    """Intervals in which the end of the connection could have been reported (`deferred_tcp_ends`)."""
    timer_set_at: int = 0
    """The packet at which the connection's timer was set."""


class _Recent(History):
    """A history that is filled mostly by other connections."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[int, Entry]] = []
        self.now = 0
        """Number of data packets of the recording so far."""

    def append(self, entry: Entry) -> None:
        """Add a packet."""
        self.kept.append((self.now, entry))
        self.now += 1

    def of(self, direction: Direction) -> list[Entry]:
        """Return the packets of a direction in the history."""
        self.kept = [one for one in self.kept if one[0] >= self.now - HISTORY]
        return [entry for _, entry in self.kept if entry[0] is direction]


class _Table(TimedTable):
    """A table that numbers streams by packets."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[Stream] = []

    def create(self, segment: Segment, packet: int, limit: int, classifier: StreamClassifier) -> Direction:
        """Add a connection."""
        self.count = packet
        direction = super().create(segment, packet, limit, classifier)
        self.met.append(direction.stream)
        return direction


class Replay:
    """The replay of one connection."""

    def __init__(self, options: ReadOptions, carried: CarriedState) -> None:
        self._output = DeferredEndsOutput()
        extractor = EdgeFrameExtractor(self._output, StreamClassifier(options.decode_as))
        self._table = _Table()
        self._tcp = DeferredEndsTcp(extractor, options.max_frame_size, self._table)
        self._history = self._tcp.history = _Recent()
        self._packet = carried.packet
        self.extra: list[Extra] = []
        """The frames, notes and ends so far."""
        self.connection = carried.connection
        if carried.connection is not None:
            self._take_up(carried.connection, carried)

    @property
    def met(self) -> list[Stream]:
        """The stream of the initial state, and the streams that started during the replay."""
        return self._table.met

    def _take_up(self, connection: Connection, carried: CarriedState) -> None:
        table = self._table
        self._table.met.append(connection.stream)
        for key in connection.keys:
            table.directions[key] = direction_of(connection, key)
        table.living[connection] = None
        for ordinal, key, at, data in carried.recent:
            self._history.kept.append((ordinal, (direction_of(connection, key), at, data, 0, len(data))))
        if connection.finished:
            return
        if connection.closing >= 0:
            self._tcp.closing[connection] = None
            self._output.take_up(connection, carried.ready)
        if connection.timer >= 0:
            due, connection.timer = connection.timer, -1
            table.set_timer(connection, due, carried.packet)
            self._table.timers_set_at[connection] = carried.timer_set_at

    def carried(self) -> CarriedState:
        """Return the final state; the replay cannot be used afterwards."""
        directions = [] if self.connection is None else [self.connection.there, self.connection.back]
        recent = [
            (ordinal, self._key(entry[0]), entry[1], bytes(entry[2][entry[3] : entry[4]]))
            for ordinal, entry in self._history.kept
            if entry[0] in directions
        ]
        if self.connection is None:
            return CarriedState(None, recent, self._packet)
        ready = self._output.open.get(self.connection, [])
        set_at = self._table.timers_set_at.get(self.connection, 0)
        return CarriedState(self.connection, recent, self._packet, ready, set_at)

    def _key(self, direction: Direction) -> bytes:
        keys = direction.connection.keys
        return keys[0] if direction is direction.connection.there else keys[1]

    # -- packets and events ------------------------------------------------------------------------------------------

    def packet(self, held: HeldSegment, fed: int) -> None:
        """Process a packet of this connection. ``fed`` is the number of data packets before it in the recording."""
        self._pass(held.packet)
        self._history.now = max(self._history.now, fed)
        direction = self._table.directions.get(held.key)
        if direction is not None and direction.next == IGNORE and _is_plain(held):
            # `capture.fast_path` ignores these packets: it does not even count them as captured packets of their
            # direction.
            direction.ack = direction.ack if held.data or held.missing else held.ack
            return
        segment = segment_of(held)
        if held.left_out:
            self._tcp.skip_left_out(segment, held.packet)
        self._tcp.segment(segment, held.packet, held.time_ns)
        self.connection = self._table.directions[held.key].connection
        self._collect_own(held.packet)
        self._packet = held.packet

    def renew(self, packet: int, row: int) -> None:
        """End the old connection, because a new connection starts at a packet that is not replayed.

        ``row`` is the row of the split after which the rows of the new connection begin.
        """
        self._pass(packet)
        if self.connection is not None:
            self._tcp.finish(self.connection, packet, "the connection ends")
            self._table.forget(self.connection)
            self._collect(packet, row, rank=1)
        self.connection = None
        self._packet = packet

    def end(self, packet: int) -> list[Extra]:
        """Return the frames, notes and ends at the end of the recording. ``packet`` is the number of its last packet.

        ``extra`` then contains the results of earlier packets.
        """
        self.go_to(packet)
        before, self.extra = self.extra, []
        stream = self.connection.stream.number if self.connection is not None else 0
        self._tcp.end(packet)
        self._collect(packet, END, ticket=stream)
        ending, self.extra = self.extra, before
        return ending

    def go_to(self, packet: int) -> None:
        """Trigger all timers up to a packet that does not belong to this connection."""
        self._pass(packet)
        self._packet = packet

    def _pass(self, packet: int) -> None:
        """Before a packet is processed, trigger the timers that are due up to this packet."""
        table = self._table
        while (timer := max(table.timer, self._packet + 1)) <= packet:
            ticket = self._table.timers_set_at.get(self.connection, 0) if self.connection is not None else 0
            self._tcp.run_timers(timer)
            self._collect(timer, _TIMERS, ticket=ticket)
        self._packet = max(self._packet, packet - 1)

    def _collect_own(self, packet: int) -> None:
        """Collect the results of a packet. Results of a replaced connection are first."""
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


def _is_plain(held: HeldSegment) -> bool:
    """Return whether the fast path processes this packet, according to the segment.

    The fast path never processes packets in tunnels.
    """
    return len(held.key) == 12 and not (held.flags & (SYN | FIN | RST) or held.packets or held.left_out)


def replay_held(replay: Replay, held: Iterable[HeldSegment], packets: int, fed: int) -> None:
    """Replay a split's held packets. ``packets`` and ``fed`` count the packets and data packets before the split."""
    for one in held:
        replay.packet(shifted(one, packets), one.fed + fed)


def shifted(held: HeldSegment, packets: int) -> HeldSegment:
    """Return the same packet with the recording's numbers."""
    parts = tuple(packet + packets for packet in held.packets)
    return HeldSegment(
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
