"""Redaction of a protobuf message if the capture contains only its beginning.

Complete fields are redacted as usual. A truncated nested message keeps its position, its declared size and its redacted
beginning. Any other truncated field is dropped.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from pcli.codec.observe.redaction.messages import redact_message
from pcli.codec.observe.redaction.name_pseudonyms import Names
from pcli.codec.wire.hot import push_varint

__all__ = ["redact_cut"]

_SIZES = {1: 8, 5: 4}
"""Sizes of fixed-size numbers by wire type."""


def redact_cut(kind: type[Message], data: bytes, names: Names) -> bytes:
    """Return the redacted fields of a truncated message of this type."""
    end, number, start, size = _last_whole(data)
    message = kind()
    try:
        message.MergeFromString(data[:end])
    except DecodeError:
        return b""
    redact_message(message, names)
    out = message.SerializePartialToString()
    field = message.DESCRIPTOR.fields_by_number.get(number)
    if field is None or field.message_type is None:
        return out
    kind = GetMessageClass(field.message_type)  # type: ignore[arg-type]  # the stubs have two classes for one
    inner = redact_cut(kind, data[start:], names)
    missing = size - (len(data) - start)
    return b"".join((out, push_varint(number << 3 | 2), push_varint(len(inner) + missing), inner))


def _last_whole(data: bytes) -> tuple[int, int, int, int]:
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
