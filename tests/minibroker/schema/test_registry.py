"""The registry, compared with the schema.* conversations of a real broker and its REST responses."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.schema.registry import SchemaRegistry, version_number

ID = "public/default/t"


def typed(kind: str, data: bytes = b"", **properties: str) -> pb.Schema:
    pairs = [pb.KeyValue(key=key.replace("_", "."), value=value) for key, value in properties.items()]
    return pb.Schema(name="s", type=pb.Schema.Type.Value(kind), schema_data=data, properties=pairs)


def avro(*fields: tuple[Any, ...], kind: str = "Avro", **more: Any) -> pb.Schema:
    listed = [dict(zip(("name", "type", "default"), field)) for field in fields]
    return typed(kind, json.dumps({"type": "record", "name": "R", "fields": listed, **more}).encode())


A = ("a", "int")
B = ("b", ["null", "string"], None)
C = ("c", "string")


class Topic:
    """The schemas of one topic with some settings."""

    def __init__(self, strategy: str = "FULL", *, auto_update: bool = True) -> None:
        self.registry = SchemaRegistry()
        self.settings = {"schemaCompatibilityStrategy": strategy, "isAllowAutoUpdateSchemaEnabled": auto_update}

    def put(self, schema: pb.Schema) -> int | None:
        """Return the version; None if the schema is refused as expected."""
        try:
            return version_number(self.registry.put(ID, schema, self.settings.__getitem__, 1))
        except Refused as refusal:
            return None if refusal.code == pb.IncompatibleSchema else -1

    def takes_consumer(self, schema: pb.Schema) -> bool:
        try:
            self.registry.check_consumer(ID, schema, self.settings.__getitem__)
        except Refused:
            return False
        return True

    def could_store(self, schema: pb.Schema) -> bool:
        try:
            self.registry.check(ID, schema, self.settings.__getitem__)
        except Refused:
            return False
        return True


def test_the_first_schema_is_version_zero() -> None:
    topic = Topic()
    assert [topic.put(avro(A)), topic.put(avro(A))] == [0, 0]
    stored = topic.registry.get(ID)
    assert stored is not None
    assert (stored.version, stored.schema.name, stored.timestamp) == (bytes(8), ID, 1)
    assert stored.schema.schema_data == avro(A).schema_data


def test_a_compatible_change_is_the_next_version() -> None:
    topic = Topic()
    assert [topic.put(schema) for schema in (avro(A), avro(A, B), avro(A))] == [0, 1, 0]
    found = [topic.registry.get(ID, version) for version in (None, bytes(8), (5).to_bytes(8, "big"), b"")]
    assert [None if one is None else version_number(one.version) for one in found] == [1, 0, None, None]
    assert [version_number(one.version) for one in topic.registry.versions(ID)] == [0, 1]


def test_incompatible_changes() -> None:
    topic = Topic()
    others = [avro(A, C), avro(("a", "string")), typed("String"), avro(A, kind="Json")]
    assert [topic.put(schema) for schema in (avro(A), *others)] == [0, None, None, None, None]


def test_always_compatible_accepts_everything() -> None:
    topic = Topic("ALWAYS_COMPATIBLE")
    assert [topic.put(schema) for schema in (avro(A), avro(("x", "string")), typed("String"))] == [0, 1, 2]
    assert topic.takes_consumer(typed("Int8"))


def test_always_incompatible_accepts_nothing() -> None:
    topic = Topic("ALWAYS_INCOMPATIBLE")
    assert [topic.put(schema) for schema in (avro(A), avro(A, B), avro(A))] == [0, None, 0]
    primitive = Topic("ALWAYS_INCOMPATIBLE")
    assert [primitive.put(typed("String")), primitive.put(typed("String", b"null"))] == [0, None]


@pytest.mark.parametrize(
    ("strategy", "added", "removed"),
    [("BACKWARD", None, 1), ("FORWARD", 1, None), ("FULL", None, None)],
)
def test_backward_and_forward_strategies(strategy: str, added: int | None, removed: int | None) -> None:
    """A field without a default is added; the only field is replaced by one with a default."""
    for change, version in ((avro(A, C), added), (avro(B), removed)):
        topic = Topic(strategy)
        assert [topic.put(avro(A)), topic.put(change)] == [0, version]


@pytest.mark.parametrize(
    ("strategy", "third"),
    [("BACKWARD", 2), ("BACKWARD_TRANSITIVE", None), ("FULL", 2), ("FULL_TRANSITIVE", None)],
)
def test_a_transitive_strategy_checks_all_versions(strategy: str, third: int | None) -> None:
    """The third schema can read the second, which wrote a, but not the first, which wrote none."""
    topic = Topic(strategy)
    steps = [avro(("x", "int", 0)), avro(("x", "int", 0), ("a", "int", 0)), avro(("x", "int", 0), A)]
    assert [topic.put(step) for step in steps] == [0, 1, third]


def test_a_transitive_forward_strategy_checks_all_versions() -> None:
    steps = [avro(A), avro(("a", "int", 0)), avro()]
    assert [list(map(Topic(strategy).put, steps)) for strategy in ("FORWARD", "FORWARD_TRANSITIVE")] == [
        [0, 1, 2],
        [0, 1, None],
    ]


@pytest.mark.parametrize(
    ("schema", "valid"),
    [
        (typed("Avro", b"{"), False),
        (typed("Avro", b'["null","int"]'), False),
        (typed("Json", b'["null","int"]'), True),
        (typed("Avro", b'"int"'), True),
        (typed("Protobuf", b'"int"'), True),
        (typed("Protobuf"), False),
        (typed("Int32", b"x"), False),
        (typed("Int32", b"null"), False),
        (typed("Int64"), True),
        (typed("Instant", b"x"), False),
        (typed("String", b"x"), False),
        (typed("String", b"null"), True),
        (typed("String"), True),
        (typed("None", b"x"), True),
        (typed("External", b"x"), True),
        (typed("AutoConsume"), False),
        (typed("ProtobufNative", b"{}"), False),
        (typed("ProtobufNative"), False),
        (typed("KeyValue"), False),
        (typed("KeyValue", b"\0\0\0\0\0\0\0\x09"), False),
    ],
)
def test_valid_and_invalid_schemas(schema: pb.Schema, valid: bool) -> None:
    assert (Topic().put(schema) is not None) == valid


def test_no_new_schemas_by_clients() -> None:
    topic = Topic(auto_update=False)
    assert topic.put(avro(A)) is None
    topic.registry.put(ID, avro(A), topic.settings.__getitem__, by_admin=True)
    assert [topic.put(avro(A)), topic.put(avro(A, B))] == [0, None]


def test_a_consumer_must_be_able_to_read_the_latest() -> None:
    topic = Topic()
    topic.put(avro(A))
    schemas = [avro(A, B), typed("String"), avro(A, C), avro(A)]
    assert [topic.takes_consumer(schema) for schema in schemas] == [True, False, False, True]
    assert len(topic.registry.versions(ID)) == 1


@pytest.mark.parametrize(("strategy", "taken"), [("FORWARD", True), ("BACKWARD_TRANSITIVE", False)])
def test_a_consumer_and_older_versions(strategy: str, taken: bool) -> None:
    """It can read the latest version but not the first."""
    topic = Topic("ALWAYS_COMPATIBLE")
    topic.put(avro(A))
    topic.put(avro(A, C))
    topic.settings["schemaCompatibilityStrategy"] = strategy
    assert topic.takes_consumer(avro(A, C, B)) == taken


def test_without_auto_update_the_data_of_a_first_schema_are_not_parsed() -> None:
    topic = Topic(auto_update=False)
    broken = pb.Schema(name="R", type=pb.Schema.Avro, schema_data=b"{")
    with pytest.raises(Refused, match="Schema not found and schema auto updating is disabled"):
        topic.registry.put(ID, broken, topic.settings.__getitem__, 1)


def test_the_data_of_a_consumers_schema_are_not_validated() -> None:
    """The message is that of Avro's parser (recorded from a real 4.2.4)."""
    topic = Topic()
    topic.put(avro(A))
    broken = pb.Schema(name="R", type=pb.Schema.Avro, schema_data=b"{")
    with pytest.raises(Refused, match=r"^org\.apache\.avro\.SchemaParseException: "):
        topic.registry.check_consumer(ID, broken, topic.settings.__getitem__)


