"""Delivery of the frames in ordinary packets, for many directions together, and update of the directions.

Rules of this file
1. No state changes until all frames are checked. A connection with an unusual frame is left unchanged.
2. Afterwards each direction has the state that `capture.fast_path` would produce packet by packet: offset, expected
   sequence number, acknowledgement, the incomplete frame with its packets, and the verified bytes.
3. This state includes ``Connection.last``, which only packets on the slow path change. Packets on the slow path are
   packets that are not lean, packets after fewer than eight bytes of a frame, and all packets of an unverified
   direction.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pcli.codec.capture.command_start_patterns import HEAD_SIZE
from pcli.codec.capture.flows import IGNORE, SLOW, Direction
from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.reading.direction_packets import Conversation, Traffic
from pcli.spark.columnar.reading.frame_boundaries import FrameBoundaries, cut, first_unusual_packets, missing
from pcli.spark.columnar.reading.joined_bytes import Joined, Joiner, Stretch
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.reading.recent_segments import RecentSegments
from pcli.spark.columnar.reading.tcp_segments import Segments
from pcli.spark.columnar.reading.window_frames import WindowFrames

_MASK: Final = 0xFFFFFFFF
_LENGTHS: Final = 8
"""Size of the two length fields of a frame."""


class InOrderRuns:
    """A processor of stretches in one window. ``base`` is the number of the window's first packet."""

    def __init__(
        self,
        records: Records,
        segments: Segments,
        traffic: Traffic,
        found: WindowFrames,
        past: RecentSegments,
        base: int,
    ) -> None:
        self._records = records
        self._segments = segments
        self._traffic = traffic
        self._found = found
        self._recent = past
        self._base = base
        self._joiner = Joiner(records, segments, traffic, found)
        past.begin(records.data, segments.at, segments.stop)

    def take(self, stretches: list[Stretch]) -> dict[Conversation, int]:
        """Process the lanes that are entirely ordinary. Return the other lanes with their first unusual packets."""
        filled = [one for one in stretches if self._traffic.has_data(one.side, one.end)]
        filled = [one for one in filled if one.direction.next != IGNORE]
        waiting: list[Stretch] = []
        ending: list[Stretch] = []
        for one in filled:
            (waiting if self._joiner.waits(one) else ending).append(one)
        wrong = self._take_data(ending) if ending else {}
        for one in waiting:
            if one.conversation not in wrong:
                self._add(one)
        for one in stretches:
            if one.conversation not in wrong:
                self._acknowledge(one)
                one.side.at = one.end
        return wrong

    def _take_data(self, stretches: list[Stretch]) -> dict[Conversation, int]:
        pool, before = self._found.pool, len(self._found.pool)
        joined = self._joiner.join(stretches)
        pool = self._found.pool
        frames = cut(pool, joined)
        wrong = first_unusual_packets(pool, joined, frames)
        if len(wrong) == len({one.conversation for one in stretches}):
            del pool[before:]
            return wrong
        good = np.array([one.conversation not in wrong for one in stretches], np.bool_)
        if len(frames.start):
            self._deliver(joined, frames, good)
            self._trust(joined, frames, good)
        mine = good[joined.owner]
        offsets = joined.begins[mine] + joined.offset[joined.owner[mine]]
        self._recent.take([one.direction for one in stretches], joined.packets[mine], joined.owner[mine], offsets)
        first = [*joined.first.tolist(), len(joined.packets)]
        for index in np.flatnonzero(good).tolist():
            self._leave(joined, index, frames.opened[index], first[index], first[index + 1])
        return wrong

    def _add(self, one: Stretch) -> None:
        """Store data that does not complete the open frame, as `codec.capture.fast_path` does."""
        direction, before = one.direction, len(one.direction.run)
        packets, begins = self._joiner.add(one)
        times = self._records.time_ns[packets].tolist()
        direction.marks += zip(begins.tolist(), (packets + self._base).tolist(), times)
        self._recent.take([direction], packets, np.zeros(len(packets), np.int64), begins - before + direction.offset)
        direction.offset += len(direction.run) - before
        direction.aligned.need -= len(direction.run) - before
        direction.next = direction.base + direction.offset & _MASK

    # -- frames ----------------------------------------------------------------------------------------------------

    def _deliver(self, joined: Joined, frames: FrameBoundaries, good: Bools) -> None:
        base, owner = self._base, frames.owner
        first = _first_segments(joined, frames)
        first_packet = joined.packets.take(first) + base
        for index, head in zip(*(column.tolist() for column in frames.heads)):
            direction = joined.stretches[index].direction
            if direction.run:
                # The frame began in a packet that the direction has stored.
                first_packet[head] = direction.marks[0][1]
        self._note_short(joined, frames, first, good)
        packet = joined.packets.take(frames.last) + base
        columns = [frames.start, frames.size, packet, first_packet, frames.start + joined.offset.take(owner), owner]
        if not good.all():
            rows = np.flatnonzero(good[owner])
            columns = [column.take(rows) for column in columns]
        self._found.put([one.direction for one in joined.stretches], columns)

    def _note_short(self, joined: Joined, frames: FrameBoundaries, first: Longs, good: Bools) -> None:
        """Record packets on the slow path, from a frame's first few bytes to the end of its length fields."""
        short = np.flatnonzero(joined.ends.take(first) - frames.start < _LENGTHS)
        owner = frames.owner[short]
        short = short[good[owner] & (frames.start[short] >= (joined.start + joined.waited)[owner])]
        whole = np.searchsorted(joined.ends, frames.start[short] + _LENGTHS)
        highest = np.full(len(joined.stretches), -1, np.int64)
        np.maximum.at(highest, frames.owner[short], joined.packets[whole])
        for index in np.flatnonzero(highest >= 0).tolist():
            self._record_slow_packet(joined.stretches[index].direction, int(highest[index]))

    def _trust(self, joined: Joined, frames: FrameBoundaries, good: Bools) -> None:
        """Count the verified bytes."""
        rows = np.flatnonzero(frames.checked & good[frames.owner])
        for owner in np.unique(frames.owner[rows]).tolist():
            mine = rows[frames.owner[rows] == owner]
            direction, size = joined.stretches[owner].direction, int(frames.size[mine].sum())
            direction.aligned.checked_bytes += size
            direction.budget.spent += size
            self._record_slow_packet(direction, int(joined.packets[frames.last[mine[-1]]]))

    # -- directions ------------------------------------------------------------------------------------------------

    def _leave(self, joined: Joined, index: int, opened: int, first: int, last: int) -> None:
        """Update a direction to its state after the segments ``first`` to ``last``; a frame is open at ``opened``."""
        one, start, end = joined.stretches[index], int(joined.start[index]), int(joined.end[index])
        direction, pool, left = one.direction, self._found.pool, end - opened
        aligned = direction.aligned
        direction.offset = end + int(joined.offset[index])
        doubted = one.checked and aligned.checked_bytes <= direction.limit
        direction.next = SLOW if doubted or 0 < left < _LENGTHS else direction.base + direction.offset & _MASK
        if opened > start:
            direction.run.clear()
            direction.marks.clear()
        if not left:
            aligned.need = _LENGTHS if doubted else 0  # an armed direction needs no minimum
            return
        aligned.need = missing(pool, opened, end, HEAD_SIZE if doubted else _LENGTHS)
        begins, packets = joined.begins[first:last], joined.packets[first:last]
        kept = max(0, int(np.searchsorted(begins, opened, "right")) - 1)
        direction.run += pool[opened + len(direction.run) : end]
        packets = packets[kept:]
        places = np.maximum(begins[kept:] - opened, 0).tolist()
        direction.marks += zip(places, (packets + self._base).tolist(), self._records.time_ns[packets].tolist())
        ends = joined.ends[first + kept : last]
        if opened >= start + int(joined.waited[index]) and ends[0] - opened < _LENGTHS:
            # Packets after a frame's first few bytes are processed on the slow path until the frame's lengths are
            # complete.
            whole = int(np.searchsorted(ends, opened + _LENGTHS))
            behind = int(packets[whole]) if whole < len(ends) else self._traffic.packets[one.end - 1]
            if behind > packets[0]:
                self._record_slow_packet(direction, behind)

    def _acknowledge(self, one: Stretch) -> None:
        """Record the last acknowledgement, and the last packet that is processed on the slow path."""
        at, end = one.side.at, one.end
        packets = self._traffic.order[at:end]
        lean = self._segments.lean[packets]
        if one.checked and one.direction.aligned.checked_bytes <= one.direction.limit:
            self._record_slow_packet(one.direction, int(packets[-1]))
        elif not lean.all():
            self._record_slow_packet(one.direction, int(packets[~lean][-1]))
        if one.direction.next == IGNORE:
            # The fast path processes lean packets with data without reading their acknowledgement.
            packets = packets[(self._traffic.size[at:end] == 0) | ~lean]
        if len(packets):
            one.direction.ack = int(self._segments.ack[packets[-1]])

    def _record_slow_packet(self, direction: Direction, packet: int) -> None:
        connection = direction.connection
        connection.last = max(connection.last, packet + self._base)


def _first_segments(joined: Joined, frames: FrameBoundaries) -> Longs:
    """Return the segment in which each frame begins, or the stretch's first segment if the frame began earlier."""
    last = frames.last
    ended = joined.ends.take(last) == frames.start + frames.size
    first = np.empty_like(last)
    # The segment in which the previous frame ended, or the next segment if the frame and the segment ended together.
    first[1:] = last[:-1] + ended[:-1]
    owners, heads = frames.heads
    first[heads] = joined.first[owners]
    return first
