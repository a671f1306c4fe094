"""Streams as TCP segments, and what a capture makes of them: lost, late, twice.

Rules of this file
1. What a way has to send in a tick is one write: cut at the MSS, so frames straddle segments; the next write begins a
   new one. Data stands in the first half of a tick, acknowledgements behind it, so numbers never fall.
2. Every second segment is acknowledged (RFC 9293, delayed), the rest with data that goes the other way.
3. A segment that comes late changes places with the next of its write. One that comes twice does so when it has been
   acknowledged; half of them cut in other places.
4. What is lost is lost to the capture, not to the receiver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from load.settings import MSS, Load
from load.wording import START_NS

__all__ = ["ACKED", "Packets", "Segments"]

PSH_ACK, ACKED, SYN, FIN = 0x18, 0x10, 0x02, 0x01


@dataclass(slots=True)
class Packets:
    """Packets of a block, in the order of their times. Columns of one length."""

    time_ns: Any
    way: Any
    seq: Any
    """Not cut to 32 bits."""
    ack: Any
    flags: Any
    start: Any
    """Where its data stands in the block's bytes."""
    size: Any
    segment: Any
    """Number of the segment in the block; -1: no data; -2 and less: a copy of segment 0 and more."""

    def take(self, rows: Any) -> Packets:
        """Some of them."""
        return Packets(*(getattr(self, name)[rows] for name in self.__slots__))

    def __len__(self) -> int:
        return len(self.time_ns)


