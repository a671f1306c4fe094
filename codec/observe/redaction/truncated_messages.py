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
from pcli.codec.wire.truncated_messages import MAX_DEPTH, last_whole_field


def redact_cut(kind: type[Message], data: bytes, names: Names, depth: int = MAX_DEPTH) -> bytes:
    """Return the redacted fields of a truncated message of this type."""
    end, number, start, size = last_whole_field(data)
    message = kind()
    try:
        message.MergeFromString(data[:end])
    except DecodeError:
        return b""
    redact_message(message, names)
    out = message.SerializePartialToString()
    field = message.DESCRIPTOR.fields_by_number.get(number)
    if field is None or field.message_type is None or not depth:
        return out
    kind = GetMessageClass(field.message_type)  # type: ignore[arg-type]  # the stubs have two classes for one
    inner = redact_cut(kind, data[start:], names, depth - 1)
    missing = size - (len(data) - start)
    return b"".join((out, push_varint(number << 3 | 2), push_varint(len(inner) + missing), inner))
