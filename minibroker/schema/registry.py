"""SchemaRegistry: the schemas of the topics, their versions, and the compatibility check of new schemas.

Rules of this file
1. Schemas are stored by schema id, which is the topic's name without scheme and partition. Versions are numbered from 0
   and are eight bytes, big-endian, on the wire. A deletion is also a version: it deletes all earlier versions, and the
   numbering continues.
2. A known schema is not stored again. Schemas checked as Avro (Avro, Json, Protobuf) are compared by their normal form.
   All other schemas are compared by their bytes. Names and properties are not compared.
3. A new schema must be compatible with the latest version, or with all versions under a transitive strategy. A schema
   of a different type is compatible only under ALWAYS_COMPATIBLE.
4. A consumer's schema must be able to read the latest version, or all versions under a transitive backward strategy.

Source of the rules: SchemaRegistryServiceImpl, BookkeeperSchemaStorage, the *SchemaCompatibilityCheck and
*SchemaDataValidator classes; verified on a 4.2.4 broker.

With durable storage, there is one document for each schema id, with all versions that are not deleted.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem
from pcli.minibroker.errors import Refused, decoding
from pcli.minibroker.schema.avro_compatibility import AvroError, AvroSchema, can_read, normal_form, parse
from pcli.minibroker.schema.avro_text import pretty_text

_Effective = Callable[[str], Any]
"""A function that returns the topic's effective value of a setting, by its name in broker.conf."""

_WORDS: Final = {
    "Bool": "BOOLEAN",
    "KeyValue": "KEY_VALUE",
    "LocalDate": "LOCAL_DATE",
    "LocalTime": "LOCAL_TIME",
    "LocalDateTime": "LOCAL_DATE_TIME",
    "ProtobufNative": "PROTOBUF_NATIVE",
    "AutoConsume": "AUTO_CONSUME",
}

TYPE_NAMES: Final[dict[int, str]] = {number: _WORDS.get(name, name.upper()) for name, number in pb.Schema.Type.items()}
"""Names in the Java enum SchemaType, by protocol number. They are used in REST responses and properties."""

_NUMBERS: Final = {word: number for number, word in TYPE_NAMES.items()} | {"BYTES": 0}

_AVRO: Final = frozenset([pb.Schema.Avro, pb.Schema.Json, pb.Schema.Protobuf])
"""Types whose data is an Avro schema."""

_ANYTHING: Final = frozenset([pb.Schema.Type.Value("None"), pb.Schema.External])
"""Types whose data is not checked."""

_VALIDATION: Final = "org.apache.avro.SchemaValidationException"
_NOT_FOUND: Final = "Schema not found and schema auto updating is disabled."
_CAUSED_BY: Final = " caused by "
_MAX_DEPTH: Final = 4
"""Maximum nesting depth of KeyValue schemas."""

_i32 = struct.Struct(">i").unpack_from


class InvalidSchemaData(Refused):
    """Data that do not fit the type of their schema (InvalidSchemaDataException)."""

    def __init__(self, kind: int, reason: str, what: str = "") -> None:
        """``what`` replaces the name of the type."""
        text = f"Invalid schema definition data for {what or TYPE_NAMES.get(kind, kind)} schema{reason}"
        super().__init__(pb.IncompatibleSchema, text)
        self.reason = reason


class StoredSchema:
    """One version of a schema."""

    __slots__ = ("_key", "_parsed", "schema", "timestamp", "version")

    def __init__(self, schema: pb.Schema, version: bytes, timestamp: int, parsed: _Parsed | None = None) -> None:
        """``parsed`` is None for a schema that is restored; it is parsed when it is compared first."""
        self.schema = schema
        self.version = version
        """The version as eight bytes, as on the wire."""
        self.timestamp = timestamp
        """The time of storage in milliseconds since 1970."""
        self._parsed = parsed
        self._key: tuple[int, object] | None = None

    @property
    def parsed(self) -> _Parsed:
        """The parsed data."""
        if self._parsed is None:
            self._parsed = _parse(self.schema)
        return self._parsed

    @property
    def key(self) -> tuple[int, object]:
        """The key for comparisons. Equal schemas have equal keys."""
        if self._key is None:
            self._key = self.parsed.key()
        return self._key


class _Parsed(NamedTuple):
    """A valid schema and its parsed data."""

    type: int
    data: bytes
    avro: AvroSchema | None = None
    root: str = ""
    """The root message name of a ProtobufNative schema."""
    halves: tuple[_Parsed, ...] = ()
    """The schemas of the key and the value of a KeyValue schema."""

    def key(self) -> tuple[int, object]:
        return self.type, self.data if self.avro is None else normal_form(self.avro)


