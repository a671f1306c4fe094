"""A window through both ways: ordinary stretches together, all other packets one by one, in their order.

Rules of this file
1. All that is not ordinary happens in the order of the packets, over all connections: numbers of streams, alarms,
   holes and ends come out as in `read_capture`. A stretch is taken before the first packet behind it that is not.
2. Alarms ring at their packet, whoever's packet that is. A connection that has set one is taken together only up to
   there.
3. A short stretch is not worth the arrays. Behind a frame that is unusual packets go one by one for a while, longer
   each time: so nobody can make us walk the same bytes again and again.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import Final

import numpy as np

from pcli.codec.capture import fast
from pcli.codec.capture.connections import MAX_CONNECTIONS
from pcli.codec.capture.flows import SLOW, Direction
from pcli.codec.capture.tunnels import Segment, pull_segment
from pcli.spark.columnar.reading.direction_packets import Lane, Traffic
from pcli.spark.columnar.reading.in_order_runs import Runs
from pcli.spark.columnar.reading.joined_bytes import Stretch
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.reading.recent_segments import Past
from pcli.spark.columnar.reading.resync_checks import in_doubt
from pcli.spark.columnar.reading.tcp_segments import Segments
from pcli.spark.columnar.reading.window_frames import Found

__all__ = ["FIRST", "LATER", "WindowDecoder"]

FIRST: Final = 4
"""Packets that a connection needs at the beginning of a window to be taken together with the others."""
LATER: Final = 48
"""And those that it needs to be taken for itself, in the middle of a window."""


class WindowDecoder:
    """One window."""

    def __init__(self, reader: fast.Reader, past: Past, found: Found, records: Records, segments: Segments) -> None:
        self._reader = reader
        self._tcp = reader.tcp
        self._past = past
        self._found = found
        self._records = records
        self._segments = segments
        self._base = reader.packet + 1
        """Number of the window's first packet."""
        self._tick = -1
        """Index of the last packet at which anything was done one by one."""
        self._opaque = self._pull()

    def _pull(self) -> dict[int, Segment]:
        """The segments of opaque packets, which so become packets of known directions."""
        segments, found = self._segments, {}
        numbers = {key: number for number, key in enumerate(segments.keys)}
        for index in np.flatnonzero(segments.way < 0).tolist():
            start, end, wire, _, face = self._records.record(index)
            number = self._base + index
            one = pull_segment(self._records.data, face.link, start, end, wire, number, self._reader.fragments)
            if one is not None:
                found[index] = one
                segments.way[index] = numbers.setdefault(one.key, len(numbers))
        segments.keys[:] = numbers
        return found

    def run(self) -> None:
        """Take all packets of the window."""
        traffic = Traffic(self._segments)
        if self._crowded(traffic):
            for index in range(len(self._records)):
                self._ring(index)
                self._single(index)
            return
        runs = Runs(self._records, self._segments, traffic, self._found, self._past, self._base)
        self._together(traffic.lanes, traffic, runs, 0, FIRST)
        waiting = [
            (index, number) for number, lane in enumerate(traffic.lanes) if (index := self._next(lane, traffic)) >= 0
        ]
        heapify(waiting)
        while waiting:
            index, number = waiting[0]
            self._ring(index)
            lane = traffic.lanes[number]
            if index < lane.until or not self._together([lane], traffic, runs, index, LATER):
                self._single(index)
                self._step(lane, traffic, index)
            following = self._next(lane, traffic)
            if following >= 0:
                heapreplace(waiting, (following, number))
            else:
                heappop(waiting)
        self._ring(len(self._records) - 1)

    def _crowded(self, traffic: Traffic) -> bool:
        """Whether so many connections may live that one of them could be forgotten in this window."""
        room = MAX_CONNECTIONS - len(self._tcp.table.living) - len(traffic.lanes)
        return room <= len(self._records) - int(np.count_nonzero(self._segments.ordinary))

    # -- one by one ------------------------------------------------------------------------------------------------

    def _ring(self, index: int) -> None:
        """Ring the alarms that are due up to this packet, before it is looked at."""
        table = self._tcp.table
        while (due := max(table.alarm - self._base, self._tick + 1)) <= index:
            self._tick = self._past.turn = due
            self._tcp.ring(self._base + due)
            self._found.collect(self._tcp, self._base + due, table.count)

    def _single(self, index: int) -> None:
        """Take a packet as `codec.capture.fast` does."""
        self._past.turn = index
        number, streams = self._base + index, self._tcp.table.count
        segment = self._opaque.get(index)
        if segment is not None:
            _, _, _, time_ns, face = self._records.record(index)
            if face.left_out is face:
                self._tcp.skip_left_out(segment, number)
            self._tcp.segment(segment, number, time_ns)
        elif self._segments.way[index] >= 0:
            self._reader.packet = number - 1
            self._reader.packets(self._records.data, [self._records.record(index)])
        self._tick = index
        self._found.collect(self._tcp, number, streams)

    # -- lanes -----------------------------------------------------------------------------------------------------

    def _next(self, lane: Lane, traffic: Traffic) -> int:
        """Index of the lane's next packet; -1: there is none."""
        found = [traffic.packets[side.at] for side in lane.sides if side.at < side.end]
        return min(found, default=-1)

    def _step(self, lane: Lane, traffic: Traffic, index: int) -> None:
        for side in lane.sides:
            if side.at < side.end and traffic.packets[side.at] == index:
                side.at += 1

    def _together(self, lanes: list[Lane], traffic: Traffic, runs: Runs, index: int, least: int) -> bool:
        """Take what is ordinary of these lanes from a packet on. False: nothing was taken of the last of them."""
        limits = {lane: len(self._records) for lane in lanes}
        while limits:
            stretches: list[Stretch] = []
            for lane, limit in limits.items():
                stretches += self._stretches(lane, traffic, index, limit, least)
            wrong = runs.take(stretches) if stretches else {}
            for lane, packet in wrong.items():
                # Everything up to that packet is ordinary, and is taken in the next round.
                lane.until = packet + lane.patience
                lane.patience *= 4
            limits = wrong
        return bool(stretches)

    def _stretches(self, lane: Lane, traffic: Traffic, index: int, limit: int, least: int) -> list[Stretch]:
        """The ordinary packets of a lane below ``limit``, if they are worth it."""
        ways = [self._tcp.table.ways.get(side.key) for side in lane.sides]
        end = limit
        for side, way in zip(lane.sides, ways):
            if way is not None and way.connection.alarm >= 0:
                end = min(end, max(way.connection.alarm - self._base, self._tick + 1))
            at = traffic.break_of(side, way, self._expected(way))
            if at < side.end:
                end = min(end, traffic.packets[at])
        stretches = []
        count = 0
        for side, way in zip(lane.sides, ways):
            position = traffic.position(side, end)
            count += position - side.at
            if way is not None and position > side.at:
                stretches.append(Stretch(lane, side, way, position, way.next == SLOW))
        if count >= least:
            return stretches
        lane.until = max(lane.until, end)
        return []

    def _expected(self, way: Direction | None) -> int:
        """As ``Direction.next``, for directions in doubt, too."""
        if way is None:
            return SLOW
        if way.next == SLOW and in_doubt(way, fragments=bool(self._reader.output.fragments)):
            return way.base + way.offset & 0xFFFFFFFF
        return way.next
