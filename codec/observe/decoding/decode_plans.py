"""Decode plans: the rules for decoding a protobuf message, compiled once per position of the message in a frame.

A plan maps each tag (``field number << 3 | wire type``) to a slot: the storage mode, the key of the value, and the
function that converts it. Keys are complete field names (``pulsar.message.message_id.ledgerId``), so that no strings
are joined per frame. Inside a repeated message keys are relative (``ledgerId``), because each message is a separate
object. The field table and the JSON of frames use the same plans.

Rules of this file
1. Plans are derived only from the descriptors, on demand, and are cached.
2. A recursive message (first_chunk_message_id) is expanded once; deeper levels are kept as unknown bytes. Therefore the
   list of fields is finite, and a malicious frame cannot produce long keys from few bytes.
3. The plan of a command contains only the body for its type. Peers ignore other bodies in the same frame, so these are
   unknown fields of the envelope, ``pulsar.unknown.<number>``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from pcli.codec.observe.decoding.value_kinds import converters, is_secret
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS

ONE: Final = 0
"""A single value. If the bytes contain several values, the last value is used."""
LIST: Final = 1
"""One value of a repeated field."""
MESSAGE: Final = 2
"""A single message. Its fields are added to the same object under longer keys."""
MESSAGES: Final = 3
"""One message of a repeated field, decoded as an object in an array."""
PACKED: Final = 4
"""Packed varints of a repeated field."""
SKIP: Final = 5
"""The command type, which the frame already contains."""

Slot = tuple[int, str, Any, FieldDescriptor]
"""Storage mode, key, converter (or the Plan of a message), and field descriptor."""

PARTS: Final[dict[str, Descriptor]] = {
    "metadata": pb.MessageMetadata.DESCRIPTOR,
    "entry": pb.BrokerEntryMetadata.DESCRIPTOR,
    "batch": pb.SingleMessageMetadata.DESCRIPTOR,
}
"""The parts of a frame other than the command, by the first component of their field names after ``pulsar.``."""

_BASE: Final = pb.BaseCommand.DESCRIPTOR
_BYTES = 2


class Plan:
    """The decoding rules for one message type at one position in a frame."""

    __slots__ = ("layouts", "message", "slots", "unknown")

    def __init__(self, message: Descriptor, prefix: str) -> None:
        self.message = message
        self.slots: dict[int, Slot] = {}
        """Slots by tag."""
        self.unknown = f"{prefix}unknown."
        """Prefix of the keys of unknown fields, before their number."""
        self.layouts: Any = None
        """The known layouts of whole messages (message_layouts.py)."""


@lru_cache(1024)
def command_plan(number: int) -> Plan:
    """Return the plan of a whole BaseCommand of a known or unknown type."""
    plan = Plan(_BASE, "pulsar.")
    kind = _BASE.fields_by_name["type"]
    plan.slots[kind.number << 3] = (SKIP, "", None, kind)
    row = COMMANDS.get(number)
    if row is not None:
        _add(plan, _BASE.fields_by_name[row.field], "pulsar.", ())
    return plan


@cache
def part_plan(part: str) -> Plan:
    """Return the plan of a part in PARTS. The keys of batch messages are relative, because the messages are a list."""
    return _plan(PARTS[part], "" if part == "batch" else f"pulsar.{part}.", ())


def field_slots(plan: Plan) -> Iterator[Slot]:
    """Yield the slots of a plan in field order, each once. Slots of nested messages are not included."""
    seen = set()
    for slot in plan.slots.values():
        if slot[0] not in (SKIP, PACKED) and slot[1] not in seen:
            seen.add(slot[1])
            yield slot


def has_secrets(message: Descriptor) -> bool:
    """Whether a message has a field with credentials. If so, its unknown fields may also contain credentials."""
    return any(is_secret(field) for field in message.fields)


def reaches_secrets(field: FieldDescriptor, above: tuple[Descriptor, ...] = ()) -> bool:
    """Whether a field contains credentials, directly or in nested messages."""
    message = field.message_type
    if message is None or message in above:
        return is_secret(field)
    return any(reaches_secrets(one, (*above, message)) for one in message.fields)


def _plan(message: Descriptor, prefix: str, above: tuple[Descriptor, ...]) -> Plan:
    plan = Plan(message, prefix)
    for field in message.fields:
        _add(plan, field, prefix, (*above, message))
    return plan


def _add(plan: Plan, field: FieldDescriptor, prefix: str, above: tuple[Descriptor, ...]) -> None:
    key = prefix + field.name
    tag = field.number << 3
    if field.message_type is not None:
        if above.count(field.message_type) < 2:
            below = _plan(field.message_type, "" if field.is_repeated else f"{key}.", above)
            plan.slots[tag | _BYTES] = (MESSAGES if field.is_repeated else MESSAGE, key, below, field)
        return
    for wire, converter in converters(field):
        plan.slots[tag | wire] = (LIST if field.is_repeated else ONE, key, converter, field)
        if field.is_repeated and wire != _BYTES:
            plan.slots[tag | _BYTES] = (PACKED, key, converter, field)
