"""Bytes of rows, against slices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.bulk.pieces import pieces_of

DATA = "abc, déf \N{EURO SIGN}".encode() + b"\xff\xfe" + bytes(range(64, 100))
PLACES = st.lists(st.one_of(st.just((-1, -1)), st.tuples(st.integers(0, len(DATA)), st.integers(0, 12))), max_size=20)


def wanted(places) -> list[bytes | None]:
    return [None if start < 0 else DATA[start : start + size] for start, size in places]


def run(function, places):
    starts = np.array([start for start, _ in places], np.int64)
    ends = np.array([min(start + size, len(DATA)) for start, size in places], np.int64)
    return function(np.frombuffer(DATA, np.uint8), starts, ends)


@given(PLACES)
def test_pieces(places):
    assert run(pieces_of, places).to_pylist() == wanted(places)


@pytest.mark.parametrize("places", [[(0, 3), (3, 2), (20, 4)], [(20, 4), (-1, -1), (0, 3)], [(0, 5), (2, 5)], []])
def test_in_order_in_disorder_and_over_each_other(places):
    found = run(pieces_of, places)
    assert found.to_pylist() == wanted(places)
    found.validate(full=True)


def test_bytes_behind_the_places_of_32_bits():
    """The pool of a window may be that long; pages of zeros cost no memory."""
    data = np.zeros((1 << 31) + 10, np.uint8)
    data[-10:] = np.arange(10)
    ends = np.array([2, -1, len(data), len(data) - 7])
    starts = np.array([0, -1, len(data) - 2, len(data) - 9])
    assert pieces_of(data, starts, ends).to_pylist() == [b"\0\0", None, b"\x08\x09", b"\1\2"]
