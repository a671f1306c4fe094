"""Files of tables: equal rows give equal files; every reader finds partitions as one table."""

import pickle

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pcli.codec.errors import LocalError
from pcli.spark.columnar.table_schema import LONG, TEXT, column
from pcli.spark.tables import stored_tables
from pcli.spark.tables.catalog import Table
from pcli.spark.tables.staging import Staging, write_rows
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_commit import begin
from pcli.spark.tables.table_store import Store, open_store

HOUR = 3_600_000_000_000
SCHEMA = pa.schema([column("cluster", TEXT, "label"), column("first_ns", LONG, "when"), column("id", LONG, "which")])
EVENTS = Table("events", "an event", SCHEMA, ("first_ns", "id"), hour="first_ns")


@pytest.fixture
def staging(tmp_path):
    return Staging(open_store(str(tmp_path)), "_work/g1")


def rows(*values):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, value)) for value in values], schema=SCHEMA)


def test_rows_in_any_order_are_the_same_file_sorted(staging):
    one, two, three = ("a", 5, 1), ("a", 5, 2), ("b", 1, 3)
    [first] = write_rows(staging, EVENTS, 7, rows(one, two, three))
    [second] = write_rows(staging, EVENTS, 7, rows(three, two, one).select(["id", "cluster", "first_ns"]))
    assert first.stored == second.stored
    assert first.staged != second.staged
    table = pq.read_table(staging.store.path(first.staged))
    assert table["id"].to_pylist() == [3, 1, 2]
    assert table.schema.equals(SCHEMA)
    assert first.stored.rows == 3
    assert first.stored.name.startswith("00007-")


def test_different_rows_give_a_different_file(staging):
    names = {write_rows(staging, EVENTS, 0, rows(("a", 5, n)))[0].stored.name for n in range(3)}
    assert len(names) == 3


def test_no_rows_are_no_file(staging):
    assert write_rows(staging, EVENTS, 0, rows()) == []
    assert staging.store.list(deep=True) == []


def test_descriptions_of_columns_are_in_the_file(staging):
    [made] = write_rows(staging, EVENTS, 0, rows(("a", 5, 1)))
    field = pq.read_schema(staging.store.path(made.staged)).field("id")
    assert field.metadata[b"what"] == b"which"


def test_the_staging_folder_can_be_pickled(staging):
    there = pickle.loads(pickle.dumps((staging, EVENTS)))
    made = pickle.loads(pickle.dumps(write_rows(*there, 0, rows(("a", 5, 1)))))
    assert staging.store.has(made[0].staged)


def test_partitions_by_cluster_and_hour(staging):
    events = rows(("a", 5, 1), ("a", HOUR, 2), ("b/c=d", 5, 3), ("a", 6, 4), ("", 3 * HOUR - 1, 5))
    made = write_rows(staging, EVENTS, 2, events, partitioned=True)
    assert [(file.stored.folder, file.stored.rows) for file in made] == [
        ("cluster=/hour=1970-01-01-02", 1),
        ("cluster=a/hour=1970-01-01-00", 2),
        ("cluster=a/hour=1970-01-01-01", 1),
        ("cluster=b%2Fc%3Dd/hour=1970-01-01-00", 1),
    ]


def test_a_missing_column_is_our_own_mistake(staging):
    with pytest.raises(KeyError):
        write_rows(staging, EVENTS, 0, rows(("a", 5, 1)).drop_columns(["id"]))


def test_a_full_disk_is_reported_in_one_line(staging, monkeypatch, full_later):
    class Full:
        def __init__(self):
            self.file = full_later(10)

        def __enter__(self):
            return self.file

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(type(staging.store), "create", lambda self, name: Full())
    with pytest.raises(LocalError, match=r"\.parquet: no space left; existing tables are unchanged"):
        write_rows(staging, EVENTS, 0, rows(("a", 5, 1)))


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setitem(stored_tables.TABLES, "events", EVENTS)


@pytest.mark.parametrize("partitioned", [False, True])
def test_partitioned_and_plain_tables_are_read_equally(tmp_path, known, partitioned):
    events = rows(("a", 5, 1), ("a", HOUR, 2), ("2024", 5, 3), ("b c=d", 6, 4))
    store = open_store(str(tmp_path))
    run = begin(store)
    made = write_rows(run.staging, EVENTS, 0, events, partitioned=partitioned)
    run.commit(made, [EVENTS], partitioned=["events"] if partitioned else [], run={})
    found = StoredTables(store).read("events")
    assert found.schema.equals(SCHEMA)
    assert found.sort_by("id").to_pylist() == events.sort_by("id").to_pylist()
    assert StoredTables(store).read("events", ["id"], ds.field("cluster") == "2024").to_pylist() == [{"id": 3}]


def test_a_plain_read_of_partitions_finds_all_columns(tmp_path):
    events = rows(("a", 5, 1), ("a", HOUR, 2), ("b c=d", 6, 4))
    run = begin(open_store(str(tmp_path)))
    made = write_rows(run.staging, EVENTS, 0, events, partitioned=True)
    run.commit(made, [EVENTS], partitioned=["events"], run={})
    table = pq.read_table(tmp_path / "events")
    assert set(table.column_names) == {"cluster", "hour", "first_ns", "id"}
    assert sorted((row["id"], row["cluster"]) for row in table.to_pylist()) == [(1, "a"), (2, "a"), (4, "b c=d")]


def test_a_run_that_ends_while_we_read_does_not_show(tmp_path, known):
    store = open_store(str(tmp_path))
    for number in (1, 2):
        run = begin(store)
        made = write_rows(run.staging, EVENTS, 0, rows(("a", 5, number)))
        run.commit(made, [EVENTS], run={})
        if number == 1:
            early = StoredTables(store)
    assert early.read("events")["id"].to_pylist() == [2]
    assert early.manifest.generation == 2


def test_a_folder_without_tables_and_a_table_that_is_not_there(tmp_path, known):
    with pytest.raises(LocalError, match="the folder contains no tables"):
        StoredTables(str(tmp_path / "none"))
    begin(open_store(str(tmp_path))).commit([], [EVENTS], run={})
    with pytest.raises(LocalError, match="no table 'messages'; the tables are events"):
        StoredTables(str(tmp_path)).read("messages")


def test_where_tables_lie_for_other_programs(tmp_path, known):
    begin(open_store(str(tmp_path))).commit([], [EVENTS], run={})
    for place, before in ((str(tmp_path), str(tmp_path)), (f"file://{tmp_path}/", f"file://{tmp_path}")):
        tables = StoredTables(place)
        assert tables.folder("events") == f"{before}/events"
        assert tables.files("events") == [f"{before}/{tables.manifest.of('events')[0].path}"]
    with pytest.raises(LocalError, match="no table 'messages'"):
        tables.files("messages")
    assert Store(None, "b/x", "s3://b/x?region=eu").place_of("y/z") == "s3://b/x/y/z?region=eu"
