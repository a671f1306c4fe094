"""The second reading of a split. It produces the tables of the split with the recording's numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcli.codec.capture.frames import Note, StreamEnd
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.frame_columns import Places
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.split_merge.merge_results import MergedSplit
from pcli.spark.columnar.split_merge.split_reader import EdgeReader
from pcli.spark.input.splits import Split, SplitReader
from pcli.spark.request import Request, RequiredData
from pcli.spark.stages.join_split import RowEvent, SplitJoiner
from pcli.spark.stages.read_sequentially import counted_of
from pcli.spark.stages.split_parser import SplitParser
from pcli.spark.stages.split_tables import PartStorage, PlacedEvent, SplitParts
from pcli.spark.tables.data_files import Staging

__all__ = ["ParseResult", "parse_ending", "parse_split"]


@dataclass(slots=True)
class ParseResult:
    """The results of a split, and the times of its frames."""

    parts: SplitParts
    first_ns: int = 0
    """Time of the first frame; 0 if none."""
    last_ns: int = 0


def parse_split(
    request: Request, required: RequiredData, staging: Staging, number: int, split: Split, joined: MergedSplit
) -> ParseResult:
    """Read the split ``number`` again, after the merge has determined its valid rows."""
    reader = EdgeReader(request.reading, first=not number)
    parse = _Parse(required, staging, number, split.part, split.cluster, joined)
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
