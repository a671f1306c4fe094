"""`chain`: one connection through all splits that contain it.

Rules of this file
1. `chain` is a pure function of its spans and of the splits read again so far. It may run in any process, and
   repeatedly.
2. The small facts about the whole recording are in `Context`. Packets that were read before the splits are represented
   by `EarlierPackets`.
3. A span is either valid as a whole or read again as a whole. If its validity is uncertain, it is read again.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from pcli.codec.capture.flows import Connection
from pcli.codec.capture.frames import Note, Stream, StreamEnd
from pcli.codec.capture.reading import ReadOptions
from pcli.codec.capture.recent_packets import HISTORY
from pcli.spark.columnar.split_merge.boundary_states import (
    apply_true_state,
    direction_of,
    is_skipped,
    shifted_by,
    states_agree,
    sync_level,
)
from pcli.spark.columnar.split_merge.deferred_tcp_ends import IMMEDIATE
from pcli.spark.columnar.split_merge.merge_results import OWN, Extra
from pcli.spark.columnar.split_merge.packet_replay import CarriedState, Replay, replay_held
from pcli.spark.columnar.split_merge.resync_certainty import NO_OFFSET
from pcli.spark.columnar.split_merge.split_reader import ConnectionSpan, SplitEdges


@dataclass(frozen=True, slots=True)
class EarlierPackets:
    """The part of the recording before the first split; by default there is none."""

    packets: int = 0
    fed: int = 0
    """Number of data packets."""
    frames: int = 0
    streams: Mapping[int, Stream] = field(default_factory=dict)
    """All streams, by the packet that started them."""
    connections: Mapping[bytes, bytes] = field(default_factory=dict)
    """The state of each connection, as a pickled `CarriedState`, by `split_reader.key_of`."""


@dataclass(frozen=True, slots=True)
class Context:
    """Facts about the recording that every connection needs."""

    options: ReadOptions
    packets: tuple[int, ...]
    """Number of packets before each split; the last item is the number of packets of the recording."""
    fed: tuple[int, ...]
    """Number of data packets before each split; the last item is that of the recording."""
    kept: tuple[int, ...] = ()
    """The numbers of splits, in ascending order, after which the state of each connection is kept."""


@dataclass(slots=True)
class RereadOrder:
    """A request to read a split again for one connection."""

    split: int
    key: bytes
    carried: bytes
    """The connection's state at the end of the previous split, as a pickled `CarriedState`."""


@dataclass(slots=True)
class RereadResult:
    """The result of a `RereadOrder`."""

    split: int
    key: bytes
    carried: CarriedState
    extra: list[Extra]
    met: list[Stream]


@dataclass(slots=True)
class ValidConnection:
    """A connection in a split that contains its valid rows."""

    split: int
    stream: int
    """The connection's number in the split."""
    rows: int
    born: int
    """The recording's packet that started the connection. It identifies the connection until numbers are assigned."""
    offsets: tuple[int, int] = (0, 0)
    """Values to add to the offsets of the broker and of the client."""
    sync: tuple[int, int] = (OWN, OWN)
    anchored: tuple[int, int] = (NO_OFFSET, NO_OFFSET)
    lost: tuple[int, int] = (NO_OFFSET, NO_OFFSET)
    """The values of `SplitRenumbering` for the directions of the broker and of the client."""


@dataclass(slots=True)
class ChainResult:
    """The result for one connection: for the whole recording, or up to the first `RereadOrder`."""

    extra: list[Extra] = field(default_factory=list)
    """Items whose streams are numbered by the packets that started them."""
    standing: list[ValidConnection] = field(default_factory=list)
    streams: dict[int, Stream] = field(default_factory=dict)
    """Streams, each by the packet that started it."""
    ending: list[Extra] = field(default_factory=list)
    """Items from the end of the recording, valid if no packet follows."""
    states: list[bytes] = field(default_factory=list)
    """The pickled `CarriedState` after each number of splits in `Context.kept`; empty if there is no connection."""
    order: RereadOrder | None = None
    """The split to read again; None if there is none."""


