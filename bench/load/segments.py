"""Streams as TCP segments: some are not captured, reordered or retransmitted.

Rules of this file
1. The data of a direction in a tick is one write. It is divided at the MSS, so frames span segments; the next write
   begins a new segment. Data is in the first half of a tick and acknowledgements are after it, so numbers never
   decrease.
2. Every second segment is acknowledged (RFC 9293, delayed); the others are acknowledged by data in the opposite
   direction.
3. A reordered segment is exchanged with the next segment of its write. A retransmission follows the acknowledgement;
   half of the retransmissions have other boundaries.
4. Lost packets are missing from the capture only; the receiver has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from load.frame_encoder import START_NS
from load.settings import MSS, Load

PSH_ACK, ACKED, SYN, FIN = 0x18, 0x10, 0x02, 0x01


@dataclass(slots=True)
class Packets:
    """Packets of a block, as columns in order of time."""

    time_ns: Any
    direction: Any
    seq: Any
    """Sequence number, not limited to 32 bits."""
    ack: Any
    flags: Any
    start: Any
    """Position of the data in the bytes of the block."""
    size: Any
    segment: Any
    """Number of the segment in the block; -1 without data; -2 - n for a copy of segment n."""

    def take(self, rows: Any) -> Packets:
        """Return some of the packets."""
        return Packets(*(getattr(self, name)[rows] for name in self.__slots__))

    def __len__(self) -> int:
        return len(self.time_ns)


class Segments:
    """Divides streams into segments."""

    def __init__(self, load: Load, directions: int, rng: np.random.Generator) -> None:
        self.load, self.rng, self.directions = load, rng, directions
        # Some initial numbers are close to the maximum, so that they wrap around.
        self.next = rng.integers(1 << 32, size=directions)
        self.next[::5] = (1 << 32) - rng.integers(1 << 16, 1 << 22, size=len(self.next[::5]))
        self.acked = np.zeros(directions, np.int64)

    def begin(self) -> Packets:
        """Return the handshakes of all connections, before tick 0."""
        clients = np.arange(0, self.directions, 2)
        first = self.next.copy()
        self.next += 1
        parts = []
        for step, (direction, flags) in enumerate(((clients, SYN), (clients + 1, SYN | ACKED), (clients, ACKED))):
            time = START_NS - 100_000_000 + clients * 20_000 + step * 5_000
            seq = first[direction] + (step == 2)
            ack = first[direction ^ 1] + 1 if step else np.zeros_like(direction)
            parts.append(self._bare(time, direction, seq, ack, flags))
        return _merged(parts)

    def end(self, tick: int) -> Packets:
        """Return the packets with which the clients close all connections."""
        clients = np.arange(0, self.directions, 2)
        parts = []
        for step, direction in enumerate((clients, clients + 1, clients)):
            time = START_NS + tick * self.load.tick_ns + clients * 1_000 + step * 300
            flags = ACKED if step == 2 else FIN | ACKED
            parts.append(
                self._bare(time, direction, self.next[direction].copy(), self.next[direction ^ 1].copy(), flags)
            )
            self.next[direction] += step < 2
        return _merged(parts)

    def _bare(self, time: Any, direction: Any, seq: Any, ack: Any, flags: int) -> Packets:
        zero = np.zeros_like(direction)
        return Packets(time, direction, seq, ack, zero + flags, zero, zero, zero - 1)

    def cut(self, tick: Any, direction: Any, frame_end: Any) -> tuple[Packets, Any, Any]:
        """Return consecutive frames, by tick and direction, as packets; the starts of the segments; and their times."""
        writes = np.flatnonzero(np.r_[True, (tick[1:] != tick[:-1]) | (direction[1:] != direction[:-1])])
        begin = np.r_[0, frame_end][writes]
        end = np.r_[begin[1:], frame_end[-1]]
        tick, direction = tick[writes], direction[writes]
        size = end - begin
        seq, ack, own = self._numbers(tick, direction, size)
        count = -(-size // MSS)
        write = np.repeat(np.arange(len(count)), count)
        within = np.arange(len(write)) - np.repeat(np.cumsum(count) - count, count)
        offset = within * MSS
        length = np.minimum(size[write] - offset, MSS)
        base = START_NS + tick * self.load.tick_ns
        time = self._data_times(base, count, write, within)
        data = Packets(
            time, direction[write], seq[write] + offset, ack[write],
            np.where(within == count[write] - 1, PSH_ACK, ACKED), begin[write] + offset, length, np.arange(len(write)),
        )  # fmt: skip
        parts = [data, self._acks(base, direction, own, seq, size, count)]
        self._swap(data, write)
        if self.load.retransmit:
            parts.append(self._copies(data, base[write]))
        return _merged(parts), data.start, data.time_ns

    def _numbers(self, tick: Any, direction: Any, size: Any) -> tuple[Any, Any, Any]:
        """Return for each write its sequence number, its acknowledgement, and the peer's next number after the tick."""
        order = np.lexsort((tick, direction))
        way_sorted, end = direction[order], np.cumsum(size[order])
        starts = np.flatnonzero(np.r_[True, way_sorted[1:] != way_sorted[:-1]])
        before = np.repeat((end - size[order])[starts], np.diff(np.r_[starts, len(order)]))
        end = end - before + self.next[way_sorted]
        seq = np.empty_like(end)
        seq[order] = end - size[order]
        span = int(tick.max()) + 2
        keys = way_sorted * span + tick[order]

        def reached(side: str) -> Any:
            """Return the opposite direction's next number before the tick (``side`` left) or after it (right)."""
            wanted = (direction ^ 1) * span + tick
            found = np.searchsorted(keys, wanted, side=side) - 1  # type: ignore[call-overload]
            known = (found >= 0) & (way_sorted[found] == (direction ^ 1))
            return np.where(known, end[found], self.next[direction ^ 1])

        ack, own = reached("left"), reached("right")
        lasts = np.r_[starts[1:], len(order)] - 1
        self.next[way_sorted[lasts]] = end[lasts]
        return seq, ack, own

    def _data_times(self, base: Any, count: Any, write: Any, within: Any) -> Any:
        tick_ns = self.load.tick_ns
        begin = base + self.rng.integers(tick_ns // 4, size=len(base))
        step = np.minimum(tick_ns // 4 // count, 12_000)
        return begin[write] + within * step[write]

    def _acks(self, base: Any, direction: Any, own: Any, seq: Any, size: Any, count: Any) -> Packets:
        """Return the acknowledgements: one for every second segment of a write."""
        many = count // 2
        write = np.repeat(np.arange(len(many)), many)
        within = np.arange(len(write)) - np.repeat(np.cumsum(many) - many, many)
        tick_ns = self.load.tick_ns
        step = np.minimum(tick_ns // 4 // np.maximum(many, 1), 24_000)
        time = base[write] + tick_ns // 2 + tick_ns // 16 + within * step[write]
        ack = seq[write] + np.minimum((within + 1) * 2 * MSS, size[write])
        return self._acknowledging(time, direction[write] ^ 1, own[write], ack)

    def _acknowledging(self, time: Any, direction: Any, seq: Any, ack: Any) -> Packets:
        zero = np.zeros_like(direction)
        return Packets(time, direction, seq, ack, zero + ACKED, zero, zero, zero - 1)

    def _swap(self, data: Packets, write: Any) -> None:
        """Exchange some segments with the next ones."""
        if not self.load.reorder or len(data) < 2:
            return
        rows = np.flatnonzero(self.rng.random(len(data) - 1) < self.load.reorder)
        rows = rows[(write[rows] == write[rows + 1]) & np.r_[True, np.diff(rows) > 1][: len(rows)]]
        data.time_ns[rows], data.time_ns[rows + 1] = data.time_ns[rows + 1], data.time_ns[rows].copy()

    def _copies(self, data: Packets, base: Any) -> Packets:
        """Return retransmissions; half of them begin within the previous segment."""
        rows = np.flatnonzero(self.rng.random(len(data)) < self.load.retransmit)
        copy = data.take(rows)
        tick_ns = self.load.tick_ns
        copy.time_ns = base[rows] + tick_ns * 13 // 16 + self.rng.integers(tick_ns // 8, size=len(rows))
        copy.segment = -2 - rows
        follows = rows > 0
        follows[follows] = data.seq[rows[follows] - 1] + MSS == data.seq[rows[follows]]
        follows &= (data.direction[rows] == data.direction[rows - 1]) & (data.size[rows] == MSS) & (rows % 2 == 0)
        shift = np.where(follows, MSS // 2, 0)
        copy.seq, copy.start = copy.seq - shift, copy.start - shift
        return copy


def _merged(parts: list[Packets]) -> Packets:
    """Return all packets in order of time."""
    whole = Packets(*(np.concatenate([getattr(one, name) for one in parts]) for name in Packets.__slots__))
    return whole.take(np.argsort(whole.time_ns, kind="stable"))
