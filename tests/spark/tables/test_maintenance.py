"""Removal of earlier runs, and compaction."""

import pytest

from pcli.codec.errors import LocalError
from pcli.spark.tables import run_commit
from pcli.spark.tables.maintenance import compact, vacuum
from pcli.spark.tables.runs import read_runs
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import open_store
from tests.spark.tables.test_run_commit import CAPTURES, GAPS, a_run, our_paths, run_whole


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
