"""Kinds of values, and the two forms in which a value stands: raw for filters, shown for JSON and columns.

Rules of this file
1. Raw: numbers are int (float for double), times and durations int nanoseconds, bytes are bytes, texts and enum
   values str, truth values bool.
2. Shown: what JSON can carry. Times and durations are strings of seconds with nine decimals, bytes lower-case hex,
   secrets and payloads ``<hidden: 24 bytes>`` unless asked for. The rest is as in raw.
3. An unsigned 64-bit field with all bits set is -1: the broker means Java's -1 by it. No other number is changed.
4. A text that is not UTF-8 keeps its bytes as ``\\xff``; an enum value of no known version is ``UNKNOWN_9``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.redact import SECRET_FIELDS, hidden

__all__ = [
    "KINDS",
    "OPEN",
    "RAW",
    "SHOWN",
    "Values",
    "bytes_converter",
    "double_converter",
    "kind_of",
    "nine_decimals",
    "shown_value",
    "text",
    "varint_converter",
]

Values = dict[str, Any]
"""Field names and values of one part of a frame."""

RAW: Final = "raw"
"""The form for comparisons."""
SHOWN: Final = "shown"
"""The form for people and programs, secrets hidden."""
OPEN: Final = "open"
"""The same with secrets."""

KINDS: Final[dict[str, str]] = {
    "number": "a whole number of up to 64 bits, or a decimal one",
    "text": "text in UTF-8",
    "bytes": "bytes, lower-case hex",
    "bool": "true or false",
    "time": "seconds since 1970 with nine decimals, a string in JSON",
    "duration": "seconds with nine decimals, a string in JSON",
    "enum": "one of a list of names",
    "address": "an IPv4 or IPv6 address",
    "message": "a group of fields: present or not; repeated ones are arrays of objects in JSON",
    "any": "a field of no known version: a number, or bytes as hex",
}
"""Every kind of field, with what its values look like. Repeated fields are ``list of …``."""

_MILLISECONDS: Final = frozenset({
    "BrokerEntryMetadata.broker_timestamp",
    "CommandSeek.message_publish_time",
    "MessageMetadata.deliver_at_time",
    "MessageMetadata.event_time",
    "MessageMetadata.publish_time",
    "SegmentInfoProto.created_at_ms",
    "SegmentInfoProto.sealed_at_ms",
    "SingleMessageMetadata.event_time",
})  # fmt: skip
"""Fields that hold ms since 1970; the protocol has them as plain numbers."""

_KIND_OF_TYPE: Final = {
    FieldDescriptor.TYPE_STRING: "text",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_ENUM: "enum",
    FieldDescriptor.TYPE_MESSAGE: "message",
}

_double = Struct("<d").unpack
_SIGN_32: Final = 1 << 31
_SIGN_64: Final = 1 << 63


def kind_of(field: FieldDescriptor) -> str:
    """The kind of a protobuf field, one of KINDS."""
    if f"{field.containing_type.name}.{field.name}" in _MILLISECONDS:
        return "time"
    return _KIND_OF_TYPE.get(field.type, "number")


def nine_decimals(nanoseconds: int) -> str:
    """Nanoseconds as seconds with nine decimals: ``1763726400.123000000``; ``-0.001000000`` for -1 ms."""
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    return f"{'-' if nanoseconds < 0 else ''}{seconds}.{rest:09}"


def shown_value(kind: str, value: Any) -> Any:
    """The shown form of a raw value of this kind; lists element by element."""
    if isinstance(value, list):
        return [shown_value(kind, part) for part in value]
    if kind in ("time", "duration"):
        return nine_decimals(value)
    return value.hex() if isinstance(value, bytes) else _finite(value)


def _finite(value: Any) -> Any:
    """JSON has no word for infinity; the strings are those of protobuf's JSON."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _signed_64(value: int) -> int:
    return value - (1 << 64) if value & _SIGN_64 else value


def _signed_32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & _SIGN_32 else value


def _unsigned_32(value: int) -> int:
    return value & 0xFFFFFFFF


def _unsigned_64(value: int) -> int:
    return -1 if value == MINUS_ONE else value


_VARINTS: Final[dict[int, Callable[[int], Any]]] = {
    FieldDescriptor.TYPE_INT32: _signed_32,
    FieldDescriptor.TYPE_INT64: _signed_64,
    FieldDescriptor.TYPE_UINT32: _unsigned_32,
    FieldDescriptor.TYPE_UINT64: _unsigned_64,
    FieldDescriptor.TYPE_BOOL: bool,
}


def varint_converter(field: FieldDescriptor, form: str) -> Callable[[int], Any] | None:
    """What makes the value of a varint of this field; None when the field does not travel as one."""
    if field.type == FieldDescriptor.TYPE_ENUM:
        return _enum_converter(field.enum_type)
    number = _VARINTS.get(field.type)
    if number is None or kind_of(field) != "time":
        return number
    signed = number
    if form == RAW:
        return lambda value: signed(value) * 1_000_000
    return lambda value: nine_decimals(signed(value) * 1_000_000)


def _enum_converter(enum: EnumDescriptor) -> Callable[[int], str]:
    names = {value.number: value.name for value in enum.values}

    def name(value: int) -> str:
        return names.get(value) or names.get(_signed_32(value)) or f"UNKNOWN_{_signed_32(value)}"

    return name


def bytes_converter(field: FieldDescriptor, form: str) -> Callable[[bytes], Any] | None:
    """What makes the value of the bytes of this field; None when the field does not travel as bytes."""
    if field.type not in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        return None
    if form == SHOWN and f"{field.containing_type.name}.{field.name}" in SECRET_FIELDS:
        return hidden
    if field.type == FieldDescriptor.TYPE_STRING:
        return text
    return bytes if form == RAW else bytes.hex


def double_converter(field: FieldDescriptor, form: str) -> Callable[[bytes], Any] | None:
    """What makes the value of eight bytes of this field; None when the field is no double."""
    if field.type != FieldDescriptor.TYPE_DOUBLE:
        return None
    if form == RAW:
        return lambda data: _double(data)[0]
    return lambda data: _finite(_double(data)[0])


def text(data: bytes) -> str:
    """A text; bytes that are not UTF-8 as ``\\xff``."""
    return data.decode("utf-8", "backslashreplace")
