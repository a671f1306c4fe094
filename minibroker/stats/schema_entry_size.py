"""The size of the entry in which a real broker stores a version of a schema (BookkeeperSchemaStorage).

The entry contains the schema with its id, type, time and properties (SchemaInfo), and an index of the earlier versions
with their positions and SHA-256 hashes. The index of the first version contains a position that does not exist.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.proto import pb

__all__ = ["schema_entry_size"]

_ONE_BYTE_FIELD: Final = 2
"""A field with a number below 128, or an empty one: its tag and one byte."""
_HASH: Final = 34
_NO_POSITION: Final = 24
"""A position with two negative numbers, which use ten bytes each."""
_POSITION: Final = 7
"""A position whose ledger id uses two bytes."""


def schema_entry_size(schema_id: str, schema: pb.Schema, timestamp: int, earlier: int) -> int:
    """Return the size in bytes. ``earlier`` is the number of versions before this one."""
    info = _field(len(schema_id.encode())) + _field(len(schema.schema_data)) + 1 + _varint(timestamp)
    info += 3 * _ONE_BYTE_FIELD  # the user, the type, and whether it is deleted
    for pair in schema.properties:
        info += _field(_field(len(pair.key.encode())) + _field(len(pair.value.encode())))
    position = _POSITION if earlier else _NO_POSITION
    return _field(info) + max(1, earlier) * _field(_ONE_BYTE_FIELD + position + _HASH)


def _field(size: int) -> int:
    """Return the size of a field with a length."""
    return 1 + _varint(size) + size


def _varint(value: int) -> int:
    return max(1, -(-value.bit_length() // 7))
