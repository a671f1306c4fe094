"""The pcapng format in columns. Enhanced packet blocks are read together; the object path's reader reads other blocks.

Rules of this file
1. The loop steps from block to block. Enhanced packets are checked together afterwards. Other blocks are passed in
   order to the reader of `codec.capture.pcapng`, because they change the meaning of later packets.
2. If any check of a window fails, the reader of the object path reads the window again, because that reader stops at
   the right packet with the right message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from pcli.codec.capture.packets import LEFT_OUT, Interface, Record, Secrets
from pcli.codec.capture.pcapng import SECTION, PcapngReader
from pcli.codec.errors import CaptureError
from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.reading.packet_records import MAX_TIME, Records, records_of

_ENHANCED: Final = 6
_HEAD: Final = 28
_LEAST: Final = 32
"""Number of bytes before the packet in an enhanced packet block, and that number plus the length field at its end."""
_WANTED: Final = frozenset({SECTION, 1, 2, 3, 10})
"""Blocks that the reader of the object path parses: section, interface, obsolete packet, simple packet, secrets."""

_Part = tuple[Longs, Longs, Longs, Longs, Longs]
"""Start, end, wire length, time, interface."""


class _WrongError(Exception):
    """Raised for a window that fails a check. It is always caught in this module."""


class PcapngColumns(PcapngReader):
    """A reader of the blocks in a pcapng file. It keeps the interfaces from window to window."""

    def columns_and_secrets(self, size: int) -> Iterator[Records | Secrets]:
        """Yield the windows, each after the secrets that were read with it."""
        emitted = 0
        for records in self.columns(size):
            yield from self.secrets[emitted:]
            emitted = len(self.secrets)
            yield records

    def columns(self, size: int) -> Iterator[Records]:
        """Yield windows of about ``size`` bytes. Raise CaptureError if the file is truncated or damaged."""
        source, position, needed = self.source, 0, 12
        while source.fill(position, max(size, needed)) or len(source.data) >= needed:
            found: list[Records] = []
            try:
                position, needed, skip = self.records(source.data, found)
            finally:
                for records in found:
                    records.offset = source.position
                yield from found
            if skip:
                self.skip(position, skip)
                position = 0
        source.check_end("block")

    def records(self, data: bytes, found: list[Records]) -> tuple[int, int, int]:
        """Append the packets of a window's complete blocks to ``found``, even if CaptureError is raised.

        Return the start of the next block, and the number of bytes that the caller must then provide or skip.
        """
        before = (list(self.interfaces), self.order, self._time, len(self.secrets))
        try:
            records, ended = self._columns(data)
        except (_WrongError, CaptureError):
            self.interfaces, self.order, self._time = before[:3]
            del self.secrets[before[3] :]
            self._heads()
            plain: list[Record] = []
            try:
                return self._walk(data, plain)
            finally:
                found.append(records_of((data, plain)))
        found.append(records)
        return ended

    def _columns(self, data: bytes) -> tuple[Records, tuple[int, int, int]]:
        places: list[int] = []
        parts: list[_Part] = []
        faces: dict[Interface, int] = {}
        add, head, position, size = places.append, self.head, 0, len(data)
        limit = size - 12
        ended = None
        while position <= limit:
            kind, length = head(data, position)
            if kind == SECTION:
                # The packets before the section header use the byte order of the previous section.
                parts.append(self._enhanced(data, places, faces))
                places.clear()
                length = self._order(data, position)
                head = self.head
            end = position + length
            if length < 12 or length & 3:
                raise _WrongError
            if end > size:
                ended = self._beyond(kind, position, length)
                break
            if kind == _ENHANCED and length >= _LEAST:
                add(position)
            else:
                parts.append(self._enhanced(data, places, faces))
                places.clear()
                self._other(kind, data, position, length, parts, faces)
            position = end
        parts.append(self._enhanced(data, places, faces))
        columns = [np.concatenate(column) for column in zip(*parts)]
        records = Records(data, columns[0], columns[1], columns[2], columns[3], columns[4], list(faces))
        return records, ended or (position, 12, 0)

    def _other(
        self, kind: int, data: bytes, position: int, length: int, parts: list[_Part], faces: dict[Interface, int]
    ) -> None:
        """Process any block except an enhanced packet."""
        if self.word(data, position + length - 4)[0] != length:
            raise _WrongError
        if kind == _ENHANCED or kind in _WANTED:
            plain: list[Record] = []
            self._block(kind, data, position, length, plain)
            if plain:
                one = records_of((data, plain))
                numbers = np.array([faces.setdefault(face, len(faces)) for face in one.interfaces], np.int64)
                parts.append((one.start, one.end, one.wire, one.time_ns, numbers[one.face]))

    def _enhanced(self, data: bytes, places: list[int], faces: dict[Interface, int]) -> _Part:
        """Return the enhanced packets at these positions. All interfaces must have been described earlier."""
        at = np.array(places, np.int64)
        if not places:
            return at, at, at, at, at
        word = self.order + "u4"
        heads = np.ndarray((len(data) - 27,), "V28", data, 0, (1,))[at].view(word).reshape(-1, 7)
        _, length, number, high, low, kept, wire = heads.astype(np.int64).T
        trailer = np.ndarray((len(data) - 3,), word, data, 0, (1,))[at + length - 4]
        if (trailer != length).any() or number.max() >= len(self.interfaces) or (kept > length - _LEAST).any():
            raise _WrongError
        start = at + _HEAD
        times = np.zeros(len(at), np.int64)
        face = np.zeros(len(at), np.int64)
        for each in np.unique(number).tolist():
            interface, mine = self.interfaces[each], number == each
            face[mine] = faces.setdefault(interface, len(faces))
            times[mine] = _times(interface, high[mine], low[mine])
        self._time = int(times[-1])
        # Only a block that is larger than its packet by at least this much can contain the comment.
        for row in np.flatnonzero(length - kept > _LEAST + len(LEFT_OUT)).tolist():
            if LEFT_OUT in data[int(start[row] + kept[row]) : int(at[row] + length[row])]:
                twin = self.interfaces[number[row]].after_left_out()
                face[row] = faces.setdefault(twin, len(faces))
        return start, start + kept, np.maximum(kept, wire), times, face


def _times(interface: Interface, high: Longs, low: Longs) -> Longs:
    """Convert 64-bit timestamps, given as upper and lower halves, to nanoseconds."""
    most = int(high.max()) << 32 | 0xFFFFFFFF
    reach = most * interface.nanos + abs(interface.offset_ns)
    if interface.nanos and reach <= MAX_TIME:
        return (high << 32 | low) * interface.nanos + interface.offset_ns
    stamps = [above << 32 | below for above, below in zip(high.tolist(), low.tolist())]
    return np.array([max(-MAX_TIME, min(interface.time(stamp), MAX_TIME)) for stamp in stamps], np.int64)
