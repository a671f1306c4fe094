"""The schemas of the tables as Spark DDL."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_WORDS: Final = {
    pa.string(): "string",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.float64(): "double",
    pa.binary(): "binary",
    pa.date32(): "date",
}


def ddl_of(schema: pa.Schema) -> str:
    """Return the columns as DDL: ``cluster string, deliveries array<struct<connection: bigint>>``."""
    return ", ".join(f"`{field.name}` {_word(field.type)}" for field in schema)


def _word(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_word(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'`{field.name}`: {_word(field.type)}' for field in kind)}>"
    return _WORDS[kind]
