"""Values that the Java client wrote (java_vectors.json); captures whose truth files contain the decoded values are in
test_truth.py."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload.batch import join_batch
from pcli.codec.payload.entry import open_entry
from pcli.codec.payload.schemas import Decoder, SchemaBook, decode
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

TOPIC = "persistent://public/default/t"
V0, V1 = bytes(8), bytes(7) + b"\x01"
JSON = pb.Schema(name="j", type=pb.Schema.Json, schema_data=b"{}")
TEXT = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")
AVRO_INT = pb.Schema(name="a", type=pb.Schema.Avro, schema_data=b'"int"')
AVRO_TEXT = pb.Schema(name="a", type=pb.Schema.Avro, schema_data=b'"string"')


def key_value(key: str, value: str, encoding: str = "INLINE", data: bytes = bytes(8), **more: str) -> pb.Schema:
    words = {"key.schema.type": key, "value.schema.type": value, "kv.encoding.type": encoding, **more}
    properties = [pb.KeyValue(key=name, value=word) for name, word in words.items()]
    return pb.Schema(name="kv", type=pb.Schema.KeyValue, schema_data=data, properties=properties)


def command(kind: int, **body: Any) -> pb.BaseCommand:
    made = pb.BaseCommand(type=kind)  # type: ignore[arg-type]
    name = made.DESCRIPTOR.fields_by_number[kind].name
    part = getattr(made, name)
    part.SetInParent()
    for field, value in body.items():
        if field == "schema":
            part.schema.CopyFrom(value)
        else:
            setattr(part, field, value)
    return made


C = pb.BaseCommand


# --- values ---


@pytest.mark.parametrize(
    "name", ["KeyValue inline", "KeyValue separated", "Avro with logical types", "Avro, recursive", "ProtobufNative"]
)
def test_values_of_the_java_client(name: str, java: dict[str, Any]) -> None:
    one = java["schemas"][name]
    schema = pb.Schema(name="x", type=one["type"], schema_data=bytes.fromhex(one["schema_data"]))
    schema.properties.extend(pb.KeyValue(key=key, value=value) for key, value in one["properties"].items())
    decoder = Decoder(schema)
    for data, value in one["values"]:
        key = struct.pack(">q", 9) if name == "KeyValue separated" else None
        assert decoder.decode(bytes.fromhex(data), key) == value


def test_no_value_is_none() -> None:
    for schema in (TEXT, JSON, AVRO_INT, key_value("STRING", "INT32")):
        assert decode(schema, None) is None
    assert decode(key_value("STRING", "INT32", "SEPARATED"), None, b"k") == {"key": "k", "value": None}
    assert decode(key_value("STRING", "INT32", "SEPARATED"), b"\0\0\0\x05") == {"key": None, "value": 5}


def test_a_key_value_inside_a_key_value() -> None:
    inner = json.dumps({"key.schema.type": "INT8", "value.schema.type": "STRING", "kv.encoding.type": "INLINE"})
    schema = key_value(
        "STRING", "KEY_VALUE", data=struct.pack(">ii8s", 0, 8, b""), **{"value.schema.properties": inner}
    )
    body = b"\0\0\0\x01\x05\0\0\0\x01v"
    payload = b"\0\0\0\x01k" + struct.pack(">i", len(body)) + body
    assert decode(schema, payload) == {"key": "k", "value": {"key": 5, "value": "v"}}


def test_nested_key_values_are_limited() -> None:
    words = {"key.schema.type": "INT8", "value.schema.type": "KEY_VALUE"}
    data = b""
    for _ in range(10):
        words = {**words, "value.schema.properties": json.dumps(words)}
        data = struct.pack(">ii", 0, len(data)) + data
    properties = [pb.KeyValue(key=name, value=word) for name, word in words.items()]
    problem = decode(pb.Schema(name="", type=pb.Schema.KeyValue, schema_data=data, properties=properties), b"")
    assert isinstance(problem, Problem)
    assert "too deep" in problem.detail


@pytest.mark.parametrize(
    ("schema", "payload", "said"),
    [
        (TEXT, b"\xff", "not UTF-8"),
        (pb.Schema(name="", type=pb.Schema.Int32, schema_data=b""), b"abc", "Int32 has 4 bytes, not 3"),
        (pb.Schema(name="", type=pb.Schema.Protobuf, schema_data=b"{}"), b"", "kind Protobuf"),
        (pb.Schema(name="", type=pb.Schema.External, schema_data=b""), b"", "kind External"),
        (pb.Schema(name="", type=pb.Schema.Avro, schema_data=b"{"), b"", "not JSON"),
        (pb.Schema(name="", type=pb.Schema.ProtobufNative, schema_data=b"{"), b"", "not JSON"),
        (key_value("STRING", "GIBBERISH"), b"", "kind 'GIBBERISH' of the value is not known"),
        (key_value("STRING", "STRING", data=b"\0"), b"", "end before the second part"),
        (key_value("STRING", "STRING"), b"\0\0\0\x05abc", "a part of 5 bytes, but only 3 are left"),
        (key_value("STRING", "STRING"), b"\xff\xff\xff\xfe", "a part of -2 bytes"),
        (key_value("STRING", "STRING"), b"\0\0\0\x01a", "end before the second part"),
        (key_value("INT32", "STRING"), b"\0\0\0\x01a\0\0\0\0", "Int32 has 4 bytes, not 1"),
    ],
)
def test_problems(schema: pb.Schema, payload: bytes, said: str) -> None:
    problem = decode(schema, payload)
    assert isinstance(problem, Problem)
    assert problem.kind == "schema"
    assert said in problem.detail


def test_batch_messages_with_keys_and_null_values() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0, num_messages_in_batch=2)
    singles = [
        pb.SingleMessageMetadata(payload_size=0, partition_key="aw==", partition_key_b64_encoded=True),
        pb.SingleMessageMetadata(payload_size=0, partition_key="k2", null_value=True),
    ]
    entry = open_entry(metadata, join_batch([(singles[0], b"v"), (singles[1], b"")]))
    decoder = Decoder(key_value("STRING", "STRING", "SEPARATED"))
    assert [decoder.message(message) for message in entry.messages] == [
        {"key": "k", "value": "v"},
        {"key": "k2", "value": None},
    ]


@given(
    st.sampled_from(pb.Schema.Type.values()),
    st.binary(max_size=60),
    st.binary(max_size=40),
    st.none() | st.binary(max_size=9),
    st.lists(st.sampled_from(["STRING", "AVRO", "JSON", "KEY_VALUE", "INT8", "?"]), min_size=2, max_size=2),
)
def test_any_bytes_give_a_json_value_or_a_problem(
    kind: int, declared: bytes, payload: bytes, key: bytes | None, words: list[str]
) -> None:
    schema = key_value(words[0], words[1], data=declared)
    schema.type = kind  # type: ignore[assignment]
    value = decode(schema, payload, key)
    if not isinstance(value, Problem):
        json.dumps(value, allow_nan=False)


# --- the schemas of a capture: >> is the client, << the broker ---


def schema_of(book: SchemaBook, topic: str, version: bytes) -> pb.Schema | None:
    found = book.find(topic, version)
    return None if found is None else found.schema


def test_the_response_contains_the_version_of_a_producers_schema() -> None:
    book = SchemaBook()
    book.see(1, command(C.PRODUCER, request_id=5, topic=TOPIC, schema=JSON))  # >>
    assert book.find(TOPIC, V0) is None
    book.see(1, command(C.PRODUCER_SUCCESS, request_id=5, schema_version=V0))  # <<
    assert schema_of(book, TOPIC, V0) == JSON
    assert book.find(TOPIC, V1) is None
    assert book.find("persistent://public/default/other", V0) is None


def test_request_ids_are_separate_per_connection() -> None:
    book = SchemaBook()
    book.see(1, command(C.PRODUCER, request_id=5, topic=TOPIC, schema=JSON))
    book.see(2, command(C.PRODUCER_SUCCESS, request_id=5, schema_version=V0))
    assert book.find(TOPIC, V0) is None


def test_a_waiting_producer_has_two_responses() -> None:
    book = SchemaBook()
    book.see(1, command(C.PRODUCER, request_id=5, topic=TOPIC, schema=JSON))
    book.see(1, command(C.PRODUCER_SUCCESS, request_id=5, producer_ready=False))
    book.see(1, command(C.PRODUCER_SUCCESS, request_id=5, schema_version=V0))
    assert schema_of(book, TOPIC, V0) == JSON


def test_a_refused_schema_is_not_stored() -> None:
    book = SchemaBook()
    book.see(1, command(C.PRODUCER, request_id=5, topic=TOPIC, schema=JSON))
    book.see(1, command(C.ERROR, request_id=5))
    book.see(1, command(C.PRODUCER_SUCCESS, request_id=5, schema_version=V0))
    assert book.find(TOPIC, V0) is None


def test_partitions_share_the_schemas_of_their_topic() -> None:
    book = SchemaBook()
    book.learn(f"{TOPIC}-partition-0", V0, JSON)
    for name in (TOPIC, f"{TOPIC}-partition-0", f"{TOPIC}-partition-11"):
        assert schema_of(book, name, V0) == JSON


def test_requested_schemas() -> None:
    book = SchemaBook()
    book.see(1, command(C.GET_SCHEMA, request_id=1, topic=TOPIC, schema_version=V1))  # >> of a version
    book.see(1, command(C.GET_SCHEMA_RESPONSE, request_id=1, schema=AVRO_INT))
    book.see(1, command(C.GET_SCHEMA, request_id=2, topic=TOPIC))  # >> the newest version
    book.see(1, command(C.GET_SCHEMA_RESPONSE, request_id=2, schema=AVRO_TEXT, schema_version=V0))
    book.see(1, command(C.GET_SCHEMA, request_id=3, topic="t2", schema_version=V0))
    book.see(1, command(C.GET_SCHEMA_RESPONSE, request_id=3, error_message="none"))
    assert schema_of(book, TOPIC, V1) == AVRO_INT
    assert schema_of(book, TOPIC, V0) == AVRO_TEXT
    assert book.find("t2", V0) is None


def test_a_schema_created_for_a_message() -> None:
    book = SchemaBook()
    book.see(1, command(C.GET_OR_CREATE_SCHEMA, request_id=1, topic=TOPIC, schema=AVRO_INT))
    book.see(1, command(C.GET_OR_CREATE_SCHEMA_RESPONSE, request_id=1, schema_version=V1))
    assert schema_of(book, TOPIC, V1) == AVRO_INT


def test_a_subscriptions_schema_decodes_version_independent_types() -> None:
    book = SchemaBook()
    book.see(1, command(C.SUBSCRIBE, topic=TOPIC, schema=JSON))
    assert schema_of(book, TOPIC, b"") == JSON
    assert schema_of(book, TOPIC, V1) == JSON
    book.see(1, command(C.SUBSCRIBE, topic=TOPIC, schema=AVRO_INT))
    assert schema_of(book, TOPIC, b"") == AVRO_INT
    assert book.find(TOPIC, V1) is None
    book.learn(TOPIC, V1, AVRO_TEXT)
    assert schema_of(book, TOPIC, V1) == AVRO_TEXT


def test_auto_consume_declares_no_schema() -> None:
    book = SchemaBook()
    book.learn(TOPIC, b"", JSON)
    anything = pb.Schema(name="AutoConsume", type=pb.Schema.AutoConsume, schema_data=b"")
    book.see(1, command(C.SUBSCRIBE, topic=TOPIC, schema=anything))
    assert schema_of(book, TOPIC, b"") == JSON


def test_the_same_schema_is_parsed_once() -> None:
    book = SchemaBook()
    book.learn(TOPIC, V0, AVRO_INT)
    decoder = book.find(TOPIC, V0)
    book.learn(TOPIC, V0, AVRO_INT)
    assert book.find(TOPIC, V0) is decoder
    book.learn(TOPIC, V0, AVRO_TEXT)  # the topic was deleted and created again
    assert schema_of(book, TOPIC, V0) == AVRO_TEXT


def test_the_oldest_schemas_are_evicted() -> None:
    book = SchemaBook(max_bytes=20_000)
    for number in range(100):
        book.learn(f"t{number}", V0, pb.Schema(name="", type=pb.Schema.Json, schema_data=bytes(1000)))
    known = [number for number in range(100) if book.find(f"t{number}", V0)]
    assert known == list(range(100 - len(known), 100))
    assert 1 <= len(known) <= 10
    for number in range(100):  # requests without a response
        book.see(1, command(C.GET_SCHEMA, request_id=number, topic="t" * 1000))
    book.see(1, command(C.GET_SCHEMA_RESPONSE, request_id=0, schema=JSON, schema_version=V1))
    assert book.find("t" * 1000, V1) is None
    book.see(1, command(C.GET_SCHEMA_RESPONSE, request_id=99, schema=JSON, schema_version=V1))
    assert schema_of(book, "t" * 1000, V1) == JSON


def test_one_schema_above_the_limit() -> None:
    book = SchemaBook(max_bytes=5000)
    book.learn(TOPIC, V0, pb.Schema(name="", type=pb.Schema.Json, schema_data=bytes(10_000)))
    assert book.find(TOPIC, V0) is None


def test_other_commands_contain_no_schema() -> None:
    book = SchemaBook()
    for kind in C.Type.values():
        book.see(1, pb.BaseCommand(type=kind))
    assert book.find("", b"") is None
