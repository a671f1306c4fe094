"""A frame as one flat object, the output of `-T ndjson`.

Rules of this file
1. Keys are the field names, general fields first. Absent fields have no key. An empty single message is ``{}``, because
   its presence has a meaning.
2. Repeated scalars are arrays. Repeated messages are arrays of objects whose keys are the field names after the array's
   name. Unknown fields are always arrays.
3. Values are in display form (value_kinds.py). Secrets and payloads are ``<hidden: 24 bytes>`` unless requested.
4. The conversion of each key is compiled once per command type. Most values need no conversion.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from pcli.codec.observe.decoding.decode_plans import (
    LIST,
    MESSAGE,
    MESSAGES,
    Plan,
    command_plan,
    field_slots,
    has_secrets,
    part_plan,
    reaches_secrets,
)
from pcli.codec.observe.decoding.value_kinds import Converter, Values, is_secret, kind_of, shown
from pcli.codec.observe.fields.field import Field, Getter
from pcli.codec.observe.fields.general_fields import HEADING, PAYLOADS, general_fields, heading, problems_of
from pcli.codec.observe.observer_state import Facts
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS, PAYLOAD_TYPES
from pcli.codec.wire.redact import hidden

SCHEMA_VERSION: Final = 1
"""Version of the format. It increases when the name or form of a key changes, but not for new keys."""


def flatten(facts: Facts, *, secrets: bool = False, payload: bool = False, batch: bool = True) -> dict[str, Any]:
    """Return the object of a frame.

    ``secrets`` shows credentials, and ``payload`` shows payloads. ``batch`` opens batches, which takes longer than all
    other fields together. If batches are not opened, `pulsar.batch`, `pulsar.key` and `pulsar.value` are absent for
    batches.
    """
    number = facts.frame.type
    general, command = _layout(number, secrets)
    out = heading(facts)
    # The keys of a batch are inside its payload.
    closed = not batch and "pulsar.metadata.num_messages_in_batch" in facts.metadata
    for name, get in general:
        if closed and name == "pulsar.key":
            continue
        value = get(facts)
        if value is not None:
            out[name] = value
    problems = problems_of(facts)
    if problems:
        out["pulsar.problem"] = list(dict.fromkeys(problem.kind for problem in problems))
        out["pulsar.problem.detail"] = [str(problem) for problem in problems]
    command.put(facts.command, out)
    if number in PAYLOAD_TYPES:
        if facts.entry:
            _shown_part("entry").put(facts.entry, out)
        _shown_part("metadata").put(facts.metadata, out)
        for field in _payload_fields():
            value = None if closed and field.name == "pulsar.value" else field.get(facts)
            if value is not None:
                out[field.name] = show(field, value, payload=payload)
        if batch and facts.batch:
            out["pulsar.batch"] = [_batch_object(one, payload=payload) for one in facts.batch]
    return out


def _shown_field(field: FieldDescriptor) -> Converter | None:
    """Return the conversion to display form, or None for integers, the most frequent type."""
    kind = kind_of(field)
    return None if kind == "number" and field.type != FieldDescriptor.TYPE_DOUBLE else shown(kind)


@lru_cache(1024)
def _layout(number: int, secrets: bool) -> tuple[tuple[tuple[str, Getter], ...], _Shown]:
    return _general(number), _shown_command(number, secrets)


def column(field: Field, *, secrets: bool = False, payload: bool = False) -> Getter:
    """Return the getter of a field's display form, for `-e`. As in JSON, a repeated message is an array of objects."""
    if field.element == "message":

        def whole(facts: Facts) -> Any:
            if field.get(facts) is None:
                return None
            return flatten(facts, secrets=secrets, payload=payload).get(field.name, True)

        return whole

    def get(facts: Facts) -> Any:
        value = field.get(facts)
        return None if value is None else show(field, value, secrets=secrets, payload=payload)

    return get


def show(field: Field, value: Any, *, secrets: bool = False, payload: bool = False) -> Any:
    """Return the display form of a raw value of a field that is not a message."""
    if isinstance(value, list):
        return [show(field, one, secrets=secrets, payload=payload) for one in value]
    if field.secret and isinstance(value, (bytes, str)) and not (payload if field.source == "payload" else secrets):
        return hidden(value)
    converter = shown(field.element)
    return value if converter is None else converter(value)


