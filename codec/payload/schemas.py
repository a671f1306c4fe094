"""Decoding of payloads with the schemas found in the capture.

Rules of this file
1. A schema is known after a request and its response, which together contain topic and version: PRODUCER and
   PRODUCER_SUCCESS, GET_SCHEMA and its response, GET_OR_CREATE_SCHEMA and its response. Partitions share the schemas of
   their topic.
2. SUBSCRIBE contains a schema, but its response contains no version. Like the client, this module uses this schema for
   messages without a version. For other messages the schema is used only if the encoding does not depend on the
   version: Avro with a different version could produce plausible but wrong values.
3. Values are plain (dict, list, str, int, float, bool, None) and suitable for JSON. A decoding failure is a Problem.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from struct import Struct
from typing import Final, Generic, TypeVar

from pcli.codec.payload.entry import Message
from pcli.codec.payload.json_text import parse_json
from pcli.codec.payload.primitives import PRIMITIVES, decode_primitive
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem
from pcli.codec.wire.texts import as_text
from pcli.codec.wire.topic_name import split_partition

_Read = Callable[[bytes | None, bytes | None], object]
"""Function of (payload or, if there is no value, None; bytes of the key) that returns a value or a Problem."""

_MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum total size in bytes of the stored schemas, and of the schemas whose responses are pending. The oldest are
dropped first."""

_COST: Final = 1000
"""Memory overhead per stored schema in bytes."""

_MAX_DEPTH: Final = 4
"""Maximum nesting of KeyValue schemas. Clients create only one level."""

_BY_VERSION: Final = frozenset([pb.Schema.Avro, pb.Schema.KeyValue])
"""Types whose bytes can be decoded only with the exact schema version."""

_KINDS: Final[dict[str, int]] = {
    "BYTES": 0,
    "NONE": 0,
    "BOOLEAN": pb.Schema.Bool,
    "KEY_VALUE": pb.Schema.KeyValue,
    "LOCAL_DATE": pb.Schema.LocalDate,
    "LOCAL_TIME": pb.Schema.LocalTime,
    "LOCAL_DATE_TIME": pb.Schema.LocalDateTime,
    "PROTOBUF_NATIVE": pb.Schema.ProtobufNative,
    **{name.upper(): number for name, number in pb.Schema.Type.items()},
}
"""Type names inside a KeyValue schema, from the Java enum SchemaType and not from the protocol."""

_i32 = Struct(">i").unpack_from


class Decoder:
    """A decoder for one schema. The schema is parsed at the first message."""

    __slots__ = ("_read", "schema")

    def __init__(self, schema: pb.Schema) -> None:
        self.schema = schema
        self._read: _Read | Problem | None = None

    def decode(self, payload: bytes | None, key: bytes | None = None) -> object | Problem:
        """Decode one message.

        ``payload`` is None if there is no value. ``key`` is the message key, for separated KeyValues. A KeyValue is
        returned as an object with ``key`` and ``value``; a missing value is returned as None.
        """
        read = self._prepared()
        return read if isinstance(read, Problem) else read(payload, key)

    @property
    def reads(self) -> bool:
        """Whether the schema defines an encoding. Some types do not, and a schema definition may be invalid."""
        return not isinstance(self._prepared(), Problem)

    def _prepared(self) -> _Read | Problem:
        if self._read is None:
            self._read = _reader(self.schema, 0)
        return self._read

    def message(self, message: Message) -> object | Problem:
        """Decode one message of an opened entry."""
        return self.decode(None if message.null_value else message.payload, message.key_bytes)


def decode(schema: pb.Schema, payload: bytes | None, key: bytes | None = None) -> object | Problem:
    """Decode one message. For many messages use Decoder.decode, which parses the schema only once."""
    return Decoder(schema).decode(payload, key)


def _reader(schema: pb.Schema, depth: int) -> _Read | Problem:
    """Return the reader for this schema, or a Problem if it is unusable."""
    kind = schema.type
    if kind in PRIMITIVES:
        return _plain(lambda payload: decode_primitive(kind, payload))
    if kind == pb.Schema.Json:
        return _plain(parse_json)
    if kind == pb.Schema.Avro:
        from pcli.codec.payload.avro import decode_avro, parse_avro

        avro = parse_avro(schema.schema_data)
        return avro if isinstance(avro, Problem) else _plain(partial(decode_avro, avro))
    if kind == pb.Schema.ProtobufNative:
        from pcli.codec.payload.protobuf_native import decode_native, parse_native

        native = parse_native(schema.schema_data)
        return native if isinstance(native, Problem) else _plain(partial(decode_native, native))
    if kind == pb.Schema.KeyValue:
        return _key_value(schema, depth)
    return Problem("schema", f"kind {pb.Schema.Type.Name(kind)}: the schema does not define the encoding of its bytes")


