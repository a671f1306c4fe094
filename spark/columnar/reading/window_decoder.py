"""The decoder of a window. It decodes ordinary stretches together and all other packets one by one, in order.

Rules of this file
1. Unusual packets are processed in capture order across all connections, so stream numbers, timers, gaps and ends are
   the same as in `read_capture`. A stretch is processed before the first other packet that follows it.
2. A timer fires at its packet, whichever connection that packet belongs to. A connection with a timer is processed
   together with other connections only up to that packet.
3. For a short stretch, creating the arrays costs more than it saves. After an unusual frame, several packets are
   therefore processed one by one. Their number increases each time, so no traffic can cause the same bytes to be
   scanned repeatedly.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import Final

import numpy as np

from pcli.codec.capture import fast_path
from pcli.codec.capture.connections import MAX_CONNECTIONS
from pcli.codec.capture.flows import SLOW, Direction
from pcli.codec.capture.tunnels import Segment, pull_segment
from pcli.spark.columnar.reading.direction_packets import Conversation, Traffic
from pcli.spark.columnar.reading.frame_boundaries import is_unverified
from pcli.spark.columnar.reading.in_order_runs import InOrderRuns
from pcli.spark.columnar.reading.joined_bytes import Stretch
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.reading.recent_segments import RecentSegments
from pcli.spark.columnar.reading.tcp_segments import Segments
from pcli.spark.columnar.reading.window_frames import WindowFrames

FIRST: Final = 4
"""Minimum number of packets of a connection that is processed with other connections from the start of a window."""
LATER: Final = 48
"""Minimum number of packets that are processed as a separate stretch within a window."""


class WindowDecoder:
    """A decoder of one window."""

    def __init__(
        self, reader: fast_path.Reader, past: RecentSegments, found: WindowFrames, records: Records, segments: Segments
    ) -> None:
        self._reader = reader
        self._tcp = reader.tcp
        self._recent = past
        self._found = found
        self._records = records
        self._segments = segments
        self._base = reader.packet + 1
        """Number of the window's first packet."""
        self._tick = -1
        """Index of the last packet that was processed alone or at which a timer fired."""
        self._opaque = self._pull()

    def _pull(self) -> dict[int, Segment]:
        """Return the segments of opaque packets, and assign these packets to directions."""
        segments, found = self._segments, {}
        numbers = {key: number for number, key in enumerate(segments.keys)}
        for index in np.flatnonzero(segments.direction < 0).tolist():
            start, end, wire, _, face = self._records.record(index)
            number = self._base + index
            one = pull_segment(
                self._records.data, face.link, start, end, wire, number, self._reader.fragments, self._reader.unread
            )
            if one is not None:
                found[index] = one
                segments.direction[index] = numbers.setdefault(one.key, len(numbers))
        segments.keys[:] = numbers
        return found

    def run(self) -> None:
        """Process all packets of the window."""
        traffic = Traffic(self._segments)
        if self._limit_is_near(traffic):
            for index in range(len(self._records)):
                self._fire_timers(index)
                self._single(index)
            return
        runs = InOrderRuns(self._records, self._segments, traffic, self._found, self._recent, self._base)
        self._together(traffic.conversations, traffic, runs, 0, FIRST)
        waiting = [
            (index, number)
            for number, conversation in enumerate(traffic.conversations)
            if (index := self._next(conversation, traffic)) >= 0
        ]
        heapify(waiting)
        while waiting:
            index, number = waiting[0]
            self._fire_timers(index)
            conversation = traffic.conversations[number]
            if index < conversation.until or not self._together([conversation], traffic, runs, index, LATER):
                self._single(index)
                self._step(conversation, traffic, index)
            following = self._next(conversation, traffic)
            if following >= 0:
                heapreplace(waiting, (following, number))
            else:
                heappop(waiting)
        self._fire_timers(len(self._records) - 1)

    def _limit_is_near(self, traffic: Traffic) -> bool:
        """Return whether the limit on open connections could be reached in this window."""
        room = MAX_CONNECTIONS - len(self._tcp.table.living) - len(traffic.conversations)
        return room <= len(self._records) - int(np.count_nonzero(self._segments.ordinary))

    # -- one by one ------------------------------------------------------------------------------------------------

    def _fire_timers(self, index: int) -> None:
        """Before a packet is processed, fire the timers that are due up to this packet."""
        table = self._tcp.table
        while (due := max(table.timer - self._base, self._tick + 1)) <= index:
            self._tick = self._recent.turn = due
            self._tcp.run_timers(self._base + due)
            self._found.collect(self._tcp, self._base + due, table.count)

    def _single(self, index: int) -> None:
        """Process a packet as `codec.capture.fast_path` does."""
        self._recent.turn = index
        number, streams = self._base + index, self._tcp.table.count
        segment = self._opaque.get(index)
        if segment is not None:
            _, _, _, time_ns, face = self._records.record(index)
            if face.left_out is face:
                self._tcp.skip_left_out(segment, number)
            self._tcp.segment(segment, number, time_ns)
        elif self._segments.direction[index] >= 0:
            self._reader.packet = number - 1
            self._reader.packets(self._records.data, [self._records.record(index)])
        self._tick = index
        self._found.collect(self._tcp, number, streams)

    # -- lanes -----------------------------------------------------------------------------------------------------

    def _next(self, conversation: Conversation, traffic: Traffic) -> int:
        """Return the index of the lane's next packet, or -1 if there is none."""
        found = [traffic.packets[side.at] for side in conversation.sides if side.at < side.end]
        return min(found, default=-1)

    def _step(self, conversation: Conversation, traffic: Traffic, index: int) -> None:
        for side in conversation.sides:
            if side.at < side.end and traffic.packets[side.at] == index:
                side.at += 1

    def _together(
        self, conversations: list[Conversation], traffic: Traffic, runs: InOrderRuns, index: int, least: int
    ) -> bool:
        """Process the ordinary packets of these lanes from ``index``; return False if the last round had none."""
        limits = {conversation: len(self._records) for conversation in conversations}
        stretches: list[Stretch] = []
        while limits:
            stretches = []
            for conversation, limit in limits.items():
                stretches += self._stretches(conversation, traffic, index, limit, least)
            wrong = runs.take(stretches) if stretches else {}
            for conversation, packet in wrong.items():
                # Everything before that packet is ordinary and is processed in the next round.
                conversation.until = packet + conversation.patience
                conversation.patience *= 4
            limits = wrong
        return bool(stretches)

    def _stretches(
        self, conversation: Conversation, traffic: Traffic, index: int, limit: int, least: int
    ) -> list[Stretch]:
        """Return the ordinary packets of a lane before ``limit`` if there are at least ``least`` of them."""
        directions = [self._tcp.table.directions.get(side.key) for side in conversation.sides]
        end = limit
        for side, direction in zip(conversation.sides, directions):
            if direction is not None and direction.connection.timer >= 0:
                end = min(end, max(direction.connection.timer - self._base, self._tick + 1))
            at = traffic.break_of(side, direction, self._expected(direction))
            if at < side.end:
                end = min(end, traffic.packets[at])
        stretches = []
        count = 0
        for side, direction in zip(conversation.sides, directions):
            position = traffic.position(side, end)
            count += position - side.at
            if direction is not None and position > side.at:
                stretches.append(Stretch(conversation, side, direction, position, direction.next == SLOW))
        if count >= least:
            return stretches
        conversation.until = max(conversation.until, end)
        return []

    def _expected(self, direction: Direction | None) -> int:
        """Return ``Direction.next``, or its counterpart for a direction that is being verified."""
        if direction is None:
            return SLOW
        if direction.next == SLOW and is_unverified(direction, fragments=bool(self._reader.output.fragments)):
            return direction.base + direction.offset & 0xFFFFFFFF
        return direction.next
