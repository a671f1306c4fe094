"""Partials in the recording's own numbers: what stitching says of a split's connections and frames, applied.

Rules of this file
1. A connection of the split stands under a number of the recording, or is dropped with all its rows (they come again
   in another split).
2. Frame numbers move by an amount that changes in a few places only: where frames of other splits come in between, or
   own ones are dropped.
3. A connection that a split met in its middle was read as one that was found by search. Where it is known better, it is
   said better: then the marks of what a search has found are taken away.
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

__all__ = ["Renumbering", "concat_partials", "renumber_table"]

_NUMBERS: Final = frozenset(
    {
        "sent_number", "receipt_number", "delivered_number", "acked_number", "nacked_number", "number", "since",
        "asked_number", "answered_number", "first_number",
    }
)  # fmt: skip


@dataclass(slots=True)
class Renumbering:
    """From a split's own numbers to the recording's. Picklable."""

    streams: Longs
    """By the split's stream: that of the recording; -1: dropped."""
    starts: Longs
    """Frame numbers of the split from which on another amount is added; the first is 0."""
    adds: Longs
    """What is added from there on."""
    packets: int = 0
    """What is added to numbers of packets."""
    offsets: Longs | None = None
    """By 2 * the split's stream + from_client: what is added to offsets; None: nothing (seams.Renaming.offsets)."""
    sync: Longs | None = None
    """And how certain the places are of all its frames: as Places.sync; below 0, or None: as each says itself."""

    @classmethod
    def of(
        cls,
        streams: Longs,
        numbers: Longs,
        packets: int = 0,
        offsets: Longs | None = None,
        sync: Longs | None = None,
    ) -> Renumbering:
        """``numbers``: the recording's number of each frame of the split, in order; -1: dropped."""
        kept = np.flatnonzero(numbers >= 0)
        moved = numbers[kept] - (kept + 1)
        changes = np.flatnonzero(np.append(True, moved[1:] != moved[:-1])) if len(kept) else kept
        starts = kept[changes] + 1
        if len(starts):
            starts[0] = 0
        return cls(streams, starts, moved[changes], packets, offsets, sync)

    def numbers(self, values: Longs) -> Longs:
        """Frame numbers; -1 stays."""
        if not len(self.starts):
            return values
        at = np.searchsorted(self.starts, values, side="right") - 1
        return np.where(values >= 0, values + self.adds[np.maximum(at, 0)], values)


def renumber_table(name: str, table: pa.Table, shift: Renumbering) -> pa.Table:
    """One table of PARTIALS of one split; its dropped rows are left out."""
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
    """FORWARDED with what is known of the certainty of places."""
    if shift.sync is None:
        return table
    level = shift.sync[2 * table.column("stream").to_numpy() + table.column("from_client").to_numpy()]
    return _set(table, "sync", np.where(level >= 0, level, table.column("sync").to_numpy()).astype(np.int8))


def _events(table: pa.Table, shift: Renumbering) -> pa.Table:
    """EVENTS with packets and offsets of the recording, without marks of what no search has found after all."""
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
"""What else of a table is the split's own."""


def concat_partials(parts: Iterable[Partials]) -> Partials:
    """Several splits, in order, as one."""
    every = list(parts)
    tables = {
        name: pa.concat_tables([schema.empty_table(), *(getattr(part, name) for part in every)])
        for name, schema in PARTIALS.items()
    }
    labels = tables["labels"].group_by("id", use_threads=False).aggregate([("text", "min")])
    return Partials(**tables | {"labels": labels.rename_columns(["id", "text"]).cast(PARTIALS["labels"])})
