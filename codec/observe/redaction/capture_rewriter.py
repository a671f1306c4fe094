"""A whole capture without anything of the application in it: the same connections, packet by packet.

Rules of this file
1. Every packet of the chosen connections is written anew, with its time, flags, sequence and acknowledgement numbers
   as they are for the new bytes. So a beginning that was not seen is not seen, a hole is a hole, a retransmission one,
   and cut packets are cut. What is not TCP, and what was around it (tags, tunnels, Ethernet addresses), is gone.
2. Two passes: the first puts the new frames together, the second writes the packets. Both take the careful way of the
   reader, and know a direction by its connection's number and the side whose packet came first.
3. What stood there instead of Pulsar keeps the few bytes by which it is known, and the rest is filler. Keys of TLS
   sessions are not written.
4. The new frames are kept in memory between the passes, MAX_BYTES at most: this is for captures that are sent to
   somebody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pcli.codec.capture.flows import Direction
from pcli.codec.capture.frame_extraction import Walker
from pcli.codec.capture.frames import RESYNC, CapturedFrame, Note, Stream
from pcli.codec.capture.ip import Fragments
from pcli.codec.capture.output import Output
from pcli.codec.capture.packets import Packet, Secrets
from pcli.codec.capture.recorder import push_segment
from pcli.codec.capture.stream_kind import Judge
from pcli.codec.capture.streams import Tcp
from pcli.codec.capture.tunnels import ACK, FIN, RST, SYN, Segment, pull_segment
from pcli.codec.capture.writer import PcapngWriter
from pcli.codec.errors import LocalError
from pcli.codec.observe.redaction.frame_selection import EVERYTHING, Selection
from pcli.codec.observe.redaction.frames import redact_frame
from pcli.codec.observe.redaction.name_pseudonyms import Names
from pcli.codec.observe.redaction.stream_edits import Edits
from pcli.codec.wire.constants import MAX_FRAME_SIZE

__all__ = ["MAX_BYTES", "Rewriting"]

MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of new frames, ten times what can be attached to an issue."""

_FIRST_BYTES: Final = {"tls": 5, "http": 8, "not-pulsar": 4, "length": 8, "leftover": 8}
"""Kind of note to the bytes at its place that are kept: the header of a TLS record, a word of HTTP, lengths."""

_FILLER: Final = {"tls": b"\x14", "http": b"x", "other": b"x"}
"""What fills a stream of this kind so that it is still taken for one; 0 in all others. 0x14 begins a TLS record."""

_MASK: Final = 0xFFFFFFFF
_PROXY_HEAD: Final = 12
"""Bytes by which a binary PROXY header is known."""


class _Learning(Output):
    """Takes frames and notes where the reader makes them, where their direction is known."""

    def __init__(self, owner: Rewriting) -> None:
        super().__init__()
        self.owner = owner

    def frame(
        self, way: Direction, data: bytes, offset: int, sync: str, packets: list[int], packet: int, time_ns: int
    ) -> int:
        number = super().frame(way, data, offset, sync, packets, packet, time_ns)
        frame = self.out.pop()
        assert isinstance(frame, CapturedFrame)
        self.owner.take_frame(way, frame)
        return number

    def note(self, way: Direction, kind: str, text: str, packet: int, offset: int, length: int) -> None:
        self.owner.take_note(way, kind, packet, offset, length)


