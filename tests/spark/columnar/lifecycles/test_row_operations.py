"""Keys, orders and bytes, compared with simple implementations."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pcli.spark.columnar.lifecycles.row_operations import (
    ENTRY_BLOCK,
    dense,
    group_starts,
    joint_key,
    order_of,
    ranked,
    shuffle_key,
)

LONGS = st.one_of(st.integers(0, 5), st.integers(-(1 << 63), (1 << 63) - 1))
ROWS = st.lists(st.tuples(LONGS, LONGS, LONGS), max_size=30)


def columns(rows):
    return [np.array([row[at] for row in rows], np.int64) for at in range(3)]


@given(ROWS)
def test_a_joint_key_is_as_good_as_its_columns(rows):
    key = joint_key(columns(rows)).tolist()
    assert all((a < b) == (x < y) for a, x in zip(rows, key, strict=True) for b, y in zip(rows, key, strict=True))
    assert all(one >= 0 for one in key)


@given(st.lists(LONGS, max_size=40))
def test_ranks_are_places_among_the_different(values):
    found, place = ranked(np.array(values, np.int64))
    assert found.tolist() == sorted(set(values))
    assert found[place].tolist() == values


@given(st.lists(st.integers(0, 1 << 62), max_size=40), st.booleans())
def test_an_order_is_stable(values, small):
    key = np.array([one % 7 if small else one for one in values], np.int64)
    assert order_of(key).tolist() == sorted(range(len(key)), key=lambda at: key[at])


@given(st.lists(st.integers(-3, 3)))
def test_dense_numbers_and_edges(values):
    codes, count = dense(np.array(values, np.int64))
    names = sorted(set(values))
    assert codes.tolist() == [names.index(one) for one in values]
    assert count == len(names)
    some = np.sort(np.array(values, np.int64))
    assert int(group_starts(some).sum()) == count


def test_rows_of_a_message_share_their_place():
    def place(ledger, entry, sequence):
        return int(shuffle_key(*(np.array([one], np.int64) for one in (ledger, entry, sequence)))[0])

    assert place(5, 6, 1) == place(5, 6, 99)
    assert place(0, 0, 8) == place(-1, -1, 8) != place(0, 0, 9)
    blocks = [place(5, entry, 0) for entry in range(0, 100 * ENTRY_BLOCK, ENTRY_BLOCK)]
    assert {place(5, entry, 0) for entry in range(0, ENTRY_BLOCK, 1000)} == {blocks[0]}
    assert {one % 8 for one in blocks} == set(range(8))
