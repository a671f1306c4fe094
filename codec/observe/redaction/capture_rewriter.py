"""Redaction of a capture packet by packet: connections are kept, and application data is removed.

Rules of this file
1. Every TCP packet of the selected connections is rewritten. Its time and flags are kept; sequence and acknowledgement
   numbers are adjusted to the new bytes. Missing beginnings, gaps, retransmissions and truncated packets are preserved.
   Packets that are not TCP, and the layers around TCP (VLAN tags, tunnels, Ethernet addresses), are dropped.
2. There are two passes: the first creates the new frames, and the second writes the packets. Both use the slow path of
   the reader. A direction is identified by the connection's number and by whether it contains the connection's first
   packet.
3. In a stream that is not Pulsar, the few bytes that identify the protocol are kept. The rest becomes filler. TLS
   session keys are dropped; the caller passes decrypted connections as plain packets (`tls.plain_packets`).
4. At most MAX_BYTES of new frames are kept in memory between the passes. Larger captures are too large for an issue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from zlib import crc32

from pcli.codec.capture.flows import Direction
from pcli.codec.capture.frame_extraction import FrameExtractor
from pcli.codec.capture.frames import RESYNC, CapturedFrame, Note, Stream
from pcli.codec.capture.ip import Fragments
from pcli.codec.capture.output import Output
from pcli.codec.capture.packets import Packet, Secrets
from pcli.codec.capture.recorder import push_segment
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.streams import TcpReassembly
from pcli.codec.capture.tunnels import ACK, FIN, RST, SYN, Segment, pull_segment
from pcli.codec.capture.writer import PcapngWriter
from pcli.codec.errors import LocalError
from pcli.codec.observe.redaction.frame_selection import EVERYTHING, Selection
from pcli.codec.observe.redaction.frames import redact_frame
from pcli.codec.observe.redaction.name_pseudonyms import Names
from pcli.codec.observe.redaction.stream_edits import Edits
from pcli.codec.wire.constants import MAX_FRAME_SIZE

MAX_BYTES: Final = 256 * 1024 * 1024
"""Limit on the total size of new frames in bytes: ten times the maximum attachment to an issue."""

_FIRST_BYTES: Final = {"tls": 5, "http": 8, "not-pulsar": 4, "length": 8, "leftover": 8}
"""Number of bytes kept at the position of a note, by kind: the header of a TLS record, an HTTP method, lengths."""

_FILLER: Final = {"tls": b"\x14", "http": b"x", "other": b"x"}
"""Filler that keeps streams of these kinds recognizable (0x14 starts a TLS record). Other streams are filled with 0."""

_MASK: Final = 0xFFFFFFFF
_PROXY_HEAD: Final = 12
"""Number of bytes that identify a binary PROXY header."""


class _FrameCollector(Output):
    """An output that passes frames and notes to the rewriter when the reader emits them with their direction."""

    def __init__(self, owner: CaptureRewriter) -> None:
        super().__init__()
        self.owner = owner

    def frame(
        self, direction: Direction, data: bytes, offset: int, sync: str, packets: list[int], packet: int, time_ns: int
    ) -> int:
        number = super().frame(direction, data, offset, sync, packets, packet, time_ns)
        frame = self.out.pop()
        assert isinstance(frame, CapturedFrame)
        self.owner.take_frame(direction, frame)
        return number

    def note(self, direction: Direction, kind: str, text: str, packet: int, offset: int, length: int) -> None:
        self.owner.take_note(direction, kind, packet, offset, length)


class CaptureRewriter:
    """The redaction of one capture. Pass its packets to `prepare`, and then a second time to `write`."""

    def __init__(
        self, names: Names, selection: Selection = EVERYTHING, decode_as: Mapping[int, str] | None = None
    ) -> None:
        self._names = names
        self._selection = selection
        self._decode_as = decode_as or {}
        self._edits: dict[tuple[int, bool], Edits] = {}
        self._streams: dict[int, Stream] = {}
        self._differing: dict[int, tuple[int, int]] = {}
        """Offset and length of the bytes that differ from an earlier transmission, by packet number."""
        self._size = 0
        self._last_packet = 0
        """Packet in which the last selected frame ends."""
        self._acknowledged: dict[tuple[int, bool], int] = {}
        self.frames = 0
        """Number of selected frames."""
        self.written = 0
        """Number of packets written."""

    # -- first pass

    def prepare(self, packets: Iterable[Packet | Secrets | Note]) -> None:
        """Create the new frames. Raise LocalError if they exceed MAX_BYTES."""
        output, last = _FrameCollector(self), self._selection.last
        for _ in self._segments(packets, output):
            if last and output.count > last:
                break
        for edits in self._edits.values():
            edits.end_left_out()

    def take_frame(self, direction: Direction, frame: CapturedFrame) -> None:
        """Redact a frame, or omit it if it is not selected."""
        edits = self._of(direction)
        if edits is None:
            return
        if not self._selection.takes(frame):
            edits.leave_out(frame.offset, frame.length)
            return
        self.frames += 1
        self._last_packet = max(self._last_packet, frame.packet)
        data = redact_frame(frame, self._names)
        edits.put(frame.offset, len(frame.data), data)
        self._size += len(data)
        if self._size > MAX_BYTES:
            raise LocalError(f"more than {MAX_BYTES >> 20} MB: select connections with -Y, or frames with --around")

    def take_note(self, direction: Direction, kind: str, packet: int, offset: int, length: int) -> None:
        """Process a note: protocol bytes to keep, a PROXY header, or an overlap with different bytes."""
        if kind == "overlap":
            self._differing[packet] = (offset, length)
            return
        edits = self._of(direction)
        if edits is None or self._selection.last:
            return
        if kind == "proxy-protocol":
            edits.put(offset, length, _proxy_header(bytes(direction.run[:length])))
        elif kind in _FIRST_BYTES and direction.sync != RESYNC:
            # After a resync, the bytes at the position of the lengths may be payload bytes.
            edits.put(offset, min(_FIRST_BYTES[kind], length or MAX_FRAME_SIZE), None)

    def _of(self, direction: Direction) -> Edits | None:
        """Return the edits of a direction, or None if its connection is not selected."""
        number = direction.stream.number
        self._streams.setdefault(number, direction.stream)
        chosen = self._selection.streams
        if chosen is not None and number not in chosen:
            return None
        return self._edits.setdefault(_key(direction), Edits())

    # -- both passes

    def _segments(
        self, packets: Iterable[Packet | Secrets | Note], output: Output
    ) -> Iterator[tuple[Packet, Segment, Direction]]:
        """Yield every TCP segment with its direction, after the reader has processed it."""
        classifier = StreamClassifier(self._decode_as)
        extractor = FrameExtractor(output, classifier)
        tcp = TcpReassembly(output, extractor, classifier, MAX_FRAME_SIZE)
        fragments, number = Fragments(), 0
        for packet in packets:
            if not isinstance(packet, Packet):
                continue
            number = packet.number
            if number >= tcp.table.timer:
                tcp.run_timers(number)
            data = packet.data
            segment = pull_segment(data, packet.link, 0, len(data), packet.wire_length, number, fragments)
            if segment is None:
                continue
            if packet.left_out:
                tcp.skip_left_out(segment, number)
            tcp.segment(segment, number, packet.time_ns)
            output.out.clear()
            direction = tcp.table.directions.get(segment.key)
            if direction is not None:
                yield packet, segment, direction
        tcp.end(number)

    # -- second pass

    def write(self, packets: Iterable[Packet | Secrets | Note], writer: PcapngWriter) -> None:
        """Write the redacted capture. ``packets`` are the same as for `prepare`."""
        for packet, segment, direction in self._segments(packets, Output()):
            if self._selection.last and packet.number > self._last_packet:
                return
            if self._of(direction) is not None:
                self._write(packet, segment, direction, writer)

    def _write(self, packet: Packet, segment: Segment, direction: Direction, writer: PcapngWriter) -> None:
        """Write the packets that replace a packet, if any."""
        key = _key(direction)
        edits = self._edits[key]
        offset = _offset(direction, segment.seq + bool(segment.flags & SYN))
        old = segment.data[segment.start : segment.end]
        runs = edits.cut(offset, old, _FILLER.get(self._streams[direction.stream.number].kind, b"\0"))
        if packet.number in self._differing:
            start, size = self._differing[packet.number]
            runs = [
                (at, _differing(data, at, edits.new_offset(start), edits.new_offset(start + size))) for at, data in runs
            ]
        acknowledged = self._new_ack_offset(segment, direction) if segment.flags & ACK else 0
        if self._selection.last and not self._has_content(key, segment, runs, acknowledged):
            return
        self._acknowledged[key] = acknowledged
        end = offset + len(old)
        missing = edits.new_offset(end + segment.missing) - edits.new_offset(end)
        if len(runs) > 1 and not runs[0][1]:
            del runs[0]
        for index, (at, data) in enumerate(runs):
            last = index == len(runs) - 1
            flags = segment.flags if last else segment.flags & ~FIN
            seq, ack = _first(key) + at - bool(flags & SYN), _first(_key(direction.peer)) + acknowledged
            left_out = at in edits.resumes or (packet.left_out and not index)
            head = (seq & _MASK, ack & _MASK if flags & ACK else 0, flags)
            self._send(packet.time_ns, segment.key, direction, head, data, missing if last else 0, left_out, writer)

    def _send(
        self,
        time_ns: int,
        ends: bytes,
        direction: Direction,
        head: tuple[int, int, int],
        data: bytes,
        missing: int,
        left_out: bool,
        writer: PcapngWriter,
    ) -> None:
        """Write a packet. ``head`` is (sequence number, acknowledgement number, flags); ``ends`` is a Segment.key."""
        addresses = (self._names.address(one) for one in _halves(ends[:-4]))
        source, target = (address + port for address, port in zip(addresses, _halves(ends[-4:])))
        self.written += 1
        frame = push_segment(source, target, not direction.from_client, *head, data, self.written, missing=missing)
        writer.packet(Packet(self.written, time_ns, 1, frame, len(frame) + missing, left_out=left_out))

    def _new_ack_offset(self, segment: Segment, direction: Direction) -> int:
        """Return the acknowledgement number as an offset in the new bytes of the other direction."""
        if direction.peer.base < 0:
            return 0
        edits = self._of(direction.peer)
        assert edits is not None  # both directions belong to the same connection
        return edits.new_offset(_offset(direction.peer, segment.ack))

    def _has_content(
        self, key: tuple[int, bool], segment: Segment, runs: list[tuple[int, bytes]], acknowledged: int
    ) -> bool:
        """Whether a packet must be written: it has content, or it acknowledges new bytes after omitted packets."""
        if segment.flags & (SYN | FIN | RST) or any(data for _, data in runs):
            return True
        return acknowledged > self._acknowledged.get(key, 0)


def _key(direction: Direction) -> tuple[int, bool]:
    """Return the key of a direction. It does not depend on which end is identified as the client."""
    return direction.stream.number, direction is direction.connection.there


def _first(key: tuple[int, bool]) -> int:
    """Return the sequence number of a direction's first byte; connections are far apart, as those of TCP are."""
    return crc32(b"%d %d" % key)


def _offset(direction: Direction, seq: int) -> int:
    """Return the offset in the direction for a sequence number."""
    distance = seq - direction.base - direction.offset & _MASK
    return direction.offset + (distance - (1 << 32) if distance & 0x80000000 else distance)


def _halves(data: bytes) -> tuple[bytes, bytes]:
    return data[: len(data) // 2], data[len(data) // 2 :]


def _differing(data: bytes, at: int, start: int, end: int) -> bytes:
    """Return ``data``, which starts at ``at``, with the bytes from ``start`` to ``end`` inverted."""
    first, last = max(0, start - at), max(0, end - at)
    return data[:first] + bytes(byte ^ 0xFF for byte in data[first:last]) + data[max(first, last) :]


def _proxy_header(data: bytes) -> bytes:
    """Return a PROXY header of the same version without addresses."""
    if data.startswith(b"PROXY "):
        return b"PROXY UNKNOWN\r\n"
    # Version 2, command LOCAL, followed by zeros of the same length.
    return data[:_PROXY_HEAD] + b"\x20" + data[13:16] + bytes(len(data) - 16)
