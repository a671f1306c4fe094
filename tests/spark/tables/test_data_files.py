"""Data files of tables: sorted rows, one file for each cluster and day, and the statistics of a Delta table."""

import json
import pickle
from datetime import date

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, create_table_with_add_actions
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.spark.columnar.table_schema import LONG, TEXT, column, record
from pcli.spark.tables.catalog import DAY, Table
from pcli.spark.tables.data_files import Staging, statistics_of, write_rows
from pcli.spark.tables.table_store import open_store

DAY_NS = 86_400_000_000_000
PLAIN = pa.schema([column("cluster", TEXT, "label"), column("first_ns", LONG, "when"), column("id", LONG, "which")])
NOTES = Table("notes", "a note", PLAIN, ("first_ns", "id"))
EVENTS = Table("events", "an event", PLAIN.append(column(DAY, pa.date32(), "day")), ("first_ns", "id"), "first_ns")


@pytest.fixture
def staging(tmp_path):
    return Staging(open_store(str(tmp_path)), "r1")


def rows(*values):
    return pa.Table.from_pylist([dict(zip(PLAIN.names, value)) for value in values], schema=PLAIN)


def read(staging, file):
    return pq.read_table(staging.store.path(f"{file.table}/{file.path}"), partitioning=None)


def test_rows_are_sorted(staging):
    [made] = write_rows(
        staging, NOTES, 7, rows(("b", 1, 3), ("a", 5, 2), ("a", 5, 1)).select(["id", "cluster", "first_ns"])
    )
    table = read(staging, made)
    assert table["id"].to_pylist() == [3, 1, 2]
    assert table.schema.equals(PLAIN)
    assert (made.rows, made.partition) == (3, {})
    assert made.bytes == (staging.store.files.get_file_info(staging.store.path(f"notes/{made.path}"))).size
    assert made.path.startswith("r1/00007-")


def test_no_rows_are_no_file(staging):
    assert write_rows(staging, NOTES, 0, rows()) == []
    assert staging.store.list(deep=True) == []


def test_a_task_that_runs_twice_writes_two_files(staging):
    names = {write_rows(staging, NOTES, 0, rows(("a", 5, 1)))[0].path for _ in range(2)}
    assert len(names) == 2


def test_the_staging_can_be_pickled(staging):
    there = pickle.loads(pickle.dumps((staging, NOTES)))
    [made] = pickle.loads(pickle.dumps(write_rows(*there, 0, rows(("a", 5, 1)))))
    assert read(staging, made).num_rows == 1


def test_one_file_for_each_cluster_and_day(staging):
    events = rows(("a", 5, 1), ("a", DAY_NS, 2), ("b/c=d", 5, 3), ("a", 6, 4), ("a", DAY_NS - 1, 5), ("a", -1, 6))
    made = write_rows(staging, EVENTS, 2, events)
    assert [(file.partition["cluster"], file.partition[DAY], file.rows) for file in made] == [
        ("a", "1969-12-31", 1),
        ("a", "1970-01-01", 3),
        ("a", "1970-01-02", 1),
        ("b/c=d", "1970-01-01", 1),
    ]
    assert read(staging, made[1]).to_pylist()[0] == {"cluster": "a", "first_ns": 5, "id": 1, DAY: date(1970, 1, 1)}


def test_a_missing_column_is_our_own_mistake(staging):
    with pytest.raises(KeyError):
        write_rows(staging, NOTES, 0, rows(("a", 5, 1)).drop_columns(["id"]))


def test_a_full_disk_is_reported_in_one_line(staging, monkeypatch, full_later):
    monkeypatch.setattr(type(staging.store), "create", lambda self, name: pa.PythonFile(full_later(10), "w"))
    with pytest.raises(LocalError, match=r"\.parquet: no space left; existing tables are unchanged"):
        write_rows(staging, NOTES, 0, rows(("a", 5, 1)))


VALUES = pa.schema([
    ("text", TEXT), ("number", LONG), ("ratio", pa.float64()), ("flag", pa.bool_()), ("raw", pa.binary()),
    ("inner", record(column("x", LONG, "x"))), ("list", pa.list_(LONG)),
])  # fmt: skip


def statistics(values, tmp_path, row_group_size=2):
    collected = []
    table = pa.Table.from_pylist(values, schema=VALUES)
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=row_group_size, metadata_collector=collected)
    return statistics_of(collected[0])


def test_statistics_have_the_form_of_the_delta_protocol(tmp_path):
    values = [
        {"text": f"t{n}", "number": n, "ratio": n / 2, "flag": True, "inner": {"x": -n}, "list": [n]} for n in range(5)
    ]
    found = statistics([*values, {"text": None, "inner": None}], tmp_path)
    assert found == {
        "numRecords": 6,
        "minValues": {"text": "t0", "number": 0, "ratio": 0.0, "inner": {"x": -4}},
        "maxValues": {"text": "t4", "number": 4, "ratio": 2.0, "inner": {"x": 0}},
        "nullCount": {"text": 1, "number": 1, "ratio": 1, "flag": 1, "raw": 6, "inner": {"x": 1}},
    }
    json.dumps(found, allow_nan=False)


def test_a_column_of_nulls_and_a_ratio_that_is_no_number_have_no_bounds(tmp_path):
    found = statistics([{"ratio": float("nan")}, {"ratio": float("inf")}, {"ratio": 1.0}], tmp_path)
    assert found["minValues"] == found["maxValues"] == {"inner": {}}
    assert found["nullCount"]["number"] == 3


def test_rows_whose_struct_is_null_are_found(tmp_path):
    """delta-rs passes the statistics to pyarrow, which skips files by them."""
    rows = pa.Table.from_pylist([{"text": "a", "inner": None}], schema=VALUES)
    pq.write_table(rows, tmp_path / "x.parquet")
    log = json.dumps(statistics_of(pq.read_metadata(tmp_path / "x.parquet")))
    action = AddAction("x.parquet", (tmp_path / "x.parquet").stat().st_size, {}, 0, data_change=True, stats=log)
    create_table_with_add_actions(str(tmp_path), Schema.from_arrow(VALUES), [action])
    found = DeltaTable(tmp_path).to_pyarrow_dataset()
    assert found.count_rows(filter=ds.field("inner").is_null()) == 1
    assert found.count_rows(filter=ds.field("inner").is_valid()) == 0


@given(st.lists(st.text(max_size=600), min_size=1, max_size=20))
def test_bounds_of_texts_contain_all_texts(tmp_path_factory, texts):
    found = statistics([{"text": text} for text in texts], tmp_path_factory.mktemp("x"))
    if "text" in found["minValues"]:  # Parquet omits the statistics of very long texts
        assert all(found["minValues"]["text"] <= text <= found["maxValues"]["text"] for text in texts)
