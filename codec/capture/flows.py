"""The state of a TCP connection and of its two directions. Data only; ``streams`` and ``walk`` work on it.

Rules of this file
1. One object per direction holds everything that a packet needs, so that the fast path asks one dictionary once.
2. ``next`` is the switch between fast and slow: a sequence number when the next bytes may be cut into frames where
   they lie, SLOW when anything is unusual, IGNORE when nobody wants the bytes.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.capture.frames import START, Stream
from pcli.codec.capture.resync import Budget, Search
from pcli.codec.wire.problems import Problem

__all__ = [
    "IGNORE",
    "MAX_MARKS",
    "SEARCH",
    "SKIP",
    "SLOW",
    "SNIFF",
    "SYNC",
    "Connection",
    "Direction",
    "Partial",
    "Piece",
]

SLOW: Final = -1
IGNORE: Final = -2

SNIFF: Final = 0
"""Nothing is known of the direction's bytes."""
SYNC: Final = 1
"""The run begins at a frame."""
SEARCH: Final = 2
"""A frame is looked for in the run."""
SKIP: Final = 3
"""The bytes are no Pulsar, or the connection is over."""

MAX_MARKS: Final = 1 << 16
"""Packets of one frame that are remembered. Frames in more packets than that are told the last one only."""

Piece = tuple[int, bytes | None, int, int, int, tuple[int, ...], int]
"""A segment that waits: offset, bytes (None: cut away by the snap length), length, packet, time, fragments' packets,
and its turn: the lowest packet of this piece and what is behind it."""


class Partial:
    """A frame of which bytes are missing, until its end is reached."""

    __slots__ = ("data", "left", "offset", "packets", "problems", "sync", "time_ns")

    def __init__(self, data: bytes, offset: int, sync: str, packets: list[int], time_ns: int) -> None:
        self.data = data
        self.offset = offset
        self.sync = sync
        self.packets = packets
        self.time_ns = time_ns
        self.left = 0
        """Bytes until the end of the frame."""
        self.problems: list[Problem] = []


class Direction:
    """One direction of a connection."""

    __slots__ = (
        "ack",
        "base",
        "budget",
        "connection",
        "deadline",
        "fin",
        "fin_packet",
        "from_client",
        "held",
        "held_bytes",
        "isn",
        "limit",
        "marks",
        "mode",
        "need",
        "next",
        "offset",
        "partial",
        "peer",
        "run",
        "search",
        "seen",
        "stream",
        "sync",
        "trouble",
        "trust",
    )

    peer: Direction

    def __init__(self, connection: Connection, limit: int, *, from_client: bool) -> None:
        self.connection = connection
        self.stream = connection.stream
        self.from_client = from_client
        # TCP
        self.next = SLOW
        self.seen = False
        """Whether a packet of this direction was seen."""
        self.isn = -1
        """Sequence number of its SYN; -1: not seen."""
        self.base = -1
        """Sequence number of offset 0; -1: not known."""
        self.offset = 0
        """Offset of the next byte in order."""
        self.fin = -1
        """Offset of the end; -1: not known."""
        self.fin_packet = 0
        """The packet that told the end; 0: none, or a reset."""
        self.ack = -1
        """The last acknowledgement that this side sent, a sequence number of the peer; -1: none yet."""
        self.held: list[Piece] = []
        """Pieces behind a hole, by offset, without overlaps."""
        self.held_bytes = 0
        self.deadline = -1
        """The packet from which on the hole is declared; -1: there is no hole, or nothing proves it."""
        # Frames
        self.mode = SNIFF
        self.limit = limit
        """Bytes of the largest frame."""
        self.run = bytearray()
        """Bytes from the beginning of the open frame, or those that are searched; they end at ``offset``."""
        self.marks: list[tuple[int, int, int]] = []
        """Which packet brought the run's bytes: position in the run, packet, time."""
        self.need = 0
        """Bytes until the open frame, or its two lengths, are whole."""
        self.sync = START
        self.trust = 0
        """Bytes of frames since the search that were checked in full."""
        self.partial: Partial | None = None
        self.search: Search | None = None
        self.budget = Budget()
        self.trouble: list[tuple[int, Problem]] = []
        """Problems for the frames to come, by offset."""


class Connection:
    """Both directions of a TCP connection."""

    __slots__ = (
        "alarm",
        "back",
        "closing",
        "ended",
        "finished",
        "keys",
        "last",
        "oriented",
        "paused",
        "stream",
        "there",
    )

    def __init__(self, stream: Stream, limit: int, keys: tuple[bytes, bytes], *, first_is_client: bool) -> None:
        self.stream = stream
        self.keys = keys
        self.there = Direction(self, limit, from_client=first_is_client)
        """The direction of the first packet."""
        self.back = Direction(self, limit, from_client=not first_is_client)
        self.there.peer, self.back.peer = self.back, self.there
        self.oriented = False
        """Whether client and server are known, not guessed."""
        self.paused = False
        """A hole that is proven waits for reordered packets; until then both directions wait."""
        self.closing = -1
        """The packet from which on the connection is over; -1: it is open."""
        self.finished = False
        self.ended: tuple[Direction, int, int, int] | None = None
        """Its first FIN or RST: direction, packet, time, flags; None: there was none, or it was told already."""
        self.alarm = -1
        """The packet at which somebody must look at the connection; -1: none."""
        self.last = 0
        """The last packet that took the slow path."""
