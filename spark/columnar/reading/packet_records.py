"""Packets of a window as columns: the position, timestamp and interface of each packet.

Rules of this file
1. The loop over a pcap only finds where each record begins. The fields are read for all records together.
2. Damage is reported as `codec.capture.pcap` reports it, at the same offset and after the same packets.
3. Times are int64. A time after the year 2262, which only pcapng can contain, becomes the last valid nanosecond; a time
   before the year 1677 becomes the first valid nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import Struct
from struct import error as struct_error
from typing import Final

import numpy as np

from pcli.codec.capture.files import Source
from pcli.codec.capture.packets import Interface, Record, Window
from pcli.codec.capture.pcap import PcapFormat, check_size, read_format
from pcli.spark.columnar.frame_columns import Longs

MAX_TIME: Final = (1 << 63) - 1


@dataclass(slots=True)
class Records:
    """The packets of a window, as columns of equal length."""

    data: bytes
    """The bytes of the window."""
    start: Longs
    """Index into ``data`` of the packet's first captured byte."""
    end: Longs
    wire: Longs
    """Number of bytes on the wire."""
    time_ns: Longs
    face: Longs
    """Index into ``interfaces``."""
    interfaces: list[Interface]
    offset: int = 0
    """Offset of ``data`` in the capture."""

    def __len__(self) -> int:
        return len(self.start)

    def divided(self, offset: int) -> tuple[Records, Records]:
        """Return the packets that end up to an offset in the capture, and the other packets."""
        row = int(np.searchsorted(self.end, offset - self.offset, side="right"))
        return self._rows(slice(row)), self._rows(slice(row, None))

    def _rows(self, rows: slice) -> Records:
        columns = {name: getattr(self, name)[rows] for name in ("start", "end", "wire", "time_ns", "face")}
        return replace(self, **columns)

    def record(self, index: int) -> Record:
        """Return one packet in the form that the readers of codec.capture use."""
        face = self.interfaces[self.face[index]]
        return int(self.start[index]), int(self.end[index]), int(self.wire[index]), int(self.time_ns[index]), face


def records_of(window: Window) -> Records:
    """Return the columns of a window of the object path."""
    data, records = window
    numbers: dict[Interface, int] = {}
    faces = [numbers.setdefault(record[4], len(numbers)) for record in records]
    columns = [np.array([record[at] for record in records], np.int64) for at in range(3)]
    times = np.array([max(-MAX_TIME, min(record[3], MAX_TIME)) for record in records], np.int64)
    return Records(data, columns[0], columns[1], columns[2], times, np.array(faces, np.int64), list(numbers))


def pcap_records(data: bytes, position: int, form: PcapFormat) -> tuple[Records, int]:
    """Return all complete records that begin at or after ``position``, and the start of the first incomplete record."""
    found: list[int] = []
    pull, header, size = Struct(form.order + "8xI").unpack_from, form.header, len(data)
    try:
        while True:
            found.append(position)
            position += header + pull(data, position)[0]
    except struct_error:
        # No complete header follows, so no record begins at this position. The previous record is incomplete if it
        # extends beyond ``size``.
        found.pop()
        if position > size:
            position = found.pop()
    at = np.fromiter(found, np.int64, len(found))
    heads = (
        np.ndarray((max(0, size - 15),), "V16", data, 0, (1,))[at]
        .view(form.order + "u4")
        .reshape(-1, 4)
        .astype(np.int64)
    )
    start = at + header
    times = heads[:, 0] * 1_000_000_000 + heads[:, 1] * form.interface.nanos
    kept = heads[:, 2]
    faces = np.zeros(len(at), np.int64)
    return Records(data, start, start + kept, np.maximum(kept, heads[:, 3]), times, faces, [form.interface]), position


def pcap_windows(source: Source, size: int) -> Iterator[Records]:
    """Yield windows of about ``size`` bytes from a source positioned at the magic; raise CaptureError for damage."""
    form = read_format(source)
    position, needed = 24, form.header
    pull = Struct(form.order + "8xI").unpack_from
    while source.fill(position, max(size, needed)) or len(source.data) >= needed:
        records, position = pcap_records(source.data, 0, form)
        records.offset = source.position
        yield records
        needed = form.header
        if len(source.data) - position >= needed:
            kept = pull(source.data, position)[0]
            check_size(kept, source.position + position)
            needed += kept
    source.check_end("packet")
