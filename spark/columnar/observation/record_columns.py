"""How a table is made from objects: a cell for each column says what it is and where it comes from.

Rules of this file
1. What is not known is null: the records' own words for that (-1, 0 as a time or frame, an empty text) become null.
2. So is a number from the wire that is too large for its column.
3. What comes by name (kinds of ends, errors) is a list of names with counts: names are many, and not ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from pcli.codec.observe.tracking.records.counters import Occurrences, StateDuration
from pcli.spark.columnar.table_schema import INT, LONG, TEXT, column, many

__all__ = ["COUNTS", "REASONS", "Cell", "above", "cell", "counts", "known", "lasted", "reasons", "rows_of", "schema_of"]

COUNTS: Final = many((column("name", TEXT, "name of the counted item"), column("count", LONG, "count")))
"""Names with counts."""

REASONS: Final = many((column("figure", TEXT, "name of a column"), column("reason", TEXT, "reason")))
"""Columns that are null, and why."""


class Cell(NamedTuple):
    """One column."""

    field: pa.Field
    get: Callable[[Any], Any]
    """Gives the value for an object; None: not known."""


def cell(name: str, kind: pa.DataType, what: str, get: Callable[[Any], Any]) -> Cell:
    """A column, with one line on what it says, and where its values come from."""
    return Cell(column(name, kind, what), get)


def schema_of(cells: Sequence[Cell]) -> pa.Schema:
    """The schema of a table, with the cluster in front."""
    cluster = column("cluster", TEXT, "label of the cluster of the captures").with_nullable(nullable=False)
    return pa.schema([cluster, *(one.field for one in cells)])


def rows_of(cells: Sequence[Cell], things: Sequence[Any], cluster: str) -> pa.RecordBatch:
    """A row for each object."""
    columns = [pa.array([cluster] * len(things), TEXT)]
    columns += [
        pa.array(_fitting([one.get(thing) for thing in things], one.field.type), one.field.type) for one in cells
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema_of(cells))


def _fitting(values: list[Any], kind: pa.DataType) -> list[Any]:
    """Numbers that the column has no room for are null: peers may send any, and figures are made of them."""
    limit = _LIMITS.get(kind)
    return values if limit is None else [one if one is None or -limit <= one < limit else None for one in values]


_LIMITS: Final = {INT: 1 << 31, LONG: 1 << 63}


def known(value: Any) -> Any:
    """A text, time or frame; None: there is none."""
    return value or None


def above(value: int) -> int | None:
    """A number that is not negative; None: there is none."""
    return value if value >= 0 else None


def counts(tallies: Mapping[str, Occurrences]) -> list[dict[str, Any]]:
    """How often each was seen."""
    return [{"name": name, "count": tally.count} for name, tally in tallies.items()]


def reasons(found: Mapping[str, str], names: Mapping[str, str]) -> list[dict[str, str]]:
    """Why figures are not known; ``names``: from their names in Pulsar's statistics to our columns."""
    return [{"figure": names[name], "reason": why} for name, why in found.items() if name in names]


def lasted(stretch: StateDuration, now_ns: int) -> int:
    """How long something was so in all, ns; what lasts counts until now."""
    return stretch.total_ns + (now_ns - stretch.since_ns if stretch.since_ns >= 0 else 0)
