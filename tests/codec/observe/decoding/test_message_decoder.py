"""The decoder finds the same values as the protobuf library in any message."""

from __future__ import annotations

import math

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.observe.decoding.decode_plans import command_plan, part_plan
from pcli.codec.observe.decoding.message_decoder import walk
from pcli.codec.observe.decoding.value_kinds import kind_of
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS

SCALARS = {
    FieldDescriptor.TYPE_STRING: st.text(max_size=8),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1) | st.just(2**64 - 1),
    FieldDescriptor.TYPE_DOUBLE: st.floats(),
}


def scalars(field):
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    return SCALARS[field.type]


@st.composite
def filled(draw, message, above=()):
    """Return a message of this class with random fields, nested in itself at most once, as the plans allow."""
    for field in message.DESCRIPTOR.fields:
        many = draw(st.integers(0, 2)) if field.is_repeated else draw(st.booleans())
        for _ in range(many):
            if field.message_type is None:
                value = draw(scalars(field))
                if field.is_repeated:
                    getattr(message, field.name).append(value)
                else:
                    setattr(message, field.name, value)
            elif (*above, message.DESCRIPTOR).count(field.message_type) < 2:
                inner = getattr(message, field.name)
                inner = inner.add() if field.is_repeated else inner
                inner.SetInParent()
                draw(filled(inner, (*above, message.DESCRIPTOR)))
    return message


@st.composite
def commands(draw):
    """Return a BaseCommand of a random type with random fields."""
    number = draw(st.sampled_from(sorted(COMMANDS)))
    command = pb.BaseCommand(type=number)
    body = getattr(command, COMMANDS[number].field)
    body.SetInParent()
    draw(filled(body, (pb.BaseCommand.DESCRIPTOR,)))
    return command


def raw(field, value):
    """Convert a protobuf value to the raw form of value_kinds.py."""
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if field.type == FieldDescriptor.TYPE_UINT64 and value == 2**64 - 1:
        value = -1
    return value * 1_000_000 if kind_of(field) == "time" else value


def plain(message, prefix):
    """Return what the library finds, under the keys of the plans."""
    out = {}
    for field, value in message.ListFields():
        key = prefix + field.name
        if field.message_type is None:
            out[key] = [raw(field, one) for one in value] if field.is_repeated else raw(field, value)
        elif field.is_repeated:
            out[key] = [plain(one, "") for one in value]
        else:
            out.update(plain(value, f"{key}.") or {key: {}})
    return out


def same(one, two):
    if isinstance(one, dict):
        return isinstance(two, dict) and one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return isinstance(two, list) and len(one) == len(two) and all(map(same, one, two))
    return one == two or (isinstance(one, float) and math.isnan(one) and math.isnan(two))


@given(commands())
@settings(max_examples=300)
def test_a_decoded_command_equals_protobufs(command):
    packed = command.SerializePartialToString()
    found = {}
    assert walk(packed, 0, len(packed), command_plan(command.type), found)
    command.ClearField("type")
    assert same(found, plain(command, "pulsar."))


@given(filled(pb.MessageMetadata()))
@settings(max_examples=100)
def test_decoded_metadata_equal_protobufs(metadata):
    packed = metadata.SerializePartialToString()
    found = {}
    assert walk(packed, 0, len(packed), part_plan("metadata"), found)
    assert same(found, plain(metadata, "pulsar.metadata."))
    metadata.Clear()


def _walked(message, plan):
    found = {}
    return walk(message, 0, len(message), plan, found), found


