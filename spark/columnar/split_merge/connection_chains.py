"""A key through all splits that met it: what stands, what comes in, what must be read again.

Rules of this file
1. `chain` is a pure function of its spans and what was repaired so far: it may run anywhere, as often as one likes.
2. What the recording as a whole knows is small and comes as `Context`.
3. A span stands or is read again as a whole; whatever is in doubt is read again.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from pcli.codec.capture.flows import Connection
from pcli.codec.capture.frames import Note, Stream, StreamEnd
from pcli.codec.capture.reading import ReadOptions
from pcli.spark.columnar.split_merge.connection_state import adopt, agree, is_skipped, moved, sync_level, way_of
from pcli.spark.columnar.split_merge.deferred_tcp_ends import AT_ONCE
from pcli.spark.columnar.split_merge.merge_results import OWN, Extra
from pcli.spark.columnar.split_merge.packet_replay import Carried, Replay, fill
from pcli.spark.columnar.split_merge.resync_certainty import NOWHERE
from pcli.spark.columnar.split_merge.split_reader import Edges, Span

__all__ = ["Chained", "Context", "Order", "Repaired", "Standing", "chain", "context_of"]


@dataclass(frozen=True, slots=True)
class Context:
    """What every key needs to know of the recording."""

    options: ReadOptions
    packets: tuple[int, ...]
    """Packets before each split, and at last those of the recording."""
    fed: tuple[int, ...]
    """Data packets before each split."""


@dataclass(slots=True)
class Order:
    """A split is to be read again for a key."""

    split: int
    key: bytes
    carried: bytes
    """The key at the end of what was read before: a pickled `Carried`."""


@dataclass(slots=True)
class Repaired:
    """What came of an order."""

    split: int
    key: bytes
    carried: Carried
    extra: list[Extra]
    met: list[Stream]


@dataclass(slots=True)
class Standing:
    """A connection of a split whose rows stand."""

    split: int
    stream: int
    """The split's number."""
    rows: int
    born: int
    """The recording's packet at which the connection began: until all are numbered, this is its name."""
    offsets: tuple[int, int] = (0, 0)
    """To be added to the broker's and to the client's."""
    sync: tuple[int, int] = (OWN, OWN)
    anchored: tuple[int, int] = (NOWHERE, NOWHERE)
    lost: tuple[int, int] = (NOWHERE, NOWHERE)
    """As `Renaming` has it, of the broker's and the client's direction."""


@dataclass(slots=True)
class Chained:
    """A key through the whole recording, or as far as the first order."""

    extra: list[Extra] = field(default_factory=list)
    """Items whose streams are numbered by their births."""
    standing: list[Standing] = field(default_factory=list)
    streams: dict[int, Stream] = field(default_factory=dict)
    """By birth."""
    order: Order | None = None
    """None: all is done."""


def context_of(options: ReadOptions, splits: Sequence[Edges]) -> Context:
    """The context of a recording."""
    packets, fed = [0], [0]
    for edges in splits:
        packets.append(packets[-1] + edges.packets)
        fed.append(fed[-1] + edges.fed)
    return Context(options, tuple(packets), tuple(fed))


# -- a key ---------------------------------------------------------------------------------------------------------


def chain(spans: Sequence[tuple[int, Span]], context: Context, repaired: Mapping[int, Repaired]) -> Chained:
    """A key through the splits that met it, given with their indices, rising; ``repaired`` by split."""
    out, carried = Chained(), Carried()
    for split, span in spans:
        done = repaired.get(split)
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
            out.order = Order(split, span.key, before)
            return out
        carried = after
    replay = Replay(context.options, carried)
    replay.end(context.packets[-1])
    out.extra += replay.extra
    return out


def _copy(carried: Carried) -> Carried:
    own: Carried = pickle.loads(pickle.dumps(carried))  # noqa: S301  (our own bytes)
    return own


def _load(data: bytes) -> Connection:
    connection: Connection = pickle.loads(data)  # noqa: S301  (our own bytes)
    return connection


