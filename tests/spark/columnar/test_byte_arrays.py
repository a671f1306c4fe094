"""Bytes of rows, compared with slices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.spark.columnar.byte_arrays import binary_array


@given(st.data())
def test_ranges_of_bytes(sliced, data):
    places = data.draw(sliced.places)
    assert sliced.run(binary_array, places).to_pylist() == sliced.wanted(places)


@pytest.mark.parametrize("places", [[(0, 3), (3, 2), (20, 4)], [(20, 4), (-1, -1), (0, 3)], [(0, 5), (2, 5)], []])
def test_in_order_in_disorder_and_over_each_other(sliced, places):
    found = sliced.run(binary_array, places)
    assert found.to_pylist() == sliced.wanted(places)
    found.validate(full=True)


def test_offsets_above_32_bits():
    """The pool of a window can be this long; pages of zeros use no memory."""
    data = np.zeros((1 << 31) + 10, np.uint8)
    data[-10:] = np.arange(10)
    ends = np.array([2, -1, len(data), len(data) - 7])
    starts = np.array([0, -1, len(data) - 2, len(data) - 9])
    assert binary_array(data, starts, ends).to_pylist() == [b"\0\0", None, b"\x08\x09", b"\1\2"]
