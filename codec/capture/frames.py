"""The output of the capture reader: frames with their positions, notes about other events, and connection ends.

Rules of this file
1. A CapturedFrame is a Frame with its position in the capture. Frames are equal only if they are the same object.
2. Frames and streams are plain classes with slots, because an object is created for every frame of an arbitrarily large
   file.
3. A Note is one line of readable text, and its numbers are also fields. Notes and frames are in the order of the
   capture.
4. A StreamEnd follows the last frame and note of its connection.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem

START = "start"
"""The frame's position was determined from the start of the connection, without a gap."""
ANCHORED = "anchored"
"""The position was determined from the length of a frame that spanned a gap. It is certain."""
RESYNC = "resync"
"""The position was found by search, or was determined from a position found by search. It may be wrong."""

NOTE_KINDS: dict[str, str] = {
    "file": "the file is damaged, truncated, or not a capture; everything before the offset was returned",
    "gap": "bytes of a direction are missing from the capture",
    "http": "a stream of HTTP",
    "leftover": "bytes outside complete frames, at the end of a direction or after an invalid frame length",
    "length": "the length of a frame is invalid",
    "not-pulsar": "a stream that is neither Pulsar nor TLS nor HTTP",
    "overlap": "the bytes of a retransmission differ from those of the first transmission",
    "proxy-protocol": "a PROXY protocol header at the start of the stream",
    "resync": "the position at which a search found the next frame",
    "snaplen": "packets are truncated; this is reported once per file",
    "tls": "a stream of TLS",
    "unacknowledged": "the last bytes of a direction were retransmitted and never acknowledged by the peer's TCP",
    "unread": "packets of a file that were not decoded: their link type is unknown, or they end inside their headers",
}
"""Every kind of note, with its meaning."""


class Stream:
    """One TCP connection."""

    __slots__ = ("bases", "client", "decrypted", "kind", "midstream", "number", "opening", "server")

    def __init__(self, number: int, client: tuple[str, int], server: tuple[str, int], *, midstream: bool) -> None:
        self.number = number
        """tshark's tcp.stream: connections are numbered from 0 in the order of their first packets."""
        self.client = client
        """Address and port. The client is the sender of the SYN or, if no SYN was captured, is identified by commands
        or else by ports."""
        self.server = server
        self.midstream = midstream
        """Whether the capture lacks the connection's SYN."""
        self.opening: tuple[int, ...] = ()
        """The connection's first packet and the packets of its SYNs."""
        self.bases = [-1, -1]
        """Sequence number of the first byte of the client and of the server; -1 if it is unknown."""
        self.kind = "unknown"
        """One of pulsar, tls, http, proxy (a PROXY header before unidentified bytes), other and unknown."""
        self.decrypted = False
        """Whether the bytes are decrypted from TLS. The kind is then that of the decrypted bytes."""

    def __repr__(self) -> str:
        return f"Stream({self.number}, {self.client}, {self.server}, {self.kind})"


class CapturedFrame(Frame):
    """A frame with its position. ``data`` may be shorter than its length prefix; see ``capture_problems``."""

    __slots__ = (
        "_carriers",
        "capture_problems",
        "from_client",
        "number",
        "offset",
        "packet",
        "stream",
        "sync",
        "time_ns",
    )

    def __init__(
        self,
        data: bytes,
        type: int,  # noqa: A002
        number: int,
        packet: int,
        time_ns: int,
        stream: Stream,
        from_client: bool,
        offset: int,
        sync: str,
        capture_problems: tuple[Problem, ...] = (),
        carriers: tuple[int, ...] | None = None,
    ) -> None:
        # This repeats Frame.__init__, to avoid a call.
        self.data = data
        self.type = type
        self._body = self._command = self._metadata = self._entry = self._parts = None
        self.number = number
        """Frame number across all inputs, from 1, in the order in which frames are completed."""
        self.packet = packet
        """Number of the packet that contains the end of the frame, from 1 across all inputs, as in tshark."""
        self.time_ns = time_ns
        """Capture time of that packet, nanoseconds since 1970."""
        self.stream = stream
        self.from_client = from_client
        self.offset = offset
        """Start of the frame in its direction of the stream. Offset 0 is the first byte after the SYN, or the first
        byte in the capture."""
        self.sync = sync
        """How the position was determined: ``start``, ``anchored`` or ``resync``."""
        self.capture_problems = capture_problems
        """Defects caused by the capture: gap, cut, overlap."""
        self._carriers = carriers

    @property
    def packets(self) -> tuple[int, ...]:
        """All packets that contain bytes of the frame, in the order of the bytes."""
        return self._carriers or (self.packet,)


@dataclass(frozen=True, slots=True)
class SkippedFrames:
    """Consecutive frames that a reader has read but does not yield."""

    first_ns: int
    """Time of the first frame."""
    last_ns: int
    last: int
    """Number of the last frame."""


@dataclass(frozen=True, slots=True)
class Note:
    """An event in the capture other than a frame."""

    kind: str
    """A key of NOTE_KINDS."""
    text: str
    """One line of readable text."""
    packet: int = 0
    """The packet at which the event was detected; 0 if it was detected before the first packet."""
    stream: Stream | None = None
    from_client: bool | None = None
    """The direction of the stream; None for both directions, or if there is no stream."""
    offset: int | None = None
    """Offset in the direction of the stream, or in the file for a note about a file."""
    length: int = 0
    """Number of bytes that the event affects."""
    source: str = ""
    """The name of the input, for a note about a file."""

    @classmethod
    def of_file(cls, source: str, text: str, offset: int | None = None) -> Note:
        """Return a note about a file that cannot be read beyond an offset, or at all."""
        return cls("file", text, offset=offset, source=source)

    @property
    def is_of_file(self) -> bool:
        """Whether a file cannot be read to its end."""
        return self.kind == "file"

    @property
    def is_once_per_file(self) -> bool:
        """Whether only the first such note about each file is reported."""
        return self.kind == "snaplen"


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a TCP connection of any protocol: its first FIN or RST."""

    stream: Stream
    packet: int
    """The packet with the FIN or RST."""
    time_ns: int
    """Capture time of that packet, nanoseconds since 1970."""
    from_client: bool
    """Whether the client sent that packet."""
    reset: bool
    """Whether that packet is an RST."""
    refused: bool
    """Whether the RST answered the SYN because no process listens on the port."""
    silent: bool
    """Whether the connection carried no data in either direction."""
