"""Numbers from matrices, compared with the encoder of the wire format."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.wire.hot import push_varint
from pcli.spark.columnar.fields.byte_matrix import gather, pull_u16, pull_u32, pull_varint


@pytest.mark.parametrize("size", range(1, 11))
@given(data=st.data())
def test_varints_of_every_length(size, data):
    least, most = (1 << 7 * (size - 1)) * (size > 1), min((1 << 7 * size) - 1, 2**64 - 1)
    values = data.draw(st.lists(st.integers(least, most), min_size=1, max_size=9))
    pieces = [b"\xffz" + push_varint(value) for value in values]
    starts = np.arange(len(pieces), dtype=np.int64) * (size + 2)
    matrix = gather(np.frombuffer(b"".join(pieces), np.uint8), starts, size + 2)
    assert [int(one) & (2**64 - 1) for one in pull_varint(matrix, 2, size)] == values


@pytest.mark.parametrize("width", [1, 8, 24, 200])
@pytest.mark.parametrize("length", [0, 1, 30, 300])
def test_bytes_after_the_end_are_zero(width, length):
    data = np.arange(1, length + 1, dtype=np.int64).astype(np.uint8)
    starts = np.arange(length + 1, dtype=np.int64)
    matrix = gather(data, starts, width)
    padded = data.tobytes() + bytes(400)
    for start in starts.tolist():
        assert matrix[start, :width].tobytes() == padded[start : start + width]


def test_numbers_of_the_frame_are_big_endian():
    matrix = gather(np.frombuffer(b"\x00\x01\x02\x03\x0e\x01", np.uint8), np.array([0, 2]), 6)
    assert pull_u32(matrix, 0).tolist() == [0x10203, 0x02030E01]
    assert pull_u16(matrix, 2).tolist() == [0x203, 0x0E01]


def test_no_rows():
    matrix = gather(np.zeros(5, np.uint8), np.zeros(0, np.int64), 6)
    assert len(pull_u32(matrix, 0)) == len(pull_varint(matrix, 1, 3)) == 0
