"""TCP reassembly: segments of both directions to ordered bytes without duplicates, and gaps (RFC 9293).

Rules of this file
1. The first transmission wins: retransmitted bytes are compared and dropped; a difference is reported.
2. A gap becomes final if it will not be filled: the peer has acknowledged it (the packets are lost or reordered in the
   capture, so the gap waits for GRACE packets), more bytes are queued after it than a receiver would buffer, or the
   connection or the input ends. Memory is used only for bytes that exist.
3. Queued segments are delivered in the order of their packets, over both directions, so that no response precedes its
   request. Therefore a confirmed gap holds both directions. A segment that fills a gap is delivered when the first
   segment after the gap is due.
4. A SYN with another sequence number starts a new connection on the same ports. A closed connection is kept for a
   while for late packets, then removed.
5. The end of a connection is reported after all its bytes. A reset waits for the bytes that the other side sent before
   it received the reset, but only until the next connection begins, which may be a reconnection.
6. This is the slow path, with a few microseconds per packet. ``fast_path`` forwards only unusual packets.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from pcli.codec.capture.connections import NEVER, Table
from pcli.codec.capture.flows import IGNORE, SKIP, SLOW, SYNC, Connection, Direction, Piece
from pcli.codec.capture.frame_extraction import Walker
from pcli.codec.capture.frames import RESYNC
from pcli.codec.capture.output import Output
from pcli.codec.capture.recent_packets import History
from pcli.codec.capture.stream_kind import Judge
from pcli.codec.capture.tunnels import ACK, FIN, RST, SYN, Segment
from pcli.codec.wire.problems import Problem

__all__ = ["GRACE", "Tcp", "signed_distance"]

GRACE: Final = 32
"""Number of packets for which a confirmed gap waits for reordered packets, and a closed connection for late ones."""

HELD_BYTES: Final = 16 * 1024 * 1024
"""Maximum number of bytes queued after a gap, larger than any receive window in practice."""

HELD_PIECES: Final = 8192

HELD_ONE_SIDED: Final = 64
"""Maximum number of segments queued after a gap if the capture lacks the peer's acknowledgements."""

_FAR_BACK: Final = -(1 << 28)
_FAR_AHEAD: Final = 1 << 30
"""A larger sequence-number distance means another connection whose SYN the capture lacks."""

_MASK: Final = 0xFFFFFFFF


