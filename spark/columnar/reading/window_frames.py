"""The result of a window as Places: frames decoded together and frames decoded one by one, in one order.

Rules of this file
1. One pool holds the bytes of all frames of the window; each frame is a range of the pool.
2. Frames are in the order of the packets that produced them. At the same packet, frames decoded one by one are first,
   because a timer produced them before the packet itself was processed.
3. A note precedes the first frame that was produced after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pcli.codec.capture.flows import Direction
from pcli.codec.capture.frames import CapturedFrame, Note, Stream, StreamEnd
from pcli.codec.capture.streams import TcpReassembly
from pcli.spark.columnar.fields.from_captured_frames import SYNC
from pcli.spark.columnar.frame_columns import Longs, Places

Notes = list[tuple[int, Note | StreamEnd]]
"""Notes and stream ends, each with the row of the frame that follows it."""

_NONE: Final = np.zeros(0, np.int64)


class WindowFrames:
    """A collector of a window's frames and notes. The packets have the times ``times`` and numbers from ``base``."""

    def __init__(self, times: Longs = _NONE, base: int = 0) -> None:
        self.pool = bytearray()
        """The bytes of the frames. No memory view of the pool may exist when the pool grows."""
        self._times = times
        self._base = base
        self._together: list[list[Longs]] = []
        """start, kept, packet (also the turn), first_packet, offset, index into the tables of directions."""
        self._directions: list[tuple[int, bool, int]] = []
        """The state of the directions when each frame was produced: stream, from_client, sync."""
        self._single: list[tuple[int, ...]] = []
        """The columns of ``_together``, and time_ns."""
        self._turns: list[int] = []
        self._trouble: dict[int, tuple[Any, ...]] = {}
        self._notes: list[tuple[int, int, Note | StreamEnd]] = []
        """Turn, number of single frames before the note, and the note."""
        self.streams: list[Stream] = []
        """The streams that began in the window."""

    def collect(self, tcp: TcpReassembly, turn: int, streams: int) -> None:
        """Add the object path's output for a packet. ``streams`` is the number of streams before that packet."""
        if tcp.table.count != streams:
            self.streams.append(next(reversed(tcp.table.living)).stream)
        output = tcp.output
        if output.out:
            for item in output.out:
                self._put_one(item, turn)
            output.out = []

    def add(self, parts: Sequence[memoryview | bytearray]) -> None:
        """Append bytes to the pool."""
        if self.pool:
            self.pool += b"".join(parts)
        else:
            self.pool = bytearray().join(parts)

    def put(self, directions: list[Direction], columns: list[Longs]) -> None:
        """Add frames of some directions; the frames of each direction are in order.

        The last column is an index into ``directions``.
        """
        columns[-1] = columns[-1] + len(self._directions)
        self._directions += [
            (direction.stream.number, direction.from_client, SYNC[direction.sync]) for direction in directions
        ]
        self._together.append(columns)

    def _put_one(self, item: CapturedFrame | Note | StreamEnd, turn: int) -> None:
        if not isinstance(item, CapturedFrame):
            self._notes.append((turn, len(self._single), item))
            return
        if item.capture_problems:
            self._trouble[len(self._single)] = item.capture_problems
        self._turns.append(turn)
        place = (len(self.pool), len(item.data), item.packet, item.packets[0], item.offset, len(self._directions))
        self._single.append((*place, item.time_ns))
        self._directions.append((item.stream.number, item.from_client, SYNC[item.sync]))
        self.pool += item.data

    def places(self) -> tuple[Places, Notes]:
        """Return all frames and notes in order."""
        singles = len(self._single)
        *single, time_ns = [np.array(column, np.int64) for column in zip(*self._single)] or [_NONE] * 7
        turns = np.array(self._turns, np.int64)
        columns = [_joined(column) for column in zip(single, *self._together)]
        order = _order(np.concatenate([turns, columns[2][singles:]]))
        start, kept, packet, first, offset, direction = (column.take(order) for column in columns)
        alone = np.flatnonzero(order < singles) if singles else _NONE
        turn, times = packet.copy(), _NONE
        if singles < len(order):
            times = self._times.take(packet - self._base, mode="clip")
        if singles:
            times = times if len(times) else time_ns.copy()
            turn[alone], times[alone] = turns, time_ns
        stream, client, sync = [np.array(column).take(direction) for column in zip(*self._directions)] or [_NONE] * 3
        data = np.frombuffer(self.pool, np.uint8)
        trouble = {int(alone[index]): problems for index, problems in self._trouble.items()}
        places = Places(
            data, start, kept, turn, packet, first, times, stream, client.astype(np.bool_), offset, sync, trouble
        )
        return places, self._placed(np.delete(turn, alone) if self._notes else turn)

    def note_turns(self) -> list[int]:
        """Return the packet at which each note was produced."""
        return [turn for turn, _, _ in self._notes]

    def _placed(self, together: Longs) -> Notes:
        """Return the notes with their rows. ``together`` contains the turns of the frames decoded together."""
        before = np.searchsorted(together, [note[0] for note in self._notes]).tolist() if self._notes else []
        return [(single + rows, item) for rows, (_, single, item) in zip(before, self._notes)]


def _joined(pieces: Sequence[Longs]) -> Longs:
    some = [piece for piece in pieces if len(piece)]
    return some[0] if len(some) == 1 else np.concatenate(pieces)


def _order(turn: Longs) -> Longs:
    """Return the rows sorted stably by turn. NumPy sorts 16-bit numbers faster, with radix sort."""
    if not len(turn):
        return turn
    low = int(turn.min())
    reach = int(turn.max()) - low
    return np.argsort((turn - low).astype(np.uint16) if reach < 1 << 16 else turn, kind="stable")
