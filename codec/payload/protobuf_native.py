"""Protobuf values whose schema contains the descriptor (type ProtobufNative).

Rules of this file
1. ``schema_data`` is JSON with the root message's name, its file's name, and a FileDescriptorSet in base64 that
   contains this file and all its imports (class ProtobufNativeSchemaData of the Java client).
2. Every schema has a separate descriptor pool, because two topics may have different messages with the same name.
3. A value is an object with the fields that are present, under their .proto names: exact numbers, bytes as lower-case
   hex, enums by name, a google.protobuf.Timestamp as ISO 8601. The library's JSON conversion is not used because it
   fails on an Any whose type is not in the schema.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import MutableMapping, MutableSequence
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError, Message

from pcli.codec.payload.json_text import parse_json
from pcli.codec.payload.primitives import moment_text, number
from pcli.codec.wire.problems import Problem
from pcli.codec.wire.texts import as_text

if TYPE_CHECKING:
    from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool


def parse_native(data: bytes) -> type[Message] | Problem:
    """Return the message class that a schema describes."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    declared = parse_json(data)
    if isinstance(declared, Problem):
        return declared
    if not isinstance(declared, dict):
        return Problem("schema", "a ProtobufNative schema must be a JSON object")
    try:
        files = FileDescriptorSet.FromString(base64.b64decode(str(declared.get("fileDescriptorSet")), validate=True))
        pool = DescriptorPool()
        _add_all(pool, {file.name: file for file in files.file})
        return GetMessageClass(pool.FindMessageTypeByName(str(declared.get("rootMessageTypeName"))))
    except (binascii.Error, ValueError, DecodeError):
        return Problem("schema", "fileDescriptorSet is not a set of descriptors in base64")
    except (TypeError, KeyError, RecursionError) as error:
        return Problem("schema", f"the descriptors define no message: {' '.join(str(error).split())[:200]}")


def _add_all(pool: DescriptorPool, files: dict[str, FileDescriptorProto]) -> None:
    """Add each file after its imports, as the pool requires. The files may be given in any order.

    Files that import each other are added in the order in which they are reached, and the pool rejects them.
    """
    begun: set[str] = set()
    path = list(files)
    while path:
        name = path[-1]
        if name in begun:
            path.pop()
            if name in files:
                pool.Add(files.pop(name))
            continue
        begun.add(name)
        path += [other for other in files[name].dependency if other in files and other not in begun]


def decode_native(kind: type[Message], data: bytes) -> object | Problem:
    """Decode a message with a class from ``parse_native``."""
    try:
        return _message(kind.FromString(data))
    except DecodeError:
        return Problem("schema", f"{len(data)} bytes are not a {kind.DESCRIPTOR.full_name}")


def _message(message: Message) -> object:
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        plain = {field.name: value for field, value in message.ListFields()}
        return moment_text(plain.get("seconds", 0) * 1_000_000_000 + plain.get("nanos", 0), 9)
    return {field.name: _field(field, value) for field, value in message.ListFields()}


def _field(field: FieldDescriptor, value: Any) -> object:
    if isinstance(value, Message):
        # This test precedes the test for containers, because the library treats google.protobuf.Struct and ListValue as
        # containers.
        return _message(value)
    if isinstance(value, MutableMapping):
        assert field.message_type is not None  # a map is a repeated message of key and value
        of_values = field.message_type.fields_by_name["value"]
        return {as_text(key) if isinstance(key, bytes) else str(key): _value(of_values, value[key]) for key in value}
    if isinstance(value, MutableSequence):
        return [_value(field, one) for one in value]
    return _value(field, value)


def _value(field: FieldDescriptor, value: Any) -> object:
    if field.message_type is not None:
        return _message(value)
    if field.enum_type is not None:
        return _symbol(field.enum_type, value)
    if isinstance(value, bytes):
        return value.hex() if field.type == field.TYPE_BYTES else as_text(value)
    return number(value) if isinstance(value, float) else value


def _symbol(kind: EnumDescriptor, value: int) -> str | int:
    known = kind.values_by_number.get(value)
    return value if known is None else known.name
