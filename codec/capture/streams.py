"""TCP reassembly: conversion of segments to ordered bytes without duplicates, and to gaps (RFC 9293).

Rules of this file
1. The bytes of the first transmission are used. Retransmitted bytes are compared with them and dropped; a difference is
   reported.
2. A gap becomes final if it will not be filled. There are three cases: the peer has acknowledged it (the packets are
   lost or reordered in the capture, so the gap first waits for GRACE packets); more bytes are queued after it than a
   receiver would buffer; the connection or the input ends. Memory is used only for captured bytes, not for gaps.
3. Queued segments are delivered in the order of their packets, across both directions, so that no response precedes its
   request. Therefore a confirmed gap delays both directions. A segment that fills a gap is delivered when the first
   segment after the gap is due.
4. A SYN with a different sequence number starts a new connection on the same ports. A closed connection is kept for a
   while for late packets and then removed.
5. The end of a connection is reported after all its bytes. A reset waits for the bytes that the other side sent before
   it received the reset, but only until the next connection begins, which may be a reconnection.
6. If the first bytes that the peer has not acknowledged were retransmitted more than once, these bytes did not arrive.
7. This is the slow path, which takes a few microseconds per packet. ``fast_path`` forwards only unusual packets.
8. `pcli.spark.columnar.split_merge` overrides these methods: segment, skip_left_out, run_timers, end_closed; and those
   of the `Table` and the `History`, which it replaces. It calls arm and finish.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from typing import Final

from pcli.codec.capture.connections import NEVER, Table
from pcli.codec.capture.flows import (
    IGNORE,
    SLOW,
    Aligned,
    Connection,
    Direction,
    QueuedSegment,
    Retransmission,
    Skipped,
)
from pcli.codec.capture.frame_extraction import FrameExtractor
from pcli.codec.capture.frames import RESYNC
from pcli.codec.capture.output import Output
from pcli.codec.capture.recent_packets import History
from pcli.codec.capture.resync import Search
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.tunnels import ACK, FIN, RST, SYN, Segment
from pcli.codec.wire.problems import Problem

GRACE: Final = 32
"""Number of packets for which a confirmed gap waits for reordered packets, and a closed connection waits for late
packets."""

MAX_HELD_BYTES: Final = 16 * 1024 * 1024
"""Maximum number of bytes queued after a gap, larger than any receive window in practice."""

MAX_HELD_SEGMENTS: Final = 8192

MAX_HELD_ONE_SIDED: Final = 64
"""Maximum number of segments queued after a gap if the capture lacks the peer's acknowledgements."""

_FAR_BACK: Final = -(1 << 28)
_FAR_AHEAD: Final = 1 << 30
"""Limits of a jump in sequence numbers. A larger jump indicates a different connection whose SYN the capture lacks."""

_RETRANSMISSION_NS: Final = 100_000_000
"""Minimum time between retransmissions that a timeout caused. The copies of a packet that was captured twice follow
each other within milliseconds; the minimum timeout of common systems is 200 ms."""

_MASK: Final = 0xFFFFFFFF