def context_of(
    options: ReadOptions, splits: Sequence[SplitEdges], earlier: EarlierPackets, kept: Sequence[int] = ()
) -> Context:
    """Return the context of a recording; ``kept`` is `Context.kept`."""
    packets, fed = [earlier.packets], [earlier.fed]
    for edges in splits:
        packets.append(packets[-1] + edges.packets)
        fed.append(fed[-1] + edges.fed)
    return Context(options, tuple(packets), tuple(fed), tuple(kept))


# -- a key ---------------------------------------------------------------------------------------------------------


def chain(
    spans: Sequence[tuple[int, ConnectionSpan]],
    context: Context,
    reread: Mapping[int, RereadResult],
    earlier: bytes = b"",
) -> ChainResult:
    """Follow a connection through its splits, given in ascending order.

    ``reread`` contains the results by split, and ``earlier`` the pickled state before the first split.
    """
    out, carried = ChainResult(), CarriedState()
    if earlier:
        carried = load_carried(earlier)
        assert carried.connection is not None
        out.streams[carried.connection.stream.number] = carried.connection.stream
    for split, span in spans:
        _keep_states(out, context, split, carried)
        carried.recent = [one for one in carried.recent if one[0] >= context.fed[split] - HISTORY]
        done = reread.get(split)
        if done is not None:
            out.extra += done.extra
            out.streams.update((stream.number, stream) for stream in done.met)
            carried = _copy(done.carried)
            if carried.connection is not None:
                out.streams[carried.connection.stream.number] = carried.connection.stream
            continue
        before = pickle.dumps(carried)
        after = _Step(context, split, span, carried).go(out)
        if after is None:
            out.order = RereadOrder(split, span.key, before)
            return out
        carried = after
    _keep_states(out, context, len(context.packets), carried)
    replay = Replay(context.options, carried)
    out.ending = replay.end(context.packets[-1])
    out.extra += replay.extra
    return out


def _keep_states(out: ChainResult, context: Context, split: int, carried: CarriedState) -> None:
    """Keep the state after each number of splits up to ``split``; ``carried`` is the state since the last packet."""
    for count in context.kept[len(out.states) :]:
        if count <= split:
            out.states.append(_state_at(context, context.packets[count], carried))


def _state_at(context: Context, packet: int, carried: CarriedState) -> bytes:
    """Return the state after a packet of the recording, as a pickled `CarriedState`."""
    if carried.connection is None:
        return b""
    state = pickle.dumps(carried)
    if carried.connection.finished or not 0 <= carried.connection.timer <= packet:
        return state
    replay = Replay(context.options, load_carried(state))
    replay.go_to(packet)
    return pickle.dumps(replay.carried())


def _copy(carried: CarriedState) -> CarriedState:
    return load_carried(pickle.dumps(carried))


def load_carried(data: bytes) -> CarriedState:
    """Return a pickled state."""
    carried: CarriedState = pickle.loads(data)  # noqa: S301  (our own bytes)
    return carried


def _load(data: bytes) -> Connection:
    connection: Connection = pickle.loads(data)  # noqa: S301  (our own bytes)
    return connection


