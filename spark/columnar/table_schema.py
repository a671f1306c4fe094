"""How the schema of a table is written down: each column with its type and one line on what it says.

Rules of this file
1. The line travels with the schema (as the field's metadata ``what``), into the Parquet files and into docs/tables.md.
2. Times are int64, nanoseconds since 1970, and their names end in ``_ns``: Spark reads no Parquet timestamps of
   nanoseconds. No unsigned numbers, no dictionaries: Spark has none, and wants types to be equal exactly.
3. What is not known is null. Lists and structs are for what belongs to the row alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

__all__ = ["BOOL", "BYTES", "INT", "LONG", "TEXT", "column", "many", "never_null", "record", "what_of"]

TEXT: Final = pa.string()
LONG: Final = pa.int64()
INT: Final = pa.int32()
BOOL: Final = pa.bool_()
BYTES: Final = pa.binary()


def column(name: str, kind: pa.DataType, what: str) -> pa.Field:
    """A column, or a field of a `record`; ``what`` is a line for a person, without a full stop."""
    return pa.field(name, kind, metadata={"what": what})


def never_null(name: str, kind: pa.DataType, what: str) -> pa.Field:
    """A column without nulls."""
    return column(name, kind, what).with_nullable(nullable=False)


def record(*fields: pa.Field) -> pa.DataType:
    """The type of a struct with these fields."""
    return pa.struct(list(fields))


def many(kind: pa.DataType | Iterable[pa.Field]) -> pa.DataType:
    """The type of a list of these; of fields: a list of structs."""
    # The name that Spark gives the elements of its own lists, so that the types stay equal on the way through it.
    return pa.list_(pa.field("element", kind if isinstance(kind, pa.DataType) else pa.struct(list(kind))))


def what_of(field: pa.Field) -> str:
    """The line on a column; empty: it has none."""
    return str((field.metadata or {}).get(b"what", b""), "utf-8")
