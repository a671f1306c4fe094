"""Messages with many layouts read field by field, compared with the object path."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.observe.tracking.entry_metadata import pull_fields
from pcli.codec.wire.hot import push_varint
from pcli.spark.columnar.fields.protobuf_scan import Plan, scan

PLAN = Plan((1, 16, 300), (2, 2047))


def one_field(draw: random.Random) -> bytes:
    number = draw.choice([1, 2, 3, 15, 16, 300, 2047, 2048, 10**6])
    wire = draw.choice([0, 2]) if draw.random() < 0.9 else draw.choice([1, 3, 5])
    if draw.random() < 0.7:
        wire = 2 if number in PLAN.texts else 0
    tag = push_varint(number << 3 | wire)
    if wire == 2:
        size = draw.choice([0, 1, 5, 200])
        return tag + push_varint(size) + draw.randbytes(size)
    if draw.random() < 0.05:
        return tag + draw.choice([b"\x80\x00", b"\xff" * 10, b"\xff" * 9 + b"\x01", b"\x80" * 8 + b"\x01"])
    return tag + push_varint(draw.choice([0, 127, 128, 2**14, 2**21, 2**28, 2**35, 2**49, 2**56 - 1]))


def one_message(draw: random.Random) -> bytes:
    data = b"".join(one_field(draw) for _ in range(draw.randrange(6)))
    return data if draw.random() < 0.95 else data[: draw.randrange(len(data) + 1)]


def run(messages: list[bytes]):
    data = np.frombuffer(b"\x01".join(messages) + b"\x01", np.uint8)
    sizes = np.array([len(one) for one in messages], np.int64)
    starts = np.cumsum(sizes + 1) - sizes - 1
    return data, starts, *scan(data, starts, starts + sizes, PLAN)


def judge(data, message: bytes, found) -> None:
    """The columns of one message."""
    wanted = pull_fields(message, 0, len(message))
    for place, number in enumerate(PLAN.numbers):
        assert found[place] == wanted.get(number, -1)
    for place, number in enumerate(PLAN.texts):
        start, end = found[len(PLAN.numbers) + 2 * place : len(PLAN.numbers) + 2 * place + 2]
        assert (None if start < 0 else data[start:end].tobytes()) == wanted.get(number)


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.sampled_from([1, 8, 9, 60]))
def test_the_read_values_equal_protobuf(seed, rows):
    draw = random.Random(seed)
    messages = [one_message(draw) for _ in range(rows)]
    data, _, found, good = run(messages)
    for row, message in enumerate(messages):
        if good[row]:
            judge(data, message, found[:, row].tolist())


ODD = [
    b"\x0a\x01a", b"\x10\x05", b"\x09" + bytes(8), b"\x0d" + bytes(4), b"\x08" + b"\x80" * 8 + b"\x01",
    push_varint(2048 << 3) + b"\x01", b"\x12\x05abcd", b"\x08", b"\x0b\x0c",
]  # fmt: skip
"""A field with an unexpected wire type, numbers of fixed size, too long a number or tag, a truncated message, a
group."""


@pytest.mark.parametrize("odd", ODD)
def test_only_unusual_messages_are_refused(odd):
    plain = b"\x08\x96\x01\x12\x03abc" + push_varint(2047 << 3 | 2) + b"\x01x" + push_varint(300 << 3) + b"\x07\x18\x01"
    messages = [plain + odd if row == 5 else plain * (row % 3) for row in range(40)]
    data, _, found, good = run(messages)
    assert good.tolist() == [row != 5 for row in range(40)]
    for row, message in enumerate(messages):
        if row != 5:
            judge(data, message, found[:, row].tolist())
