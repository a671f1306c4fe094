"""The body of a command as nested dicts, for lines of text."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from pcli.codec.observe.observer_state import Facts
from pcli.codec.wire.constants import MINUS_ONE

Values = dict[str, Any]
"""The fields that a message contains, by name. Nested messages have the same form, and enum values are names."""


def body_values(facts: Facts) -> Values:
    """Return the body of the command; empty if it cannot be read."""
    body = facts.frame.body
    return {} if body is None else _values(body)


def _values(message: Message) -> Values:
    return {
        field.name: [_value(field, item) for item in value] if field.is_repeated else _value(field, value)
        for field, value in message.ListFields()
    }


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _values(value)
    if field.enum_type is not None and value in field.enum_type.values_by_number:
        return field.enum_type.values_by_number[value].name
    if isinstance(value, bytes) and field.type == FieldDescriptor.TYPE_STRING:
        return value.decode(errors="backslashreplace")  # a string that is not valid UTF-8
    # An unsigned field with all bits set is the broker's Java value -1.
    return -1 if value == MINUS_ONE and field.type == FieldDescriptor.TYPE_UINT64 else value
