"""Plans: what the bytes of a message mean, compiled once per place where the message can stand.

A plan maps each tag (``field number << 3 | wire type``) to what is done with the value: the key under which it is
put, and the function that makes the value. Keys are whole field names (``pulsar.message.message_id.ledgerId``), so
that nothing is glued together per frame; inside a repeated message they are relative (``ledgerId``), because there
the values stand in objects of their own.

Rules of this file
1. Plans come from the descriptors alone. They are made when first needed and kept; there are three of each, one per
   form of the values (see values.py).
2. A message inside itself (first_chunk_message_id) is followed once; deeper ones are shown as unknown bytes. So the
   list of fields is finite, and a hostile frame can't make long keys out of short bytes.
3. The plan of a command knows the body that belongs to its type. Other bodies in the same frame are nothing that a
   peer would look at: they are shown as unknown fields of the envelope, ``pulsar.unknown.<number>``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from pcli.codec.observe.values import RAW, SHOWN, bytes_converter, double_converter, varint_converter
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wire.redact import SECRET_FIELDS, hidden

__all__ = ["LIST", "MESSAGE", "MESSAGES", "ONE", "PACKED", "PARTS", "SKIP", "Plan", "Slot", "command_plan", "part_plan"]

ONE: Final = 0
"""A single value: the last one in the bytes counts."""
LIST: Final = 1
"""One value of a repeated field."""
MESSAGE: Final = 2
"""A single message; its fields are put beside the others, under longer keys."""
MESSAGES: Final = 3
"""One message of a repeated field: an object in an array."""
PACKED: Final = 4
"""Many varints of a repeated field in one run of bytes."""
SKIP: Final = 5
"""The type of the command, which the frame knows already."""

Slot = tuple[int, str, Any]
"""How to put it, under which key, and by what: a converter, or the Plan of the message."""

PARTS: Final[dict[str, Descriptor]] = {
    "metadata": pb.MessageMetadata.DESCRIPTOR,
    "entry": pb.BrokerEntryMetadata.DESCRIPTOR,
    "batch": pb.SingleMessageMetadata.DESCRIPTOR,
}
"""The parts of a frame beside the command, and the first word of their fields behind ``pulsar.``."""

_VARINT, _FIXED_64, _BYTES = 0, 1, 2


class Plan:
    """What the bytes of one message at one place mean."""

    __slots__ = ("hide_unknown", "raw", "slots", "unknown")

    def __init__(self, unknown: str, *, raw: bool, hide_unknown: bool) -> None:
        self.slots: dict[int, Slot] = {}
        """By tag."""
        self.unknown = unknown
        """What the keys of unknown fields begin with."""
        self.raw = raw
        """Whether unknown bytes stay bytes."""
        self.hide_unknown = hide_unknown
        """Whether unknown bytes may be credentials of a coming version."""


@cache
def command_plan(number: int, form: str) -> Plan:
    """The plan of a whole BaseCommand whose type has this number, known or not."""
    plan = Plan("pulsar.unknown.", raw=form == RAW, hide_unknown=False)
    plan.slots[1 << 3] = (SKIP, "", None)
    if form == SHOWN:
        for secret in _bodies_with_secrets():
            plan.slots[secret << 3 | _BYTES] = (LIST, f"pulsar.unknown.{secret}", hidden)
    row = COMMANDS.get(number)
    if row is not None:
        field = pb.BaseCommand.DESCRIPTOR.fields_by_name[row.field]
        key = f"pulsar.{field.name}"
        plan.slots[field.number << 3 | _BYTES] = (MESSAGE, key, _plan(field.message_type, f"{key}.", form, ()))
    return plan


@cache
def part_plan(part: str, form: str) -> Plan:
    """The plan of a part of PARTS. Those of a batch are many, so their keys are relative."""
    return _plan(PARTS[part], "" if part == "batch" else f"pulsar.{part}.", form, ())


def _plan(message: Descriptor, prefix: str, form: str, above: tuple[Descriptor, ...]) -> Plan:
    plan = Plan(f"{prefix}unknown.", raw=form == RAW, hide_unknown=form == SHOWN and _has_secrets(message))
    for field in message.fields:
        _add(plan, field, prefix, form, (*above, message))
    return plan


def _add(plan: Plan, field: FieldDescriptor, prefix: str, form: str, above: tuple[Descriptor, ...]) -> None:
    key = prefix + field.name
    tag = field.number << 3
    if field.message_type is not None:
        if above.count(field.message_type) < 2:
            below = "" if field.is_repeated else f"{key}."
            how = MESSAGES if field.is_repeated else MESSAGE
            plan.slots[tag | _BYTES] = (how, key, _plan(field.message_type, below, form, above))
        return
    how = LIST if field.is_repeated else ONE
    for wire, converter in _converters(field, form):
        plan.slots[tag | wire] = (how, key, converter)
        if field.is_repeated and wire == _VARINT:
            plan.slots[tag | _BYTES] = (PACKED, key, converter)


def _converters(field: FieldDescriptor, form: str) -> list[tuple[int, Callable[..., Any]]]:
    every = (
        (_VARINT, varint_converter(field, form)),
        (_BYTES, bytes_converter(field, form)),
        (_FIXED_64, double_converter(field, form)),
    )
    return [(wire, converter) for wire, converter in every if converter is not None]


@cache
def _bodies_with_secrets() -> list[int]:
    return [row.number for row in COMMANDS.values() if _reaches_secrets(_body_of(row.field))]


def _body_of(name: str) -> Descriptor:
    return pb.BaseCommand.DESCRIPTOR.fields_by_name[name].message_type


def _reaches_secrets(message: Descriptor, above: tuple[Descriptor, ...] = ()) -> bool:
    below = (field.message_type for field in message.fields if field.message_type not in (None, message, *above))
    return _has_secrets(message) or any(_reaches_secrets(one, (*above, message)) for one in below)


def _has_secrets(message: Descriptor) -> bool:
    return any(f"{message.name}.{field.name}" in SECRET_FIELDS for field in message.fields)
