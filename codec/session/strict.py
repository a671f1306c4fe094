"""Strict parsing of commands: an incomplete or invalid command is rejected, as a peer would reject it.

Rules of this file (the broker's PulsarDecoder and LightProto, observed on 4.2.4)
1. RemoteError is raised for bytes that are not a BaseCommand, an unknown type, a missing required field or a missing
   body. The connection ends without a response. An unknown enum value leaves its field unset, so a required field is
   then missing.
2. Invalid UTF-8 is replaced with U+FFFD, as Java's decoder does.
"""

from __future__ import annotations

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS


def read_command(data: bytes) -> tuple[pb.BaseCommand, Message]:
    """Return the command in these bytes and its body. Raise RemoteError if a peer would reject them."""
    try:
        command = pb.BaseCommand.FromString(data)
    except DecodeError:
        raise RemoteError(f"{len(data)} bytes are not a command") from None
    if not command.HasField("type"):
        raise RemoteError("a command without a known type")
    row = COMMANDS.get(command.type)
    if row is None or not command.HasField(row.field):  # type: ignore[arg-type]
        raise RemoteError(f"command type {command.type} without its body")
    if not command.IsInitialized():
        missing = ", ".join(command.FindInitializationErrors())  # type: ignore[attr-defined]
        raise RemoteError(f"{row.name} lacks {missing}")
    body: Message = getattr(command, row.field)
    if not data.isascii():
        _repair_texts(body)
    return command, body


def _repair_texts(message: Message) -> None:
    """Replace invalid UTF-8 in string fields; the parser returns such strings as bytes."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            _repair_field(message, field.name, value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in (value,) if isinstance(value, Message) else value:
                _repair_texts(part)


def _repair_field(message: Message, name: str, value: str | bytes | list[str | bytes]) -> None:
    if isinstance(value, bytes):
        setattr(message, name, value.decode(errors="replace"))
    elif not isinstance(value, str):
        for index, text in enumerate(value):
            if isinstance(text, bytes):
                value[index] = text.decode(errors="replace")