def test_a_topic_in_use_without_schema_refuses_a_consumer_with_one() -> None:
    assert not Topic().takes_consumer(avro(A))


def test_primitives_keep_their_type_and_ignore_properties() -> None:
    topic = Topic()
    assert [topic.put(typed("String")), topic.put(typed("Int32")), topic.put(typed("String", k="v"))] == [0, None, 0]


def test_versions_equal_the_real_brokers() -> None:
    topic = Topic()
    record = [
        avro(A), avro(A, doc="d"), avro(A, p=1), avro(A, aliases=["z"]), avro(A, namespace="n"),
        avro(("a", {"type": "int"})),
    ]  # fmt: skip
    assert [topic.put(schema) for schema in record] == [0, 0, 1, 0, 2, 0]


def test_a_deletion_is_a_version_and_a_deleted_topic_restarts() -> None:
    registry, topic = SchemaRegistry(), Topic()
    topic.registry = registry
    topic.put(avro(A))
    assert version_number(registry.delete(ID)) == 1
    assert (registry.get(ID), registry.get(ID, bytes(8)), registry.versions(ID)) == (None, None, [])
    assert topic.put(typed("String")) == 2
    assert version_number(registry.delete("public/default/never")) == 0
    registry.forget(ID)
    assert topic.put(avro(A)) == 0