class TcpReassembly:
    """All TCP connections of an input."""

    def __init__(self, output: Output, extractor: FrameExtractor, classifier: StreamClassifier, limit: int) -> None:
        self.output = output
        self.extractor = extractor
        self.classifier = classifier
        self.limit = limit
        self.table = Table()
        self.history = History()
        """The most recent data packets, for comparison with retransmissions."""
        self.closing: dict[Connection, None] = {}
        """Closed connections that wait for late packets."""
        self.wanted: Container[int] | None = None
        """Numbers of the connections to read; None for all connections."""

    # -- one segment -----------------------------------------------------------------------------------------------

    def segment(self, segment: Segment, packet: int, time_ns: int) -> None:
        """Process a segment on the slow path."""
        direction = self.table.directions.get(segment.key)
        flags = segment.flags
        if direction is None or (flags & (SYN | ACK) == SYN and direction.isn != segment.seq):
            direction = self._new(segment, packet, direction)
        connection = direction.connection
        connection.last = packet
        peer = direction.peer
        seq, size = segment.seq, segment.end - segment.start + segment.missing
        if flags & SYN:
            self._syn(direction, segment, packet)
            seq = seq + 1 & _MASK
        elif direction.base < 0:
            _begin(direction, seq)
        direction.seen = True
        if segment.packets:
            self.output.remember_fragments(packet, segment.packets)
        if flags & ACK:
            direction.ack = segment.ack
        if connection.finished:
            return
        offset = direction.offset + signed_distance(seq - direction.base - direction.offset)
        if size and not direction.skipped:
            self._update_gap(peer, packet)
            connection.paused = connection.paused or peer.deadline >= 0
            offset = self._data(direction, segment, offset, packet, time_ns)
        if flags & (FIN | RST):
            _note_end(direction, flags, offset + size, packet, time_ns)
        self.advance(connection, packet)
        if flags & RST or (self._over(direction) and self._over(peer)):
            self._close(connection, packet)
        if connection.ended is not None and self._fully_delivered(direction) and self._fully_delivered(peer):
            self.output.end(connection)

    def _data(self, direction: Direction, segment: Segment, offset: int, packet: int, time_ns: int) -> int:
        """Process the bytes of a segment. Return its offset, which may have been corrected."""
        distance = offset - direction.offset
        data, start, end = segment.data, segment.start, segment.end
        if distance == 1 and direction.isn < 0 and not direction.offset and not direction.held:
            # The first packet was a keep-alive, whose sequence number is one less than that of the next byte.
            _begin(direction, direction.base + 1 & _MASK)
            offset = distance = 0
        size = end - start + segment.missing
        if not _FAR_BACK < distance < _FAR_AHEAD:
            offset = self._jump(direction, segment, packet, distance)
            distance = 0
        if distance < 0:
            if size == 1:
                return offset  # keep-alive: one arbitrary byte before the next byte
            _note_resent(direction, segment.seq, size, time_ns)
            if start < end:
                self._compare_old(direction, offset, data, start, end, packet)
            if size <= -distance:
                return offset
            seen = min(-distance, end - start)
            start += seen
        at = max(offset, direction.offset)
        cut = size - (at - offset) - (end - start)
        if at == direction.offset and not direction.held and not direction.connection.paused:
            self._feed(direction, at, data, start, end, packet, time_ns)
            if cut > 0:
                self.extractor.gap(direction, cut, packet, cut=True)
        else:
            if start < end:
                self._hold(direction, (at, data[start:end], end - start, packet, time_ns, segment.packets, packet))
            if cut > 0:
                self._hold(direction, (at + end - start, None, cut, packet, time_ns, (), packet))
        return offset

    def _feed(
        self, direction: Direction, at: int, data: bytes, start: int, end: int, packet: int, time_ns: int
    ) -> None:
        if start < end:
            self.history.append((direction, at, data, start, end))
            self.extractor.feed(direction, data, start, end, packet, time_ns)

    def _jump(self, direction: Direction, segment: Segment, packet: int, distance: int) -> int:
        """Handle sequence numbers of a different connection: deliver the rest of the current connection and restart."""
        self._deliver(direction.connection, packet, (direction,))
        text = (
            f"the sequence number jumps by {distance}: this is another connection on the same ports, or a stray packet"
        )
        self.output.note(direction, "gap", text, packet, direction.offset, 0)
        if not direction.skipped:
            self.extractor.interrupt(direction, packet)
        direction.base = segment.seq - direction.offset & _MASK
        direction.fin, direction.fin_packet = -1, 0
        return direction.offset

    def skip_left_out(self, segment: Segment, packet: int) -> None:
        """Continue after omitted packets: an excerpt marks this packet as the first packet after them."""
        direction = self.table.directions.get(segment.key)
        if direction is None or direction.base < 0 or direction.skipped:
            return
        offset = direction.offset + signed_distance(segment.seq - direction.base - direction.offset)
        if offset > direction.offset:
            self._deliver(direction.connection, packet, (direction,))
        if offset > direction.offset:
            self.extractor.skip_left_out(direction, offset, packet)

    # -- retransmitted bytes ---------------------------------------------------------------------------------------

    def _compare_old(self, direction: Direction, offset: int, data: bytes, start: int, end: int, packet: int) -> None:
        """Compare a retransmission with the delivered bytes that are still in the history."""
        for _, at, old, old_start, old_end in self.history.of(direction):
            if at >= offset + end - start or at + old_end - old_start <= offset:
                continue
            first, last = max(at, offset), min(at + old_end - old_start, offset + end - start)
            before = old[old_start + first - at : old_start + last - at]
            if before != data[start + first - offset : start + last - offset]:
                self._differs(direction, first, last - first, packet)
                return

    def _differs(self, direction: Direction, offset: int, size: int, packet: int) -> None:
        text = f"a retransmission of {size} bytes differs from the first transmission, which is used"
        self.output.note(direction, "overlap", text, packet, offset, size)
        if offset + size > direction.offset - len(direction.run) and not direction.skipped:
            direction.pending_problems.append((offset, Problem("overlap", text)))

    # -- queued bytes ----------------------------------------------------------------------------------------------

    def _hold(self, direction: Direction, queued: QueuedSegment) -> None:
        """Queue a segment after a gap. If it overlaps queued segments, the earlier bytes are kept."""
        held = direction.held
        at, size = queued[0], queued[2]
        end = at + size
        index = bisect_right(held, at, key=_offset)
        if index and held[index - 1][0] + held[index - 1][2] > at:
            index -= 1
        while at < end:
            if index == len(held) or held[index][0] >= end:
                self._insert(direction, index, queued, at, end)
                return
            old = held[index]
            if at < old[0]:
                self._insert(direction, index, queued, at, old[0])
                index += 1
                at = old[0]
            last = min(end, old[0] + old[2])
            if _part(old, at, last) not in (None, _part(queued, at, last)) and queued[1] is not None:
                self._differs(direction, at, last - at, queued[3])
            at = last
            index += 1

    def _insert(self, direction: Direction, index: int, queued: QueuedSegment, start: int, end: int) -> None:
        part = _part(queued, start, end)
        turn = (
            direction.held[index][6] if index < len(direction.held) else min(queued[6], direction.fin_packet or NEVER)
        )
        direction.held.insert(index, (start, part, end - start, *queued[3:6], turn))
        direction.held_bytes += len(part) if part is not None else 0

    def _next(self, direction: Direction) -> None:
        """Deliver the first queued segment, which is in order."""
        at, data, size, number, time_ns, packets, _ = direction.held.pop(0)
        if packets:
            self.output.remember_fragments(number, packets)
        if data is None:
            self.extractor.gap(direction, size, number, cut=True)
        else:
            direction.held_bytes -= size
            self._feed(direction, at, data, 0, size, number, time_ns)

    def _gap_end(self, direction: Direction) -> int:
        """Return the end of the gap that starts at ``offset``, or ``offset`` if there is no gap."""
        if direction.held:
            return direction.held[0][0]
        return max(direction.fin, direction.offset)

    def _acked(self, direction: Direction) -> int:
        """Return the offset that the peer has acknowledged, or ``offset`` if it has acknowledged nothing new."""
        if direction.peer.ack < 0 or direction.base < 0:
            return direction.offset
        ahead = direction.peer.ack - direction.base - direction.offset & _MASK
        return direction.offset + ahead if ahead < _FAR_AHEAD else direction.offset

    # -- delivery order --------------------------------------------------------------------------------------------

    def advance(self, connection: Connection, packet: int) -> None:
        """Deliver all segments that can be delivered, and update the state of gaps."""
        there, back = connection.there, connection.back
        if there.held or back.held or there.fin_packet or back.fin_packet:
            self._deliver(connection, packet)
        self._update_gap(there, packet)
        self._update_gap(back, packet)
        connection.paused = there.deadline >= 0 or back.deadline >= 0
        self._set_timer(connection, packet)
        self.arm(there)
        self.arm(back)

    def _deliver(self, connection: Connection, packet: int, over: tuple[Direction, ...] = ()) -> None:
        """Deliver queued segments in order up to the first gap that must wait. In directions in ``over``, no gap waits.

        Each iteration delivers a segment, shortens a gap or finishes a direction, so the loop ends.
        """
        directions = [connection.there, connection.back]
        while directions:
            direction = min(directions, key=_turn)
            if direction.held and direction.held[0][0] == direction.offset:
                self._next(direction)
            elif not self._give_up(direction, packet, over):
                if direction.deadline >= 0:
                    return
                directions.remove(direction)

    def _give_up(self, direction: Direction, packet: int, over: tuple[Direction, ...]) -> bool:
        """Report the next gap if it is final. Return False if the gap must wait or there is none."""
        self._update_gap(direction, packet)
        end = self._gap_end(direction)
        if direction not in over and not _full(direction):
            if direction.deadline < 0:
                return False
            if direction.peer not in over and not _full(direction.peer):
                if direction.deadline > packet:
                    return False
                end = min(end, self._acked(direction))
        direction.deadline = -1
        if end <= direction.offset:
            return False
        self.extractor.gap(direction, end - direction.offset, packet, cut=False)
        return True

    def _update_gap(self, direction: Direction, packet: int) -> None:
        """Set or clear the deadline of a direction's gap. Only a confirmed gap has a deadline."""
        if self._gap_end(direction) <= direction.offset or direction.skipped:
            direction.deadline = -1
        elif direction.deadline < 0 and (
            self._acked(direction) > direction.offset or direction.connection.closing >= 0
        ):
            direction.deadline = packet + GRACE

    def arm(self, direction: Direction) -> None:
        """Select the fast or slow path for the next packet of a direction."""
        mode = direction.mode
        if direction.skipped:
            direction.next = IGNORE if direction.peer.skipped and direction.connection.closing < 0 else SLOW
        elif (
            isinstance(mode, Aligned)
            and not direction.pending_problems
            and not direction.held
            and direction.fin < 0
            and not direction.peer.held
            and direction.peer.fin < 0
            and (mode.sync != RESYNC or mode.checked_bytes > direction.limit)
            and (not direction.run or (len(direction.run) >= 8 and not self.output.fragments))
        ):
            direction.next = direction.base + direction.offset & _MASK
            if not direction.run:
                mode.need = 0
        else:
            direction.next = SLOW

    # -- connections -----------------------------------------------------------------------------------------------

    def _new(self, segment: Segment, packet: int, old: Direction | None) -> Direction:
        """Create a connection. An older connection on the same ports is finished first."""
        if old is not None:
            self.finish(old.connection, packet, "the connection ends")
            self.table.forget(old.connection)
        for connection in self.table.surplus():
            self.finish(connection, packet, "the connection was evicted")
            self.table.forget(connection)
        self.end_closed()
        direction = self.table.create(segment, packet, self.limit, self.classifier)
        if self.wanted is not None and direction.stream.number not in self.wanted:
            direction.mode = direction.peer.mode = Skipped()
        return direction

    def end_closed(self) -> None:
        """Report the ends of closed connections whose bytes are delivered, because a new connection begins (rule 5)."""
        for connection in self.closing:
            if not (connection.there.waiting or connection.back.waiting):
                self.output.end(connection)

    def _syn(self, direction: Direction, segment: Segment, packet: int) -> None:
        """Set the sequence number of offset 0, the number after the SYN's."""
        if direction.isn < 0 and (direction.base < 0 or not direction.seen):
            stream = direction.connection.stream
            if packet not in stream.opening:
                stream.opening += (packet,)
            direction.isn = segment.seq
            _begin(direction, segment.seq + 1 & _MASK)

    def _over(self, direction: Direction) -> bool:
        return direction.fin >= 0 and (direction.skipped or direction.fin <= direction.offset)

    def _fully_delivered(self, direction: Direction) -> bool:
        """Whether a direction is completely delivered, or has no packets in the capture."""
        return not direction.seen or (self._over(direction) and not direction.waiting)

    def _close(self, connection: Connection, packet: int) -> None:
        """Mark the connection as closed. It still waits for late packets."""
        if connection.closing < 0:
            connection.closing = packet + GRACE
            self.closing[connection] = None
            for direction in (connection.there, connection.back):
                self._update_gap(direction, packet)
                direction.next = SLOW
            self._set_timer(connection, packet)

    def finish(self, connection: Connection, packet: int, reason: str) -> None:
        """Deliver the rest of a connection and end it."""
        if connection.finished:
            return
        connection.finished = True
        self._deliver(connection, packet, (connection.there, connection.back))
        for direction in (connection.there, connection.back):
            self._check_acknowledged(direction, packet)
            self.extractor.finish(direction, packet, reason)
            direction.next = SLOW
            direction.held.clear()
            direction.held_bytes = 0
        self.closing.pop(connection, None)
        self.output.end(connection)

    def _check_acknowledged(self, direction: Direction, packet: int) -> None:
        """Report the last bytes of a direction if their retransmissions show that they did not arrive (rule 6)."""
        resent, ack = direction.resent, direction.peer.ack
        if resent is None or resent.acknowledged or ack < 0 or direction.skipped or direction.stream.kind != "pulsar":
            return
        lost = resent.seq + resent.size - ack & _MASK
        if 0 < lost < _FAR_AHEAD and resent.last_ns - resent.first_ns >= _RETRANSMISSION_NS:
            offset = direction.offset + signed_distance(ack - direction.base - direction.offset)
            size = direction.offset - offset
            text = f"the last {size} bytes were retransmitted but never acknowledged by TCP: they did not arrive"
            self.output.note(direction, "unacknowledged", text, packet, offset, size)

    def _set_timer(self, connection: Connection, packet: int) -> None:
        """Set the packet at which the connection must be processed again."""
        due = NEVER
        for direction in (connection.there, connection.back):
            if direction.deadline > packet:  # a direction whose deadline has passed waits for the other direction
                due = min(due, direction.deadline)
            if isinstance(direction.mode, Search) and direction.run:
                due = min(due, direction.mode.timer)
        if connection.closing >= 0 and not connection.finished:
            due = min(due, connection.closing)
        self.table.set_timer(connection, due, packet)

    def run_timers(self, packet: int) -> None:
        """Process all connections whose timers are due at this packet."""
        for connection in self.table.due(packet):
            self._deliver(connection, packet)
            for direction in (connection.there, connection.back):
                self.extractor.check_search(direction, packet)
            self.advance(connection, packet)
            if 0 <= connection.closing <= packet:
                self.finish(connection, packet, "the connection ends")
                self.table.retire(connection)

    def end(self, packet: int) -> None:
        """Finish all connections at the end of the input."""
        for connection in list(self.table.living):
            self.finish(connection, packet, "the connection ends" if connection.closing >= 0 else "the capture ends")
            self.table.forget(connection)