class Segments:
    """Cuts streams; knows how far each has come."""

    def __init__(self, load: Load, ways: int, rng: np.random.Generator) -> None:
        self.load, self.rng, self.ways = load, rng, ways
        # Some first numbers stand shortly before the largest, so that streams pass it.
        self.next = rng.integers(1 << 32, size=ways)
        self.next[::5] = (1 << 32) - rng.integers(1 << 16, 1 << 22, size=len(self.next[::5]))
        self.acked = np.zeros(ways, np.int64)

    def begin(self) -> Packets:
        """The handshakes of all connections, before tick 0."""
        clients = np.arange(0, self.ways, 2)
        first = self.next.copy()
        self.next += 1
        parts = []
        for step, (way, flags) in enumerate(((clients, SYN), (clients + 1, SYN | ACKED), (clients, ACKED))):
            time = START_NS - 100_000_000 + clients * 20_000 + step * 5_000
            seq = first[way] + (step == 2)
            ack = first[way ^ 1] + 1 if step else np.zeros_like(way)
            parts.append(self._bare(time, way, seq, ack, flags))
        return _merged(parts)

    def end(self, tick: int) -> Packets:
        """All connections are closed by their clients."""
        clients = np.arange(0, self.ways, 2)
        parts = []
        for step, way in enumerate((clients, clients + 1, clients)):
            time = START_NS + tick * self.load.tick_ns + clients * 1_000 + step * 300
            flags = ACKED if step == 2 else FIN | ACKED
            parts.append(self._bare(time, way, self.next[way].copy(), self.next[way ^ 1].copy(), flags))
            self.next[way] += step < 2
        return _merged(parts)

    def _bare(self, time: Any, way: Any, seq: Any, ack: Any, flags: int) -> Packets:
        zero = np.zeros_like(way)
        return Packets(time, way, seq, ack, zero + flags, zero, zero, zero - 1)

    def cut(self, tick: Any, way: Any, frame_end: Any) -> tuple[Packets, Any, Any]:
        """Frames that stand one behind the other, by tick and way, as packets; where segments begin; their times."""
        writes = np.flatnonzero(np.r_[True, (tick[1:] != tick[:-1]) | (way[1:] != way[:-1])])
        begin = np.r_[0, frame_end][writes]
        end = np.r_[begin[1:], frame_end[-1]]
        tick, way = tick[writes], way[writes]
        size = end - begin
        seq, ack, own = self._numbers(tick, way, size)
        count = -(-size // MSS)
        write = np.repeat(np.arange(len(count)), count)
        within = np.arange(len(write)) - np.repeat(np.cumsum(count) - count, count)
        offset = within * MSS
        length = np.minimum(size[write] - offset, MSS)
        base = START_NS + tick * self.load.tick_ns
        time = self._data_times(base, count, write, within)
        data = Packets(
            time, way[write], seq[write] + offset, ack[write],
            np.where(within == count[write] - 1, PSH_ACK, ACKED), begin[write] + offset, length, np.arange(len(write)),
        )  # fmt: skip
        parts = [data, self._acks(base, way, own, seq, size, count)]
        self._swap(data, write)
        if self.load.retransmit:
            parts.append(self._copies(data, base[write]))
        return _merged(parts), data.start, data.time_ns

    def _numbers(self, tick: Any, way: Any, size: Any) -> tuple[Any, Any, Any]:
        """Of each write: its sequence number, what it acknowledges, the other side's next number behind the tick."""
        order = np.lexsort((tick, way))
        way_sorted, end = way[order], np.cumsum(size[order])
        starts = np.flatnonzero(np.r_[True, way_sorted[1:] != way_sorted[:-1]])
        before = np.repeat((end - size[order])[starts], np.diff(np.r_[starts, len(order)]))
        end = end - before + self.next[way_sorted]
        seq = np.empty_like(end)
        seq[order] = end - size[order]
        span = int(tick.max()) + 2
        keys = way_sorted * span + tick[order]

        def reached(side: str) -> Any:
            """What the other way has sent, up to the tick (left: without it; right: with it)."""
            wanted = (way ^ 1) * span + tick
            found = np.searchsorted(keys, wanted, side=side) - 1  # type: ignore[call-overload]
            known = (found >= 0) & (way_sorted[found] == (way ^ 1))
            return np.where(known, end[found], self.next[way ^ 1])

        ack, own = reached("left"), reached("right")
        lasts = np.r_[starts[1:], len(order)] - 1
        self.next[way_sorted[lasts]] = end[lasts]
        return seq, ack, own

    def _data_times(self, base: Any, count: Any, write: Any, within: Any) -> Any:
        tick_ns = self.load.tick_ns
        begin = base + self.rng.integers(tick_ns // 4, size=len(base))
        step = np.minimum(tick_ns // 4 // count, 12_000)
        return begin[write] + within * step[write]

    def _acks(self, base: Any, way: Any, own: Any, seq: Any, size: Any, count: Any) -> Packets:
        """One for every second segment of a write."""
        many = count // 2
        write = np.repeat(np.arange(len(many)), many)
        within = np.arange(len(write)) - np.repeat(np.cumsum(many) - many, many)
        tick_ns = self.load.tick_ns
        step = np.minimum(tick_ns // 4 // np.maximum(many, 1), 24_000)
        time = base[write] + tick_ns // 2 + tick_ns // 16 + within * step[write]
        ack = seq[write] + np.minimum((within + 1) * 2 * MSS, size[write])
        return self._acknowledging(time, way[write] ^ 1, own[write], ack)

    def _acknowledging(self, time: Any, way: Any, seq: Any, ack: Any) -> Packets:
        zero = np.zeros_like(way)
        return Packets(time, way, seq, ack, zero + ACKED, zero, zero, zero - 1)

    def _swap(self, data: Packets, write: Any) -> None:
        """Some change places with the next."""
        if not self.load.reorder or len(data) < 2:
            return
        rows = np.flatnonzero(self.rng.random(len(data) - 1) < self.load.reorder)
        rows = rows[(write[rows] == write[rows + 1]) & np.r_[True, np.diff(rows) > 1][: len(rows)]]
        data.time_ns[rows], data.time_ns[rows + 1] = data.time_ns[rows + 1], data.time_ns[rows].copy()

    def _copies(self, data: Packets, base: Any) -> Packets:
        """Some come again, half of them with the end of the one before and without their own."""
        rows = np.flatnonzero(self.rng.random(len(data)) < self.load.retransmit)
        copy = data.take(rows)
        tick_ns = self.load.tick_ns
        copy.time_ns = base[rows] + tick_ns * 13 // 16 + self.rng.integers(tick_ns // 8, size=len(rows))
        copy.segment = -2 - rows
        follows = rows > 0
        follows[follows] = data.seq[rows[follows] - 1] + MSS == data.seq[rows[follows]]
        follows &= (data.way[rows] == data.way[rows - 1]) & (data.size[rows] == MSS) & (rows % 2 == 0)
        shift = np.where(follows, MSS // 2, 0)
        copy.seq, copy.start = copy.seq - shift, copy.start - shift
        return copy


def _merged(parts: list[Packets]) -> Packets:
    """All of them, in the order of their times."""
    whole = Packets(*(np.concatenate([getattr(one, name) for one in parts]) for name in Packets.__slots__))
    return whole.take(np.argsort(whole.time_ns, kind="stable"))
