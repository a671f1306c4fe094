"""The commit of a run: readers of `runs` read the tables of one run, whatever happens to a run."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pcli.codec.errors import LocalError
from pcli.spark.tables import delta_tables, run_commit
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.data_files import write_bytes, write_rows
from pcli.spark.tables.run_commit import begin
from pcli.spark.tables.runs import RUNS, read_runs
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import Store, open_store

CAPTURES, GAPS = TABLES["captures"], TABLES["gaps"]


def captures(*paths):
    rows = [{"cluster": "c", "path": path, "part": part, "status": "read"} for part, path in enumerate(paths)]
    return pa.Table.from_pylist(rows, schema=CAPTURES.schema)


def a_run(store, *paths):
    """Begin a run that has written one file for each path, without a commit."""
    run, rows = begin(store), captures(*paths)
    return run, [
        file for part in range(len(rows)) for file in write_rows(run.staging, CAPTURES, part, rows.slice(part, 1))
    ]


def run_whole(store, *paths, tables=(CAPTURES, GAPS)):
    run, made = a_run(store, *paths)
    return run.commit(made, tables, request={"paths": list(paths)})


def our_paths(store, **chosen):
    return sorted(StoredTables(store, **chosen).read("captures")["path"].to_pylist())


def delta_paths(store):
    """Return the rows of the newest version of the Delta table, as another program reads them."""
    return sorted(DeltaTable(store.path("captures")).to_pyarrow_table()["path"].to_pylist())


def everything(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "out"))


def test_a_run_writes_delta_tables_and_its_row(store):
    run = run_whole(store, "a", "b", "c")
    assert (run.run, run.names, run.request) == (1, ("captures", "gaps"), {"paths": ["a", "b", "c"]})
    assert [(table.version, table.rows, table.files) for table in run.tables] == [(0, 3, 3), (0, 0, 0)]
    assert read_runs(store) == [run]
    assert store.list() == ["captures", "gaps", "runs"]
    assert our_paths(store) == delta_paths(store) == ["a", "b", "c"]


def test_the_next_run_replaces_the_rows_and_the_first_run_remains_readable(store):
    first = run_whole(store, "a", "b")
    second = run_whole(store, "b", "c", "d")
    assert our_paths(store) == delta_paths(store) == ["b", "c", "d"]
    assert our_paths(store, run=1) == our_paths(store, at_ns=second.finished_ns - 1) == ["a", "b"]
    with pytest.raises(LocalError, match="no run 3; `pcli tables OUT --runs` lists the runs"):
        StoredTables(store, run=3)
    with pytest.raises(LocalError, match="no run that had finished at this time"):
        StoredTables(store, at_ns=first.finished_ns - 1)


def test_an_empty_table_can_be_read(store):
    run_whole(store)
    assert our_paths(store) == delta_paths(store) == []
    assert StoredTables(store).read("gaps").schema.equals(GAPS.schema)


def test_a_table_that_the_run_lacks_is_not_one_of_its_tables(store):
    run_whole(store, "a")
    run_whole(store, "b", tables=[CAPTURES])
    with pytest.raises(LocalError, match="no table 'gaps'; the tables are captures"):
        StoredTables(store).read("gaps")
    assert StoredTables(store, run=1).read("gaps").num_rows == 0
    assert run_whole(store, "c").table("gaps").version == 1


def test_columns_have_comments_and_tables_descriptions(store):
    run_whole(store, "a")
    table = DeltaTable(store.path("captures"))
    [path] = [field for field in table.schema().fields if field.name == "path"]
    assert path.metadata["comment"] == "path as specified on the command line or found in a folder"
    assert table.metadata().description == f"Each row is {CAPTURES.row}."


def test_a_new_column_is_added_to_existing_tables(store):
    """As after an update of pcli: the first run has written a table without the last column."""
    run, made = begin(store), []
    older = replace(CAPTURES, schema=CAPTURES.schema.remove(CAPTURES.schema.get_field_index("last_ns")))
    made = write_rows(run.staging, older, 0, captures("a"))
    run.commit(made, [older], request={})
    run_whole(store, "b", tables=[CAPTURES])
    assert "last_ns" in DeltaTable(store.path("captures")).schema().to_arrow().names
    assert StoredTables(store, run=1).read("captures", ["path", "last_ns"]).to_pylist() == [
        {"path": "a", "last_ns": None}
    ]


def test_a_run_whose_column_has_a_different_type_is_a_clear_error_and_can_be_replaced(store):
    run, rows = begin(store), captures("a")
    place = CAPTURES.schema.get_field_index("packets")
    text = CAPTURES.schema.field(place).with_type(pa.string())
    older = replace(CAPTURES, schema=CAPTURES.schema.set(place, text))
    run.commit(write_rows(run.staging, older, 0, rows.set_column(place, text, [["many"]])), [older], request={})
    with pytest.raises(LocalError, match=r"captures: run 1 of pcli \S+ cannot be read: .*'many'"):
        our_paths(store)
    run_whole(store, "b")
    assert our_paths(store) == ["b"]


def test_a_damaged_file_is_a_clear_error(store):
    run_whole(store, "a")
    [path] = StoredTables(store).files("captures")
    Path(path).write_bytes(bytes(Path(path).stat().st_size))
    with pytest.raises(LocalError, match=r"captures: run 1 of pcli \S+ cannot be read: .*magic bytes"):
        our_paths(store)


def test_the_state_is_committed_with_the_tables(store):
    for number in (1, 2, 3):
        run, made = a_run(store, "a")
        state = {write_bytes(run.staging, f"note-{number}", b"x"): f"_state/note-{number}"}
        if number == 2:
            state["_state/note-1"] = "_state/note-1"
        run.commit(made, [CAPTURES], request={}, state=state)
        kept = {1: ("_state/note-1",), 2: ("_state/note-1", "_state/note-2"), 3: ("_state/note-3",)}[number]
        assert tuple(store.list("_state")) == kept
        assert StoredTables(store).run.state == kept


def test_an_abandoned_run_leaves_no_trace(store, tmp_path):
    run_whole(store, "a")
    before = everything(tmp_path)
    run, _ = a_run(store, "b")
    run.abandon()
    assert everything(tmp_path) == before


# -- runs that fail or are killed ------------------------------------------------------------------------------------


class Killed(BaseException):
    """An exception that is not caught, so the disk is in the state after a kill."""


STEPS = [(delta_tables, "create_table_with_add_actions"), (DeltaTable, "create_write_transaction"),
         (Store, "create"), (Store, "move"), (Store, "remove"), (Store, "remove_folder")]  # fmt: skip


@pytest.fixture
def stop_at(monkeypatch):
    """Return a function that raises an exception at the n-th step that changes the disk, and counts the steps."""

    def arm(number, fault=Killed, *, after=False):
        count = [0]
        for place, name in STEPS:
            whole = getattr(place, name)

            def counted(*words, whole=whole, **more):
                count[0] += 1
                if after and count[0] == number:
                    whole(*words, **more)
                if count[0] >= number:
                    raise fault
                return whole(*words, **more)

            monkeypatch.setattr(place, name, counted)
        return count

    return arm


def steps_of_a_run(stop_at, monkeypatch, tmp_path):
    other = open_store(str(tmp_path / "counted"))
    run_whole(other, "a", "b")
    count = stop_at(1 << 30)
    run_whole(other, "b", "c")
    monkeypatch.undo()
    return count[0]


@pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
def test_killed_at_any_step_the_last_run_is_readable_and_the_next_run_undoes_the_rest(
    tmp_path, stop_at, monkeypatch, after
):
    steps, seen = steps_of_a_run(stop_at, monkeypatch, tmp_path), set()
    assert steps > 6
    for number in range(1, steps + 1):
        store = open_store(str(tmp_path / str(number)))
        run_whole(store, "a", "b")
        stop_at(number, after=after)
        with suppress(Killed):
            run_whole(store, "b", "c")
        monkeypatch.undo()
        found = our_paths(store)
        seen.add(tuple(found))
        begin(store).abandon()
        assert our_paths(store) == delta_paths(store) == found
        assert store.list("_work") == []
        known = {run.name for run in read_runs(store)}
        assert {path.split("/")[1] for path in store.list("captures", deep=True)} <= known | {"_delta_log"}
        run_whole(store, "d")
        assert our_paths(store) == delta_paths(store) == ["d"]
    assert seen == {("a", "b"), ("b", "c")}


def test_the_first_run_was_killed_and_the_folder_can_be_used(tmp_path, stop_at, monkeypatch):
    for number in range(2, 9):
        store = open_store(str(tmp_path / str(number)))
        stop_at(number)
        with suppress(Killed):
            run_whole(store, "a")
        monkeypatch.undo()
        run_whole(store, "b", "c")
        assert our_paths(store) == delta_paths(store) == ["b", "c"]


def test_a_full_disk_at_any_step_of_the_commit_leaves_the_tables_of_the_last_run(tmp_path, stop_at, monkeypatch):
    for number in range(1, 20):
        store = open_store(str(tmp_path / str(number)))
        run_whole(store, "a")
        run, made = a_run(store, "b")
        stop_at(number, OSError(28, "full"))
        try:
            run.commit(made, [CAPTURES, GAPS], request={})
            break
        except (LocalError, OSError):
            monkeypatch.undo()
            run.abandon()
        assert our_paths(store) in (["a"], ["b"])
        assert delta_paths(store) == our_paths(store)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a file system requires root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_that_is_full_during_a_commit(small_disk):
    """Each attempt finds four more pages of the disk free, until a run succeeds. Undoing a run also needs space."""
    store, filler, committed = open_store(str(small_disk / "out")), small_disk / "filler", {}
    run_whole(store, "a")
    for free in range(0, 200, 4):
        fill_disk(filler, free)
        run, before = None, DeltaTable(store.path("captures")).version()
        try:
            run, made = a_run(store, "b")
            run.commit(made, [CAPTURES, GAPS], request={})
            break
        except LocalError as error:
            committed[DeltaTable(store.path("captures")).version() - before] = str(error).lower()
            if run is not None:
                with suppress(LocalError):
                    run.abandon()
        assert our_paths(store) == ["a"]
        filler.unlink()
        begin(store).abandon()
        assert our_paths(store) == delta_paths(store) == ["a"]
    assert our_paths(store) == delta_paths(store) == ["b"]
    assert set(committed) == {0, 1}, "the disk was full before and after the commit of the first table"
    assert all("no space left" in error for error in committed.values())


def fill_disk(filler, free):
    """Fill the disk with a file, except for this number of pages."""
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    os.truncate(filler, filler.stat().st_size - 4096 * free)


def test_only_files_of_dead_runs_are_removed(store):
    script = (
        "import sys; from pcli.spark.tables.run_commit import begin\n"
        "from pcli.spark.tables.table_store import open_store\n"
        "begin(open_store(sys.argv[1])); print('begun', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", script, store.root]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"begun\n"
        [folder] = store.list("_work")
        run_whole(store, "a")
        assert store.list("_work") == [folder]
        other.kill()
        other.wait()
    begin(store).abandon()
    assert store.list("_work") == []


@pytest.mark.parametrize(("days", "left"), [(0, True), (2, False)])
def test_runs_of_other_machines_are_dead_after_a_day_without_writes(store, days, left):
    run_whole(store, "a")
    begun = Path(store.path("_work/r2-elsewhere-7-0a/begun"))
    begun.parent.mkdir(parents=True)
    begun.touch()
    os.utime(begun, (time.time() - days * 86_400,) * 2)
    begin(store).abandon()
    assert begun.exists() == left


# -- other writers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False], ids=["new folder", "existing tables"])
def test_of_two_runs_at_once_the_second_to_end_changes_nothing(store, monkeypatch, first):
    if not first:
        run_whole(store, "a")
    monkeypatch.setattr(run_commit, "_is_dead", lambda *_: False)  # both runs are in this process
    slow, made = a_run(store, "slow")
    run_whole(store, "quick")
    with pytest.raises(LocalError, match="captures: a different run or program has committed in the meantime"):
        slow.commit(made, [CAPTURES, GAPS], request={})
    slow.abandon()
    assert our_paths(store) == delta_paths(store) == ["quick"]
    assert store.list("_work") == []


@pytest.mark.parametrize("first", [True, False], ids=["new folder", "existing tables"])
def test_no_run_begins_while_a_different_run_commits(store, monkeypatch, first):
    if not first:
        run_whole(store, "a")
    monkeypatch.setattr(run_commit, "_is_dead", lambda *_: False)  # both runs are in this process
    slow, made = a_run(store, "slow")
    committed = [slow._commit(CAPTURES, made, 7)]
    with pytest.raises(LocalError, match="captures: a different run or program has committed in the meantime"):
        begin(store)
    slow.complete([*committed, slow._commit(GAPS, [], 7)], request={})
    assert our_paths(store) == delta_paths(store) == ["slow"]
    run_whole(store, "b")


def test_of_two_runs_with_different_tables_the_second_to_end_changes_nothing(store, monkeypatch):
    run_whole(store, "a")
    monkeypatch.setattr(run_commit, "_is_dead", lambda *_: False)  # both runs are in this process
    slow, made = a_run(store, "slow")
    quick = begin(store)
    quick.complete([], request={})
    with pytest.raises(LocalError, match="runs: a different run or program has committed in the meantime"):
        slow.commit(made, [CAPTURES], request={})
    slow.abandon()
    assert [run.name for run in read_runs(store)][1:] == [quick.staging.run]
    assert delta_paths(store) == ["a"]


def test_a_table_that_a_different_program_has_changed_is_not_replaced(store):
    run_whole(store, "a")
    write_deltalake(store.path("captures"), captures("theirs"), mode="append")
    with pytest.raises(LocalError, match=r"captures: version 1 was written by a different program \(WRITE, delta-rs"):
        begin(store)
    assert store.list("_work") == []
    assert our_paths(store) == ["a"]
    DeltaTable(store.path("captures")).restore(0)
    run_whole(store, "b")
    assert our_paths(store) == delta_paths(store) == ["b"]


def test_files_that_a_different_program_has_merged_are_replaced(store):
    run_whole(store, "a", "b")
    DeltaTable(store.path("captures")).optimize.compact()
    run_whole(store, "c")
    assert delta_paths(store) == ["c"]


@pytest.mark.parametrize("name", ["notes.txt", "messages"])
def test_a_folder_with_other_files_is_refused(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(LocalError, match="other files and no tables of pcli"):
        begin(open_store(str(tmp_path)))
    assert everything(tmp_path) == {Path(name): b"mine"}


def test_files_of_the_user_beside_our_tables_stay(store):
    run_whole(store, "a")
    Path(store.path("report.html")).write_text("mine")
    run_whole(store, "b")
    assert store.has("report.html")


def test_a_folder_with_special_characters(tmp_path):
    store = open_store(str(tmp_path / "a #?%ü"))
    run_whole(store, "a")
    assert our_paths(store) == ["a"]
    with pytest.raises(LocalError, match="decodes the escapes in this name"):
        open_store(str(tmp_path / "a%20b"))


def test_a_path_that_is_a_file_is_a_clear_error(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(LocalError, match="a file, not a folder"):
        begin(open_store(str(tmp_path / "out")))


@pytest.mark.parametrize(("column", "value"), [("request", "["), ("request", "[" * 100_000), ("tables", None)])
def test_a_table_of_runs_from_another_author(store, column, value):
    run_whole(store, "a")
    rows = DeltaTable(store.path("runs")).to_pyarrow_table().to_pylist()
    write_deltalake(
        store.path("runs"), pa.Table.from_pylist([rows[0] | {column: value}], RUNS.schema), mode="overwrite"
    )
    with pytest.raises(LocalError, match="runs: not a table of pcli, or damaged"):
        StoredTables(store)


def test_a_removed_file_is_a_clear_error(store):
    run_whole(store, "a")
    Path(StoredTables(store).files("captures")[0]).unlink()
    with pytest.raises(LocalError, match="captures: a file of run 1 is missing; another program has removed it"):
        StoredTables(store).read("captures")


@pytest.mark.parametrize(
    "path", ["../x.parquet", "%2e%2e/x.parquet", "..%2Fx.parquet", "/etc/passwd", "file:///etc/passwd"]
)
def test_a_log_from_another_author_cannot_name_files_outside_of_the_table(store, path):
    run_whole(store, "a")
    tables = StoredTables(store)
    Path(tables.files("captures")[0]).rename(store.path("x.parquet"))
    log = Path(store.path("captures/_delta_log/00000000000000000000.json"))
    [add] = [entry for entry in map(json.loads, log.read_text().splitlines()) if "add" in entry]
    log.write_text(log.read_text().replace(add["add"]["path"], path))
    for reading in (tables.read, tables.files):
        with pytest.raises(LocalError, match="is not below the folder"):
            reading("captures")
