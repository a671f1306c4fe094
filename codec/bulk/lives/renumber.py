"""Partials in the recording's own numbers: what stitching says of a split's connections and frames, applied.

Rules of this file
1. A connection of the split stands under a number of the recording, or is dropped with all its rows (they come again
   in another split).
2. Frame numbers move by an amount that changes in a few places only: where frames of other splits come in between, or
   own ones are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pcli.codec.bulk.columns import Longs
from pcli.codec.bulk.lives.partials import PARTIALS, Partials

__all__ = ["Shift", "globalize", "globalize_table", "joined"]

_NUMBERS: Final = frozenset(
    {
        "sent_number", "receipt_number", "delivered_number", "acked_number", "nacked_number", "number", "since",
        "asked_number", "answered_number", "first_number", "last_number",
    }
)  # fmt: skip


@dataclass(slots=True)
class Shift:
    """From a split's own numbers to the recording's. Picklable."""

    streams: Longs
    """By the split's stream: that of the recording; -1: dropped."""
    starts: Longs
    """Frame numbers of the split from which on another amount is added; the first is 0."""
    adds: Longs
    """What is added from there on."""
    offsets: Longs | None = None
    """By 2 * the split's stream + from_client: what is added to offsets; None: nothing (seams.Renaming.offsets)."""

    @classmethod
    def of(cls, streams: Longs, numbers: Longs, offsets: Longs | None = None) -> Shift:
        """``numbers``: the recording's number of each frame of the split, in order; -1: dropped."""
        kept = np.flatnonzero(numbers >= 0)
        moved = numbers[kept] - (kept + 1)
        changes = np.flatnonzero(np.append(True, moved[1:] != moved[:-1])) if len(kept) else kept
        starts = kept[changes] + 1
        if len(starts):
            starts[0] = 0
        return cls(streams, starts, moved[changes], offsets)

    def numbers(self, values: Longs) -> Longs:
        """Frame numbers; -1 stays."""
        if not len(self.starts):
            return values
        at = np.searchsorted(self.starts, values, side="right") - 1
        return np.where(values >= 0, values + self.adds[np.maximum(at, 0)], values)


def globalize_table(name: str, table: pa.Table, shift: Shift) -> pa.Table:
    """One table of PARTIALS of one split; its dropped rows are left out."""
    schema = PARTIALS[name]
    if "stream" not in schema.names or not len(table):
        return table
    own = table.column("stream").to_numpy()
    stream = np.where(own >= 0, shift.streams[np.maximum(own, 0)], -1)
    for place, field in enumerate(schema):
        if field.name == "stream":
            table = table.set_column(place, field, pa.array(stream))
        elif field.name in _NUMBERS or (field.name == "place" and name == "spoken"):
            table = table.set_column(place, field, pa.array(shift.numbers(table.column(place).to_numpy())))
    if name == "events" and shift.offsets is not None:
        table = _moved(table, own, shift.offsets)
    stands = (stream >= 0) | (own < 0)
    return table if stands.all() else table.filter(pa.array(stands))


def _moved(table: pa.Table, stream: Longs, offsets: Longs) -> pa.Table:
    """EVENTS with the offsets of the recording."""
    side, offset = table.column("from_client").to_numpy(), table.column("offset").to_numpy()
    known = (stream >= 0) & (side >= 0) & (offset >= 0)
    found = np.where(known, offset + offsets[np.where(known, 2 * stream + side, 0)], offset)
    place = table.schema.get_field_index("offset")
    return table.set_column(place, table.schema.field(place), pa.array(found))


def globalize(partials: Partials, shift: Shift) -> Partials:
    """All tables of one split."""
    return Partials(**{name: globalize_table(name, getattr(partials, name), shift) for name in PARTIALS})


def joined(parts: Iterable[Partials]) -> Partials:
    """Several splits, in order, as one."""
    every = list(parts)
    tables = {
        name: pa.concat_tables([schema.empty_table(), *(getattr(part, name) for part in every)])
        for name, schema in PARTIALS.items()
    }
    labels = tables["labels"].group_by("id", use_threads=False).aggregate([("text", "min")])
    return Partials(**tables | {"labels": labels.rename_columns(["id", "text"]).cast(PARTIALS["labels"])})