class Rewriting:
    """One capture on its way to another. Give its packets to `learn`, then again to `write`."""

    def __init__(
        self, names: Names, selection: Selection = EVERYTHING, decode_as: Mapping[int, str] | None = None
    ) -> None:
        self._names = names
        self._selection = selection
        self._decode_as = decode_as or {}
        self._edits: dict[tuple[int, bool], Edits] = {}
        self._streams: dict[int, Stream] = {}
        self._differing: dict[int, tuple[int, int]] = {}
        """Packet to offset and length of bytes in it that differ from an earlier transmission."""
        self._size = 0
        self._last_packet = 0
        """Packet of the last frame that is wanted."""
        self._acknowledged: dict[tuple[int, bool], int] = {}
        self.frames = 0
        """Frames that are wanted."""
        self.written = 0
        """Packets written."""

    # -- first pass

    def learn(self, packets: Iterable[Packet | Secrets | Note]) -> None:
        """See what is in the capture. LocalError when it is too much."""
        output, last = _Learning(self), self._selection.last
        for _ in self._segments(packets, output):
            if last and output.count > last:
                break
        for edits in self._edits.values():
            edits.settle()

    def take_frame(self, way: Direction, frame: CapturedFrame) -> None:
        """A frame was found."""
        edits = self._of(way)
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

    def take_note(self, way: Direction, kind: str, packet: int, offset: int, length: int) -> None:
        """Something was found that is no frame."""
        if kind == "overlap":
            self._differing[packet] = (offset, length)
            return
        edits = self._of(way)
        if edits is None or self._selection.last:
            return
        if kind == "proxy-protocol":
            edits.put(offset, length, _proxy_header(bytes(way.run[:length])))
        elif kind in _FIRST_BYTES and way.sync != RESYNC:
            # After a search nobody knows that these are lengths: they may be of a payload.
            edits.put(offset, min(_FIRST_BYTES[kind], length or MAX_FRAME_SIZE), None)

    def _of(self, way: Direction) -> Edits | None:
        """The edits of a direction; None: its connection is not chosen."""
        number = way.stream.number
        self._streams.setdefault(number, way.stream)
        chosen = self._selection.streams
        if chosen is not None and number not in chosen:
            return None
        return self._edits.setdefault(_key(way), Edits())

    # -- both passes

    def _segments(
        self, packets: Iterable[Packet | Secrets | Note], output: Output
    ) -> Iterator[tuple[Packet, Segment, Direction]]:
        """Every TCP segment after the reader has taken it, with its direction."""
        judge = Judge(self._decode_as)
        walker = Walker(output, judge)
        tcp = Tcp(output, walker, judge, MAX_FRAME_SIZE)
        fragments, number = Fragments(), 0
        for packet in packets:
            if not isinstance(packet, Packet):
                continue
            number = packet.number
            if number >= tcp.table.alarm:
                tcp.ring(number)
            data = packet.data
            segment = pull_segment(data, packet.link, 0, len(data), packet.wire_length, number, fragments)
            if segment is None:
                continue
            if packet.left_out:
                tcp.skip_left_out(segment, number)
            tcp.segment(segment, number, packet.time_ns)
            output.out.clear()
            way = tcp.table.ways.get(segment.key)
            if way is not None:
                yield packet, segment, way
        tcp.end(number)

    # -- second pass

    def write(self, packets: Iterable[Packet | Secrets | Note], writer: PcapngWriter) -> None:
        """Write the capture; ``packets`` are those that `learn` was given."""
        for packet, segment, way in self._segments(packets, Output()):
            if self._selection.last and packet.number > self._last_packet:
                return
            if self._of(way) is not None:
                self._write(packet, segment, way, writer)

    def _write(self, packet: Packet, segment: Segment, way: Direction, writer: PcapngWriter) -> None:
        """What stands in place of a packet, if there still is something."""
        key = _key(way)
        edits = self._edits[key]
        offset = _offset(way, segment.seq + bool(segment.flags & SYN))
        old = segment.data[segment.start : segment.end]
        runs = edits.cut(offset, old, _FILLER.get(self._streams[way.stream.number].kind, b"\0"))
        if packet.number in self._differing:
            start, size = self._differing[packet.number]
            runs = [(at, _differing(data, at, edits.place(start), edits.place(start + size))) for at, data in runs]
        acknowledged = self._place_of_ack(segment, way) if segment.flags & ACK else 0
        if self._selection.last and not self._tells(key, segment, runs, acknowledged):
            return
        self._acknowledged[key] = acknowledged
        end = offset + len(old)
        missing = edits.place(end + segment.missing) - edits.place(end)
        if len(runs) > 1 and not runs[0][1]:
            del runs[0]
        for index, (at, data) in enumerate(runs):
            last = index == len(runs) - 1
            flags = segment.flags if last else segment.flags & ~FIN
            seq, ack = _first(key) + at - bool(flags & SYN), _first(_key(way.peer)) + acknowledged
            left_out = at in edits.resumes or (packet.left_out and not index)
            head = (seq & _MASK, ack & _MASK if flags & ACK else 0, flags)
            self._send(packet.time_ns, segment.key, way, head, data, missing if last else 0, left_out, writer)

    def _send(
        self,
        time_ns: int,
        ends: bytes,
        way: Direction,
        head: tuple[int, int, int],
        data: bytes,
        missing: int,
        left_out: bool,
        writer: PcapngWriter,
    ) -> None:
        """Write a packet; ``head`` is sequence number, acknowledgement, flags, ``ends`` a Segment.key."""
        addresses = (self._names.address(one) for one in _halves(ends[:-4]))
        source, target = (address + port for address, port in zip(addresses, _halves(ends[-4:])))
        self.written += 1
        frame = push_segment(source, target, not way.from_client, *head, data, self.written, missing=missing)
        writer.packet(Packet(self.written, time_ns, 1, frame, len(frame) + missing, left_out=left_out))

    def _place_of_ack(self, segment: Segment, way: Direction) -> int:
        """What the segment acknowledges of the other direction, as a place in the new bytes of that."""
        if way.peer.base < 0:
            return 0
        edits = self._of(way.peer)
        assert edits is not None  # its connection is that of the other one
        return edits.place(_offset(way.peer, segment.ack))

    def _tells(self, key: tuple[int, bool], segment: Segment, runs: list[tuple[int, bytes]], acknowledged: int) -> bool:
        """Whether a packet still says something when others were left out."""
        if segment.flags & (SYN | FIN | RST) or any(data for _, data in runs):
            return True
        return acknowledged > self._acknowledged.get(key, 0)


def _key(way: Direction) -> tuple[int, bool]:
    """The same for a direction in both passes, whoever is taken for the client."""
    return way.stream.number, way is way.connection.there


def _first(key: tuple[int, bool]) -> int:
    """The sequence number of a direction's first byte."""
    return key[0] * 64_000 + (1 if key[1] else 32_001)


def _offset(way: Direction, seq: int) -> int:
    """Where in the direction the byte with this sequence number stands."""
    distance = seq - way.base - way.offset & _MASK
    return way.offset + (distance - (1 << 32) if distance & 0x80000000 else distance)


def _halves(data: bytes) -> tuple[bytes, bytes]:
    return data[: len(data) // 2], data[len(data) // 2 :]


def _differing(data: bytes, at: int, start: int, end: int) -> bytes:
    """Bytes that begin at ``at``, other ones from ``start`` to ``end``."""
    first, last = max(0, start - at), max(0, end - at)
    return data[:first] + bytes(byte ^ 0xFF for byte in data[first:last]) + data[max(first, last) :]


def _proxy_header(data: bytes) -> bytes:
    """A PROXY header of the same version that names nobody."""
    if data.startswith(b"PROXY "):
        return b"PROXY UNKNOWN\r\n"
    # Version 2, command LOCAL, and as many bytes that say nothing.
    return data[:_PROXY_HEAD] + b"\x20" + data[13:16] + bytes(len(data) - 16)
