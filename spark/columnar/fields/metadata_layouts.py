"""Layouts of metadata: the positions of its numbers and strings.

Rules of this file
1. Metadata has a layout only if columns can represent it. A repeated field that has a column, an unexpected wire type,
   a value of -1, or bytes that are not protobuf prevents this. Fields without a column do not matter.
2. The flag for a base64 partition key must be one byte that is the same in all rows of a layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pcli.codec.observe.tracking.entry_metadata import FIELD
from pcli.codec.observe.tracking.subscriptions.dead_letters import MARK
from pcli.spark.columnar.fields.column_coverage import OF_METADATA
from pcli.spark.columnar.fields.message_layouts import (
    LONGEST,
    Layout,
    LayoutBuilder,
    UnsupportedLayoutError,
    read_varint,
)

_PARTITION: Final = FIELD["partition_key"]
_ORDERING: Final = FIELD["ordering_key"]
_BASE64: Final = FIELD["partition_key_b64_encoded"]


@dataclass(slots=True)
class MetadataLayout:
    """A layout and the columns of its spots."""

    shape: Layout
    numbers: dict[str, tuple[int, int]]
    """First byte and size of a varint, by column."""
    texts: dict[str, tuple[int, int]]
    """Start and end of the bytes, by column without _start and _end."""
    key_kind: int
    size: int
    """Size of the metadata."""
    roomy: bool
    """Whether one of the strings is long enough to contain `dead_letters.MARK`."""


def metadata_layout(data: bytes) -> MetadataLayout:
    """Return the layout of metadata; raise UnsupportedLayoutError if it has none."""
    builder = LayoutBuilder(data)
    found: dict[int, tuple[int, int]] = {}
    longest = at = 0
    while at < len(data):
        tag, place = read_varint(data, at, len(data))
        value, next_at = read_varint(data, place, len(data))
        builder.exact(at, place)
        field, wire = tag >> 3, tag & 7
        if wire == 2 and next_at + value <= len(data):
            builder.exact(place, next_at)
            _note(found, field, (next_at, next_at + value), texts=True)
            longest = max(longest, value)
            next_at += value
        elif wire == 0:
            (builder.exact if field == _BASE64 else builder.varint)(place, next_at)
            _note(found, field, (place, next_at - place), texts=False)
        else:
            raise UnsupportedLayoutError
        at = next_at
    return _shape(builder, found, data, longest)


def _note(found: dict[int, tuple[int, int]], field: int, spot: tuple[int, int], *, texts: bool) -> None:
    """Record the position of a field that has a column."""
    where = OF_METADATA.get(field)
    if where is None and field not in (_PARTITION, _ORDERING, _BASE64):
        return
    text = where.text if where is not None else field != _BASE64
    if field in found or text != texts or (not text and spot[1] >= LONGEST):
        raise UnsupportedLayoutError
    found[field] = spot


def _shape(builder: LayoutBuilder, found: dict[int, tuple[int, int]], data: bytes, longest: int) -> MetadataLayout:
    numbers = {OF_METADATA[one].column: spot for one, spot in found.items() if one in OF_METADATA}
    texts = {
        where.column: numbers.pop(where.column)
        for where in OF_METADATA.values()
        if where.text and where.column in numbers
    }
    kind = 0
    ordering, partition, flag = found.get(_ORDERING), found.get(_PARTITION), found.get(_BASE64)
    if ordering is not None and ordering[1] > ordering[0]:
        texts["key"], kind = ordering, 2
    elif partition is not None:
        texts["key"], kind = partition, 1
        if flag is not None:
            kind = 3 if any(byte & 127 for byte in data[flag[0] : sum(flag)]) else 1
    return MetadataLayout(builder.cast(), numbers, texts, kind, len(data), longest >= len(MARK))
