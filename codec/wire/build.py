"""Encoding of messages as frames. The class of the body determines the type, so the typed ``pb`` constructors are used.

``push_frame(pb.CommandFlow(consumer_id=1, messagePermits=10))`` returns a whole FLOW frame. SEND and MESSAGE also take
an entry. The module ``hot`` has faster writers for the most frequent commands.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import google_crc32c
from google.protobuf.message import EncodeError, Message

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS, CommandRow
from pcli.codec.wire.constants import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC

_two_lengths = Struct(">II").pack
_magic_and_number = Struct(">HI").pack
_u32 = Struct(">I").pack


def _rows_by_body() -> dict[str, CommandRow]:
    fields = pb.BaseCommand.DESCRIPTOR.fields_by_number
    bodies = {number: fields[number].message_type for number in COMMANDS}
    return {body.name: COMMANDS[number] for number, body in bodies.items() if body is not None}


_ROW_OF: Final = _rows_by_body()


def command_of(body: Message) -> pb.BaseCommand:
    """Return the BaseCommand for a body, with its type set. Raise LocalError if the message is not a command body."""
    row = _ROW_OF.get(body.DESCRIPTOR.name)
    if row is None:
        raise LocalError(f"{body.DESCRIPTOR.name} is not a command")
    command = pb.BaseCommand(type=pb.BaseCommand.Type.ValueType(row.number))
    field: Message = getattr(command, row.field)
    field.SetInParent()
    field.MergeFrom(body)
    return command


def push_frame(body: Message, headers_and_payload: bytes = b"") -> bytes:
    """Encode a whole frame from a body and, for SEND and MESSAGE, the bytes that follow the command.

    Raise LocalError if a required field is missing.
    """
    return join_frame(_serialized(command_of(body)), headers_and_payload)


def join_frame(command: bytes, headers_and_payload: bytes = b"") -> bytes:
    """Join the two lengths, the command's bytes, and the bytes that follow the command."""
    lengths = _two_lengths(4 + len(command) + len(headers_and_payload), len(command))
    return b"".join((lengths, command, headers_and_payload))


def push_entry(
    metadata: pb.MessageMetadata | bytes,
    payload: bytes,
    *,
    checksum: bool = True,
    broker_entry: pb.BrokerEntryMetadata | bytes | None = None,
) -> bytes:
    """Encode the entry of a SEND or MESSAGE: [broker entry block] [checksum block] metadata, payload.

    The CRC-32C covers the metadata's length, the metadata and the payload. Raise LocalError if a required field of
    the metadata is missing.
    """
    packed = metadata if isinstance(metadata, bytes) else _serialized(metadata)
    checked = b"".join((_u32(len(packed)), packed, payload))
    if checksum:
        checked = _magic_and_number(CHECKSUM_MAGIC, google_crc32c.value(checked)) + checked
    if broker_entry is None:
        return checked
    block = broker_entry if isinstance(broker_entry, bytes) else _serialized(broker_entry)
    return b"".join((_magic_and_number(BROKER_ENTRY_MAGIC, len(block)), block, checked))


def _serialized(message: Message) -> bytes:
    try:
        return message.SerializeToString()
    except EncodeError:
        missing = ", ".join(message.FindInitializationErrors())  # type: ignore[attr-defined]
        raise LocalError(f"{message.DESCRIPTOR.name} lacks {missing}") from None