class Tcp:
    """All TCP connections of an input."""

    def __init__(self, output: Output, walker: Walker, judge: Judge, limit: int) -> None:
        self.output = output
        self.walker = walker
        self.judge = judge
        self.limit = limit
        self.table = Table()
        self.history = History()
        """The most recent data packets, for comparison with retransmissions."""
        self.closing: dict[Connection, None] = {}
        """Closed connections that wait for late packets."""

    # -- one segment -----------------------------------------------------------------------------------------------

    def segment(self, segment: Segment, packet: int, time_ns: int) -> None:
        """Process a segment on the slow path."""
        way = self.table.ways.get(segment.key)
        flags = segment.flags
        if way is None or (flags & (SYN | ACK) == SYN and way.isn != segment.seq):
            way = self._new(segment, packet, way)
        connection = way.connection
        connection.last = packet
        peer = way.peer
        seq, size = segment.seq, segment.end - segment.start + segment.missing
        if flags & SYN:
            self._syn(way, segment, packet)
            seq = seq + 1 & _MASK
        elif way.base < 0:
            way.base = seq
        way.seen = True
        if segment.packets:
            self.output.remember_fragments(packet, segment.packets)
        if flags & ACK:
            way.ack = segment.ack
        if connection.finished:
            return
        offset = way.offset + signed_distance(seq - way.base - way.offset)
        if size and way.mode != SKIP:
            self._judge_hole(peer, packet)
            connection.paused = connection.paused or peer.deadline >= 0
            offset = self._data(way, segment, offset, packet, time_ns)
        if flags & (FIN | RST) and way.fin < 0 and peer.fin < 0:
            connection.ended = (way, packet, time_ns, flags)
        if flags & FIN and way.fin < 0:
            way.fin, way.fin_packet = offset + size, packet
        if flags & RST:
            way.fin = way.offset if way.fin < 0 else way.fin
        self._settle(connection, packet)
        if flags & RST or (self._over(way) and self._over(peer)):
            self._close(connection, packet)
        if connection.ended is not None and self._told_all(way) and self._told_all(peer):
            self.output.end(connection)

    def _data(self, way: Direction, segment: Segment, offset: int, packet: int, time_ns: int) -> int:
        """Process the bytes of a segment. Return its offset, which may have been corrected."""
        distance = offset - way.offset
        data, start, end = segment.data, segment.start, segment.end
        if distance == 1 and way.isn < 0 and not way.offset and not way.held:
            # The first packet was a keep-alive. Its sequence number is one less than that of the next byte.
            way.base = way.base + 1 & _MASK
            offset = distance = 0
        size = end - start + segment.missing
        if not _FAR_BACK < distance < _FAR_AHEAD:
            offset = self._jump(way, segment, packet, distance)
            distance = 0
        if distance < 0:
            if size == 1:
                return offset  # keep-alive: one arbitrary byte before the next byte
            if start < end:
                self._compare_old(way, offset, data, start, end, packet)
            if size <= -distance:
                return offset
            seen = min(-distance, end - start)
            start += seen
        at = max(offset, way.offset)
        cut = size - (at - offset) - (end - start)
        if at == way.offset and not way.held and not way.connection.paused:
            self._feed(way, at, data, start, end, packet, time_ns)
            if cut > 0:
                self.walker.gap(way, cut, packet, cut=True)
        else:
            if start < end:
                self._hold(way, (at, data[start:end], end - start, packet, time_ns, segment.packets, packet))
            if cut > 0:
                self._hold(way, (at + end - start, None, cut, packet, time_ns, (), packet))
        return offset

    def _feed(self, way: Direction, at: int, data: bytes, start: int, end: int, packet: int, time_ns: int) -> None:
        if start < end:
            self.history.append((way, at, data, start, end))
            self.walker.feed(way, data, start, end, packet, time_ns)

    def _jump(self, way: Direction, segment: Segment, packet: int, distance: int) -> int:
        """Handle sequence numbers of another connection: deliver the rest of the current one and start again."""
        self._deliver(way.connection, packet, (way,))
        text = f"the sequence number jumps by {distance}: another connection on the same ports, or a stray packet"
        self.output.note(way, "gap", text, packet, way.offset, 0)
        if way.mode != SKIP:
            self.walker.interrupt(way, packet)
        way.base = segment.seq - way.offset & _MASK
        way.fin, way.fin_packet = -1, 0
        return way.offset

    def skip_left_out(self, segment: Segment, packet: int) -> None:
        """Continue after omitted packets: an excerpt marks this packet as the first one after them."""
        way = self.table.ways.get(segment.key)
        if way is None or way.base < 0 or way.mode == SKIP:
            return
        offset = way.offset + signed_distance(segment.seq - way.base - way.offset)
        if offset > way.offset:
            self._deliver(way.connection, packet, (way,))
        if offset > way.offset:
            self.walker.skip_left_out(way, offset, packet)

    # -- retransmitted bytes ---------------------------------------------------------------------------------------

    def _compare_old(self, way: Direction, offset: int, data: bytes, start: int, end: int, packet: int) -> None:
        """Compare a retransmission with the delivered bytes that are still in the history."""
        for _, at, old, old_start, old_end in self.history.of(way):
            if at >= offset + end - start or at + old_end - old_start <= offset:
                continue
            first, last = max(at, offset), min(at + old_end - old_start, offset + end - start)
            before = old[old_start + first - at : old_start + last - at]
            if before != data[start + first - offset : start + last - offset]:
                self._differs(way, first, last - first, packet)
                return

    def _differs(self, way: Direction, offset: int, size: int, packet: int) -> None:
        text = f"a retransmission of {size} bytes differs from the first transmission, which is used"
        self.output.note(way, "overlap", text, packet, offset, size)
        if offset + size > way.offset - len(way.run) and way.mode != SKIP:
            way.trouble.append((offset, Problem("overlap", text)))

    # -- queued bytes ----------------------------------------------------------------------------------------------

    def _hold(self, way: Direction, piece: Piece) -> None:
        """Queue a segment after a gap. In overlaps with queued segments, the earlier bytes win."""
        held = way.held
        at, size = piece[0], piece[2]
        end = at + size
        index = bisect_right(held, at, key=_offset)
        if index and held[index - 1][0] + held[index - 1][2] > at:
            index -= 1
        while at < end:
            if index == len(held) or held[index][0] >= end:
                self._insert(way, index, piece, at, end)
                return
            old = held[index]
            if at < old[0]:
                self._insert(way, index, piece, at, old[0])
                index += 1
                at = old[0]
            last = min(end, old[0] + old[2])
            if _part(old, at, last) not in (None, _part(piece, at, last)) and piece[1] is not None:
                self._differs(way, at, last - at, piece[3])
            at = last
            index += 1

    def _insert(self, way: Direction, index: int, piece: Piece, start: int, end: int) -> None:
        part = _part(piece, start, end)
        turn = way.held[index][6] if index < len(way.held) else min(piece[6], way.fin_packet or NEVER)
        way.held.insert(index, (start, part, end - start, *piece[3:6], turn))
        way.held_bytes += len(part) if part is not None else 0

    def _next(self, way: Direction) -> None:
        """Deliver the first queued segment, which is in order."""
        at, data, size, number, time_ns, packets, _ = way.held.pop(0)
        if packets:
            self.output.remember_fragments(number, packets)
        if data is None:
            self.walker.gap(way, size, number, cut=True)
        else:
            way.held_bytes -= size
            self._feed(way, at, data, 0, size, number, time_ns)

    def _hole_end(self, way: Direction) -> int:
        """Return the end of the gap that starts at ``offset``, or ``offset`` if there is no gap."""
        if way.held:
            return way.held[0][0]
        return max(way.fin, way.offset)

    def _acked(self, way: Direction) -> int:
        """Return the offset that the peer has acknowledged, or ``offset`` if it has acknowledged nothing new."""
        if way.peer.ack < 0 or way.base < 0:
            return way.offset
        ahead = way.peer.ack - way.base - way.offset & _MASK
        return way.offset + ahead if ahead < _FAR_AHEAD else way.offset

    # -- delivery order --------------------------------------------------------------------------------------------

    def _settle(self, connection: Connection, packet: int) -> None:
        """Deliver all segments that can be delivered, and update the state of gaps."""
        there, back = connection.there, connection.back
        if there.held or back.held or there.fin_packet or back.fin_packet:
            self._deliver(connection, packet)
        self._judge_hole(there, packet)
        self._judge_hole(back, packet)
        connection.paused = there.deadline >= 0 or back.deadline >= 0
        self._set_alarm(connection, packet)
        self._arm(there)
        self._arm(back)

    def _deliver(self, connection: Connection, packet: int, over: tuple[Direction, ...] = ()) -> None:
        """Deliver queued segments in order up to the first gap that must wait; deliver directions in ``over`` entirely.

        Each iteration delivers a segment, shortens a gap or finishes a direction, so the loop ends.
        """
        ways = [connection.there, connection.back]
        while ways:
            way = min(ways, key=_turn)
            if way.held and way.held[0][0] == way.offset:
                self._next(way)
            elif not self._give_up(way, packet, over):
                if way.deadline >= 0:
                    return
                ways.remove(way)

    def _give_up(self, way: Direction, packet: int, over: tuple[Direction, ...]) -> bool:
        """Report the next gap if it is final. Return False if it must wait or there is none."""
        self._judge_hole(way, packet)
        end = self._hole_end(way)
        if way not in over and not _full(way):
            if way.deadline < 0:
                return False
            if way.peer not in over and not _full(way.peer):
                if way.deadline > packet:
                    return False
                end = min(end, self._acked(way))
        way.deadline = -1
        if end <= way.offset:
            return False
        self.walker.gap(way, end - way.offset, packet, cut=False)
        return True

    def _judge_hole(self, way: Direction, packet: int) -> None:
        """Set or clear the deadline of a direction's gap. A confirmed gap gets one."""
        if self._hole_end(way) <= way.offset or way.mode == SKIP:
            way.deadline = -1
        elif way.deadline < 0 and (self._acked(way) > way.offset or way.connection.closing >= 0):
            way.deadline = packet + GRACE

    def _arm(self, way: Direction) -> None:
        """Select the fast or slow path for the next packet of a direction."""
        if way.mode == SKIP:
            way.next = SLOW if way.peer.mode != SKIP or way.connection.closing >= 0 else IGNORE
        elif (
            way.mode == SYNC
            and way.partial is None
            and not way.trouble
            and not way.held
            and way.fin < 0
            and not way.peer.held
            and way.peer.fin < 0
            and (way.sync != RESYNC or way.trust > way.limit)
            and (not way.run or (len(way.run) >= 8 and not self.output.fragments))
        ):
            way.next = way.base + way.offset & _MASK
            if not way.run:
                way.need = 0
        else:
            way.next = SLOW

    # -- connections -----------------------------------------------------------------------------------------------

    def _new(self, segment: Segment, packet: int, old: Direction | None) -> Direction:
        """Create a connection; one on the same ports is finished first."""
        if old is not None:
            self._finish(old.connection, packet, "the connection ends")
            self.table.forget(old.connection)
        for connection in self.table.surplus():
            self._finish(connection, packet, "the connection was evicted")
            self.table.forget(connection)
        for connection in self.closing:
            if not (_waiting(connection.there) or _waiting(connection.back)):
                self.output.end(connection)
        return self.table.create(segment, packet, self.limit, self.judge)

    def _syn(self, way: Direction, segment: Segment, packet: int) -> None:
        """Set the start of the sequence numbers, which is one after the SYN."""
        if way.isn < 0 and (way.base < 0 or not way.seen):
            stream = way.connection.stream
            if packet not in stream.opening:
                stream.opening += (packet,)
            way.isn = segment.seq
            way.base = segment.seq + 1 & _MASK

    def _over(self, way: Direction) -> bool:
        return way.fin >= 0 and (way.mode == SKIP or way.fin <= way.offset)

    def _told_all(self, way: Direction) -> bool:
        """Whether a direction is completely delivered. One without packets in the capture counts as delivered."""
        return not way.seen or (self._over(way) and not _waiting(way))

    def _close(self, connection: Connection, packet: int) -> None:
        """Mark the connection as closed. It still waits for late packets."""
        if connection.closing < 0:
            connection.closing = packet + GRACE
            self.closing[connection] = None
            for way in (connection.there, connection.back):
                self._judge_hole(way, packet)
                way.next = SLOW
            self._set_alarm(connection, packet)

    def _finish(self, connection: Connection, packet: int, reason: str) -> None:
        """Deliver the rest of a connection and end it."""
        if connection.finished:
            return
        connection.finished = True
        self._deliver(connection, packet, (connection.there, connection.back))
        for way in (connection.there, connection.back):
            self.walker.finish(way, packet, reason)
            way.next = SLOW
            way.held.clear()
            way.held_bytes = 0
        self.closing.pop(connection, None)
        self.output.end(connection)

    def _set_alarm(self, connection: Connection, packet: int) -> None:
        """Set the packet at which the connection must be processed again."""
        due = NEVER
        for way in (connection.there, connection.back):
            if way.deadline > packet:  # a direction with a passed deadline waits for the other direction
                due = min(due, way.deadline)
            if way.search is not None and way.run:
                due = min(due, way.search.alarm)
        if connection.closing >= 0 and not connection.finished:
            due = min(due, connection.closing)
        self.table.set_alarm(connection, due, packet)

    def ring(self, packet: int) -> None:
        """Process all connections whose alarms are due at this packet."""
        for connection in self.table.due(packet):
            self._deliver(connection, packet)
            for way in (connection.there, connection.back):
                self.walker.alarm(way, packet)
            self._settle(connection, packet)
            if 0 <= connection.closing <= packet:
                self._finish(connection, packet, "the connection ends")
                self.table.retire(connection)

    def end(self, packet: int) -> None:
        """Finish all connections at the end of the input."""
        for connection in list(self.table.living):
            self._finish(connection, packet, "the connection ends" if connection.closing >= 0 else "the capture ends")
            self.table.forget(connection)


def _offset(piece: Piece) -> int:
    return piece[0]


def _turn(way: Direction) -> int:
    """Return the delivery priority of a direction's next segment or gap; the lowest is delivered first."""
    return way.held[0][6] if way.held else way.fin_packet or NEVER


def _waiting(way: Direction) -> bool:
    """Whether a direction has bytes that are not yet part of a frame."""
    return bool(way.held or way.run or way.partial)


def _full(way: Direction) -> bool:
    """Whether the queue of a direction exceeds a limit."""
    lonely = not way.peer.seen and len(way.held) >= HELD_ONE_SIDED
    return lonely or way.held_bytes > HELD_BYTES or len(way.held) > HELD_PIECES


def _part(piece: Piece, start: int, end: int) -> bytes | None:
    """Return the bytes of a segment between two offsets, or None if they were truncated."""
    return None if piece[1] is None else piece[1][start - piece[0] : end - piece[0]]


def signed_distance(distance: int) -> int:
    """Return a difference of sequence numbers as a signed number."""
    distance &= _MASK
    return distance - (1 << 32) if distance & 0x80000000 else distance