def _plain(read: Callable[[bytes], object]) -> _Read:
    return lambda payload, _key: None if payload is None else read(payload)


def _key_value(schema: pb.Schema, depth: int) -> _Read | Problem:
    parts = _parts(schema, depth)
    if isinstance(parts, Problem):
        return parts
    read_key, read_value = parts
    if any(one.key == "kv.encoding.type" and one.value == "SEPARATED" for one in schema.properties):
        return lambda payload, key: _pair(read_key(key, None), read_value(payload, None))

    def inline(payload: bytes | None, _key: bytes | None) -> object:
        if payload is None:
            return None
        halves = _halves(payload)
        if isinstance(halves, Problem):
            return halves
        return _pair(read_key(halves[0], None), read_value(halves[1], None))

    return inline


def _parts(schema: pb.Schema, depth: int) -> tuple[_Read, _Read] | Problem:
    """Return the readers for key and value of a KeyValue schema: class KeyValueSchemaInfo."""
    if depth >= _MAX_DEPTH:
        return Problem("schema", "KeyValue schemas nested too deeply")
    halves = _halves(schema.schema_data)
    if isinstance(halves, Problem):
        return halves
    words = {as_text(one.key): as_text(one.value) for one in schema.properties}
    readers: list[_Read] = []
    for name, declared in zip(("key", "value"), halves):
        word = words.get(f"{name}.schema.type", "BYTES")
        if word not in _KINDS:
            return Problem("schema", f"KeyValue: kind {word[:40]!r} of the {name} is not known")
        part = pb.Schema(name=name, type=_KINDS[word], schema_data=declared or b"")  # type: ignore[arg-type]
        if part.type == pb.Schema.KeyValue:
            part.properties.extend(_properties(words.get(f"{name}.schema.properties", "")))
        reader = _reader(part, depth + 1)
        if isinstance(reader, Problem):
            return reader
        readers.append(reader)
    return readers[0], readers[1]


def _properties(text: str) -> list[pb.KeyValue]:
    words = parse_json(text.encode())
    if not isinstance(words, dict):
        return []
    return [pb.KeyValue(key=key, value=value) for key, value in words.items() if isinstance(value, str)]


def _halves(data: bytes) -> tuple[bytes | None, bytes | None] | Problem:
    """Split ``i32 size, key, i32 size, value``, as KeyValue.decode does. A size of -1 means null."""
    halves: list[bytes | None] = []
    position = 0
    for _ in range(2):
        if len(data) - position < 4:
            return Problem("schema", f"KeyValue: its {len(data)} bytes end before the second part")
        size: int = _i32(data, position)[0]
        position += 4
        if size < -1 or position + size > len(data):
            return Problem("schema", f"KeyValue: a part of {size} bytes, but only {len(data) - position} are left")
        halves.append(None if size < 0 else data[position : position + size])
        position += max(size, 0)
    return halves[0], halves[1]


def _pair(key: object, value: object) -> object:
    for part in (key, value):
        if isinstance(part, Problem):
            return part
    return {"key": key, "value": value}


def _cost(topic: str, schema: pb.Schema | None) -> int:
    # The size is computed here, because protobuf does not compute it if a required field is missing. It is counted
    # twice, for the original and for the parsed form.
    if schema is None:
        return _COST + len(topic)
    return (
        _COST + len(topic) + 2 * (len(schema.schema_data) + sum(len(p.key) + len(p.value) for p in schema.properties))
    )


_Value = TypeVar("_Value")


class _BoundedDict(Generic[_Value]):
    """A dict with a limit in bytes: the oldest items are dropped first."""

    def __init__(self, max_bytes: int) -> None:
        self._free = max_bytes
        self._held: dict[Hashable, tuple[_Value, int]] = {}

    def get(self, key: Hashable) -> _Value | None:
        held = self._held.get(key)
        return None if held is None else held[0]

    def pop(self, key: Hashable) -> _Value | None:
        held = self._held.pop(key, None)
        if held is None:
            return None
        self._free += held[1]
        return held[0]

    def put(self, key: Hashable, value: _Value, cost: int) -> None:
        self.pop(key)
        self._held[key] = (value, cost)
        self._free -= cost
        while self._free < 0:
            self.pop(next(iter(self._held)))


