"""What comes out of a capture: frames with their place in it, notes about everything that is no frame, and ends.

Rules of this file
1. A CapturedFrame is a Frame that knows where it stood. Two of them are equal when they are the same object.
2. Frames and streams are plain slotted classes: one is made for every frame of a file of any size.
3. A Note is one line for a person plus the numbers in it. Notes and frames come in one order, that of the capture.
4. A StreamEnd stands in that order where nothing more of its connection is to come.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem

__all__ = ["ANCHORED", "NOTE_KINDS", "RESYNC", "START", "CapturedFrame", "Note", "Stream", "StreamEnd"]

START = "start"
"""The frame's place follows from the beginning of the connection, byte by byte."""
ANCHORED = "anchored"
"""The place was carried over missing bytes by the length of the frame that was open there. It is certain."""
RESYNC = "resync"
"""The place was found by search, or follows from such a place. It may be wrong."""

NOTE_KINDS: dict[str, str] = {
    "file": "the file is damaged, truncated, or not a capture; everything before the offset was returned",
    "gap": "bytes of a direction are missing in the capture",
    "http": "a stream of HTTP",
    "leftover": "bytes outside complete frames, at the end of a direction or after an invalid frame length",
    "length": "the length of a frame is invalid",
    "not-pulsar": "a stream that is neither Pulsar nor TLS nor HTTP",
    "overlap": "a retransmission had different bytes than the first transmission",
    "proxy-protocol": "a PROXY protocol header at the start of the stream",
    "resync": "the position at which a search found the next frame",
    "snaplen": "packets are truncated: reported once per file",
    "tls": "a stream of TLS",
}
"""Every kind of note, with what it means."""


class Stream:
    """One TCP connection."""

    __slots__ = ("client", "kind", "midstream", "number", "opening", "server")

    def __init__(self, number: int, client: tuple[str, int], server: tuple[str, int], *, midstream: bool) -> None:
        self.number = number
        """As tshark's tcp.stream: connections are counted from 0 in the order of their first packets."""
        self.client = client
        """Address and port. The client sent the SYN; without one the commands tell, and before them the port."""
        self.server = server
        self.midstream = midstream
        """The capture did not see its SYN."""
        self.opening: tuple[int, ...] = ()
        """The connection's first packet, and those of its SYNs."""
        self.kind = "unknown"
        """pulsar, tls, http, proxy (a PROXY header and nothing known behind it), other, unknown."""

    def __repr__(self) -> str:
        return f"Stream({self.number}, {self.client}, {self.server}, {self.kind})"


class CapturedFrame(Frame):
    """A frame and where it was. ``data`` may be shorter than the frame says: ``capture_problems`` says why."""

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
        # What Frame.__init__ does, without the call.
        self.data = data
        self.type = type
        self._command = self._metadata = self._entry = self._parts = None
        self.number = number
        """Frames are counted from 1 over all inputs, in the order in which they become whole."""
        self.packet = packet
        """The packet in which the frame ends, counted from 1 over all inputs, as tshark counts."""
        self.time_ns = time_ns
        """When that packet was captured, nanoseconds since 1970."""
        self.stream = stream
        self.from_client = from_client
        self.offset = offset
        """Where the frame begins in its direction of the stream: 0 is the first byte behind the SYN, or the first
        byte captured."""
        self.sync = sync
        """How the place is known: ``start``, ``anchored`` or ``resync``."""
        self.capture_problems = capture_problems
        """What the capture did to the frame: gap, cut, overlap."""
        self._carriers = carriers

    @property
    def packets(self) -> tuple[int, ...]:
        """All packets that carried bytes of the frame, in the order of the bytes."""
        return self._carriers or (self.packet,)


@dataclass(frozen=True, slots=True)
class Note:
    """Something that has to be told and is no frame."""

    kind: str
    """A key of NOTE_KINDS."""
    text: str
    """One line for a person."""
    packet: int = 0
    """The packet at which it was seen; 0: before the first."""
    stream: Stream | None = None
    from_client: bool | None = None
    """Which direction of the stream; None: both, or no stream at all."""
    offset: int | None = None
    """In the direction of the stream, or in the file for a note on a file."""
    length: int = 0
    """How many bytes it is about."""
    source: str = ""
    """The name of the input, for a note on a file."""


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """A TCP connection, of whatever protocol, has ended: its first FIN or RST."""

    stream: Stream
    packet: int
    """The packet that told it."""
    time_ns: int
    """When that packet was captured, nanoseconds since 1970."""
    from_client: bool
    """Who ended it: the sender of that packet."""
    reset: bool
    """By RST."""
    refused: bool
    """The RST answered the SYN: nobody listens there."""
    silent: bool
    """Not one byte of data was seen, either way."""
