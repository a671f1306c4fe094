"""The list in which frames and notes are collected and numbered, in one order.

Rules of this file
1. This module makes no decisions: ``frame_extraction`` determines frames and positions.
2. The list is emptied after each window, so it remains small.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.capture.flows import Connection, Direction
from pcli.codec.capture.frames import CapturedFrame, Note, StreamEnd
from pcli.codec.capture.tunnels import RST
from pcli.codec.wire.frame import pull_type
from pcli.codec.wire.problems import Problem

_MAX_FRAGMENTED: Final = 1024

_u32 = Struct(">I").unpack_from


class Output:
    """Frames, notes and stream ends that are ready for the caller."""

    def __init__(self) -> None:
        self.out: list[CapturedFrame | Note | StreamEnd] = []
        """Items not yet fetched by the caller."""
        self.count = 0
        """Number of frames so far."""
        self.ends = False
        """Whether to report the ends of connections."""
        self.fragments: BoundedDict[int, tuple[int, ...]] = BoundedDict(_MAX_FRAGMENTED)
        """The packets of all fragments, by the packet that completed a datagram; only the most recent datagrams."""

    def remember_fragments(self, packet: int, packets: tuple[int, ...]) -> None:
        """Record the packets with the fragments of the datagram that ``packet`` completed."""
        self.fragments[packet] = packets

    def frame(
        self, direction: Direction, data: bytes, offset: int, sync: str, packets: list[int], packet: int, time_ns: int
    ) -> int:
        """Add a frame and return its command type. ``packet`` is the packet that contains its end."""
        number = pull_type(data, 8, min(len(data), 8 + _u32(data, 4)[0]))
        problems: tuple[Problem, ...] = ()
        if direction.pending_problems:
            end = offset + len(data)
            problems = tuple(problem for at, problem in direction.pending_problems if at < end)
            direction.pending_problems = [entry for entry in direction.pending_problems if entry[0] >= end]
        if self.fragments:
            packets = [each for one in packets for each in self.fragments.get(one, (one,))]
        carriers = tuple(packets) if len(packets) > 1 else None
        self.count += 1
        self.out.append(
            CapturedFrame(
                data,
                number,
                self.count,
                packet,
                time_ns,
                direction.stream,
                direction.from_client,
                offset,
                sync,
                problems,
                carriers,
            )
        )
        return number

    def note(self, direction: Direction, kind: str, text: str, packet: int, offset: int, length: int) -> None:
        """Add a note about a direction."""
        self.out.append(Note(kind, text, packet, direction.stream, direction.from_client, offset, length))

    def end(self, connection: Connection) -> None:
        """Add the end of a connection if the connection has ended and this end was not added before."""
        if not self.ends or connection.ended is None:
            return
        direction, packet, time_ns, flags = connection.ended
        connection.ended = None
        silent = not direction.offset and not direction.peer.offset
        refused = bool(flags & RST) and silent and direction.isn < 0 <= direction.peer.isn
        self.out.append(
            StreamEnd(direction.stream, packet, time_ns, direction.from_client, bool(flags & RST), refused, silent)
        )


def carriers_of(direction: Direction, mark: int, start: int, end: int) -> tuple[int, list[int]]:
    """Return the last mark index and the packets of run[start:end]; the search starts at the index ``mark``."""
    marks = direction.marks
    while mark + 1 < len(marks) and marks[mark + 1][0] <= start:
        mark += 1
    packets = [marks[mark][1]]
    while mark + 1 < len(marks) and marks[mark + 1][0] < end:
        mark += 1
        packets.append(marks[mark][1])
    return mark, packets


def trim(direction: Direction, count: int) -> None:
    """Drop bytes at the start of the run, and the marks that cover only these bytes."""
    if not count:
        return
    marks = direction.marks
    if count == len(direction.run):
        direction.run.clear()
        marks.clear()
        return
    del direction.run[:count]
    index = len(marks) - 1
    while index and marks[index][0] > count:
        index -= 1
    direction.marks = [(max(0, at - count), packet, time_ns) for at, packet, time_ns in marks[index:]]
