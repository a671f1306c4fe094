"""The few fields of an entry's metadata that make a life, read by hand: a third of the time of a walk over all.

Rules of this file
1. `pull_fields` finds every field and gives no meaning to it: field number to number or bytes, of repeated ones the
   last. Bytes that are no protobuf end it, and so do numbers of fixed size, which MessageMetadata does not have; what
   came before counts, as with metadata that the capture cut.
2. The numbers are those of MessageMetadata's descriptor; a test holds what is read against Facts.metadata.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from pcli.codec.observe.observer_state import ObservedFrame
from pcli.codec.proto import pb
from pcli.codec.wire.hot import pull_long

__all__ = ["FIELD", "Fields", "fields_of", "key_of", "number_of", "pull_fields", "text_of"]

Fields = Mapping[int, int | bytes]
"""Field number to value: varints as int, everything with a length as bytes."""

FIELD: Final[dict[str, int]] = {field.name: field.number for field in pb.MessageMetadata.DESCRIPTOR.fields}
"""Number of each field of MessageMetadata by its name."""


def pull_fields(data: bytes, start: int, end: int) -> Fields:
    """The fields of the message at data[start:end]."""
    found: dict[int, int | bytes] = {}
    position = start
    try:
        while position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if tag > 127:
                tag, position = pull_long(data, position - 1, tag)
                value = data[position]
                position += 1
            if value > 127:
                byte = data[position]
                if byte < 128:  # as most are: sizes, sequence ids
                    value += (byte << 7) - 128
                    position += 1
                else:
                    value, position = pull_long(data, position, value)
            wire = tag & 7
            if wire == 0:
                found[tag >> 3] = value
            elif wire == 2 and position + value <= end:
                found[tag >> 3] = data[position : position + value]
                position += value
            else:
                break
    except IndexError:
        pass
    return found


def fields_of(frame: ObservedFrame) -> Fields:
    """Those of the metadata of a SEND or MESSAGE; empty when it was cut away."""
    parts = frame.parts
    return pull_fields(frame.data, parts.metadata_start, parts.metadata_end) if parts.metadata_start >= 0 else {}


def number_of(fields: Fields, field: int, default: int = 0) -> int:
    """The number in a field; ``default`` when it is not there, or is no number."""
    value = fields.get(field, default)
    return value if isinstance(value, int) else default


def text_of(fields: Fields, field: int) -> str:
    """The text in a field; empty when it is not there, or is no text."""
    value = fields.get(field, b"")
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def key_of(fields: Fields) -> str:
    """The ordering key, else the partition key; binary ones as base64; empty: none."""
    ordering = fields.get(_ORDERING)
    if ordering and isinstance(ordering, bytes):
        try:
            return ordering.decode()
        except UnicodeDecodeError:
            return base64.b64encode(ordering).decode()
    # Binary partition keys travel as base64 already (partition_key_b64_encoded).
    return text_of(fields, _PARTITION)


_ORDERING: Final = FIELD["ordering_key"]
_PARTITION: Final = FIELD["partition_key"]
