"""A layout matches exactly the messages with its structure."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.hot import push_ack, push_message, push_send_receipt
from pcli.spark.columnar.fields.byte_matrix import gather
from pcli.spark.columnar.fields.command_layouts import command_layout, id_layout
from pcli.spark.columnar.fields.message_layouts import UnsupportedLayoutError
from pcli.spark.columnar.fields.metadata_layouts import metadata_layout

U64 = 2**64 - 1
COMMANDS = [
    push_ack(300, 0, [(7, 2**35, -1, 4), (300, 1, 2, -1)], 5)[8:],
    push_send_receipt(0, 200, 2**63, U64, U64)[8:],
    push_message(1, 300, 16, -1, 3, b"")[8:],
]
METADATA = pb.MessageMetadata(
    producer_name="name", sequence_id=2**62, publish_time=10**12, partition_key="k", partition_key_b64_encoded=True
).SerializeToString()


def spots(found) -> tuple:
    """Return the properties of a layout without its bits."""
    if hasattr(found, "texts"):
        return found.numbers, found.texts, found.key_kind
    return found.numbers, found.words, found.ids


def is_like(shape_of, data: bytes, shape) -> bool:
    """Return whether the spots of a message are those of the layout."""
    try:
        return spots(shape_of(data)) == spots(shape)
    except UnsupportedLayoutError:
        return False


@settings(max_examples=400)
@given(st.sampled_from([*COMMANDS, METADATA]), st.integers(0, 2**32))
def test_a_layout_fits_only_messages_with_the_same_structure(data, seed):
    draw = random.Random(seed)
    shape_of = metadata_layout if data is METADATA else command_layout
    other = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(other))
        other[at] = draw.choice([other[at] ^ 128, draw.randrange(256), data[draw.randrange(len(data))], 2])
    shape = shape_of(data)
    matrix = gather(np.frombuffer(bytes(other) + b"tail", np.uint8), np.zeros(1, np.int64), len(data))
    fits = bool(shape.shape.fits(matrix)[0])
    assert fits == shape.shape.has(bytes(other))
    if fits:
        assert is_like(shape_of, bytes(other), shape)


def test_a_varint_that_does_not_end_has_no_shape():
    data = push_send_receipt(0, 200, 1, 1, 5)[8:]
    shape = command_layout(data)
    assert shape.shape.has(data[:-1] + b"\x06")
    assert not shape.shape.has(data[:-1] + b"\x86")


def test_a_number_of_more_than_64_bits_has_no_shape():
    data = push_send_receipt(0, 200, 1, 1, U64)[8:]
    shape = command_layout(data)
    assert shape.shape.has(data[:-1] + b"\x00")
    assert not shape.shape.has(data[:-1] + b"\x02")


def test_minus_one_in_ten_bytes_is_not_another_number_of_ten_bytes():
    data = push_ack(1, 0, [])[8:] + b"\x1a\x0f\x08\x01\x10\x01\x18" + b"\xff" * 9 + b"\x01"
    data = data[:3] + bytes([len(data) - 4]) + data[4:]
    shape = command_layout(data)
    assert not shape.shape.has(data[:-2] + b"\xfe\x01")


@pytest.mark.parametrize("data", [b"", b"\x08", b"\x08\x01", b"\x08\x01\x10", b"\x08\x01\x08\x02\x10\x03", b"\x30\x01"])
def test_ids_that_lack_something_or_have_something_else(data):
    with pytest.raises(UnsupportedLayoutError):
        id_layout(data)


@pytest.mark.parametrize(
    "data", [b"\x09" + bytes(8), b"\x10\x01\x10\x01", b"\x0a\x05abc", b"\x12\x01a", b"\x18" + b"\xff" * 9 + b"\x01"]
)
def test_metadata_that_has_no_shape(data):
    with pytest.raises(UnsupportedLayoutError):
        metadata_layout(data)