def _general(number: int) -> tuple[tuple[str, Getter], ...]:
    """Return the getters of the general fields for one frame type, except HEADING, problems and payload."""
    apart = (*HEADING, "pulsar.problem", "pulsar.problem.detail", *PAYLOADS)
    found = []
    for field in general_fields().values():
        getter = field.reader(number)
        if getter is not None and field.listed and field.name not in apart:
            converter = shown(field.element)
            plain = converter is None or field.element == "number"
            found.append((field.name, getter if plain else _converted(getter, converter)))
    return tuple(found)


@cache
def _payload_fields() -> tuple[Field, ...]:
    return tuple(general_fields()[name] for name in PAYLOADS)


def _converted(getter: Getter, converter: Converter | None) -> Getter:
    assert converter is not None

    def get(facts: Facts) -> Any:
        value = getter(facts)
        return None if value is None else converter(value)

    return get


class _Shown:
    """The conversions from raw values to display form for one part of a frame."""

    __slots__ = ("bodies", "converters", "hidden_prefixes", "known", "secrets")

    def __init__(self, plan: Plan, *, secrets: bool) -> None:
        self.secrets = secrets
        self.converters: dict[str, Converter] = {}
        self.bodies: frozenset[str] = frozenset()
        """Unknown fields that are the bodies of other command types and have credentials."""
        self.hidden_prefixes: tuple[str, ...] = ()
        """Key prefixes of messages with credentials, whose unknown fields may also be credentials."""
        self.known: set[str] = set()
        """All keys that the protocol defines for this part."""
        self._take(plan)

    def _take(self, plan: Plan) -> None:
        if not self.secrets and has_secrets(plan.message):
            self.hidden_prefixes = (*self.hidden_prefixes, plan.unknown)
        for how, key, what, field in field_slots(plan):
            self.known.add(key)
            if how == MESSAGE:
                self._take(what)
            elif how == MESSAGES:
                self.converters[key] = _of_each(_Shown(what, secrets=self.secrets).object)
            else:
                converter = hidden if is_secret(field) and not self.secrets else _shown_field(field)
                if converter is not None:
                    self.converters[key] = _of_each(converter) if how == LIST else converter

    def put(self, values: Values, out: dict[str, Any]) -> None:
        """Add the values in display form to ``out``."""
        out.update(values)
        for key, converter in self.converters.items():
            if key in values:
                out[key] = converter(values[key])
        if not self.known.issuperset(values):
            for key in values.keys() - self.known:
                out[key] = [self._unknown(key, one) for one in values[key]]

    def object(self, values: Values) -> dict[str, Any]:
        """Return the values in display form as a new object."""
        out: dict[str, Any] = {}
        self.put(values, out)
        return out

    def _unknown(self, key: str, value: Any) -> Any:
        if not isinstance(value, bytes):
            return value
        return hidden(value) if key in self.bodies or key.startswith(self.hidden_prefixes) else value.hex()


def _shown_command(number: int, secrets: bool) -> _Shown:
    table = _Shown(command_plan(number), secrets=secrets)
    if not secrets:
        # A body that does not match the type is an unknown field of the envelope. It may be a whole CONNECT.
        bodies = (row for row in COMMANDS.values() if row.number != number)
        base = pb.BaseCommand.DESCRIPTOR.fields_by_name
        table.bodies = frozenset(f"pulsar.unknown.{row.number}" for row in bodies if reaches_secrets(base[row.field]))
    return table


@cache
def _shown_part(part: str) -> _Shown:
    table = _Shown(part_plan(part), secrets=True)
    table.known |= {"index", "payload"}
    return table


def _batch_object(values: Values, *, payload: bool) -> dict[str, Any]:
    travelled = values["payload"]
    shown_payload = travelled.hex() if payload else hidden(travelled)
    return _shown_part("batch").object({**values, "payload": shown_payload})


def _of_each(converter: Converter) -> Converter:
    return lambda values: [converter(value) for value in values]