class _Step:
    """The processing of a connection from the end of one split to the end of the next."""

    def __init__(self, context: Context, split: int, span: ConnectionSpan, carried: CarriedState) -> None:
        self._split = split
        self._span = span
        self._base = context.packets[split]
        self._next = context.packets[split + 1]
        self._fed = context.fed[split]
        self._skipped = carried.connection is not None and is_skipped(carried.connection)
        self._replay = Replay(context.options, carried)
        self._met = [copy(stream) for stream in span.met]
        self._standing: list[ValidConnection] = []
        self._streams: list[Stream] = []
        """The streams of the split's connections, in the order of the span."""

    def go(self, out: ChainResult) -> CarriedState | None:
        """Add the results to ``out`` and return the state at the end of the split.

        If the split must be read again, return None and add nothing.
        """
        span, replay = self._span, self._replay
        if span.given_up and not self._skipped:
            return None
        if span.back or any(marks.rejected for marks in span.marks.values()):
            return None
        replay_held(replay, span.held, self._base, self._fed)
        true = replay.connection
        if true is not None and any(direction_of(true, start.key).isn == start.seq for start in span.connection_starts):
            return None  # a retransmitted SYN, not a new connection
        assumed = shifted_by(_load(span.assumed), self._base) if span.assumed else None
        if assumed is not None and (true is None or not states_agree(true, assumed)):
            return None
        if assumed is None and span.connection_starts:
            replay.renew(self._base + span.connection_starts[0].packet, span.connection_starts[0].row)
        carried = self._end(true, assumed)
        if carried is None:
            return None
        out.streams.update((stream.number, stream) for stream in (*replay.met, *self._streams))
        if carried.connection is not None:
            out.streams[carried.connection.stream.number] = carried.connection.stream
        out.extra += replay.extra
        out.extra += self._notes_and_ends()
        out.standing += self._standing
        return carried

    def _end(self, true: Connection | None, assumed: Connection | None) -> CarriedState | None:
        """Return the state at the end of the split, or None if the split must be read again."""
        span = self._span
        if assumed is None and not span.connection_starts:
            return self._replay.carried()
        recent = self._replay.carried().recent if assumed is not None else []
        first = span.streams[0] if span.held or span.given_up else -1
        end = shifted_by(_load(span.end), self._base) if span.end else None
        for number, rows, stream in zip(span.streams, span.rows, self._met):
            if number == first:
                if assumed is not None and true is not None:
                    self._stand(number, rows, true, assumed)
                continue
            stream.opening = tuple(packet + self._base for packet in stream.opening)
            stream.number = stream.opening[0]
            self._streams.append(stream)
            self._standing.append(ValidConnection(self._split, number, rows, stream.number))
        if assumed is not None and true is not None and assumed.keys != true.keys:
            over = end is None or end.stream.number != first or end.finished
            if over:
                return None  # the end of a connection depends on which direction is first
        if end is None:
            return CarriedState(None, [], self._next)
        slide = dict.fromkeys(end.keys, 0)
        if end.stream.number == first:
            assert true is not None
            assert assumed is not None
            slide = {key: direction_of(true, key).offset - direction_of(assumed, key).offset for key in end.keys}
            if not apply_true_state(end, true, assumed, span.marks):
                return None
        else:
            end.stream.number = end.stream.opening[0]
            recent = []
        recent += [(ordinal + self._fed, key, at + slide[key], data) for ordinal, key, at, data in span.recent]
        times = [one.shifted_by(self._base) for one in span.ready]
        return CarriedState(end, recent, self._next, times, span.timer_set_at + self._base)

    def _stand(self, number: int, rows: int, true: Connection, assumed: Connection) -> None:
        """Add the held connection to the valid connections."""
        standing = ValidConnection(self._split, number, rows, true.stream.number)
        sides = sorted(assumed.keys, key=lambda key: direction_of(true, key).from_client)
        directions = [(direction_of(true, key), direction_of(assumed, key), self._span.marks[key]) for key in sides]
        (broker, told_broker, marks_broker), (client, told_client, marks_client) = directions
        standing.offsets = broker.offset - told_broker.offset, client.offset - told_client.offset
        standing.sync = sync_level(broker.sync), sync_level(client.sync)
        standing.anchored = marks_broker.anchored, marks_client.anchored
        standing.lost = marks_broker.lost, marks_client.lost
        self._streams.append(true.stream)
        self._standing.append(standing)

    def _notes_and_ends(self) -> list[Extra]:
        """Return the notes and ends of valid connections in the split."""
        standing = {one.stream: (one, stream) for one, stream in zip(self._standing, self._streams)}
        out = []
        for turn, row, item, ready in self._span.placed_events:
            assert item.stream is not None
            number = item.stream.number
            if number in standing:
                renamed = self._renamed(item, *standing[number])
                out.append(
                    Extra(
                        turn + self._base,
                        row,
                        renamed,
                        ready=ready.shifted_by(self._base) if ready.times else IMMEDIATE,
                    )
                )
        return out

    def _renamed(self, item: Note | StreamEnd, standing: ValidConnection, stream: Stream) -> Note | StreamEnd:
        packet = item.packet + self._base
        if isinstance(item, StreamEnd) or item.offset is None or item.from_client is None:
            return replace(item, packet=packet, stream=stream)
        return replace(item, packet=packet, stream=stream, offset=item.offset + standing.offsets[item.from_client])