def test_a_check_stores_nothing() -> None:
    topic = Topic()
    topic.put(avro(A))
    assert topic.could_store(avro(A, B))
    assert not topic.could_store(avro(A, C))
    assert topic.registry.find(ID, avro(A, doc="x")) == bytes(8)
    assert topic.registry.find(ID, avro(A, B)) is None
    assert len(topic.registry.versions(ID)) == 1


def key_value(key: bytes, value: bytes, key_type: str = "AVRO", value_type: str = "AVRO") -> pb.Schema:
    data = len(key).to_bytes(4, "big") + key + len(value).to_bytes(4, "big") + value
    return typed("KeyValue", data, key_schema_type=key_type, value_schema_type=value_type)


def test_both_parts_of_a_key_value_must_be_compatible() -> None:
    plain, wider, other = avro(A).schema_data, avro(A, B).schema_data, avro(A, C).schema_data
    topic = Topic()
    steps = [
        key_value(plain, plain), key_value(wider, plain), key_value(wider, other), key_value(other, plain),
        key_value(plain, b"", value_type="STRING"), key_value(plain, wider), key_value(b"{", plain),
    ]  # fmt: skip
    assert [topic.put(step) for step in steps] == [0, 1, None, None, None, 2, None]


def native(root: str, *fields: tuple[str, int], package: str = "p") -> pb.Schema:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package=package, syntax="proto3")
    message = file.message_type.add(name=root)
    for number, (name, kind) in enumerate(fields, 1):
        message.field.add(name=name, number=number, type=descriptor_pb2.FieldDescriptorProto.Type.ValueType(kind))
    files = base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()
    named = {
        "fileDescriptorSet": files,
        "rootMessageTypeName": f"{package}.{root}",
        "rootFileDescriptorName": "a.proto",
    }
    return typed("ProtobufNative", json.dumps(named).encode())


@pytest.mark.parametrize("strategy", ["BACKWARD", "FORWARD", "FULL", "FULL_TRANSITIVE"])
def test_a_native_message_may_change_but_not_its_name(strategy: str) -> None:
    topic = Topic(strategy)
    steps = [native("M", ("a", 5)), native("M", ("a", 9)), native("M"), native("N", ("a", 5)), native("M", package="q")]
    assert [topic.put(step) for step in steps] == [0, 1, 2, None, None]
