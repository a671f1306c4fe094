"""Values and descriptors that protobuf itself writes; test_schemas.py has values from the Java client."""

from __future__ import annotations

import base64
import json

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload.protobuf_native import decode_native, parse_native
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem


def schema(root: str, *files: FileDescriptorProto) -> bytes:
    """Return a schema as ProtobufNativeSchemaData of the Java client writes it."""
    everything = base64.b64encode(FileDescriptorSet(file=files).SerializeToString()).decode()
    return json.dumps({"fileDescriptorSet": everything, "rootMessageTypeName": root}).encode()


def of(message: type[Message]) -> FileDescriptorProto:
    file = FileDescriptorProto()
    message.DESCRIPTOR.file.CopyToProto(file)
    return file


def parsed(data: bytes) -> type[Message]:
    kind = parse_native(data)
    assert not isinstance(kind, Problem), kind
    return kind


def test_a_message_of_the_pulsar_protocol() -> None:
    kind = parsed(schema(pb.MessageMetadata.DESCRIPTOR.full_name, of(pb.MessageMetadata)))
    metadata = pb.MessageMetadata(
        producer_name="p",
        sequence_id=2**64 - 1,
        publish_time=5,
        compression=pb.ZSTD,
        ordering_key=b"\x00\xff",
        properties=[pb.KeyValue(key="a", value="b")],
        replicate_to=["x", "y"],
    )
    assert decode_native(kind, metadata.SerializeToString()) == {
        "producer_name": "p",
        "sequence_id": 2**64 - 1,
        "publish_time": 5,
        "properties": [{"key": "a", "value": "b"}],
        "replicate_to": ["x", "y"],
        "compression": "ZSTD",
        "ordering_key": "00ff",
    }


def test_maps_and_floats() -> None:
    kind = parsed(schema("google.protobuf.Struct", of(Struct)))
    value = Struct()
    value.update({"n": 1.5, "inner": {"t": "x"}, "list": [True]})
    assert decode_native(kind, value.SerializeToString()) == {
        "fields": {
            "n": {"number_value": 1.5},
            "inner": {"struct_value": {"fields": {"t": {"string_value": "x"}}}},
            "list": {"list_value": {"values": [{"bool_value": True}]}},
        }
    }


def test_a_timestamp_is_iso_8601() -> None:
    kind = parsed(schema("google.protobuf.Timestamp", of(Timestamp)))
    value = Timestamp(seconds=1_700_000_000, nanos=5)
    assert decode_native(kind, value.SerializeToString()) == "2023-11-14T22:13:20.000000005Z"


def chain(order: list[int]) -> list[FileDescriptorProto]:
    files = []
    for number in range(3):
        file = FileDescriptorProto(name=f"f{number}.proto", package="t")
        field = file.message_type.add(name=f"M{number}").field.add(name="x", number=1, label=1, type=5)
        if number < 2:
            file.dependency.append(f"f{number + 1}.proto")
            field.type, field.type_name = 11, f".t.M{number + 1}"
        files.append(file)
    return [files[index] for index in order]


@given(st.permutations([0, 1, 2]))
def test_files_in_any_order(order: list[int]) -> None:
    kind = parsed(schema("t.M0", *chain(order)))
    assert decode_native(kind, b"\x0a\x04\x0a\x02\x08\x05") == {"x": {"x": {"x": 5}}}


def test_two_schemas_with_one_name_are_separate() -> None:
    kinds = []
    for name in ("old", "new"):
        file = FileDescriptorProto(name="same.proto")
        file.message_type.add(name="M").field.add(name=name, number=1, label=1, type=9)
        kinds.append(parsed(schema("M", file)))
    assert [decode_native(kind, b"\x0a\x01x") for kind in kinds] == [{"old": "x"}, {"new": "x"}]


def test_files_that_import_each_other() -> None:
    one = FileDescriptorProto(name="one.proto", dependency=["two.proto"])
    two = FileDescriptorProto(name="two.proto", dependency=["one.proto"])
    problem = parse_native(schema("M", one, two))
    assert isinstance(problem, Problem)
    assert "descriptors define no message" in problem.detail


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no json", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "not a set of descriptors"),
        (b'{"fileDescriptorSet": "!"}', "not a set of descriptors"),
        (b'{"fileDescriptorSet": "////"}', "not a set of descriptors"),
        (b'{"fileDescriptorSet": "", "rootMessageTypeName": "M"}', "descriptors define no message"),
        (schema("t.Missing", *chain([0, 1, 2])), "descriptors define no message"),
        (schema("t.M0", *chain([0])), "descriptors define no message"),
    ],
)
def test_problems_of_schemas(data: bytes, said: str) -> None:
    problem = parse_native(data)
    assert isinstance(problem, Problem)
    assert problem.kind == "schema"
    assert said in problem.detail


def test_deep_descriptors_and_deep_values() -> None:
    file = FileDescriptorProto(name="deep.proto")
    message = file.message_type.add(name="M")
    message.field.add(name="m", number=1, label=1, type=11, type_name=".M")
    for _ in range(95):
        message = message.nested_type.add(name="N")
    kind = parsed(schema("M", file))
    value = b""
    for _ in range(90):
        value = b"\x0a" + _varint(len(value)) + value
    shown = decode_native(kind, value)
    for _ in range(90):
        assert isinstance(shown, dict)
        shown = shown["m"]
    assert shown == {}
    for _ in range(5000):
        value = b"\x0a" + _varint(len(value)) + value
    assert isinstance(decode_native(kind, value), Problem)


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


@given(st.binary(max_size=80))
def test_any_bytes_give_a_json_value_or_a_problem(data: bytes) -> None:
    kind = parsed(schema("google.protobuf.Struct", of(Struct)))
    value = decode_native(kind, data)
    if not isinstance(value, Problem):
        json.dumps(value, allow_nan=False)


@given(st.data())
def test_any_descriptors_give_a_class_or_a_problem(data: st.DataObject) -> None:
    good = bytearray(FileDescriptorSet(file=chain([0, 1, 2])).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    text = {"fileDescriptorSet": base64.b64encode(good).decode(), "rootMessageTypeName": "t.M0"}
    kind = parse_native(json.dumps(text).encode())
    if not isinstance(kind, Problem):
        decode_native(kind, b"\x0a\x04\x0a\x02\x08\x05")
