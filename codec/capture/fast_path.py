"""The fast path for ordinary packets: IPv4 without options or fragments, TCP without FIN, SYN or RST, data in order.

Rules of this file
1. Each packet requires one read of the headers and one dictionary look-up. Frames are sliced directly from the window.
   The target is a microsecond per packet and a microsecond per frame. Functions are therefore inlined instead of being
   called, and no object other than a frame is created.
2. Any unusual packet is passed to `TcpReassembly.segment`, which sets ``next`` when the direction is ordinary again.
   Both paths produce the same frames; the tests run every capture through both.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final

from pcli.codec.capture.flows import IGNORE, MAX_MARKS, SLOW, Aligned, Direction
from pcli.codec.capture.frame_extraction import CONNECTED, raise_limit
from pcli.codec.capture.frames import CapturedFrame
from pcli.codec.capture.ip import Fragments
from pcli.codec.capture.link import IPV4
from pcli.codec.capture.output import Output
from pcli.codec.capture.packets import Record
from pcli.codec.capture.streams import TcpReassembly
from pcli.codec.capture.tunnels import pull_segment
from pcli.codec.capture.unread_packets import UnreadPackets
from pcli.codec.wire.frame import pull_type

_two: Final = Struct(">II").unpack_from


class Reader:
    """A converter of the packets of all inputs, in sequence, to frames and notes."""

    def __init__(self, tcp: TcpReassembly, output: Output) -> None:
        self.tcp = tcp
        self.output = output
        self.packet = 0
        """Number of packets so far."""
        self.careful = False
        """Whether to use only the slow path; for tests."""
        self.fragments = Fragments()
        self.unread = UnreadPackets()
        """The packets of the current file that cannot be decoded."""

    def packets(self, data: bytes, records: list[Record]) -> None:  # noqa: C901  (a call per packet is slower)
        """Process all packets of a window."""
        tcp = self.tcp
        table = tcp.table
        directions, number, timer = table.directions.get, self.packet, table.timer
        pull = interface = None
        skip = 0
        for start, end, wire, time_ns, current in records:
            number += 1
            if current is not interface:
                interface, skip, pull = (current, current.skip, None if self.careful else current.pull)
            if number >= timer:
                tcp.run_timers(number)
                timer = table.timer
            if pull is not None:
                try:
                    kind, version, length, fragment, protocol, key, seq, ack, size, flags = pull(data, start)
                except struct_error:
                    kind = 0
                # IPv4 without options or fragmentation, and TCP without FIN, SYN or RST.
                ordinary = kind == IPV4 and version == 69 and protocol == 6 and not fragment & 0x3FFF
                if ordinary and size >= 0x50 and not flags & 7:
                    direction = directions(key)
                    if direction is not None:
                        at = start + skip + 20 + (size >> 4 << 2)
                        stop = start + skip + length
                        expected = direction.next
                        if at == stop:
                            if expected != SLOW and stop <= end:
                                direction.ack = ack
                                continue
                        elif expected == seq and at < stop <= end:
                            direction.ack = ack
                            self._data(direction, data, at, stop, number, time_ns)
                            continue
                        elif expected == IGNORE:
                            continue
            segment = pull_segment(data, current.link, start, end, wire, number, self.fragments, self.unread)
            if segment is not None:
                if current.left_out is current:
                    tcp.skip_left_out(segment, number)
                tcp.segment(segment, number, time_ns)
                timer = table.timer
        self.packet = number

    def _data(self, direction: Direction, data: bytes, at: int, stop: int, number: int, time_ns: int) -> None:
        """Process data[at:stop], the next bytes of a direction, on the fast path."""
        aligned = direction.mode
        assert isinstance(aligned, Aligned)
        output, size, need = self.output, stop - at, aligned.need
        shift = direction.offset - at
        direction.offset += size
        direction.next = direction.next + size & 0xFFFFFFFF
        self.tcp.history.append((direction, at + shift, data, at, stop))
        stream, from_client, sync = direction.stream, direction.from_client, aligned.sync
        count, add = output.count, output.out.append
        if need:
            run, marks = direction.run, direction.marks
            if size < need:
                run += data[at:stop]
                if len(marks) < MAX_MARKS:
                    marks.append((len(run) - size, number, time_ns))
                aligned.need = need - size
                return
            run += data[at : at + need]
            at += need
            whole = bytes(run)
            packets = (*[mark[1] for mark in marks], number)
            run.clear()
            marks.clear()
            aligned.need = 0
            kind = whole[9] if whole[8:9] == b"\x08" and whole[9:10] < b"\x80" else pull_type(whole, 8, len(whole))
            if kind == CONNECTED:
                raise_limit(direction, whole)
            count += 1
            add(
                CapturedFrame(
                    whole, kind, count, number, time_ns, stream, from_client, at + shift - len(whole), sync, (), packets
                )
            )
        last = stop - 10
        while at <= last:
            length, command = _two(data, at)
            end = at + 4 + length
            if end > stop or command + 4 > length:
                break
            kind = data[at + 9]
            if data[at + 8] != 8 or kind > 127 or command < 2:
                kind = pull_type(data, at + 8, at + 8 + command)
            if kind == CONNECTED:
                raise_limit(direction, data[at:end])
            count += 1
            add(CapturedFrame(data[at:end], kind, count, number, time_ns, stream, from_client, at + shift, sync))
            at = end
        output.count = count
        if at < stop:
            self._rest(direction, aligned, data, at, stop, number, time_ns)

    def _rest(
        self, direction: Direction, aligned: Aligned, data: bytes, at: int, stop: int, number: int, time_ns: int
    ) -> None:
        """Process the incomplete frame at the end of a packet, or bytes that are not a frame."""
        if stop - at >= 8:
            length, command = _two(data, at)
            if command + 4 <= length < direction.limit - 3 and at + 4 + length > stop:
                direction.run += data[at:stop]
                direction.marks.append((0, number, time_ns))
                aligned.need = at + 4 + length - stop
                return
        direction.offset -= stop - at
        direction.next = SLOW
        self.tcp.extractor.feed(direction, data, at, stop, number, time_ns)
        if direction.mode is not aligned:
            self.tcp.advance(direction.connection, number)  # a search needs a timer
