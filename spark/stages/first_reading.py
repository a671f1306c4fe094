"""The tables that the first reading of a split produces. The merge of splits corrects their numbers.

Rules of this file
1. Only partials of lifecycles can be computed in the first reading (`RequiredData.once`). They refer to frames and
   connections by number, and `partial_renumbering` replaces the numbers when the tables are loaded. Therefore no table
   is written twice.
2. Frames that the merge adds have the recording's numbers and are aggregated as one more split.
3. If bytes are missing, or an assumed state was wrong, the split is read again, because the certainty of its frames
   then depends on their offsets.
4. Data that only observation needs (the order of notes and ends, frames per connection) is not produced in the first
   reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Final

import numpy as np
import pyarrow as pa

from pcli.codec.capture.frames import CapturedFrame, Note, StreamEnd
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.from_captured_frames import places_of
from pcli.spark.columnar.frame_columns import Longs, Places
from pcli.spark.columnar.lifecycles.partial_renumbering import Renumbering, renumber_table
from pcli.spark.columnar.lifecycles.split_aggregation import SplitAggregator
from pcli.spark.columnar.observation.capture_event_rows import RecordingEvent
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.split_merge.merge_results import OWN, Extra, MergedSplit
from pcli.spark.columnar.split_merge.resync_certainty import NO_OFFSET
from pcli.spark.input.splits import Split
from pcli.spark.request import RequiredData
from pcli.spark.stages.read_sequentially import counted_of
from pcli.spark.stages.split_parser import SplitParser
from pcli.spark.stages.split_tables import Part, PartStorage, SplitParts, load
from pcli.spark.tables.data_files import Staging

_TURNS: Final = "turns"
_TURN: Final = pa.schema([("turn", pa.int32()), ("stream", pa.int32())])
"""For each frame of a split: the packet that completed it, as the difference from the previous frame's packet, and the
connection. Both are numbers of the split.
"""


class OwnTables:
    """The tables of one split, computed window by window."""

    def __init__(self, split: Split, required: RequiredData, staging: Staging) -> None:
        self._wanted, self._keeper = required, PartStorage(staging)
        self._parser = SplitParser(split.index, split.part, split.cluster, required, self._keeper)
        self._turns: list[pa.RecordBatch] = []
        self._turn = self._rows = 0

    def add(self, places: Places, records: Records) -> None:
        """Add a window."""
        self._parser.parts.counted.add(counted_of(records))
        if not len(places):
            return
        numbers = np.arange(self._rows + 1, self._rows + 1 + len(places), dtype=np.int64)
        self._parser.add(read_fields(places, checksums=self._wanted.checksums), numbers)
        columns = [np.diff(places.turn, prepend=self._turn), places.stream]
        self._turns.append(pa.record_batch([column.astype(np.int32) for column in columns], schema=_TURN))
        self._turn, self._rows = int(places.turn[-1]), self._rows + len(places)

    def finish(self) -> SplitParts:
        """Complete the tables and return the results."""
        parts = self._parser.finish()
        parts.tables[_TURNS] = self._keeper.keep(_TURNS, [pa.Table.from_batches(self._turns, _TURN)])
        return parts


def stands(joined: MergedSplit) -> bool:
    """Return whether the tables of a split need no correction except for their numbers."""
    renaming = joined.renaming
    renamed = renaming.sync != OWN
    sure = (renaming.anchored[renamed] == NO_OFFSET) & (renaming.lost[renamed] == NO_OFFSET)
    return bool(sure.all()) and not any(isinstance(extra.item, Note) for extra in joined.extra)


def correct_split(staging: Staging, number: int, own: SplitParts, joined: MergedSplit) -> SplitParts:
    """Return the tables of the split ``number``, for which `stands` is true, and of the frames added to it."""
    renaming = joined.renaming
    turn, stream = _turns(staging, own)
    numbers, others = joined.numbers(turn, stream)
    shift = Renumbering.of(renaming.streams, numbers, renaming.packets, renaming.offsets, renaming.sync)
    tables = {
        name: [replace(part, shift=shift) for part in some] for name, some in own.tables.items() if name != _TURNS
    }
    for name, table in _added(joined.extra, others):
        tables[name] = [*tables.get(name, ()), *PartStorage(staging).keep(name, [table])]
    return SplitParts(number, own.part, tables, counted=replace(own.counted, frames=joined.rows))


def renumbered(staging: Staging, parts: SplitParts) -> SplitParts:
    """Return a split with tables that have the recording's numbers: a state need not contain the renumbering."""
    storage = PartStorage(staging)
    tables: dict[str, list[Part]] = {}
    for name, some in parts.tables.items():
        numbered = [one for one in some if one.shift is None]
        others = (renumber_table(name, load(staging, one), one.shift) for one in some if one.shift is not None)
        tables[name] = numbered + storage.keep(name, others)
    return replace(parts, tables=tables)


def _turns(staging: Staging, own: SplitParts) -> tuple[Longs, Longs]:
    tables = [_TURN.empty_table(), *(load(staging, part) for part in own.tables[_TURNS])]
    turn, stream = (pa.concat_tables(tables)[name].to_numpy().astype(np.int64) for name in _TURN.names)
    return np.cumsum(turn), stream


def _added(extra: Sequence[Extra], numbers: Longs) -> Iterator[tuple[str, pa.Table]]:
    """Yield the partials of the items that the merge adds; ``numbers`` are their frame numbers."""
    if not extra:
        return
    both = list(zip(numbers.tolist(), (one.item for one in extra), strict=True))
    frames = [(number, item) for number, item in both if isinstance(item, CapturedFrame)]
    aggregator = SplitAggregator()
    places = places_of([item for _, item in frames])
    aggregator.add(read_fields(places, checksums=False), numbers=np.array([number for number, _ in frames], np.int64))
    aggregator.add_events(RecordingEvent(number, 0, 0, item) for number, item in both if isinstance(item, StreamEnd))
    partials = aggregator.finish()
    for one in fields(partials):
        yield one.name, getattr(partials, one.name)
