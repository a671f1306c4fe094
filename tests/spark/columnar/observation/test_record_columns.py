"""Cells of rows: a value that does not fit its column is null, all others are unchanged."""

from types import SimpleNamespace

from pcli.spark.columnar.observation.record_columns import cell, rows_of
from pcli.spark.columnar.table_schema import BOOL, INT, LONG


def test_numbers_that_do_not_fit_are_null():
    """publish_time is a uint64 and num_messages_in_batch an int32; a peer can send any value."""
    cells = [
        cell("skew", LONG, "a long", lambda one: one.value),
        cell("batch", INT, "an int", lambda one: one.value),
        cell("there", BOOL, "a flag", lambda one: one.value is not None),
    ]
    values = [None, 0, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -(2**63) - 1]
    rows = rows_of(cells, [SimpleNamespace(value=value) for value in values], "c").to_pydict()
    assert rows["skew"] == [None, 0, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, None, None]
    assert rows["batch"] == [None, 0, -1, 2**31 - 1, None, -(2**31), None, None, None, None]
    assert rows["there"] == [False] + [True] * 9
