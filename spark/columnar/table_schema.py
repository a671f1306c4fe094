"""The definition of columns in a table schema (name, type and one line of description), and the conversion of times.

Rules of this file
1. The description is the metadata ``what`` of the field. It is copied to the Parquet files and to docs/tables.md.
2. Times are int64, nanoseconds since 1970, and their names end in ``_ns``, because Spark does not read Parquet
   timestamps in nanoseconds. There are no unsigned numbers and no dictionaries, because Spark supports neither.
3. Unknown values are null. Lists and structs contain only values of their row.
4. Milliseconds of the wire format whose nanoseconds do not fit in 64 bits (after the year 2262) are null. Some
   producers send microseconds, or Long.MAX for "never". A uint64 above the maximum of int64 is a negative number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Longs

TEXT: Final = pa.string()
LONG: Final = pa.int64()
INT: Final = pa.int32()
BOOL: Final = pa.bool_()
BYTES: Final = pa.binary()


def column(name: str, kind: pa.DataType, what: str) -> pa.Field:
    """Return a column, or a field of a `record`; ``what`` is its description, without a full stop."""
    return pa.field(name, kind, metadata={"what": what})


def never_null(name: str, kind: pa.DataType, what: str) -> pa.Field:
    """Return a column without nulls."""
    return column(name, kind, what).with_nullable(nullable=False)


def record(*fields: pa.Field) -> pa.DataType:
    """Return the type of a struct with these fields."""
    return pa.struct(list(fields))


def many(kind: pa.DataType | Iterable[pa.Field]) -> pa.DataType:
    """Return the type of a list of these values. If ``kind`` is a list of fields, the values are structs."""
    # Spark uses the name "element" for list elements, so the types remain equal when Spark copies them.
    return pa.list_(pa.field("element", kind if isinstance(kind, pa.DataType) else pa.struct(list(kind))))


def description_of(field: pa.Field) -> str:
    """Return the description of a column; empty if it has none."""
    return str((field.metadata or {}).get(b"what", b""), "utf-8")


_NANOS: Final = 1_000_000
_MOST_MS: Final = ((1 << 63) - 1) // _NANOS


def nanoseconds(values: Longs, *, least: int = 0) -> pa.Array:
    """Convert milliseconds to int64 nanoseconds; null below ``least`` and where 64 bits do not suffice."""
    fits = (values >= least) & (values <= _MOST_MS)
    return pa.array(np.where(fits, values, 0) * _NANOS, mask=~fits)


def nanoseconds_of(value: int) -> int | None:
    """Convert one positive number in the same way; return None instead of null."""
    return value * _NANOS if 1 <= value <= _MOST_MS else None