class SchemaBook:
    """The schemas of a capture by topic and version."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._known: _BoundedDict[Decoder] = _BoundedDict(max_bytes)
        self._requests: _BoundedDict[tuple[str, bytes, pb.Schema | None]] = _BoundedDict(max_bytes)

    def learn(self, topic: str, version: bytes, schema: pb.Schema) -> None:
        """Store the schema of one version; version b"" is for a subscription's schema."""
        key = (split_partition(as_text(topic))[0], version)
        known = self._known.get(key)
        # AUTO_CONSUME has no definition: it accepts any schema of the topic.
        if schema.type != pb.Schema.AutoConsume and (known is None or known.schema != schema):
            self._known.put(key, Decoder(schema), _cost(topic, schema))

    def find(self, topic: str, version: bytes) -> Decoder | None:
        """Return the schema for a message; ``version`` is its ``schema_version``, or b"" if unset."""
        base = split_partition(as_text(topic))[0]
        found = self._known.get((base, version))
        if found is None and version:
            found = self._known.get((base, b""))
            if found is not None and found.schema.type in _BY_VERSION:
                return None
        return found

    def see(self, connection: Hashable, command: pb.BaseCommand) -> None:
        """Store schemas from any command of a connection, in capture order; most commands contain none."""
        step = _STEPS.get(command.type)
        if step is not None:
            step(self, connection, command)

    def _open_request(
        self, connection: Hashable, request: int, topic: str, version: bytes, schema: pb.Schema | None
    ) -> None:
        self._requests.put((connection, request), (topic, version, schema), _cost(topic, schema))

    def _answer(self, connection: Hashable, request: int, version: bytes, schema: pb.Schema | None = None) -> None:
        found = self._requests.pop((connection, request))
        if found is None:
            return
        topic, wanted, offered = found
        schema = offered if schema is None else schema
        version = version or wanted
        if schema is not None and version:
            self.learn(topic, version, schema)


def _producer(book: SchemaBook, connection: Hashable, command: pb.BaseCommand) -> None:
    body = command.producer
    if body.HasField("schema"):
        book._open_request(connection, body.request_id, body.topic, b"", body.schema)


def _producer_success(book: SchemaBook, connection: Hashable, command: pb.BaseCommand) -> None:
    # A producer that waits for exclusive access receives two responses; the second response contains the schema
    # version.
    body = command.producer_success
    if body.producer_ready:
        book._answer(connection, body.request_id, body.schema_version)


def _subscribe(book: SchemaBook, _connection: Hashable, command: pb.BaseCommand) -> None:
    body = command.subscribe
    if body.HasField("schema"):
        book.learn(body.topic, b"", body.schema)


def _get_schema(book: SchemaBook, connection: Hashable, command: pb.BaseCommand) -> None:
    body = command.getSchema
    book._open_request(connection, body.request_id, body.topic, body.schema_version, None)


def _get_schema_response(book: SchemaBook, connection: Hashable, command: pb.BaseCommand) -> None:
    body = command.getSchemaResponse
    schema = body.schema if body.HasField("schema") else None
    book._answer(connection, body.request_id, body.schema_version, schema)


def _get_or_create(book: SchemaBook, connection: Hashable, command: pb.BaseCommand) -> None:
    body = command.getOrCreateSchema
    if body.HasField("schema"):
        book._open_request(connection, body.request_id, body.topic, b"", body.schema)


def _get_or_create_response(book: SchemaBook, connection: Hashable, command: pb.BaseCommand) -> None:
    body = command.getOrCreateSchemaResponse
    book._answer(connection, body.request_id, body.schema_version)


def _error(book: SchemaBook, connection: Hashable, command: pb.BaseCommand) -> None:
    book._requests.pop((connection, command.error.request_id))


_STEPS: Final[dict[int, Callable[[SchemaBook, Hashable, pb.BaseCommand], None]]] = {
    pb.BaseCommand.PRODUCER: _producer,
    pb.BaseCommand.PRODUCER_SUCCESS: _producer_success,
    pb.BaseCommand.SUBSCRIBE: _subscribe,
    pb.BaseCommand.GET_SCHEMA: _get_schema,
    pb.BaseCommand.GET_SCHEMA_RESPONSE: _get_schema_response,
    pb.BaseCommand.GET_OR_CREATE_SCHEMA: _get_or_create,
    pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE: _get_or_create_response,
    pb.BaseCommand.ERROR: _error,
}
