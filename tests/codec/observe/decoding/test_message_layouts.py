"""A message with a layout has the values that the decoder finds, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.observe.decoding.decode_plans import Plan, command_plan, part_plan
from pcli.codec.observe.decoding.message_decoder import walk
from pcli.codec.observe.decoding.message_layouts import MAX_KEPT, MAX_LAYOUTS, layout_of
from pcli.codec.observe.decoding.value_kinds import NotText, UnknownName
from pcli.codec.proto import pb
from tests.codec.observe.decoding.test_message_decoder import commands, same


def values_by_layout(plan, data):
    layout = layout_of(plan, data, 0, len(data))
    if layout is None:
        return None
    found = {}
    layout.put(data, 0, found)
    return found


def leaves(value):
    if isinstance(value, (list, dict)):
        yield from (leaf for one in (value.values() if isinstance(value, dict) else value) for leaf in leaves(one))
    else:
        yield value


def compare(plan, data):
    by_layout = values_by_layout(plan, data)
    decoded = {}
    whole = walk(data, 0, len(data), plan, decoded)
    if by_layout is not None:
        assert whole
        assert same(by_layout, decoded)
        assert list(by_layout) == list(decoded)
        assert not any("unknown." in key for key in by_layout)
        assert not any(type(leaf) in (NotText, UnknownName) for leaf in leaves(by_layout))
    return by_layout


@given(commands(), st.data())
@settings(max_examples=300)
def test_values_by_layout_equal_the_decoders_for_commands_and_their_mutations(command, data):
    packed = command.SerializePartialToString()
    plan = command_plan(command.type)
    compare(plan, packed)
    layout = layout_of(plan, packed, 0, len(packed))
    if layout is not None:
        assert layout.complete is command.IsInitialized()
    for _ in range(8):
        mutated = bytearray(packed)
        mutated[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
        compare(plan, bytes(mutated))
        # a number in more bytes than necessary
        at, more = data.draw(st.integers(0, len(packed) - 1)), data.draw(st.integers(0, 9))
        longer = bytes((packed[at] | 0x80, *[0x80] * more, 0))
        compare(plan, packed[:at] + longer + packed[at + 1 :])


METADATA = pb.MessageMetadata(producer_name="standalone-0-1", sequence_id=7, publish_time=1_795_000_000_000)


def test_messages_that_differ_in_numbers_and_ascii_text_share_a_layout():
    plan = part_plan("metadata")
    layouts = []
    for number, key in ((7, "order-1"), (9, "order-2")):
        metadata = pb.MessageMetadata(partition_key=key)
        metadata.MergeFrom(METADATA)
        metadata.sequence_id = number
        data = metadata.SerializeToString()
        layouts.append(layout_of(plan, data, 0, len(data)))
        assert values_by_layout(plan, data)["pulsar.metadata.partition_key"] == key
        assert values_by_layout(plan, data)["pulsar.metadata.publish_time"] == 1_795_000_000_000_000_000
    assert layouts[0] is layouts[1]
    assert layouts[0].complete


@pytest.mark.parametrize("extra", [b"\xa0\x06\x05", b"\x40\x09", b"\x32\x02\xff\x41", b"\x10", b"\xfa\x01\x02\x03\x04"],
                         ids=["unknown field", "unknown enum value", "not UTF-8", "cut", "packed"])  # fmt: skip
def test_an_unusual_message_has_no_layout(extra):
    data = METADATA.SerializeToString() + extra
    assert layout_of(part_plan("metadata"), data, 0, len(data)) is None


@pytest.mark.parametrize("start", [b"\x8a\x80\x80\x80\x80\x00", b"\x0a\x8e\x80\x80\x80\x80\x00"], ids=["tag", "length"])
def test_a_message_that_only_protobuf_rejects_has_no_layout(start):
    """A tag or a length in six bytes: the decoder reads it, protobuf does not."""
    data = start + METADATA.SerializeToString()[1 if len(start) == 6 else 2 :]
    found = {}
    assert walk(data, 0, len(data), part_plan("metadata"), found)
    assert layout_of(part_plan("metadata"), data, 0, len(data)) is None


def test_a_message_without_a_required_field_is_not_complete():
    data = pb.MessageMetadata(producer_name="a").SerializePartialToString()
    assert not layout_of(part_plan("metadata"), data, 0, len(data)).complete


def own_plan():
    """Return a plan of the metadata without known layouts."""
    plan = Plan(pb.MessageMetadata.DESCRIPTOR, "pulsar.metadata.")
    plan.slots = part_plan("metadata").slots
    return plan


def layouts_of(plan, names):
    for name in names:
        data = pb.MessageMetadata(producer_name=name).SerializePartialToString()
        layout_of(plan, data, 0, len(data))
    return [len(layouts) for layouts in plan.layouts.of_size.values()]


def test_the_number_of_layouts_is_bounded():
    plan = own_plan()
    # a string with other characters than ASCII is a part of the layout
    names = ("".join("éè"[count >> bit & 1] for bit in range(11)) for count in range(2000))
    assert layouts_of(plan, names) == [MAX_LAYOUTS]
    assert plan.layouts.credit < 64
    for _ in range(100):
        kept = layouts_of(plan, ("x" * size for size in range(400)))
        assert sum(kept) <= MAX_KEPT