class _Step:
    """A key from the end of one split to the end of the next."""

    def __init__(self, context: Context, split: int, span: Span, carried: Carried) -> None:
        self._split = split
        self._span = span
        self._base = context.packets[split]
        self._next = context.packets[split + 1]
        self._fed = context.fed[split]
        self._skipped = carried.connection is not None and is_skipped(carried.connection)
        self._replay = Replay(context.options, carried)
        self._met = [copy(stream) for stream in span.met]
        self._standing: list[Standing] = []
        self._streams: list[Stream] = []
        """Of the split's connections, in the order of the span."""

    def go(self, out: Chained) -> Carried | None:
        """Adds to ``out``, gives the key at the split's end; None, and nothing added: the split must be read again."""
        span, replay = self._span, self._replay
        if span.given_up and not self._skipped:
            return None
        if span.back or any(marks.doubted for marks in span.marks.values()):
            return None
        fill(replay, span.held, self._base, self._fed)
        true = replay.connection
        if true is not None and any(way_of(true, birth.key).isn == birth.seq for birth in span.births):
            return None  # the SYN again, and no new connection
        guess = moved(_load(span.guess), self._base) if span.guess else None
        if guess is not None and (true is None or not agree(true, guess)):
            return None
        if guess is None and span.births:
            replay.renew(self._base + span.births[0].packet, span.births[0].row)
        carried = self._end(true, guess)
        if carried is None:
            return None
        out.streams.update((stream.number, stream) for stream in (*replay.met, *self._streams))
        if carried.connection is not None:
            out.streams[carried.connection.stream.number] = carried.connection.stream
        out.extra += replay.extra
        out.extra += self._told()
        out.standing += self._standing
        return carried

    def _end(self, true: Connection | None, guess: Connection | None) -> Carried | None:
        """The key at the end of the split."""
        span = self._span
        if guess is None and not span.births:
            return self._replay.carried()
        recent = self._replay.carried().recent if guess is not None else []
        first = span.streams[0] if span.held or span.given_up else -1
        end = moved(_load(span.end), self._base) if span.end else None
        for number, rows, stream in zip(span.streams, span.rows, self._met):
            if number == first:
                if guess is not None and true is not None:
                    self._stand(number, rows, true, guess)
                continue
            stream.opening = tuple(packet + self._base for packet in stream.opening)
            stream.number = stream.opening[0]
            self._streams.append(stream)
            self._standing.append(Standing(self._split, number, rows, stream.number))
        if guess is not None and true is not None and guess.keys != true.keys:
            over = end is None or end.stream.number != first or end.finished
            if over:
                return None  # at the end of a connection it matters which direction is the first
        if end is None:
            return Carried(None, [], self._next)
        slide = dict.fromkeys(end.keys, 0)
        if end.stream.number == first:
            assert true is not None
            assert guess is not None
            slide = {key: way_of(true, key).offset - way_of(guess, key).offset for key in end.keys}
            if not adopt(end, true, guess, span.marks):
                return None
        else:
            end.stream.number = end.stream.opening[0]
            recent = []
        recent += [(ordinal + self._fed, key, at + slide[key], data) for ordinal, key, at, data in span.recent]
        times = [one.moved(self._base) for one in span.ready]
        return Carried(end, recent, self._next, times, span.alarmed + self._base)

    def _stand(self, number: int, rows: int, true: Connection, guess: Connection) -> None:
        """The connection that was held stands."""
        standing = Standing(self._split, number, rows, true.stream.number)
        sides = sorted(guess.keys, key=lambda key: way_of(true, key).from_client)
        ways = [(way_of(true, key), way_of(guess, key), self._span.marks[key]) for key in sides]
        (broker, told_broker, marks_broker), (client, told_client, marks_client) = ways
        standing.offsets = broker.offset - told_broker.offset, client.offset - told_client.offset
        standing.sync = sync_level(broker.sync), sync_level(client.sync)
        standing.anchored = marks_broker.anchored, marks_client.anchored
        standing.lost = marks_broker.lost, marks_client.lost
        self._streams.append(true.stream)
        self._standing.append(standing)

    def _told(self) -> list[Extra]:
        """The split's own notes and ends of what stands."""
        standing = {one.stream: (one, stream) for one, stream in zip(self._standing, self._streams)}
        out = []
        for turn, row, item, ready in self._span.told:
            assert item.stream is not None
            number = item.stream.number
            if number in standing:
                renamed = self._renamed(item, *standing[number])
                out.append(
                    Extra(turn + self._base, row, renamed, ready=ready.moved(self._base) if ready.times else AT_ONCE)
                )
        return out

    def _renamed(self, item: Note | StreamEnd, standing: Standing, stream: Stream) -> Note | StreamEnd:
        packet = item.packet + self._base
        if isinstance(item, StreamEnd) or item.offset is None or item.from_client is None:
            return replace(item, packet=packet, stream=stream)
        return replace(item, packet=packet, stream=stream, offset=item.offset + standing.offsets[item.from_client])
