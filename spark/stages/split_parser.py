"""Conversion of a split's frames, window by window, to the tables that later stages need.

Rules of this file
1. Each window is released before the next window is read: partials, header rows and sums are kept, but no frames.
2. Only data that the requested tables need is produced: header rows only for findings, sums only for permits.
3. The caller numbers the frames: within the split in the first of two readings, otherwise within the recording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from pcli.codec.capture.frames import Note, StreamEnd
from pcli.spark.columnar.frame_columns import Frames, Longs
from pcli.spark.request import RequiredData
from pcli.spark.stages.split_tables import PartStorage, SplitParts, as_batch

if TYPE_CHECKING:
    from pcli.spark.columnar.lifecycles.split_aggregation import SplitAggregator

Events = Sequence[tuple[int, Note | StreamEnd]]

_LARGE: Final = 64 << 20
"""Minimum size in bytes at which the collected rows of a table are stored."""


class _Collector(Protocol):
    """An object that produces some tables of a split."""

    def add(self, frames: Frames, numbers: Longs, events: Events) -> dict[str, pa.Table]:
        """Add a window and return the tables that are complete."""

    def finish(self) -> dict[str, pa.Table]:
        """Return the remaining tables."""


class SplitParser:
    """The tables of one split."""

    def __init__(self, split: int, part: int, cluster: str, required: RequiredData, storage: PartStorage) -> None:
        """Create a parser. ``split`` and ``part`` are the indices of the split and of its file in the recording."""
        self._keeper = storage
        self._observing = required.observing
        self._collectors = list(_collectors(split, cluster, required))
        self._held: dict[str, list[pa.Table]] = {}
        self._sizes: dict[str, int] = {}
        self.parts = SplitParts(split, part)

    def add(self, frames: Frames, numbers: Longs, events: Events = ()) -> None:
        """Add a window: its frames, their numbers, and its notes and ends, each with the row that follows it."""
        for collector in self._collectors:
            self._hold(collector.add(frames, numbers, events))
        self.parts.counted.frames += len(frames)
        if self._observing:
            streams, counts = np.unique(frames.places.stream, return_counts=True)
            self.parts.frames.update(dict(zip(streams.tolist(), counts.tolist(), strict=True)))

    def finish(self) -> SplitParts:
        """Return all results."""
        for collector in self._collectors:
            self._hold(collector.finish())
        for name in list(self._held):
            self._put(name)
        return self.parts

    def _hold(self, tables: dict[str, pa.Table]) -> None:
        for name, table in tables.items():
            self._held.setdefault(name, []).append(table)
            self._sizes[name] = self._sizes.get(name, 0) + int(table.nbytes)
            if self._sizes[name] > _LARGE:
                self._put(name)

    def _put(self, name: str) -> None:
        table = pa.concat_tables(self._held.pop(name))
        self._sizes[name] = 0
        self.parts.tables.setdefault(name, []).extend(self._keeper.keep(name, [table]))


def _collectors(split: int, cluster: str, required: RequiredData) -> list[_Collector]:
    # Imports are lazy, because the rules and the Tracker take time to import.
    found: list[_Collector] = []
    if required.lifecycles:
        from pcli.spark.columnar.lifecycles.split_aggregation import SplitAggregator

        found.append(_LifecyclePartials(SplitAggregator()))
    if required.observing:
        found.append(_HeaderRows())
    if required.permits:
        found.append(_Permits(split))
    if required.frames:
        found.append(_FrameRows(cluster))
    return found


class _LifecyclePartials:
    def __init__(self, aggregator: SplitAggregator) -> None:
        self._aggregator = aggregator

    def add(self, frames: Frames, numbers: Longs, events: Events) -> dict[str, pa.Table]:
        self._aggregator.add(frames, events, numbers=numbers)
        return {}

    def finish(self) -> dict[str, pa.Table]:
        partials = self._aggregator.finish()
        return {one.name: getattr(partials, one.name) for one in fields(partials)}


class _HeaderRows:
    def __init__(self) -> None:
        self._ties: list[pa.RecordBatch] = []

    def add(self, frames: Frames, numbers: Longs, events: Events) -> dict[str, pa.Table]:
        from pcli.spark.columnar.observation.connection_ties import ties_of
        from pcli.spark.columnar.observation.frame_header_rows import to_heads

        self._ties.append(ties_of(frames, numbers))
        places = frames.places
        packets = pa.table({"frame": numbers, "packet": places.packet, "time_ns": places.time_ns})
        return {"heads": _table(to_heads(frames, numbers)), "packets": packets}

    def finish(self) -> dict[str, pa.Table]:
        from pcli.spark.columnar.observation.connection_ties import merge_ties

        return {"ties": _table(merge_ties(self._ties))}


class _Permits:
    """The permit sums of a split. Events are counted per connection across all windows."""

    def __init__(self, split: int) -> None:
        self._split = split
        self._seen: Counter[int] = Counter()
        self._changes: list[pa.RecordBatch] = []
        self._events: list[pa.RecordBatch] = []

    def add(self, frames: Frames, numbers: Longs, events: Events) -> dict[str, pa.Table]:
        from pcli.spark.columnar.permits.permit_buckets import permit_parts

        parts = permit_parts(frames, numbers, cut=self._split, seen=self._seen)
        self._changes.append(parts.changes)
        self._events.append(parts.events)
        return {}

    def finish(self) -> dict[str, pa.Table]:
        from pcli.spark.columnar.permits.permit_buckets import CHANGES, permit_totals
        from pcli.spark.columnar.permits.permit_sessions import EVENTS

        changes = pa.Table.from_batches(self._changes, CHANGES).combine_chunks()
        totals = permit_totals(as_batch(changes))
        return {
            "permit_changes": changes,
            "permit_totals": _table(totals),
            "permit_events": pa.Table.from_batches(self._events, EVENTS),
        }


class _FrameRows:
    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    def add(self, frames: Frames, numbers: Longs, events: Events) -> dict[str, pa.Table]:
        from pcli.spark.columnar.fields.frame_table import frame_rows

        return {"frames": _table(frame_rows(frames, numbers, cluster=self._cluster))}

    def finish(self) -> dict[str, pa.Table]:
        return {}


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])