def _parse(schema: pb.Schema, depth: int = 0) -> _Parsed:
    """Parse and validate a schema's data. Raises Refused if the data does not fit the schema type."""
    kind, data = schema.type, schema.schema_data
    try:
        if kind in _AVRO:
            avro = parse(data)
            if kind == pb.Schema.Avro and avro.kind == "union":
                raise AvroError("a union cannot be the schema of a topic")
            return _Parsed(kind, data, avro=avro)
    except AvroError as error:
        raise InvalidSchemaData(kind, f"{_CAUSED_BY}org.apache.avro.SchemaParseException: {error}") from None
    if kind == pb.Schema.AutoConsume:
        raise _invalid(kind, "AUTO_CONSUME is not a schema")
    if kind == pb.Schema.ProtobufNative:
        root = _root_message(data)
        if root is None:
            raise _invalid(kind, "it does not describe a message")
        return _Parsed(kind, data, root=root)
    if kind == pb.Schema.KeyValue:
        return _Parsed(kind, data, halves=tuple(_parse(half, depth + 1) for half in _halves(schema, depth)))
    if kind == pb.Schema.String and data not in (b"", b"null"):
        raise InvalidSchemaData(kind, f" : '{data.decode(errors='replace')}'", "string")
    if data and kind not in _ANYTHING and kind != pb.Schema.String:
        reason = f"s :length of schema data should be zero, but {len(data)} bytes is found"
        raise InvalidSchemaData(kind, reason, "primitive")
    return _Parsed(kind, data)


def _root_message(data: bytes) -> str | None:
    """Return the full name of a ProtobufNative schema's root message, or None.

    A 4.2.4 broker compares only this name (ProtobufNativeSchemaCompatibilityCheck).
    """
    from pcli.codec.payload.protobuf_native import parse_native  # late import: it loads all of codec.payload

    kind = parse_native(data)
    return None if isinstance(kind, Problem) else kind.DESCRIPTOR.full_name


def _invalid(kind: int, reason: str) -> InvalidSchemaData:
    return InvalidSchemaData(kind, f": {reason}")


def _halves(schema: pb.Schema, depth: int) -> list[pb.Schema]:
    """Return the key and value schemas of a KeyValue schema: ``i32 size, key, i32 size, value``.

    The properties of the KeyValue schema contain the types of both schemas.
    """
    if depth >= _MAX_DEPTH:
        raise _invalid(schema.type, "KeyValue schemas are nested too deeply")
    words = {pair.key: pair.value for pair in schema.properties}
    data, position, halves = schema.schema_data, 0, list[pb.Schema]()
    for name in ("key", "value"):
        if len(data) < position + 4:
            raise _invalid(schema.type, "the data is truncated")
        size = max(_i32(data, position)[0], 0)
        kind = _NUMBERS.get(words.get(f"{name}.schema.type", "BYTES"))
        if kind is None or len(data) < position + 4 + size:
            raise _invalid(schema.type, f"the {name} schema is invalid")
        half = data[position + 4 : position + 4 + size]
        halves.append(pb.Schema(name=name, type=pb.Schema.Type.ValueType(kind), schema_data=half))
        position += 4 + size
    return halves


