r"""Kinds of values and their two representations: raw for filters, display form for JSON and columns.

Rules of this file
1. Raw: numbers are int (float for double), times and durations are int nanoseconds, bytes are bytes. Strings, addresses
   and enum values are str, booleans are bool.
2. Display form: a value that JSON can represent. Times and durations are strings of seconds with nine decimals, bytes
   are lower-case hex, and secrets and payloads are ``<hidden: 24 bytes>`` unless requested. Other values have their raw
   form.
3. An unsigned 64-bit field with all bits set is -1, because the broker sends Java's -1 in this form. No other number is
   changed.
4. Invalid UTF-8 in a string is escaped as ``\xff``. An unknown enum value is ``UNKNOWN_9``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.redact import SECRET_FIELDS

Values = dict[str, Any]
"""Field names and raw values of one part of a frame."""

Converter = Callable[[Any], Any]

KINDS: Final[dict[str, str]] = {
    "number": "an integer of up to 64 bits, or a decimal number",
    "text": "text in UTF-8",
    "bytes": "bytes, lower-case hex",
    "bool": "true or false",
    "time": "seconds since 1970 with nine decimals, a string in JSON",
    "duration": "seconds with nine decimals, a string in JSON",
    "enum": "one of a list of names",
    "address": "an IPv4 or IPv6 address",
    "message": "a group of fields, present or absent; repeated groups are arrays of objects in JSON",
    "any": "a field that belongs to no known version: a number, or bytes as hex",
}
"""Every kind of field, with the format of its values. The kind of a repeated field is ``list of …``."""

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
# Fields with times in ms since 1970, which the protocol declares as integers.

_KIND_OF_TYPE: Final = {
    FieldDescriptor.TYPE_STRING: "text",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_ENUM: "enum",
    FieldDescriptor.TYPE_MESSAGE: "message",
}

_VARINT, _FIXED_64, _BYTES = 0, 1, 2
_double = Struct("<d").unpack


class NotText(str):
    """A string whose bytes are not valid UTF-8."""

    __slots__ = ()


class UnknownName(str):
    """The name of an unknown enum value."""

    __slots__ = ()


def kind_of(field: FieldDescriptor) -> str:
    """Return the kind of a protobuf field, one of KINDS."""
    if path_of(field) in _MILLISECONDS:
        return "time"
    return _KIND_OF_TYPE.get(field.type, "number")


def path_of(field: FieldDescriptor) -> str:
    """Return the name of a field as ``Message.field``."""
    assert field.containing_type is not None
    return f"{field.containing_type.name}.{field.name}"


def is_secret(field: FieldDescriptor) -> bool:
    """Whether a field contains credentials."""
    return path_of(field) in SECRET_FIELDS


def nine_decimals(nanoseconds: int) -> str:
    """Format nanoseconds as seconds with nine decimals: ``1763726400.123000000``; ``-0.001000000`` for -1 ms."""
    if nanoseconds < 0:
        return f"-{nine_decimals(-nanoseconds)}"
    digits = f"{nanoseconds:010}"
    return f"{digits[:-9]}.{digits[-9:]}"


def shown(kind: str) -> Converter | None:
    """Return the function that converts raw values of this kind (one of KINDS) to display form, or None."""
    return _SHOWN.get(kind)


def finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON lacks, with the strings of protobuf's JSON mapping."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _hex(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


_SHOWN: Final[dict[str, Converter]] = {
    "any": _hex,
    "bytes": _hex,
    "duration": nine_decimals,
    "number": finite,
    "time": nine_decimals,
}


def converters(field: FieldDescriptor) -> list[tuple[int, Converter]]:
    """Return the converters to raw values for a field that is not a message, each with its wire type."""
    if field.type == FieldDescriptor.TYPE_STRING:
        return [(_BYTES, _text)]
    if field.type == FieldDescriptor.TYPE_BYTES:
        return [(_BYTES, bytes)]
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return [(_FIXED_64, lambda data: _double(data)[0])]
    if field.enum_type is not None:
        return [(_VARINT, _enum_name(field.enum_type))]
    number = _NUMBERS[field.type]
    if kind_of(field) == "time":
        return [(_VARINT, lambda value: number(value) * 1_000_000)]
    return [(_VARINT, number)]


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return NotText(data.decode("utf-8", "backslashreplace"))


def _enum_name(enum: EnumDescriptor) -> Converter:
    names = {value.number: value.name for value in enum.values}

    def name(value: int) -> str:
        found = names.get(value) or names.get(_signed_32(value))
        return UnknownName(f"UNKNOWN_{_signed_32(value)}") if found is None else found

    return name


def _signed_64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _signed_32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _unsigned_32(value: int) -> int:
    return value & 0xFFFFFFFF


def _unsigned_64(value: int) -> int:
    return -1 if value == MINUS_ONE else value


_NUMBERS: Final[dict[int, Converter]] = {
    FieldDescriptor.TYPE_INT32: _signed_32,
    FieldDescriptor.TYPE_INT64: _signed_64,
    FieldDescriptor.TYPE_UINT32: _unsigned_32,
    FieldDescriptor.TYPE_UINT64: _unsigned_64,
    FieldDescriptor.TYPE_BOOL: bool,
}
