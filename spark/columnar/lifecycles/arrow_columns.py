"""Arrow columns made of numbers, where -1 means null, and columns as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.table_schema import LONG

__all__ = ["array_of", "longs", "longs_of", "struct_of", "table_in_batches", "texts_at", "values_at"]

_AT_ONCE: Final = 8192
"""Maximum number of rows that exist as dicts at the same time: 1000 rows use several megabytes."""


def values_at(values: Longs, places: Longs) -> Longs:
    """Return the values at some indices; -1 where the index is -1."""
    if not len(places) or int(places.min()) >= 0:
        return values.take(places)
    found: Longs = np.append(values, -1)[places]
    return found


def array_of(values: Any, kind: pa.DataType) -> pa.Array:
    """Return these values as an Arrow array; an Arrow array is returned unchanged."""
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def struct_of(columns: dict[str, Any], kind: pa.StructType) -> pa.Array:
    """Return a struct array; ``columns`` contains its columns by field name."""
    arrays = [array_of(columns[one.name], one.type) for one in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def longs(table: pa.Table, name: str) -> Longs:
    """Return a column of numbers."""
    found: Longs = table.column(name).to_numpy()
    return found


def longs_of(values: Longs, kind: pa.DataType = LONG) -> pa.Array:
    """Return numbers as an array in which -1 is null."""
    missing: Bools = values == -1
    return pa.array(values, kind, mask=missing if missing.any() else None)


def texts_at(texts: list[str], places: Longs, *, empty_is_null: bool = False) -> pa.Array:
    """Return the text at each index; null where the index is -1."""
    values = pa.array([one or None if empty_is_null else one for one in texts] + [None], pa.string())
    return values.take(pa.array(places, mask=places < 0))


def table_in_batches(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table. The rows are read in batches, so only a few rows exist as dicts at the same time."""
    rows, tables = iter(rows), [schema.empty_table()]
    while some := list(islice(rows, _AT_ONCE)):
        tables.append(pa.Table.from_pylist(some, schema))
    return pa.concat_tables(tables).combine_chunks()