class SchemaRegistry:
    """The schemas of all topics. ``effective`` returns the topic's settings; times are in ms since 1970."""

    def __init__(self) -> None:
        self._stored: dict[str, list[StoredSchema]] = {}
        """Existing versions, oldest first."""
        self._next: dict[str, int] = {}
        """Number of the next version."""
        self.on_change: Callable[[str], None] = lambda _: None
        """A function that is called with the schema id when versions were added or deleted."""

    def has(self, schema_id: str) -> bool:
        """Return whether a schema exists."""
        return schema_id in self._stored

    def put(
        self, schema_id: str, schema: pb.Schema, effective: _Effective, now: int = 0, *, by_admin: bool = False
    ) -> bytes:
        """Store a schema if it is new, and return its version. Raises Refused (IncompatibleSchema).

        An administrator can store new schemas even if isAllowAutoUpdateSchemaEnabled is off.
        """
        versions = self._stored.get(schema_id, [])
        for stored in versions:
            if stored.schema.type == schema.type and stored.schema.schema_data == schema.schema_data:
                return stored.version
        may_store = by_admin or effective("isAllowAutoUpdateSchemaEnabled")
        if not may_store and not versions:  # before the data are parsed, as AbstractTopic.addSchema
            raise Refused(pb.IncompatibleSchema, _NOT_FOUND)
        parsed = _parse(schema)
        known = _find(versions, parsed)
        if known is not None:
            return known
        if not may_store:
            raise Refused(pb.IncompatibleSchema, _NOT_FOUND)
        _check_new(versions, parsed, effective("schemaCompatibilityStrategy"))
        version = self._number(schema_id)
        self._stored.setdefault(schema_id, []).append(StoredSchema(_copy(schema, schema_id), version, now, parsed))
        return version

    def check(self, schema_id: str, schema: pb.Schema, effective: _Effective) -> None:
        """Raise Refused unless the schema could be stored."""
        _check_new(self._stored.get(schema_id, []), _parse(schema), effective("schemaCompatibilityStrategy"))

    def check_consumer(self, schema_id: str, schema: pb.Schema, effective: _Effective) -> None:
        """Raise Refused unless a consumer with this schema may read a topic that was used before.

        The types are compared before the data are parsed, because a broker does not validate the schemas of consumers
        (SchemaRegistryServiceWithSchemaDataValidator.checkConsumerCompatibility).
        """
        strategy = effective("schemaCompatibilityStrategy")
        if strategy == "ALWAYS_COMPATIBLE":
            return
        versions = self._stored.get(schema_id)
        if not versions:
            text = "Failed to add schema to an active topic with empty(BYTES) schema: new schema type "
            raise Refused(pb.IncompatibleSchema, text + TYPE_NAMES.get(schema.type, ""))
        if strategy in ("BACKWARD", "FORWARD", "FORWARD_TRANSITIVE", "FULL"):
            versions, strategy = versions[-1:], "BACKWARD"
        for stored in versions:
            _check_type(stored.parsed.type, schema.type)
        try:
            parsed = _parse(schema)
        except InvalidSchemaData as error:
            # Without the validation, the message is that of the exception of Avro's parser.
            raise Refused(pb.IncompatibleSchema, error.reason.removeprefix(_CAUSED_BY)) from None
        _check_all(versions, parsed, strategy)

    def find(self, schema_id: str, schema: pb.Schema) -> bytes | None:
        """Return the version of a stored schema, or None. Raises Refused if the schema is invalid."""
        return _find(self._stored.get(schema_id, []), _parse(schema))

    def get(self, schema_id: str, version: bytes | None = None) -> StoredSchema | None:
        """Return the schema with a version, or the latest schema."""
        versions = self._stored.get(schema_id, [])
        if version is None:
            return versions[-1] if versions else None
        return next((stored for stored in versions if stored.version == version), None)

    def deletion(self, schema_id: str, version: bytes | None = None) -> bytes | None:
        """Return the version of the deletion if it is the latest version and has the given number, otherwise None."""
        if schema_id in self._stored or schema_id not in self._next:
            return None
        deleted = (self._next[schema_id] - 1).to_bytes(8, "big")
        return deleted if version in (None, deleted) else None

    def versions(self, schema_id: str) -> list[StoredSchema]:
        """Return all versions that are not deleted, oldest first."""
        return list(self._stored.get(schema_id, []))

    def delete(self, schema_id: str, now: int = 0) -> bytes:
        """Delete all versions, if any. Return the version of the deletion."""
        self._stored.pop(schema_id, None)
        return self._number(schema_id)

    def forget(self, schema_id: str) -> None:
        """Remove the schemas of a deleted topic and reset the numbering."""
        self._stored.pop(schema_id, None)
        if self._next.pop(schema_id, None) is not None:
            self.on_change(schema_id)

    def next_version(self, schema_id: str) -> int | None:
        """Return the number of the next version, or None if there never was a version."""
        return self._next.get(schema_id)

    def restore(self, schema_id: str, next_version: int, versions: list[StoredSchema]) -> None:
        """Add the stored versions of a schema, which can all be deleted."""
        self._next[schema_id] = next_version
        if versions:
            self._stored[schema_id] = versions

    def _number(self, schema_id: str) -> bytes:
        number = self._next.get(schema_id, 0)
        self._next[schema_id] = number + 1
        self.on_change(schema_id)
        return number.to_bytes(8, "big")


def version_number(version: bytes) -> int:
    """Return a version as the number used in REST."""
    return int.from_bytes(version, "big", signed=True)


def _copy(schema: pb.Schema, schema_id: str) -> pb.Schema:
    """Return a copy named after the schema id, as clients receive it."""
    copy = pb.Schema()
    copy.CopyFrom(schema)
    copy.name = schema_id
    return copy


