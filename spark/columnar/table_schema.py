"""The definition of columns in a table schema: name, type and one line of description.

Rules of this file
1. The description is the metadata ``what`` of the field. It is copied to the Parquet files and to docs/tables.md.
2. Times are int64, nanoseconds since 1970, and their names end in ``_ns``, because Spark does not read Parquet
   timestamps in nanoseconds. There are no unsigned numbers and no dictionaries, because Spark supports neither.
3. Unknown values are null. Lists and structs contain only values of their row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

__all__ = ["BOOL", "BYTES", "INT", "LONG", "TEXT", "column", "description_of", "many", "never_null", "record"]

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
