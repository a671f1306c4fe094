"""The ids in a command's body by meaning, as the table of commands defines them.

Rules of this file
1. A missing value is None. An unsigned 64-bit number with all bits set is -1, which is how brokers send Java's -1.
2. The values of a repeated field, or of a field of repeated messages (ADD_SUBSCRIPTION_TO_TXN), are a list.
3. Message ids and errors have readers of their own: `MessageId.of` and `Facts.error`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from pcli.codec.observe.observer_state import ObservedFrame
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.texts import as_text

Reader = Callable[[Any], Any]
"""A function from a body to the value, or None."""

KEY_FIELDS: Final = ("request_id", "session_id", "watch_id")
"""Values of ``paired_by`` that name the field with the key; ``order`` and ``sequence`` name none."""


@lru_cache(256)  # the numbers of unknown types are not bounded
def id_readers(number: int) -> dict[str, Reader]:
    """Return the readers of a command type by meaning, and by the names in KEY_FIELDS; empty for an unknown type."""
    row = COMMANDS.get(number)
    if row is None:
        return {}
    body = pb.BaseCommand.DESCRIPTOR.fields_by_name[row.field].message_type
    assert body is not None
    paths = {name: name for name in KEY_FIELDS if name in body.fields_by_name} | row.ids
    return {meaning: _reader(body, path) for meaning, path in paths.items() if meaning not in ("message_id", "error")}


def id_of(frame: ObservedFrame, meaning: str) -> Any:
    """Return the value or values of a meaning in a command; None if absent."""
    read = id_readers(frame.type).get(meaning)
    return None if read is None else read(frame.body)


def _reader(body: Descriptor, path: str) -> Reader:
    first, _, rest = path.partition(".")
    field = body.fields_by_name[first]
    if field.message_type is not None:
        below = _reader(field.message_type, rest)
        if not field.is_repeated:
            return lambda message: below(getattr(message, first)) if message.HasField(first) else None
        return lambda message: [value for one in getattr(message, first) if (value := below(one)) is not None] or None
    if field.type == FieldDescriptor.TYPE_STRING:
        if field.is_repeated:
            return lambda message: [as_text(one) for one in getattr(message, first)] or None
        return lambda message: as_text(getattr(message, first)) if message.HasField(first) else None
    return _number_reader(field)


def _number_reader(field: FieldDescriptor) -> Reader:
    """Return the reader of an integer field in the message that contains the field."""
    name = field.name

    def read(message: Message) -> int | None:
        if not message.HasField(name):
            return None
        value: int = getattr(message, name)
        return -1 if value == MINUS_ONE else value

    return read