def _find(versions: Sequence[StoredSchema], parsed: _Parsed) -> bytes | None:
    key = parsed.key()
    return next((stored.version for stored in versions if stored.key == key), None)


def _check_new(versions: Sequence[StoredSchema], new: _Parsed, strategy: str) -> None:
    _check_all(versions if strategy.endswith("_TRANSITIVE") else versions[-1:], new, strategy)


def _check_all(versions: Sequence[StoredSchema], new: _Parsed, strategy: str) -> None:
    """Raise Refused unless ``new`` is compatible with every version."""
    for stored in versions:
        if stored.parsed.type == new.type and stored.parsed.data == new.data and len(versions) == 1:
            return
        _check(stored.parsed, new, strategy)


def _check(old: _Parsed, new: _Parsed, strategy: str) -> None:
    if strategy == "ALWAYS_COMPATIBLE":
        return
    _check_type(old.type, new.type)
    if strategy == "ALWAYS_INCOMPATIBLE" and new.avro is None:
        raise Refused(pb.IncompatibleSchema, f"Incompatible schema: the strategy is {strategy}")
    if old.root != new.root:
        text = f"Protobuf root message changes from {old.root} to {new.root}: not allowed under {strategy}"
        raise Refused(pb.IncompatibleSchema, text)
    for old_half, new_half in zip(old.halves, new.halves):
        _check(old_half, new_half, strategy)
    if old.avro is not None and new.avro is not None:
        _check_avro(old.avro, new.avro, strategy)


def _check_type(old: int, new: int) -> None:
    if old != new:
        text = f"Incompatible schema: exists schema type {TYPE_NAMES.get(old)}, new schema type {TYPE_NAMES.get(new)}"
        raise Refused(pb.IncompatibleSchema, text)


def _check_avro(old: AvroSchema, new: AvroSchema, strategy: str) -> None:
    """Raise Refused, with the text of Avro's SchemaValidator, if the strategy does not permit the new schema."""
    direction = strategy.removesuffix("_TRANSITIVE")
    pairs = []
    if direction in ("FORWARD", "FULL"):
        pairs.append((new, old))
    if direction in ("BACKWARD", "FULL"):
        pairs.append((old, new))
    if strategy == "ALWAYS_INCOMPATIBLE":
        raise _unreadable(new, new, strategy)
    for writer, reader in pairs:
        try:
            can_read(reader, writer)
        except AvroError:
            raise _unreadable(writer, reader, strategy) from None


def _unreadable(writer: AvroSchema, reader: AvroSchema, strategy: str) -> Refused:
    why = f"Unable to read schema: \n{pretty_text(writer)}\nusing schema:\n{pretty_text(reader)}"
    text = f"Error during schema compatibility check with strategy {strategy}: {_VALIDATION}: {why}"
    return Refused(pb.IncompatibleSchema, text)


SCHEMAS: Final = "/schemas/"
"""Start of the paths of these documents."""


class SchemaDocuments:
    """The documents of all schemas (class Documented)."""

    def __init__(self, schemas: SchemaRegistry, record: Callable[[], None]) -> None:
        """``record`` records that documents of this object have changed."""
        self._schemas = schemas
        self._record = record
        self._changed: set[str] = set()
        """Changed schema ids."""

    def restore(self, documents: Iterable[tuple[str, Any]]) -> None:
        """Add the stored schemas, and record changes from now on."""
        for path, value in documents:
            with decoding(path):
                versions = [_schema(*row) for row in value["versions"]]
                self._schemas.restore(unquote(path.removeprefix(SCHEMAS)), value["next"], versions)
        self._schemas.on_change = self._schema_changed

    def _schema_changed(self, schema_id: str) -> None:
        self._changed.add(schema_id)
        self._record()

    def changed_documents(self) -> Iterator[tuple[str, Any]]:
        """Return the documents that have changed, as defined in Documented."""
        changed, self._changed = self._changed, set()
        for schema_id in sorted(changed):
            following = self._schemas.next_version(schema_id)
            versions = [
                [version_number(one.version), one.timestamp, b64encode(one.schema.SerializeToString()).decode()]
                for one in self._schemas.versions(schema_id)
            ]
            value = None if following is None else {"next": following, "versions": versions}
            yield SCHEMAS + quote(schema_id, safe=""), value


def _schema(version: int, timestamp: int, schema: str) -> StoredSchema:
    return StoredSchema(pb.Schema.FromString(b64decode(schema)), version.to_bytes(8, "big"), timestamp)