def _note_resent(direction: Direction, seq: int, size: int, time_ns: int) -> None:
    """Record the retransmission of a segment."""
    before = direction.resent
    same = before is not None and before.seq == seq
    acknowledged = direction.peer.ack >= 0 and signed_distance(direction.peer.ack - seq - size) >= 0
    if before is not None and same:
        acknowledged = acknowledged or before.acknowledged
    first_ns = before.first_ns if before is not None and same else time_ns
    direction.resent = Retransmission(seq, size, first_ns, time_ns, acknowledged)


def _note_end(direction: Direction, flags: int, end: int, packet: int, time_ns: int) -> None:
    """Record a FIN or RST; ``end`` is the offset after the segment."""
    if direction.fin < 0 and direction.peer.fin < 0:
        direction.connection.ended = (direction, packet, time_ns, flags)
    if flags & FIN and direction.fin < 0:
        direction.fin, direction.fin_packet = end, packet
    if flags & RST:
        direction.fin = direction.offset if direction.fin < 0 else direction.fin


def _begin(direction: Direction, base: int) -> None:
    """Set the sequence number of the first byte of a direction."""
    direction.base = direction.stream.bases[not direction.from_client] = base


def _offset(queued: QueuedSegment) -> int:
    return queued[0]


def _turn(direction: Direction) -> int:
    """Return the delivery priority of a direction's next segment or gap; the lowest priority is first."""
    return direction.held[0][6] if direction.held else direction.fin_packet or NEVER


def _full(direction: Direction) -> bool:
    """Whether the queue of a direction exceeds a limit."""
    one_sided = not direction.peer.seen and len(direction.held) >= MAX_HELD_ONE_SIDED
    return one_sided or direction.held_bytes > MAX_HELD_BYTES or len(direction.held) > MAX_HELD_SEGMENTS


def _part(queued: QueuedSegment, start: int, end: int) -> bytes | None:
    """Return the bytes of a segment between two offsets, or None if they were truncated."""
    return None if queued[1] is None else queued[1][start - queued[0] : end - queued[0]]


def signed_distance(distance: int) -> int:
    """Return a difference of sequence numbers as a signed number."""
    distance &= _MASK
    return distance - (1 << 32) if distance & 0x80000000 else distance
