"""The fields of the protocol's messages.

They comprise all fields of the commands, the metadata, the broker entry metadata and the messages in a batch, and are
derived from the decode plans and therefore from the descriptors.

The place of a field is the sequence of keys that leads to it. Nested single messages need one key, because their fields
are in the same object under complete names. Each repeated message on the path adds a key. That key leads to an array of
objects, and the values in all objects form one list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from pcli.codec.observe.decoding.decode_plans import (
    LIST,
    MESSAGE,
    MESSAGES,
    PARTS,
    Slot,
    command_plan,
    field_slots,
    has_secrets,
    part_plan,
    reaches_secrets,
)
from pcli.codec.observe.decoding.value_kinds import Values, is_secret, kind_of, path_of
from pcli.codec.observe.fields.field import Field, Getter, enum_words
from pcli.codec.observe.observer_state import Facts
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS, PAYLOAD_TYPES

FAMILIES: Final = (*(row.field for row in COMMANDS.values()), *PARTS)
"""The first name components after ``pulsar.``: the commands by number, then the other parts of a frame."""

_ValuesOf = Callable[[Facts], Values]

_PART_VALUES: Final[dict[str, _ValuesOf]] = {
    "metadata": lambda facts: facts.metadata,
    "entry": lambda facts: facts.entry,
    "batch": lambda facts: {"pulsar.batch": facts.batch} if facts.batch else {},
}


def _of_command(facts: Facts) -> Values:
    return facts.command


@dataclass(frozen=True, slots=True)
class _Place:
    """The location of a field in the decoded values."""

    how: int
    """The storage mode of the field's slot in a plan: ONE, LIST, MESSAGE or MESSAGES."""
    keys: tuple[str, ...]
    values: _ValuesOf
    """Function that returns the values that contain the first key."""
    numbers: frozenset[int]
    """The command types that have the field."""
    field: FieldDescriptor | None = None
    """The field's descriptor; None for an unknown field."""


@cache
def family(word: str) -> dict[str, Field]:
    """Return the fields of a command (``word`` is its field in BaseCommand) or part; empty if ``word`` is unknown."""
    fields = {name: _field(name, place) for name, place in _places(word).items() if place.field is not None}
    return {**_batch_fields(), **fields} if word == "batch" else fields


def unknown_field(name: str) -> Field | None:
    """Return the unknown field with the name ``….unknown.<number>`` in a known message, or None for other names."""
    match = re.fullmatch(r"(pulsar(?:\.[A-Za-z_]\w*)*)\.(unknown\.\d{1,9})", name)
    if match is None:
        return None
    above, last = match[1], match[2]
    place = _unknown_place(above, last)
    if place is None:
        return None
    text = "a field that is unknown to this version of pcli"
    secret = _unknown_secret(above, last)
    return Field(name, "list of any", "no known version", text, _reader(place), secret=secret)


def _unknown_secret(above: str, last: str) -> bool:
    """Whether an unknown field may contain credentials: its message does, or the field is another command's body."""
    if above == "pulsar":
        row = COMMANDS.get(int(last.rpartition(".")[2]))
        return row is not None and reaches_secrets(pb.BaseCommand.DESCRIPTOR.fields_by_name[row.field])
    place = _places(above.split(".")[1]).get(above)
    message = place.field.message_type if place is not None and place.field is not None else None
    return message is not None and has_secrets(message)


def _unknown_place(above: str, last: str) -> _Place | None:
    name = f"{above}.{last}"
    if above == "pulsar":
        return _Place(LIST, (name,), _of_command, _EVERY)
    word = above.split(".")[1]
    if above in ("pulsar.metadata", "pulsar.entry"):
        return _Place(LIST, (name,), _PART_VALUES[word], PAYLOAD_TYPES)
    place = _places(word).get(above)
    if place is None or place.how not in (MESSAGE, MESSAGES):
        return None
    keys = (*place.keys, last) if place.how == MESSAGES else (*place.keys[:-1], f"{place.keys[-1]}.{last}")
    return _Place(LIST, keys, place.values, place.numbers)


class _Every(frozenset[int]):
    """The set of all command types, including unknown types."""

    def __contains__(self, _: object) -> bool:
        return True


_EVERY: Final = _Every()


