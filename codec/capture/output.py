"""Where frames and notes are collected, in their one order, and numbered.

Rules of this file
1. Nothing is decided here: what is a frame, and where, the walker says.
2. The list is taken away after each window, so it stays small.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.capture.flows import Connection, Direction
from pcli.codec.capture.frames import CapturedFrame, Note, StreamEnd
from pcli.codec.capture.tunnels import RST
from pcli.codec.wire.frame import pull_type
from pcli.codec.wire.problems import Problem

__all__ = ["Output", "carriers_of", "trim"]

_MAX_FRAGMENTED: Final = 1024

_u32 = Struct(">I").unpack_from


class Output:
    """Frames and notes on their way out."""

    def __init__(self) -> None:
        self.out: list[CapturedFrame | Note | StreamEnd] = []
        """What was found and not yet taken away."""
        self.count = 0
        """Frames so far."""
        self.ends = False
        """Whether somebody wants to know how connections end."""
        self.fragments: dict[int, tuple[int, ...]] = {}
        """Packet that completed a datagram to the packets of all its fragments; the latest few."""

    def remember_fragments(self, packet: int, packets: tuple[int, ...]) -> None:
        """Frames of this packet were carried by all of these."""
        while len(self.fragments) >= _MAX_FRAGMENTED:
            del self.fragments[next(iter(self.fragments))]
        self.fragments[packet] = packets

    def frame(
        self, way: Direction, data: bytes, offset: int, sync: str, packets: list[int], packet: int, time_ns: int
    ) -> int:
        """Deliver a frame; the number of its command type. ``packet`` is the one in which it ends."""
        number = pull_type(data, 8, min(len(data), 8 + _u32(data, 4)[0]))
        problems: tuple[Problem, ...] = ()
        if way.trouble:
            end = offset + len(data)
            problems = tuple(problem for at, problem in way.trouble if at < end)
            way.trouble = [entry for entry in way.trouble if entry[0] >= end]
        if self.fragments:
            packets = [each for one in packets for each in self.fragments.get(one, (one,))]
        carriers = tuple(packets) if len(packets) > 1 else None
        self.count += 1
        self.out.append(
            CapturedFrame(
                data, number, self.count, packet, time_ns, way.stream, way.from_client, offset, sync, problems, carriers
            )
        )
        return number

    def note(self, way: Direction, kind: str, text: str, packet: int, offset: int, length: int) -> None:
        """Deliver a note on a direction."""
        self.out.append(Note(kind, text, packet, way.stream, way.from_client, offset, length))

    def end(self, connection: Connection) -> None:
        """Deliver the end of a connection, if it has one that was not delivered yet."""
        if not self.ends or connection.ended is None:
            return
        way, packet, time_ns, flags = connection.ended
        connection.ended = None
        silent = not way.offset and not way.peer.offset
        refused = bool(flags & RST) and silent and way.isn < 0 <= way.peer.isn
        self.out.append(StreamEnd(way.stream, packet, time_ns, way.from_client, bool(flags & RST), refused, silent))


def carriers_of(way: Direction, mark: int, start: int, end: int) -> tuple[int, list[int]]:
    """The packets that brought run[start:end], and the index of the last one's mark; search from ``mark`` on."""
    marks = way.marks
    while mark + 1 < len(marks) and marks[mark + 1][0] <= start:
        mark += 1
    packets = [marks[mark][1]]
    while mark + 1 < len(marks) and marks[mark + 1][0] < end:
        mark += 1
        packets.append(marks[mark][1])
    return mark, packets


def trim(way: Direction, count: int) -> None:
    """Drop bytes at the beginning of the run, and the marks that are only theirs."""
    if not count:
        return
    marks = way.marks
    if count == len(way.run):
        way.run.clear()
        marks.clear()
        return
    del way.run[:count]
    index = len(marks) - 1
    while index and marks[index][0] > count:
        index -= 1
    way.marks = [(max(0, at - count), packet, time_ns) for at, packet, time_ns in marks[index:]]
