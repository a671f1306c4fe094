"""The state of a TCP connection and its two directions, without behaviour, for ``streams`` and ``frame_extraction``.

Rules of this file
1. One object per direction contains all state that a packet needs. The fast path therefore needs one dictionary
   look-up.
2. ``next`` selects the path of the next packet: a sequence number if frames may be sliced directly from the window,
   SLOW for anything unusual, IGNORE if the bytes are not needed.
3. ``mode`` is how the next bytes are processed. Each mode is a class with the state that only this mode needs, so the
   state ends with its mode.

Invariants, which hold after every packet
1. ``run`` contains the last bytes before ``offset``, and ``marks`` the packets that contain them, in order. The run is
   empty in an incomplete frame, and while bytes are skipped or decrypted.
2. A search begins at the first byte of the run, and its candidate is in the run. Its timer is set if the run has bytes.
3. If an aligned direction's run has 8 bytes or more, they are the lengths of a frame that is longer than the run.
4. The queued segments are ordered, do not overlap and begin after ``offset``. If bytes are skipped, none is queued once
   the connection has finished.
5. A deadline is set only before a gap. Both directions are paused only if one of them has a deadline.
6. ``next`` is a sequence number only in an aligned direction without queued segments, pending problems or an end; it is
   then that of ``offset``. IGNORE is set only if bytes are skipped.
7. Both directions have the same limit. Both are decrypted, or none is, unless the decryption of one has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pcli.codec.capture.frames import RESYNC, START, Stream
from pcli.codec.capture.resync import Budget, Search
from pcli.codec.capture.tls import TlsSession
from pcli.codec.wire.problems import Problem

SLOW: Final = -1
IGNORE: Final = -2

MAX_MARKS: Final = 1 << 16
"""Maximum number of packets recorded per frame. If it is exceeded, only the last packet is updated."""

QueuedSegment = tuple[int, bytes | None, int, int, int, tuple[int, ...], int]
"""A queued segment: offset, bytes (None if truncated by the snap length), length, packet, time, fragment packets, and
priority, which is the lowest packet number of this segment and all later segments in the queue."""


class Unclassified:
    """The mode in which the content is unknown. The run contains the first bytes."""

    __slots__ = ("sync",)

    def __init__(self, sync: str) -> None:
        self.sync = sync
        """The certainty of a frame at the first byte: START, or RESYNC after lost bytes."""


class Aligned:
    """The mode in which the run starts at a frame boundary."""

    __slots__ = ("checked_bytes", "need", "sync")

    def __init__(self, sync: str) -> None:
        self.sync = sync
        """The certainty of the boundary."""
        self.checked_bytes = 0
        """Total bytes of the fully checked frames since the search."""
        self.need = 0
        """Number of bytes missing to complete the open frame, or its two length fields."""


class IncompleteFrame:
    """The mode inside a frame with missing bytes. Its other bytes are dropped until its end is reached."""

    __slots__ = ("after", "data", "left", "offset", "packets", "problems", "sync", "time_ns")

    def __init__(self, data: bytes, offset: int, after: Aligned, packets: list[int], time_ns: int, left: int) -> None:
        self.data = data
        self.offset = offset
        self.sync = after.sync
        self.packets = packets
        self.time_ns = time_ns
        self.left = left
        """Number of bytes to the end of the frame."""
        self.after = after
        """The mode at the end of the frame."""
        self.problems: list[Problem] = []


class Skipped:
    """The mode in which bytes are dropped: they are not Pulsar, or the connection has ended."""

    __slots__ = ()


class Encrypted:
    """The mode in which bytes are decrypted and passed to another direction, which has no TCP state."""

    __slots__ = ("plain", "session")

    def __init__(self, plain: Direction, session: TlsSession) -> None:
        self.plain = plain
        self.session = session
        """The decryption, which both directions share."""


Mode = Unclassified | Aligned | IncompleteFrame | Search | Skipped | Encrypted


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


@dataclass(slots=True, eq=False, repr=False)
class Direction:
    """One direction of a connection."""

    connection: Connection
    limit: int
    """Size of the largest frame in bytes."""
    from_client: bool
    peer: Direction = field(init=False)
    stream: Stream = field(init=False)
    # TCP state
    next: int = SLOW
    seen: bool = False
    """Whether the capture contains a packet of this direction."""
    isn: int = -1
    """Sequence number of the SYN; -1 if it is not in the capture."""
    base: int = -1
    """Sequence number of offset 0; -1 if unknown."""
    offset: int = 0
    """Offset of the next byte in order."""
    fin: int = -1
    """Offset at which the direction ends; -1 if unknown."""
    fin_packet: int = 0
    """The packet with the FIN; 0 if there is none, or if a reset ended the direction."""
    ack: int = -1
    """The last acknowledgement number from this side, in the peer's sequence space; -1 if none."""
    resent: Retransmission | None = None
    """The last segment that was retransmitted; None if there is none."""
    held: list[QueuedSegment] = field(default_factory=list)
    """Segments queued after a gap, by offset, without overlaps."""
    held_bytes: int = 0
    deadline: int = -1
    """The packet at which the gap is final; -1 if there is no gap, or if the gap is unconfirmed."""
    # Frame state
    mode: Mode = field(default_factory=lambda: Unclassified(START))
    run: bytearray = field(default_factory=bytearray)
    """Bytes from the start of the open frame, or the bytes being classified or searched. They end at ``offset``."""
    marks: list[tuple[int, int, int]] = field(default_factory=list)
    """The packets that contain the run's bytes, as (position in the run, packet, time)."""
    budget: Budget = field(default_factory=Budget)
    """The bytes that the checks of frames may read, in all searches together."""
    pending_problems: list[tuple[int, Problem]] = field(default_factory=list)
    """Problems to attach to later frames, with their offsets."""

    def __post_init__(self) -> None:
        self.stream = self.connection.stream

    @property
    def aligned(self) -> Aligned:
        """The mode of a direction that is certainly aligned."""
        assert isinstance(self.mode, Aligned)
        return self.mode

    @property
    def sync(self) -> str:
        """The certainty of the present frame or frame boundary."""
        mode = self.mode
        if isinstance(mode, Unclassified | Aligned | IncompleteFrame):
            return mode.sync
        return RESYNC if isinstance(mode, Search) else START

    @property
    def skipped(self) -> bool:
        """Whether the bytes of the direction are not read."""
        return isinstance(self.mode, Skipped)

    @property
    def waiting(self) -> bool:
        """Whether the direction has bytes that are not yet part of a delivered frame."""
        return bool(self.held or self.run) or isinstance(self.mode, IncompleteFrame)


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
        self.last = 0
        """The last packet that took the slow path."""