@cache
def _places(word: str) -> dict[str, _Place]:
    if word == "batch":
        top = _Place(MESSAGES, ("pulsar.batch",), _PART_VALUES[word], PAYLOAD_TYPES)
        return {"pulsar.batch": top, **dict(_below(list(field_slots(part_plan(word))), "pulsar.batch.", top))}
    if word in PARTS:
        top = _Place(MESSAGES, (), _PART_VALUES[word], PAYLOAD_TYPES)
        return dict(_below(list(field_slots(part_plan(word))), "", top))
    for row in COMMANDS.values():
        if row.field == word:
            top = _Place(MESSAGES, (), _of_command, frozenset({row.number}))
            return dict(_below(list(field_slots(command_plan(row.number))), "", top))
    return {}


def _below(slots: list[Slot], prefix: str, above: _Place) -> Iterator[tuple[str, _Place]]:
    """Yield every slot and its nested slots with complete names. ``above`` is the nearest array of objects."""
    for how, key, what, field in slots:
        place = _Place(how, (*above.keys, key), above.values, above.numbers, field)
        yield prefix + key, place
        if how == MESSAGE:
            yield from _below(list(field_slots(what)), prefix, above)
        elif how == MESSAGES:
            yield from _below(list(field_slots(what)), f"{prefix}{key}.", place)


def _field(name: str, place: _Place) -> Field:
    field = place.field
    assert field is not None
    kind = kind_of(field)
    repeated = len(place.keys) > 1 or place.how in (LIST, MESSAGES)
    return Field(
        name,
        f"list of {kind}" if repeated else kind,
        f"{path_of(field)} = {field.number}",
        _help(kind, field.enum_type, field),
        _reader(place),
        words=enum_words(field.enum_type) if field.enum_type is not None else (),
        secret=is_secret(field),
    )


def _help(kind: str, enum: EnumDescriptor | None, field: FieldDescriptor) -> str:
    if enum is not None:
        names = [value.name for value in enum.values]
        return f"one of {', '.join(names)}" if len(names) < 9 else f"a value of {_enum_name(enum)}"
    if field.message_type is not None:
        return f"present if the frame contains this {field.message_type.name}"
    return {"time": "time by the sender's clock", "bool": "true or false"}.get(kind, f"{kind} as transmitted")


def _enum_name(enum: EnumDescriptor) -> str:
    """Return the name of an enum, preceded by the name of the message that contains its definition, if any."""
    return enum.name if enum.containing_type is None else f"{enum.containing_type.name}.{enum.name}"


def _batch_fields() -> dict[str, Field]:
    """Return the fields of a message in a batch that are not in its metadata."""
    rows = (
        ("pulsar.batch", "message", ("pulsar.batch",), "present if the payload is a batch"),
        ("pulsar.batch.index", "number", ("pulsar.batch", "index"), "index of the message in its batch, from 0"),
        ("pulsar.batch.payload", "bytes", ("pulsar.batch", "payload"), "payload of the message, decompressed"),
    )
    values = _PART_VALUES["batch"]
    return {
        name: Field(
            name,
            f"list of {kind}",
            "payload",
            text,
            _reader(_Place(MESSAGES, keys, values, PAYLOAD_TYPES)),
            secret=kind == "bytes",
        )
        for name, kind, keys, text in rows
    }


def _reader(place: _Place) -> Callable[[int], Getter | None]:
    getter, numbers = _getter(place), place.numbers
    return lambda number: getter if number in numbers else None


def _getter(place: _Place) -> Getter:
    values, keys = place.values, place.keys
    last = keys[-1]
    take = _node(last) if place.how == MESSAGE else _leaf(last)
    if len(keys) == 1 and values is _of_command and place.how != MESSAGE:
        return lambda facts: facts.command_value(last)
    if len(keys) == 1:
        return lambda facts: take(values(facts))

    def get(facts: Facts) -> Any:
        objects = [values(facts)]
        for key in keys[:-1]:
            objects = [inner for one in objects for inner in one.get(key, ())]
        found = [take(one) for one in objects]
        return [
            value for one in found if one is not None for value in (one if isinstance(one, list) else (one,))
        ] or None

    return get


def _leaf(key: str) -> Callable[[Values], Any]:
    return lambda values: values.get(key)


def _node(key: str) -> Callable[[Values], Any]:
    """Return a getter of a single message's fields by relative names; it returns None if there is no message."""
    prefix = f"{key}."

    def take(values: Values) -> Any:
        found = {name[len(prefix) :]: value for name, value in values.items() if name.startswith(prefix)}
        return found or values.get(key)

    return take
