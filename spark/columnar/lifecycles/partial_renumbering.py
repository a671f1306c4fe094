"""Partial tables with the numbers of the whole recording, according to the merge of splits.

Rules of this file
1. A connection of the split has a number in the recording, or is dropped with all its rows because a different split
   contains them.
2. The difference between a frame's number in the recording and its number in the split changes only where frames of
   other splits are inserted, or frames of this split are dropped.
3. A connection that started before the split was decoded by resynchronization. If the merge confirms the frame
   boundaries, the marks of the resynchronization are removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.frame_columns import RESYNC, Longs
from pcli.spark.columnar.lifecycles.partial_tables import PARTIALS, Partials
from pcli.spark.columnar.lifecycles.split_aggregation import SEARCHED

_NUMBERS: Final = frozenset(
    {
        "sent_number", "receipt_number", "delivered_number", "acked_number", "nacked_number", "number", "since",
        "asked_number", "answered_number", "first_number",
    }
)  # fmt: skip


@dataclass(slots=True)
class Renumbering:
    """The mapping from a split's numbers to the recording's numbers. It can be pickled."""

    streams: Longs
    """The recording's stream for each stream of the split; -1 if dropped."""
    starts: Longs
    """Frame numbers of the split at which the difference changes; the first is 0."""
    adds: Longs
    """The difference that applies from each of these frame numbers."""
    packets: int = 0
    """The difference of packet numbers."""
    offsets: Longs | None = None
    """Differences of offsets, by 2 * the split's stream + from_client; None if all are 0
    (merge_results.SplitRenumbering.offsets)."""
    sync: Longs | None = None
    """Certainty of the frame boundaries (a value of Places.sync), by the same key. If it is negative or None, the value
    of each frame is kept."""

    @classmethod
    def of(
        cls, streams: Longs, numbers: Longs, packets: int = 0, offsets: Longs | None = None, sync: Longs | None = None
    ) -> Renumbering:
        """Return the mapping for frames with these numbers in the recording, in order; -1 for dropped frames."""
        kept = np.flatnonzero(numbers >= 0)
        moved = numbers[kept] - (kept + 1)
        changes = np.flatnonzero(np.append(True, moved[1:] != moved[:-1])) if len(kept) else kept
        starts = kept[changes] + 1
        if len(starts):
            starts[0] = 0
        return cls(streams, starts, moved[changes], packets, offsets, sync)

    def numbers(self, values: Longs) -> Longs:
        """Return frame numbers in the recording; -1 is kept."""
        if not len(self.starts):
            return values
        at = np.searchsorted(self.starts, values, side="right") - 1
        return np.where(values >= 0, values + self.adds[np.maximum(at, 0)], values)


def renumber_table(name: str, table: pa.Table, shift: Renumbering) -> pa.Table:
    """Return one table of a split with the recording's numbers, without dropped rows. ``name`` is a key of PARTIALS."""
    schema = PARTIALS[name]
    if "stream" not in schema.names or not len(table):
        return table
    if name in _MORE:
        table = _MORE[name](table, shift)
    own = table.column("stream").to_numpy()
    stream = np.where(own >= 0, shift.streams[np.maximum(own, 0)], -1)
    for place, field in enumerate(schema):
        if field.name == "stream":
            table = table.set_column(place, field, pa.array(stream))
        elif field.name in _NUMBERS or (field.name == "place" and name == "forwarded"):
            table = table.set_column(place, field, pa.array(shift.numbers(table.column(place).to_numpy())))
    stands = (stream >= 0) | (own < 0)
    return table if stands.all() else table.filter(pa.array(stands))


def _forwarded(table: pa.Table, shift: Renumbering) -> pa.Table:
    """Return FORWARDED with the certainty of frame boundaries that the merge determined."""
    if shift.sync is None:
        return table
    level = shift.sync[2 * table.column("stream").to_numpy() + table.column("from_client").to_numpy()]
    return _set(table, "sync", np.where(level >= 0, level, table.column("sync").to_numpy()).astype(np.int8))


def _events(table: pa.Table, shift: Renumbering) -> pa.Table:
    """Return EVENTS with the recording's packets and offsets, without the marks of confirmed frames."""
    own, side = table.column("stream").to_numpy(), table.column("from_client").to_numpy()
    known = (own >= 0) & (side >= 0)
    at = np.where(known, 2 * own + side, 0)
    table = _set(table, "packet", table.column("packet").to_numpy() + shift.packets)
    if shift.offsets is not None:
        offset = table.column("offset").to_numpy()
        table = _set(table, "offset", np.where(known & (offset >= 0), offset + shift.offsets[at], offset))
    if shift.sync is not None:
        sure = known & (shift.sync[at] >= 0) & (shift.sync[at] != RESYNC)
        flags, weak = table.column("flags").to_numpy(), pc.equal(table.column("kind"), "weak").to_numpy()
        table = _set(table, "flags", np.where(sure & ~weak, flags & ~SEARCHED, flags))
        table = table.filter(pa.array(~(sure & weak)))
    return table


def _set(table: pa.Table, name: str, values: npt.NDArray[Any]) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), pa.array(values))


_MORE: Final = {"events": _events, "forwarded": _forwarded}
"""Functions for the other columns with numbers of the split."""


def concat_partials(parts: Iterable[Partials]) -> Partials:
    """Return the tables of several splits, in order, as one table."""
    every = list(parts)
    tables = {
        name: pa.concat_tables([schema.empty_table(), *(getattr(part, name) for part in every)])
        for name, schema in PARTIALS.items()
    }
    labels = tables["labels"].group_by("id", use_threads=False).aggregate([("text", "min")])
    return Partials(**tables | {"labels": labels.rename_columns(["id", "text"]).cast(PARTIALS["labels"])})
