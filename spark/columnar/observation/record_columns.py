"""Tables made from objects: a cell defines a column, with its description and the source of its values.

Rules of this file
1. Unknown values become null. In records, -1, 0 (as a time or frame) and the empty string are unknown values.
2. A number from the wire that is too large for its column becomes null.
3. Counts by name (kinds of ends, errors) are a list of names with counts, because there are many names and they are not
   fixed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa

from pcli.spark.columnar.table_schema import INT, LONG, TEXT, column, many

COUNTS: Final = many((column("name", TEXT, "name of the counted item"), column("count", LONG, "count")))
"""Names with counts."""

REASONS: Final = many((column("figure", TEXT, "name of a column"), column("reason", TEXT, "reason")))
"""Names of columns that are null, with the reasons."""


Get = Callable[[Any], Any]
"""A function that returns the value of a column for an object, or None if the value is unknown."""


class Cell(NamedTuple):
    """One column."""

    field: pa.Field
    get: Get


def cell(name: str, kind: pa.DataType, what: str, get: Get) -> Cell:
    """Return a cell: a column with its description and the source of its values."""
    return Cell(column(name, kind, what), get)


def schema_of(cells: Sequence[Cell]) -> pa.Schema:
    """Return the schema of a table, with the cluster as the first column."""
    cluster = column("cluster", TEXT, "label of the cluster of the captures").with_nullable(nullable=False)
    return pa.schema([cluster, *(one.field for one in cells)])


def rows_of(cells: Sequence[Cell], things: Sequence[Any], cluster: str) -> pa.RecordBatch:
    """Return a row for each object."""
    columns = [pa.array([cluster] * len(things), TEXT)]
    columns += [
        pa.array(_fitting([one.get(thing) for thing in things], one.field.type), one.field.type) for one in cells
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema_of(cells))


def _fitting(values: list[Any], kind: pa.DataType) -> list[Any]:
    """Replace numbers that do not fit the column with null.

    Peers may send any number, and figures depend on these numbers.
    """
    limit = _LIMITS.get(kind)
    return values if limit is None else [one if one is None or -limit <= one < limit else None for one in values]


_LIMITS: Final = {INT: 1 << 31, LONG: 1 << 63}


def known(value: Any) -> Any:
    """Return a string, time or frame number, or None if it is empty or 0."""
    return value or None


def non_negative(value: int) -> int | None:
    """Return the number, or None if it is negative."""
    return value if value >= 0 else None


# -- the source of values of an object with a ``record`` ---------------------------------------------------------------


def of(path: str) -> Get:
    """Return a function that reads an attribute of the record, or of its attributes: ``topic.name``."""
    return attrgetter(f"record.{path}")


def known_of(path: str) -> Get:
    """Return a function that reads a string, time or frame number."""
    get = of(path)
    return lambda one: known(get(one))


def non_negative_of(path: str) -> Get:
    """Return a function that reads a number that is unknown if it is negative."""
    get = of(path)
    return lambda one: non_negative(get(one))


def count_of(path: str) -> Get:
    """Return a function that reads the count of Occurrences or of a StateDuration."""
    return of(f"{path}.count")


def counts_of(path: str) -> Get:
    """Return a function that reads the number of occurrences of each name."""
    get = of(path)
    return lambda one: [{"name": name, "count": tally.count} for name, tally in get(one).items()]


def duration_of(path: str) -> Get:
    """Return a function that reads the total duration of a state in ns.

    If the state has not ended, its duration is counted until ``now_ns`` of the object.
    """
    get = of(path)
    return lambda one: get(one).total_ns + (one.now_ns - get(one).since_ns if get(one).since_ns >= 0 else 0)


def figure(name: str, kind: pa.DataType, what: str) -> Cell:
    """Return the column of one of Pulsar's statistics of the object: ``msg_backlog`` for msgBacklog."""
    return cell(_column_of(name), kind, what, lambda one: one.figures.get(name))


def _column_of(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


UNKNOWN: Final = cell(
    "unknown", REASONS, "reasons for null values",
    lambda one: [{"figure": _column_of(name), "reason": why} for name, why in one.figures.get("unknown", {}).items()],
)  # fmt: skip

DOUBTS: Final = cell(
    "doubts", many(TEXT), "reasons why evidence may be incomplete (see docs/tables.md)",
    lambda one: sorted(one.record.doubts),
)  # fmt: skip
