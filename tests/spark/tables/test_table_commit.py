"""The commit of a run is atomic at every point of failure, and does nothing without new data."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from pcli.codec.errors import LocalError
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.staging import write_bytes, write_rows
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_commit import begin
from pcli.spark.tables.table_store import Store, open_store

CAPTURES, GAPS = TABLES["captures"], TABLES["gaps"]


def captures(*paths):
    rows = [{"cluster": "c", "path": path, "part": part, "status": "read"} for part, path in enumerate(paths)]
    return pa.Table.from_pylist(rows, schema=CAPTURES.schema)


def a_run(store, *paths, parts=2):
    """Create a run that has written a table of these rows in this number of files, without a commit."""
    run, rows = begin(store), captures(*paths)
    made = []
    for part in range(parts):
        made += write_rows(run.staging, CAPTURES, part, rows.take(pa.array(range(part, len(rows), parts), pa.int64())))
    return run, made


def run_whole(store, *paths, **more):
    run, made = a_run(store, *paths, **more)
    return run.commit(made, [CAPTURES, GAPS], run={"paths": list(paths)})


def plain_paths(folder):
    """Return the tables of a plain read of the folder."""
    return sorted(ds.dataset(folder / "captures", format="parquet").to_table()["path"].to_pylist())


def our_paths(store):
    return sorted(StoredTables(store).read("captures")["path"].to_pylist())


def everything(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_leaves_its_tables_and_a_manifest_and_nothing_else(tmp_path):
    manifest = run_whole(open_store(str(tmp_path / "out")), "a", "b", "c")
    found = set(everything(tmp_path / "out"))
    assert {str(path) for path in found} == {"_manifest.json", *(file.path for file in manifest.files)}
    assert manifest.generation == 1
    assert [file.rows for file in manifest.of("captures")] == [2, 1]


def test_the_next_run_takes_the_place_of_the_first(tmp_path):
    store = open_store(str(tmp_path))
    run_whole(store, "a", "b")
    assert run_whole(store, "b", "c", "d").generation == 2
    assert plain_paths(tmp_path) == our_paths(store) == ["b", "c", "d"]


def test_a_repeated_run_writes_nothing(tmp_path):
    store = open_store(str(tmp_path))
    run_whole(store, "a", "b", "c")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in tmp_path.rglob("*") if path.is_file()}
    assert run_whole(store, "a", "b", "c").generation == 1
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_removed_file_is_restored_by_the_same_run(tmp_path):
    store = open_store(str(tmp_path))
    manifest = run_whole(store, "a", "b", "c")
    (tmp_path / manifest.of("captures")[0].path).unlink()
    run_whole(store, "a", "b", "c")
    assert plain_paths(tmp_path) == ["a", "b", "c"]


def test_files_of_both_generations_are_not_moved(tmp_path):
    store = open_store(str(tmp_path))
    first = run_whole(store, "a", "b")
    kept = tmp_path / first.of("captures")[0].path
    inode = kept.stat().st_ino
    second = run_whole(store, "a", "z")
    assert kept.stat().st_ino == inode
    assert len({file.path for file in (*first.of("captures"), *second.of("captures"))}) == 3


def test_an_empty_table_can_be_read(tmp_path):
    store = open_store(str(tmp_path))
    run_whole(store)
    assert plain_paths(tmp_path) == our_paths(store) == []
    assert ds.dataset(tmp_path / "gaps").schema.names == GAPS.schema.names


def test_a_table_that_the_new_run_lacks_is_removed_with_its_folder(tmp_path):
    store = open_store(str(tmp_path))
    run_whole(store, "a")
    run, made = a_run(store, "a")
    run.commit(made, [CAPTURES], run={})
    assert not (tmp_path / "gaps").exists()
    assert our_paths(store) == ["a"]


def test_an_abandoned_run_leaves_no_trace(tmp_path):
    store = open_store(str(tmp_path / "out"))
    run_whole(store, "a")
    before = everything(tmp_path)
    run, _ = a_run(store, "b")
    run.abandon()
    assert everything(tmp_path) == before


def test_the_state_is_committed_with_the_tables(tmp_path):
    store = open_store(str(tmp_path))
    for number in (1, 2, 3):
        run, made = a_run(store, "a")
        state = {write_bytes(run.staging, f"note-{number}", b"x"): f"_state/note-{number}"}
        if number == 2:
            state["_state/note-1"] = "_state/note-1"
        run.commit(made, [CAPTURES], run={}, state=state)
        kept = {1: ["note-1"], 2: ["note-1", "note-2"], 3: ["note-3"]}[number]
        assert sorted(path.name for path in (tmp_path / "_state").iterdir()) == kept
        assert StoredTables(store).manifest.state == tuple(f"_state/{name}" for name in kept)


class Killed(BaseException):
    """An exception that is not caught, so the disk is in the state after a kill."""


CHANGES = ("create", "move", "remove", "remove_folder")


@pytest.fixture
def killed_after(monkeypatch):
    """Kill the process at this change of the file system; return the number of changes."""
    counts = []

    def arm(most):
        counts[:] = [0]
        for name in CHANGES:
            whole = getattr(Store, name)

            def counted(self, *words, whole=whole):
                counts[0] += 1
                if counts[0] > most:
                    raise Killed
                return whole(self, *words)

            monkeypatch.setattr(Store, name, counted)
        return counts

    return arm


def changes_of_a_run(tmp_path, killed_after, monkeypatch):
    run_whole(open_store(str(tmp_path / "counted")), "a", "b")
    with monkeypatch.context():
        counts = killed_after(1 << 30)
        run_whole(open_store(str(tmp_path / "counted")), "b", "c", "d")
        monkeypatch.undo()
    return counts[0]


def test_killed_at_any_change_the_old_or_the_new_tables_are_there_and_the_next_run_tidies_up(
    tmp_path, killed_after, monkeypatch
):
    """A read by the manifest always finds old or new tables; a plain read may find both during the commit."""
    changes = changes_of_a_run(tmp_path, killed_after, monkeypatch)
    seen = set()
    assert changes > 12
    for most in range(changes):
        folder = tmp_path / f"killed-{most}"
        store = open_store(str(folder))
        run_whole(store, "a", "b")
        killed_after(most)
        with pytest.raises(Killed):
            run_whole(store, "b", "c", "d")
        monkeypatch.undo()
        found = our_paths(store)
        seen.add(tuple(found))
        assert found in (["a", "b"], ["b", "c", "d"])
        begin(store).abandon()
        after = our_paths(store)
        assert after == plain_paths(folder)
        assert after in (found, ["b", "c", "d"])
        assert not (folder / "_work").exists()
        run_whole(store, "b", "c", "d")
        assert plain_paths(folder) == our_paths(store) == ["b", "c", "d"]
        assert set(map(str, everything(folder))) == {
            "_manifest.json", *(file.path for file in StoredTables(store).manifest.files)
        }  # fmt: skip
    assert seen == {("a", "b"), ("b", "c", "d")}


def test_killed_while_a_killed_commit_is_ended_it_is_ended_by_the_next(tmp_path, killed_after, monkeypatch):
    for most in range(40):
        store = open_store(str(tmp_path / str(most)))
        run_whole(store, "a", "b")
        killed_after(6)  # the first of two files was moved
        with pytest.raises(Killed):
            run_whole(store, "b", "c", "d")
        monkeypatch.undo()
        assert our_paths(store) == ["a", "b"]
        killed_after(most)
        try:
            begin(store).abandon()
            break
        except Killed:
            monkeypatch.undo()
        begin(store).abandon()
        assert plain_paths(tmp_path / str(most)) == our_paths(store) == ["b", "c", "d"]
    else:
        pytest.fail("it never got through")
    assert most > 3


def test_the_first_run_was_killed_and_the_folder_is_still_ours(tmp_path, killed_after, monkeypatch):
    changes = changes_of_a_run(tmp_path, killed_after, monkeypatch)
    for most in range(1, changes):
        store = open_store(str(tmp_path / f"first-{most}"))
        killed_after(most)
        with suppress(Killed):
            run_whole(store, "a", "b", "c")
        monkeypatch.undo()
        run_whole(store, "a", "b", "c")
        assert our_paths(store) == ["a", "b", "c"]


def test_only_files_of_dead_runs_are_removed(tmp_path):
    store = open_store(str(tmp_path))
    script = (
        "import sys; from pcli.spark.tables.table_commit import begin\n"
        "from pcli.spark.tables.table_store import open_store\n"
        "begin(open_store(sys.argv[1])); print('begun', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"begun\n"
        [folder] = (tmp_path / "_work").iterdir()
        begin(store).abandon()
        assert list((tmp_path / "_work").iterdir()) == [folder]
        other.kill()
        other.wait()
    begin(store).abandon()
    assert not (tmp_path / "_work").exists()


def test_of_two_runs_at_once_the_second_to_end_changes_nothing(tmp_path):
    store = open_store(str(tmp_path))
    run_whole(store, "a")
    slow, made = a_run(store, "slow")
    # The faster run is in a different process and does not treat the folder of the slower run as that of a dead run.
    hidden = tmp_path / "hidden"
    (tmp_path / "_work").rename(hidden)
    quick, quickly = a_run(store, "quick")
    shutil.move(hidden / Path(slow.staging.folder).name, tmp_path / "_work")
    quick.commit(quickly, [CAPTURES, GAPS], run={})
    with pytest.raises(LocalError, match="a different run has committed in the meantime"):
        slow.commit(made, [CAPTURES, GAPS], run={})
    assert plain_paths(tmp_path) == our_paths(store) == ["quick"]


def test_a_failed_move_is_rolled_back(tmp_path, monkeypatch):
    store = open_store(str(tmp_path))
    run_whole(store, "a", "b")
    before = everything(tmp_path)
    run, made = a_run(store, "b", "c", "d")
    whole, count = Store.move, iter(range(100))

    def full(self, name, target):
        if next(count) == 1:
            raise LocalError(f"{target}: no space left")
        whole(self, name, target)

    monkeypatch.setattr(Store, "move", full)
    with pytest.raises(LocalError, match="no space left"):
        run.commit(made, [CAPTURES, GAPS], run={})
    monkeypatch.undo()
    run.abandon()
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["notes.txt", "messages"])
def test_a_folder_with_other_things_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(LocalError, match="other files and no tables of pcli"):
        begin(open_store(str(tmp_path)))
    assert everything(tmp_path) == {(tmp_path / name).relative_to(tmp_path): b"mine"}


def test_things_of_the_user_beside_our_tables_stay(tmp_path):
    store = open_store(str(tmp_path))
    run_whole(store, "a")
    (tmp_path / "report.html").write_text("mine")
    (tmp_path / "captures" / "notes.txt").write_text("mine")
    run_whole(store, "b")
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "captures" / "notes.txt").exists()


@pytest.mark.parametrize("name", ["../victim", "../../out/../victim", "x/../../../victim", "/victim", "..\\victim"])
def test_a_manifest_cannot_name_files_outside_the_folder(tmp_path, name):
    """Otherwise the next run would remove them, because they belong to the tables no longer."""
    (tmp_path / "victim").write_text("mine")
    store = open_store(str(tmp_path / "out"))
    manifest = run_whole(store, "a")
    path = tmp_path / "out" / "_manifest.json"
    path.write_text(path.read_text().replace(manifest.files[0].name, name.replace("\\", "\\\\")))
    with pytest.raises(LocalError, match="is not below the folder"):
        run_whole(store, "b")
    assert (tmp_path / "victim").read_text() == "mine"


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 100_000, '{"format": "pcli tables"}', "nonsense"])
def test_a_manifest_that_is_none_is_a_clear_error(tmp_path, text):
    (tmp_path / "_manifest.json").write_text(text)
    with pytest.raises(LocalError, match="not a manifest of pcli"):
        begin(open_store(str(tmp_path)))


@pytest.mark.parametrize(("version", "message"), [(7, "newer pcli"), (1, "older pcli .* again into a new directory")])
def test_a_manifest_of_another_version_is_refused(tmp_path, version, message):
    store = open_store(str(tmp_path))
    run_whole(store, "a")
    path = tmp_path / "_manifest.json"
    path.write_text(path.read_text().replace('"version": 3', f'"version": {version}'))
    with pytest.raises(LocalError, match=message):
        StoredTables(store)


def test_a_path_that_is_a_file_is_a_clear_error(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(LocalError, match="a file, not a folder"):
        begin(open_store(str(tmp_path / "out")))


def test_a_file_system_that_is_not_local(tmp_path):
    store = Store(fs._MockFileSystem(), "bucket/out")
    run_whole(store, "a", "b", "c")
    run_whole(store, "b", "c", "d")
    assert our_paths(store) == ["b", "c", "d"]
    assert [name for name in store.list(deep=True) if "_work" in name] == []
    assert not store.local


BEGIN = """import sys
from pcli.spark.tables.table_commit import begin
from pcli.spark.tables.table_store import open_store
"""


def test_the_commit_of_an_active_run_is_not_completed_by_another(tmp_path, monkeypatch):
    store = open_store(str(tmp_path))
    run_whole(store, "a", "b")
    run, made = a_run(store, "b", "c", "d")
    whole, others = Store.move, []

    def meanwhile(self, name, target):
        if not others:
            others.append(subprocess.Popen([sys.executable, "-c", f"{BEGIN}begin(open_store(sys.argv[1]))", tmp_path]))
            with suppress(subprocess.TimeoutExpired):
                others[0].wait(3)
        whole(self, name, target)

    monkeypatch.setattr(Store, "move", meanwhile)
    run.commit(made, [CAPTURES, GAPS], run={})
    assert [other.wait() for other in others] == [0]
    assert plain_paths(tmp_path) == our_paths(store) == ["b", "c", "d"]


def test_the_commit_of_a_run_that_may_live_is_not_ended_where_nothing_can_be_locked(monkeypatch):
    store = Store(fs._MockFileSystem(), "bucket/out")
    run_whole(store, "a", "b")
    run, made = a_run(store, "b", "c", "d")
    whole, bases = Store.move, []

    def meanwhile(self, name, target):
        if not bases:
            bases.append(0)
            bases[0] = begin(store).base.generation
        whole(self, name, target)

    monkeypatch.setattr(Store, "move", meanwhile)
    run.commit(made, [CAPTURES, GAPS], run={})
    assert bases == [1]
    assert our_paths(store) == ["b", "c", "d"]


@pytest.mark.slow
def test_two_commits_at_once_wait_for_each_other(tmp_path, monkeypatch):
    script = (
        f"{BEGIN}from pcli.codec.errors import LocalError\nrun = begin(open_store(sys.argv[1]))\n"
        "print('begun', flush=True); sys.stdin.readline()\n"
        "try:\n    run.commit([], [], run={'by': 'other'})\nexcept LocalError as error:\n    print(error)\n"
    )
    store = open_store(str(tmp_path))
    run_whole(store, "a")
    words = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"begun\n"
        run, made = a_run(store, "b")
        whole = Store.write

        def meanwhile(self, name, data):
            if name.endswith("commit.json"):  # the generation was already checked
                other.stdin.write(b"\n")
                other.stdin.flush()
                with suppress(subprocess.TimeoutExpired):
                    other.wait(3)
            whole(self, name, data)

        monkeypatch.setattr(Store, "write", meanwhile)
        run.commit(made, [CAPTURES, GAPS], run={})
        assert b"a different run has committed in the meantime" in other.stdout.read()
    assert plain_paths(tmp_path) == our_paths(store) == ["b"]


def test_a_replaced_manifest_is_kept_despite_a_write_error(tmp_path, monkeypatch):
    store = open_store(str(tmp_path))
    run_whole(store, "a")
    whole = Store.replace

    def slow(self, name, data):
        whole(self, name, data)
        raise LocalError("no answer in time")

    monkeypatch.setattr(Store, "replace", slow)
    run_whole(store, "b", "c")
    assert plain_paths(tmp_path) == our_paths(store) == ["b", "c"]


def test_a_commit_leaves_the_work_of_a_living_run(tmp_path):
    store = open_store(str(tmp_path))
    script = f"{BEGIN}begin(open_store(sys.argv[1])); print('begun', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"begun\n"
        [folder] = (tmp_path / "_work").iterdir()
        run_whole(store, "a")
        assert list((tmp_path / "_work").iterdir()) == [folder]


def test_a_dead_commit_that_came_too_late_takes_nothing_from_the_tables(tmp_path, killed_after, monkeypatch):
    store = open_store(str(tmp_path / "out"))
    run_whole(store, "a", "b")
    killed_after(6)  # it has moved one file, and must still remove the files of a and b
    with pytest.raises(Killed):
        run_whole(store, "b", "c", "d")
    monkeypatch.undo()
    (tmp_path / "out" / "_work").rename(tmp_path / "hidden")
    run, made = a_run(store, "a", "b")
    run.commit(made, [CAPTURES, GAPS], run={"another": "request"})
    (tmp_path / "hidden").rename(tmp_path / "out" / "_work")
    begin(store).abandon()
    assert plain_paths(tmp_path / "out") == our_paths(store) == ["a", "b"]


@pytest.mark.parametrize(("days", "left"), [(0, True), (2, False)])
def test_runs_of_other_machines_are_dead_after_a_day_without_writes(tmp_path, days, left):
    store = open_store(str(tmp_path))
    run_whole(store, "a")
    begun = tmp_path / "_work" / "g2-elsewhere-7-0a" / "begun"
    begun.parent.mkdir(parents=True)
    begun.touch()
    os.utime(begun, (time.time() - days * 86_400,) * 2)
    begin(store).abandon()
    assert begun.exists() == left
