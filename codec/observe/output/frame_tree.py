"""A frame as an indented tree of all present fields under their proto names. Only secrets are hidden.

`decode` and `dissect -V` print this tree. Each line is ``name: value``, indented by two spaces per level; a nested
message starts with a line that contains only its name. Payloads are shown as sizes unless requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from pcli.codec.observe.fields.general_fields import problems_of
from pcli.codec.observe.observer_state import Facts, ObservedFrame
from pcli.codec.observe.text_format import latency_text, printable
from pcli.codec.wire.commands import name_of
from pcli.codec.wire.message_id import signed
from pcli.codec.wire.redact import SECRET_FIELDS, hidden, secret_bytes


def tree_lines(facts: Facts, *, secrets: bool = False) -> Iterator[str]:
    """Return the tree of a frame: command, broker entry, checksum, metadata, payload size, problems.

    ``secrets`` shows credentials. The module `payload_contents` describes the contents of the payload.
    """
    frame = facts.frame
    side = "client → broker" if frame.from_client else "broker → client"
    yield f"{name_of(frame.type)}  {side}  {frame.length} bytes"
    for field, body in frame.command.ListFields():
        if field.message_type is not None:
            yield f"  {field.name}"
            yield from message_lines(body, "    ", secrets=secrets)
    yield from _unknown_lines(UnknownFieldSet(frame.command), "  ")
    entry = frame.broker_entry
    if entry is not None:
        yield "  broker entry"
        yield from message_lines(entry, "    ")
    if frame.parts.checksum is not None:
        yield f"  checksum: 0x{frame.parts.checksum:08x} ({frame.checksum or 'cannot be checked'})"
    elif frame.checksum == "none":
        yield "  checksum: none"
    metadata = frame.metadata
    if metadata is not None:
        yield "  metadata"
        yield from message_lines(metadata, "    ")
    if frame.parts.payload_start >= 0:
        yield f"  payload: {frame.parts.payload_end - frame.parts.payload_start} bytes"
    if facts.request_number:
        yield f"  answers frame {facts.request_number} after {latency_text(facts.latency_ns)}"
    if facts.answer_number:
        yield f"  answered in frame {facts.answer_number}"
    for problem in problems_of(facts):
        yield f"  problem: {printable(problem)}"


def message_lines(message: Message, indent: str, *, secrets: bool = False) -> Iterator[str]:
    """List the fields that a message contains, and its unknown fields by number."""
    for field, value in message.ListFields():
        for item in value if field.is_repeated else (value,):
            if field.message_type is None:
                yield f"{indent}{field.name}: {_scalar(message, field, item, secrets)}"
            elif field.message_type.name in ("KeyValue", "KeyLongValue"):
                key, word = (_scalar(item, one, getattr(item, one.name), secrets) for one in item.DESCRIPTOR.fields)
                yield f"{indent}{field.name}: {key} = {word}"
                yield from _unknown_lines(UnknownFieldSet(item), indent + "  ")
            else:
                yield f"{indent}{field.name}"
                yield from message_lines(item, indent + "  ", secrets=secrets)
    yield from _unknown_lines(UnknownFieldSet(message), indent)


def _scalar(message: Message, field: FieldDescriptor, value: Any, secrets: bool) -> str:
    if not secrets and f"{message.DESCRIPTOR.name}.{field.name}" in SECRET_FIELDS:
        return hidden(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    if isinstance(value, bytes):
        # protobuf returns a string field as bytes if it is not valid UTF-8.
        is_text = field.type == FieldDescriptor.TYPE_STRING
        return printable(value.decode(errors="backslashreplace")) if is_text else value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    return str(signed(value)) if value == 2**64 - 1 else printable(value)


def _unknown_lines(unknown: UnknownFieldSet, indent: str) -> Iterator[str]:
    for index in range(len(unknown)):
        number, data = unknown[index].field_number, unknown[index].data
        if isinstance(data, UnknownFieldSet):
            yield f"{indent}unknown group {number}"
            yield from _unknown_lines(data, indent + "  ")
        else:
            yield f"{indent}unknown field {number}: {data.hex() if isinstance(data, bytes) else data}"


def shown_bytes(frame: ObservedFrame, *, secrets: bool = False, payload: bool = False) -> bytes:
    """Return the bytes of a frame with asterisks in place of credentials and payload, unless requested."""
    data, parts = frame.data, frame.parts
    if not secrets:
        for value in secret_bytes(frame):
            data = data.replace(value, b"*" * len(value))
    if not payload and parts.payload_start >= 0:
        size = parts.payload_end - parts.payload_start
        data = data[: parts.payload_start] + b"*" * size + data[parts.payload_end :]
    return data


def hex_lines(data: bytes) -> Iterator[str]:
    """Return a hex dump like tshark's -x: offset, sixteen bytes in hex, and their printable characters."""
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{start:04x}  {row.hex(' '):<47}   {text}"