@pytest.mark.parametrize(
    ("packed", "found"),
    [
        (b"\x10\x01\x10\x02", {"pulsar.metadata.sequence_id": 2}),
        (b"\xfa\x01\x02\x03\x04", {"pulsar.metadata.compacted_batch_indexes": [3, 4]}),
        (b"\xf8\x01\x03\xfa\x01\x01\x04", {"pulsar.metadata.compacted_batch_indexes": [3, 4]}),
        (b"\x40\x09", {"pulsar.metadata.compression": "UNKNOWN_9"}),
        (b"\x40\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", {"pulsar.metadata.compression": "UNKNOWN_-1"}),
        (b"\x0a\x02\xff\x41", {"pulsar.metadata.producer_name": "\\xffA"}),
        (b"\x08\x05", {"pulsar.metadata.unknown.1": [5]}),
        (b"\xa0\x06\x05\xa2\x06\x01a", {"pulsar.metadata.unknown.100": [5, b"a"]}),
        (b"\xa1\x06\x01\0\0\0\0\0\0\0\xa5\x06\x02\0\0\0", {"pulsar.metadata.unknown.100": [1, 2]}),
        (b"\xa3\x06\x08\x01\xa4\x06\x10\x07", {"pulsar.metadata.unknown.100": [b"\x08\x01\xa4\x06"],
                                                "pulsar.metadata.sequence_id": 7}),
    ],
)  # fmt: skip
def test_repeated_and_merged_fields_follow_protobuf(packed, found):
    assert _walked(packed, part_plan("metadata")) == (True, found)


def test_unknown_fields_equal_those_of_the_library():
    packed = b"\x10\x01\xa0\x06\x05\xa2\x06\x01a\xa0\x06\x06"
    kept = UnknownFieldSet(pb.MessageMetadata.FromString(packed))
    _, found = _walked(packed, part_plan("metadata"))
    assert [one.data for one in kept] == found["pulsar.metadata.unknown.100"]


def test_another_body_in_the_same_frame_is_unknown():
    command = pb.BaseCommand(type=pb.BaseCommand.PING, flow=pb.CommandFlow(consumer_id=1, messagePermits=2))
    command.ping.SetInParent()
    packed = command.SerializeToString()
    assert _walked(packed, command_plan(18)) == (True, {"pulsar.ping": {}, "pulsar.unknown.11": [b"\x08\x01\x10\x02"]})


def test_recursive_messages_end_as_bytes():
    deep = pb.MessageIdData(ledgerId=9, entryId=9)
    for level in range(50):
        deep = pb.MessageIdData(ledgerId=level, entryId=0, first_chunk_message_id=deep)
    packed = pb.BaseCommand(type=9, message=pb.CommandMessage(consumer_id=1, message_id=deep)).SerializeToString()
    done, found = _walked(packed, command_plan(9))
    assert done
    assert found["pulsar.message.message_id.first_chunk_message_id.ledgerId"] == 48
    assert len(found["pulsar.message.message_id.first_chunk_message_id.unknown.7"][0]) > 200
    assert len(found) == 6


@pytest.mark.parametrize("packed", [b"\x00\x01", b"\x0f", b"\x10", b"\x10\xff", b"\x0a\x05ab", b"\xa3\x06\x08\x01",
                                    b"\x0b\x0c\xff", b"\x10" + b"\xff" * 10 + b"\x01", b"\x0c"])  # fmt: skip
def test_invalid_protobuf_ends_decoding_and_keeps_earlier_fields(packed):
    whole = b"\x18\x07" + packed
    assert _walked(whole, part_plan("metadata"))[0] is False
    assert _walked(whole, part_plan("metadata"))[1]["pulsar.metadata.publish_time"] == 7_000_000


@given(st.binary(max_size=60), st.sampled_from(sorted(COMMANDS)))
@settings(max_examples=500)
def test_no_bytes_raise_and_none_are_read_after_the_end(data, number):
    one, two = {}, {}
    done = walk(data + b"\x08\x01\xff", 0, len(data), command_plan(number), one)
    assert walk(data, 0, len(data), command_plan(number), two) is done
    assert one == two


def test_a_truncated_message_is_decoded_up_to_its_end():
    """A FLOW whose body declares nine bytes, of which two are captured. The bytes after them are another frame's."""
    command = b"\x08\x0b\x5a\x09\x08\x01"
    for behind in (b"", b"\x10\x07\x10\x07\x10\x07\x10"):
        found = {}
        assert walk(command + behind, 0, len(command), command_plan(11), found) is False
        assert found == {"pulsar.flow.consumer_id": 1}


def test_nested_groups_are_limited():
    assert _walked(b"\xa3\x06" * 5000, part_plan("metadata")) == (False, {})
