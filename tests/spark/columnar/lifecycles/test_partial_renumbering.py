"""Replacement of a split's numbers by those of the recording."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pcli.spark.columnar.lifecycles.partial_renumbering import Renumbering, renumber_table
from pcli.spark.columnar.lifecycles.partial_tables import PARTIALS
from pcli.spark.columnar.lifecycles.row_operations import Intervals


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=40))
def test_valid_frames_have_the_numbers_of_the_recording(steps):
    numbers, last = [], 0
    for step, stands in steps:
        last += 1 + step
        numbers.append(last if stands else -1)
    shift = Renumbering.of(np.zeros(1, np.int64), np.array(numbers, np.int64))
    for own, number in enumerate(numbers, 1):
        if number >= 0:
            assert int(shift.numbers(np.array([own]))[0]) == number
    assert shift.numbers(np.array([-1])).tolist() == [-1]


def test_rows_of_dropped_connections_go():
    row = dict.fromkeys(PARTIALS["answered"].names, 1)
    table = PARTIALS["answered"].empty_table().from_pylist([row, row | {"stream": 0}], PARTIALS["answered"])
    shift = Renumbering(np.array([-1, 9]), np.array([0]), np.array([100]))
    (kept,) = renumber_table("answered", table, shift).to_pylist()
    assert kept == row | {"stream": 9, "asked_number": 101, "answered_number": 101}


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 2, st.integers(0, 9)), unique=True, max_size=12), st.data())
def test_the_row_that_holds_is_the_last_one_of_the_same(rows, data):
    asked = data.draw(st.lists(st.tuples(*[st.integers(0, 3)] * 2, st.integers(0, 12)), min_size=1, max_size=12))
    columns = [np.array([row[at] for row in rows], np.int64) for at in range(3)]
    found = Intervals(*columns).find(*(np.array(one, np.int64) for one in zip(*asked, strict=True)))
    for (stream, owner, number), at in zip(asked, found.tolist(), strict=True):
        fitting = [row for row in rows if row[:2] == (stream, owner) and row[2] <= number]
        assert (rows[at] if at >= 0 else None) == max(fitting, default=None)
