"""Protobuf messages of which a capture contains only the beginning."""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.wire.hot import push_varint

MAX_DEPTH: Final = 100
"""Maximum depth of nested messages, as in protobuf."""

_SIZES: Final = {1: 8, 5: 4}
"""Sizes of fixed-size numbers by wire type."""


def without_truncated_field(kind: Any, data: bytes, depth: int = MAX_DEPTH) -> bytes:
    """Return the complete fields of a truncated message with this descriptor.

    A truncated nested message contains its own complete fields; any other truncated field is absent.
    """
    end, number, start, _ = last_whole_field(data)
    field = kind.fields_by_number.get(number)
    if field is None or field.message_type is None or not depth:
        return data[:end]
    inner = without_truncated_field(field.message_type, data[start:], depth - 1)
    return b"".join((data[:end], push_varint(number << 3 | 2), push_varint(len(inner)), inner))


def last_whole_field(data: bytes) -> tuple[int, int, int, int]:
    """Return the end of the last complete field, and the number, start and size of a truncated field after it."""
    end = position = 0
    try:
        while position < len(data):
            tag, position = _varint(data, position)
            if tag & 7 == 2:
                size, position = _varint(data, position)
                if position + size > len(data):
                    return end, tag >> 3, position, size
                position += size
            elif tag & 7 == 0:
                _, position = _varint(data, position)
            else:
                position += _SIZES.get(tag & 7, len(data))
            if position > len(data):
                break
            end = position
    except IndexError:
        pass
    return end, 0, 0, 0


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number and its end. Raise IndexError if it is truncated."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
