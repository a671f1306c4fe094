"""The state of a TCP connection and its two directions, without behaviour, for ``streams`` and ``frame_extraction``.

Rules of this file
1. One object per direction contains all state that a packet needs. The fast path therefore needs one dictionary
   look-up.
2. ``next`` selects the path of the next packet: a sequence number if frames may be sliced directly from the window,
   SLOW for anything unusual, IGNORE if the bytes are not needed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pcli.codec.capture.frames import START, Stream
from pcli.codec.capture.resync import Budget, Search
from pcli.codec.capture.tls import TlsSession
from pcli.codec.wire.problems import Problem

__all__ = [
    "IGNORE",
    "MAX_MARKS",
    "SEARCH",
    "SKIP",
    "SLOW",
    "SNIFF",
    "SYNC",
    "TLS",
    "Connection",
    "Direction",
    "IncompleteFrame",
    "QueuedSegment",
    "Retransmission",
]

SLOW: Final = -1
IGNORE: Final = -2

SNIFF: Final = 0
"""The content of the direction is unknown."""
SYNC: Final = 1
"""The run starts at a frame boundary."""
SEARCH: Final = 2
"""The run is being searched for a frame boundary."""
SKIP: Final = 3
"""The bytes are not Pulsar, or the connection has ended."""
TLS: Final = 4
"""The bytes are decrypted and passed to another Direction."""

MAX_MARKS: Final = 1 << 16
"""Maximum number of packets recorded per frame. If it is exceeded, only the last packet is updated."""

QueuedSegment = tuple[int, bytes | None, int, int, int, tuple[int, ...], int]
"""A queued segment: offset, bytes (None if truncated by the snap length), length, packet, time, fragment packets, and
priority, which is the lowest packet number of this segment and all later segments in the queue."""


class IncompleteFrame:
    """A frame with missing bytes, until its end is reached."""

    __slots__ = ("data", "left", "offset", "packets", "problems", "sync", "time_ns")

    def __init__(self, data: bytes, offset: int, sync: str, packets: list[int], time_ns: int) -> None:
        self.data = data
        self.offset = offset
        self.sync = sync
        self.packets = packets
        self.time_ns = time_ns
        self.left = 0
        """Number of bytes to the end of the frame."""
        self.problems: list[Problem] = []


class Retransmission(NamedTuple):
    """A segment that was sent more than once."""

    seq: int
    """Sequence number of its first byte."""
    size: int
    first_ns: int
    """Time of its first retransmission."""
    last_ns: int
    """Time of its last retransmission."""
    acknowledged: bool
    """Whether the peer had acknowledged it at one of these times: the retransmission was unnecessary."""


class Direction:
    """One direction of a connection."""

    __slots__ = (
        "ack",
        "base",
        "budget",
        "checked_bytes",
        "connection",
        "deadline",
        "decrypted",
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
        "pending_problems",
        "resent",
        "run",
        "search",
        "seen",
        "stream",
        "sync",
    )

    peer: Direction

    def __init__(self, connection: Connection, limit: int, *, from_client: bool) -> None:
        self.connection = connection
        self.stream = connection.stream
        self.from_client = from_client
        # TCP state
        self.next = SLOW
        self.seen = False
        """Whether the capture contains a packet of this direction."""
        self.isn = -1
        """Sequence number of the SYN; -1 if it is not in the capture."""
        self.base = -1
        """Sequence number of offset 0; -1 if unknown."""
        self.offset = 0
        """Offset of the next byte in order."""
        self.fin = -1
        """Offset at which the direction ends; -1 if unknown."""
        self.fin_packet = 0
        """The packet with the FIN; 0 if there is none, or if a reset ended the direction."""
        self.ack = -1
        """The last acknowledgement number from this side, in the peer's sequence space; -1 if none."""
        self.resent: Retransmission | None = None
        """The last segment that was retransmitted; None if there is none."""
        self.held: list[QueuedSegment] = []
        """Segments queued after a gap, by offset, without overlaps."""
        self.held_bytes = 0
        self.deadline = -1
        """The packet at which the gap is final; -1 if there is no gap, or if the gap is unconfirmed."""
        self.decrypted: Direction | None = None
        """The direction with the decrypted bytes, in the mode TLS. It has no TCP state."""
        # Frame state
        self.mode = SNIFF
        self.limit = limit
        """Size of the largest frame in bytes."""
        self.run = bytearray()
        """Bytes from the start of the open frame, or the bytes being searched. They end at ``offset``."""
        self.marks: list[tuple[int, int, int]] = []
        """The packets that contain the run's bytes, as (position in the run, packet, time)."""
        self.need = 0
        """Number of bytes missing to complete the open frame, or its two length fields."""
        self.sync = START
        self.checked_bytes = 0
        """Total bytes of the fully checked frames since the search."""
        self.partial: IncompleteFrame | None = None
        self.search: Search | None = None
        self.budget = Budget()
        self.pending_problems: list[tuple[int, Problem]] = []
        """Problems to attach to later frames, with their offsets."""


class Connection:
    """Both directions of a TCP connection."""

    __slots__ = (
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
        "timer",
        "tls",
    )

    def __init__(self, stream: Stream, limit: int, keys: tuple[bytes, bytes], *, first_is_client: bool) -> None:
        self.stream = stream
        self.keys = keys
        self.there = Direction(self, limit, from_client=first_is_client)
        """The direction of the first packet."""
        self.back = Direction(self, limit, from_client=not first_is_client)
        self.there.peer, self.back.peer = self.back, self.there
        self.oriented = False
        """Whether client and server are certain, not inferred from ports."""
        self.paused = False
        """Whether both directions wait because a confirmed gap may still be filled by reordered packets."""
        self.closing = -1
        """The packet at which the closed connection is finished; -1 while it is open."""
        self.finished = False
        self.ended: tuple[Direction, int, int, int] | None = None
        """The first FIN or RST (direction, packet, time, flags); None if there is none, or it was already reported."""
        self.timer = -1
        """Packet number of the connection's timer; -1 if there is none."""
        self.tls: TlsSession | None = None
        """The decryption of the connection, in the mode TLS."""
        self.last = 0
        """The last packet that took the slow path."""
