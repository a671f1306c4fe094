"""The second reading of a split. It produces the tables of the split with the recording's numbers.

Rules of this file
1. Each window contains what one reader of the whole recording would produce: the same frames, notes and ends in the
   same order, with the recording's numbers. Valid rows are renumbered, and frames of the merge are inserted.
2. A window contains all rows of its packets. Frames that the merge adds at these packets therefore belong to the
   window; other added frames follow the last window.
3. A window without added frames is renumbered without copying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np

from pcli.codec.capture.frames import CapturedFrame, Note, StreamEnd
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.from_captured_frames import places_of
from pcli.spark.columnar.frame_columns import Longs, Places
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.split_merge.merge_results import Extra, MergedSplit, insertion_points
from pcli.spark.columnar.split_merge.split_reader import EdgeReader
from pcli.spark.input.splits import Split, SplitReader
from pcli.spark.request import Request, RequiredData
from pcli.spark.stages.read_sequentially import counted_of
from pcli.spark.stages.split_parser import SplitParser
from pcli.spark.stages.split_tables import PartStorage, PlacedEvent, SplitParts
from pcli.spark.tables.data_files import Staging


@dataclass(slots=True)
class ParseResult:
    """The results of a split, and the times of its frames."""

    parts: SplitParts
    first_ns: int = 0
    """Time of the first frame; 0 if none."""
    last_ns: int = 0


def parse_split(request: Request, staging: Staging, number: int, split: Split, joined: MergedSplit) -> ParseResult:
    """Read the split ``number`` again, after the merge has determined its valid rows."""
    reader = EdgeReader(request.reading, first=not number)
    parse = _Parse(request.required, staging, number, split.part, split.cluster, joined)
    for records in SplitReader(split, request.since_ns, request.until_ns):
        parse.add(reader.take(records), records)
    return parse.finish()


def parse_ending(
    required: RequiredData, staging: Staging, number: int, part: int, cluster: str, ending: MergedSplit
) -> ParseResult:
    """Return the results from the end of a recording, as those of the split ``number`` of the file ``part``."""
    return _Parse(required, staging, number, part, cluster, ending).finish()


class _Parse:
    def __init__(
        self, required: RequiredData, staging: Staging, number: int, part: int, cluster: str, joined: MergedSplit
    ) -> None:
        self._wanted = required
        self._joining = SplitJoiner(joined)
        self._parser = SplitParser(number, part, cluster, required, PartStorage(staging))
        self._first = self._before = joined.renaming.packets
        self._number = joined.first_number
        self._out = ParseResult(self._parser.parts)

    def add(self, found: Places, records: Records) -> None:
        """Add a window and its frames with the split's numbers."""
        self._parser.parts.counted.add(counted_of(records))
        places, row_events = self._joining.window(found, self._before + len(records) - self._first)
        self._add(places, row_events, records)
        self._before += len(records)

    def finish(self) -> ParseResult:
        """Add the frames after the last window and return the results."""
        self._add(*self._joining.rest(), None)
        self._out.parts = self._parser.finish()
        return self._out

    def _add(self, places: Places, row_events: list[RowEvent], records: Records | None) -> None:
        count, times = len(places), places.time_ns
        numbers = np.arange(self._number, self._number + count, dtype=np.int64)
        self._parser.add(read_fields(places, checksums=self._wanted.checksums), numbers, row_events)
        for row, item in row_events:
            packet = item.packet - self._before - 1
            known = records is not None and 0 <= packet < len(records) and not _of_file(item)
            packet_ns = int(records.time_ns[packet]) if records is not None and known else None
            last_ns = int(times[row - 1]) if row else self._out.last_ns
            self._parser.parts.placed_events.append(PlacedEvent(self._number + row - 1, last_ns, packet_ns, item))
        if count:
            self._out.first_ns = self._out.first_ns or int(times[0])
            self._out.last_ns = int(times[-1])
        self._number += count


def _of_file(item: Note | StreamEnd) -> bool:
    """Return whether the item is a note about a file, not about a packet."""
    return isinstance(item, Note) and bool(item.source)


RowEvent = tuple[int, Note | StreamEnd]
"""The index of a row, and the note or end that precedes this row."""

_COLUMNS: Final = tuple(one.name for one in fields(Places) if one.name not in ("data", "trouble"))


class SplitJoiner:
    """A converter of a split's windows to the recording's numbers."""

    def __init__(self, joined: MergedSplit) -> None:
        """Create a converter from the result of the merge for this split."""
        self._renaming = joined.renaming
        self._extra = joined.extra
        self._taken = 0
        self._rows = 0
        """Number of rows of the split before the window."""

    def window(self, places: Places, packets: int) -> tuple[Places, list[RowEvent]]:
        """Return a window's frames, notes and ends. The split has ``packets`` packets before the window's end."""
        last = packets + self._renaming.packets
        end = self._taken
        while end < len(self._extra) and self._extra[end].turn <= last:
            end += 1
        return self._joined(places, self._next(end))

    def rest(self) -> tuple[Places, list[RowEvent]]:
        """Return the added frames, notes and ends after the last window."""
        return self._joined(places_of([]), self._next(len(self._extra)))

    def _next(self, end: int) -> Sequence[Extra]:
        extra = self._extra[self._taken : end]
        self._taken = end
        return extra

    def _joined(self, places: Places, extra: Sequence[Extra]) -> tuple[Places, list[RowEvent]]:
        stands = self._renaming.stands(places.stream)
        own = self._renaming.places(places if stands.all() else _picked(places, np.flatnonzero(stands)))
        if extra:
            before = np.concatenate((np.zeros(1, np.int64), np.cumsum(stands)))
            at: Longs = before[insertion_points(extra, places.turn + self._renaming.packets, self._rows)].astype(
                np.int64
            )
        self._rows += len(places)
        if not extra:
            return own, []
        framed = np.array([isinstance(one.item, CapturedFrame) for one in extra], np.bool_)
        row_events = [
            (int(row), one.item)
            for one, row in zip(extra, at + np.cumsum(framed) - framed, strict=True)
            if not isinstance(one.item, CapturedFrame)
        ]
        return (_merged(own, extra, framed, at[framed]) if framed.any() else own), row_events


def _merged(own: Places, extra: Sequence[Extra], framed: Any, at: Longs) -> Places:
    """Return ``own`` with the added frames inserted before the rows ``at``, and with the bytes of these frames."""
    chosen = [one for one, is_frame in zip(extra, framed.tolist(), strict=True) if is_frame]
    more = places_of([one.item for one in chosen if isinstance(one.item, CapturedFrame)])
    more = replace(more, start=more.start + len(own.data), turn=np.array([one.turn for one in chosen], np.int64))
    order = np.argsort(np.concatenate((np.arange(len(own)) * 2 + 1, at * 2)), kind="stable")
    columns = {name: np.concatenate((getattr(own, name), getattr(more, name))) for name in _COLUMNS}
    trouble = own.trouble | {row + len(own): problems for row, problems in more.trouble.items()}
    both = Places(data=np.concatenate((own.data, more.data)), trouble=trouble, **columns)
    return _picked(both, order)


def _picked(places: Places, rows: Longs) -> Places:
    columns = {name: getattr(places, name)[rows] for name in _COLUMNS}
    at = {row: index for index, row in enumerate(rows.tolist())} if places.trouble else {}
    trouble = {at[row]: problems for row, problems in places.trouble.items() if row in at}
    return Places(data=places.data, trouble=trouble, **columns)
