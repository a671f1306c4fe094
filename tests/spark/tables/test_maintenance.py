"""Removal of earlier runs, compaction, and conversion of tables in the old format."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pcli.codec.errors import LocalError
from pcli.spark.tables import run_commit
from pcli.spark.tables.catalog import DAY, TABLES
from pcli.spark.tables.maintenance import compact, convert, vacuum
from pcli.spark.tables.run_commit import begin
from pcli.spark.tables.runs import read_runs
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import open_store
from tests.spark.tables.test_run_commit import CAPTURES, GAPS, a_run, our_paths, run_whole

MESSAGES = TABLES["messages"]
NOW_NS = 1_700_000_000_000_000_000


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "out"))


def files(store, table="captures"):
    return [path for path in store.list(table, deep=True) if path.endswith(".parquet") and "_delta_log" not in path]


def removed(found):
    return {one.name: one.files for one in found if one.files}


def test_vacuum_removes_the_runs_before_the_last_one(store):
    for path in ("a", "b", "c"):
        run_whole(store, path)
    assert removed(vacuum(store, keep_days=0, dry_run=True)) == {"captures": 2}
    assert len(files(store)) == len(read_runs(store)) == 3
    assert removed(vacuum(store, keep_days=0)) == {"captures": 2, "runs": 2}
    assert [run.run for run in read_runs(store)] == [3]
    assert len(files(store)) == 1
    assert our_paths(store) == ["c"]
    with pytest.raises(LocalError, match="no run 1; `pcli tables OUT --runs` lists the runs"):
        StoredTables(store, run=1)
    assert run_whole(store, "d").run == 4


def test_vacuum_keeps_the_files_of_an_active_run(store, monkeypatch):
    for path in ("a", "b"):
        run_whole(store, path)
    run, made = a_run(store, "c")
    monkeypatch.setattr(run_commit, "_is_dead", lambda *_: False)  # both are in this process
    assert removed(vacuum(store, keep_days=0)) == {"captures": 1, "runs": 1}
    run.commit(made, [CAPTURES, GAPS], request={})
    assert our_paths(store) == ["c"]


def test_vacuum_keeps_the_runs_of_the_last_days(store):
    for path in ("a", "b"):
        run_whole(store, path)
    assert removed(vacuum(store)) == {}
    assert our_paths(store, run=1) == ["a"]


def test_vacuum_keeps_the_last_version_of_a_table_that_later_runs_lack(store):
    run_whole(store, "a", tables=[CAPTURES, GAPS])
    run_whole(store, "b", tables=[CAPTURES])
    run_whole(store, "c", tables=[CAPTURES])
    vacuum(store, keep_days=0)
    assert [run.run for run in read_runs(store)] == [1, 3]
    assert our_paths(store, run=1) == ["a"]


def test_vacuum_removes_files_that_no_table_contains(store):
    run_whole(store, "a")
    a_run(store, "never committed")
    vacuum(store, keep_days=0)
    assert len(files(store)) == 1


def test_compact_merges_files_and_keeps_the_rows(store):
    run_whole(store, *"abcdefgh")
    run = compact(store)
    assert (run.run, run.request) == (2, {"paths": list("abcdefgh")})
    assert (run.table("captures").files, run.table("captures").rows) == (1, 8)
    assert our_paths(store) == our_paths(store, run=1) == list("abcdefgh")
    assert compact(store).run == 2
    assert run_whole(store, "x").run == 3


@pytest.mark.parametrize("change", [vacuum, compact])
def test_a_folder_without_tables_is_refused(store, change):
    with pytest.raises(LocalError, match="the folder contains no tables"):
        change(store)
    assert store.list() == []


# -- the old format --------------------------------------------------------------------------------------------------


def old_tables(folder):
    """Write tables as pcli did before Delta Lake: one plain table, and one that is partitioned by cluster and hour."""
    captures = pa.Table.from_pylist(
        [{"cluster": "west", "path": path, "status": "read"} for path in ("a", "b")], CAPTURES.schema
    )
    schema = pa.schema([field for field in MESSAGES.schema if field.name not in (DAY, "cluster")])
    row = {"topic": "t", "first_ns": NOW_NS, "marker": False, "state": "acked", "evidence": "complete"}
    messages = pa.Table.from_pylist([row | {"ledger": 7, "entry": entry} for entry in range(3)], schema)
    written = []
    for table, place, rows in (
        ("captures", "", captures), ("gaps", "", GAPS.schema.empty_table()),
        ("messages", "cluster=a%2Fb/hour=2023-11-14-22", messages),
    ):  # fmt: skip
        path = folder / table / place / "00000-ab.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(rows, path)
        written.append({"table": table, "folder": place, "name": path.name, "rows": len(rows), "bytes": 1})
    manifest = {
        "format": "pcli tables", "version": 3, "generation": 1, "files": written,
        "tables": ["captures", "gaps", "messages"], "partitioned": ["messages"],
        "run": {"request": {"paths": ["x"]}}, "state": [],
    }  # fmt: skip
    (folder / "_manifest.json").write_text(json.dumps(manifest))
    return open_store(str(folder))


def test_old_tables_are_refused_with_the_command_that_converts_them(tmp_path):
    old = old_tables(tmp_path / "old")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(LocalError, match="format of an older pcli: convert them with `pcli tables convert`"):
        begin(old)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_old_tables_are_converted(tmp_path, store):
    run = convert(old_tables(tmp_path / "old"), store)
    assert (run.names, run.request) == (("captures", "gaps", "messages"), {"paths": ["x"]})
    assert our_paths(store) == ["a", "b"]
    rows = StoredTables(store).read("messages").to_pylist()
    assert [(row["cluster"], row["entry"], str(row["day"])) for row in rows] == [
        ("a/b", 0, "2023-11-14"), ("a/b", 1, "2023-11-14"), ("a/b", 2, "2023-11-14"),
    ]  # fmt: skip
    assert DeltaTable(store.path("messages")).metadata().partition_columns == ["cluster", "day"]


def test_nothing_is_converted_into_a_folder_with_files(tmp_path, store):
    run_whole(store, "a")
    with pytest.raises(LocalError, match="the folder is not empty"):
        convert(old_tables(tmp_path / "old"), store)
    assert our_paths(store) == ["a"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "no such file: the folder contains no tables in the old format"),
        ("[1]", "not a manifest of pcli, or damaged"),
        ("nonsense", "not a manifest of pcli, or damaged"),
        ("[" * 100_000, "not a manifest of pcli, or damaged"),
        ('{"format": "pcli tables", "version": 2, "files": [], "tables": [], "partitioned": [], "run": {}}',
         "version 2 of the tables cannot be converted"),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_converted(tmp_path, store, text, reason):
    (tmp_path / "old").mkdir()
    if text is not None:
        (tmp_path / "old" / "_manifest.json").write_text(text)
    with pytest.raises(LocalError, match=reason):
        convert(open_store(str(tmp_path / "old")), store)
    assert store.list() == []
