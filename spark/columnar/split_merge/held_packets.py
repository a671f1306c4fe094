"""Packets of a connection that started before the split, held until its frame boundaries are known.

Rules of this file
1. Packets of all kinds are held. The merge replays them on the state at the end of the previous split and thereby
   produces the exact result. The assumed state determines only where the split continues independently.
2. The assumed state is the state after the last held packet: both directions are in order, at or within a frame. It is
   created when both directions were captured and each direction with data contains a complete valid frame. The merge
   compares it with the true state. A wrong assumption costs time but loses no frame.
3. After an unusual event (a gap, a retransmission, an end), no state is assumed until some more packets have been held.
4. If MOST_HELD bytes of a connection contain no frame, the connection is abandoned: only its SYN, FIN and RST packets
   are held. These suffice for a connection without Pulsar. If the connection contains frames, the split is read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pcli.codec.capture.command_start_patterns import HEAD_SIZE
from pcli.codec.capture.flows import Aligned, Connection, Direction
from pcli.codec.capture.frame_extraction import FrameExtractor
from pcli.codec.capture.frames import RESYNC, START
from pcli.codec.capture.ip import Inner
from pcli.codec.capture.output import Output
from pcli.codec.capture.resync import Budget, Search
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.streams import GRACE, signed_distance
from pcli.codec.capture.tunnels import ACK, FIN, RST, SYN, Segment

FAR: Final = 1 << 40
"""Offset assigned to the first byte that a split reads from a connection that began earlier; greater than any real
offset."""

MOST_HELD: Final = 8 << 20
"""Maximum number of held bytes of a connection that may be Pulsar; more than the largest frames with the default
limit."""
MOST_UNKNOWN: Final = 256 << 10
"""Maximum number of held bytes of any other connection."""
_ONE_SIDED: Final = 64
"""Number of packets after which the split no longer waits for a direction without packets."""

_QUIET: Final = 16
"""Number of packets after which a direction without data is assumed to be silent."""

_MASK: Final = 0xFFFFFFFF


@dataclass(slots=True)
class HeldSegment:
    """A held TCP segment."""

    packet: int
    time_ns: int
    key: bytes
    seq: int
    ack: int
    flags: int
    data: bytes
    missing: int
    packets: tuple[int, ...]
    """The same as `Segment.packets`."""
    left_out: bool
    """Whether the packet has the comment LEFT_OUT."""
    fed: int
    """Number of data packets in the split before this packet, for `capture.recent_packets.HISTORY`."""


def segment_of(held: HeldSegment) -> Segment:
    """Return the original segment."""
    inner = Inner(held.key[:-4], 6, held.data, 0, len(held.data), held.missing)
    inner.packets = held.packets
    return Segment(held.key, held.seq, held.ack, held.flags, inner, 0)


class _Side:
    """The held bytes of a direction, as far as they are in order."""

    __slots__ = ("ack", "first", "found", "marks", "next", "run", "search", "seen")

    def __init__(self) -> None:
        self.seen = False
        self.ack = -1
        self.reset(-1)

    def reset(self, seq: int) -> None:
        """Restart at a sequence number; -1 means the sequence number of the next packet."""
        self.first = self.next = seq
        self.run = bytearray()
        self.marks: list[tuple[int, int, int]] = []
        self.search = Search(0, 0, 0, GRACE, Budget(), side=None)
        self.found = False

    def take(self, held: HeldSegment) -> bool:
        """Add the next packet and return whether it was the expected packet."""
        ahead = signed_distance(held.seq - self.next) if self.next >= 0 else 0
        if self.next < 0 or ahead > 0:
            self.reset(held.seq)
        size = len(held.data)
        if ahead < 0:
            return size <= 1  # one byte is a keep-alive
        if size:
            self.marks.append((len(self.run), held.packet, held.time_ns))
            self.run += held.data
            self.next = self.next + size & _MASK
        return ahead == 0

    def boundary_known(self, limit: int) -> bool:
        """Return whether the next frame boundary is known.

        If there is no data, the boundary is at the current position.
        """
        if self.run and not self.found:
            self.found = self.search.advance(self.run, limit, final=False, due=True)
        return self.found or not self.run


class HeldConnection:
    """A connection whose packets are held."""

    __slots__ = ("_later", "_over", "_sides", "_size", "connection", "given_up", "held")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.held: list[HeldSegment] = []
        self.given_up = False
        self._sides = {key: _Side() for key in connection.keys}
        self._size = 0
        self._later = 0
        """The packet before which no assumption is made."""
        self._over = False

    def take(self, held: HeldSegment, classifier: StreamClassifier) -> bool:
        """Hold a packet and return whether the connection can continue independently; `go` then sets the state."""
        flags = held.flags
        if self.given_up:
            if flags & (SYN | FIN | RST):
                self.held.append(held)
            return False
        self.held.append(held)
        self._size += len(held.data)
        side = self._sides[held.key]
        side.seen = True
        if flags & ACK:
            side.ack = held.ack
        if flags & SYN:
            for each in self._sides.values():
                each.reset(-1)
        self._over = (self._over and not flags & SYN) or bool(flags & (FIN | RST))
        whole = side.take(held) if not flags & SYN else False
        if not whole or self._over or held.missing or held.packets or held.left_out:
            self._later = held.packet + 2 * GRACE
            if held.missing:
                side.reset(-1)
        if held.packet > self._later and not self._over and self._known():
            return True
        if self._size > (MOST_UNKNOWN if classifier.may_give_up(self.connection.there) else MOST_HELD):
            self._give_up()
        return False

    def _known(self) -> bool:
        sides, limit = self._sides.values(), self.connection.there.limit
        if not all(side.seen for side in sides) and len(self.held) < _ONE_SIDED:
            return False
        # A direction without data is at a frame boundary, or in a frame that continues in its next packet.
        enough = any if len(self.held) >= _QUIET else all
        return enough(side.run for side in sides) and all(side.boundary_known(limit) for side in sides)

    def _give_up(self) -> None:
        self.given_up = True
        self.held = [held for held in self.held if held.flags & (SYN | FIN | RST)]
        self._sides.clear()

    def go(self, classifier: StreamClassifier) -> None:
        """Set the assumed state of the connection."""
        connection = self.connection
        connection.stream.kind = "pulsar"
        directions = (connection.there, connection.back)
        for direction, key in zip(directions, connection.keys):
            side = self._sides[key]
            if side.run:
                classifier.orient(direction, side.search.kinds)
        connection.oriented = True
        if not connection.there.from_client:
            # This assumes the usual case, in which the capture contains the connection's SYN.
            connection.there, connection.back = connection.back, connection.there
            connection.keys = (connection.keys[1], connection.keys[0])
        extractor = FrameExtractor(Output(), classifier)
        for direction, key in zip((connection.there, connection.back), connection.keys):
            if self._sides[key].seen:
                _begin(direction, self._sides[key], extractor)
        self._sides.clear()


def _begin(direction: Direction, side: _Side, extractor: FrameExtractor) -> None:
    """Set a direction to the state after its held packets; the frames in these packets are dropped."""
    place = side.search.candidate if side.run else 0
    direction.seen, direction.ack, direction.mode = True, side.ack, Aligned(START)
    direction.offset = FAR
    direction.base = (side.first + place - FAR) & _MASK
    data = bytes(side.run)
    for number, (start, packet, time_ns) in enumerate(side.marks):
        end = side.marks[number + 1][0] if number + 1 < len(side.marks) else len(data)
        if end > place:
            extractor.feed(direction, data, max(start, place), end, packet, time_ns)
    if isinstance(direction.mode, Aligned):
        # If the frame boundaries are certain, the checks have no effect.
        direction.mode = aligned = Aligned(RESYNC)
        aligned.need = need_of(direction, aligned)


def need_of(direction: Direction, aligned: Aligned) -> int:
    """Return `Aligned.need` of an aligned direction; it equals the extractor's value."""
    run = direction.run
    if len(run) < 8:
        return 8 - len(run) if run else 0
    if aligned.sync == RESYNC and aligned.checked_bytes <= direction.limit and len(run) < HEAD_SIZE:
        return HEAD_SIZE - len(run)
    return int.from_bytes(run[:4], "big") + 4 - len(run)
