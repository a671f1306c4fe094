"""Captures to tables in one process, compared with the object path and with other divisions."""

import io
import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from pcli.codec.capture import CapturedFrame, Note, ReadOptions, read_capture
from pcli.codec.errors import CaptureError
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.tracking.tracker import process_events
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.stored_tables import StoredTables
from tests.spark.columnar.odd_captures import CAPTURES

SOME = [
    "flex/01-produce-consume.pcap", "flex/04-reconnect.pcapng", "go/chunks.pcap", "go/nack.pcap",
    "java/txn-commit.pcap", "java/late-capture.pcap", "java/cut-packets.pcap", "java/key-shared-sticky.pcap",
    "faults/sticky-hole.pcap", "faults/lost-ack.pcap",
]  # fmt: skip


def tables_of(out, *paths, engine=None, **more):
    analyze(Request(tuple(map(str, paths)), str(out), **more), engine or InProcess())
    return StoredTables(str(out))


def rows(table):
    """Return the rows in sorted order."""
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in table.to_pylist())


def recorded(path):
    with path.open("rb") as file:
        yield from read_capture([(str(path), file)], ReadOptions(ends=True))


def same_findings(tables, items):
    """Assert that the table of findings contains those of a diagnosis of these items."""
    diagnosis = Diagnosis()
    process_events(items, diagnosis)
    wanted = {
        (one.rule, one.variant, one.what, one.severity, one.certainty, tuple(one.frames))
        for one in diagnosis.findings()
    }
    found = tables.read("findings").to_pylist()
    assert {
        (row["rule"], row["variant"] or "", row["what"], row["severity"], row["certainty"], tuple(row["frames"]))
        for row in found
    } == wanted
    assert len(found) == len(wanted)


@pytest.mark.parametrize("name", SOME)
def test_findings_are_those_of_diagnose(tmp_path, small_captures, name):
    path = small_captures / name
    same_findings(tables_of(tmp_path / "out", path, only=("findings",)), recorded(path))


def told(note):
    """Return a note as a row of the table."""
    stream = None if note.stream is None else note.stream.number
    side = {True: "client", False: "broker", None: None}[note.from_client]
    return note.kind, note.text, note.packet, stream, side, note.offset, note.length or None


def same_gaps(tables, items):
    """Return the rows of the table of gaps, which are the notes of these items."""
    gaps = tables.read("gaps").to_pylist()
    columns = ("kind", "text", "packet", "connection", "direction", "offset", "bytes")
    notes = [told(item) for item in items if isinstance(item, Note)]
    assert Counter(tuple(row[name] for name in columns) for row in gaps) == Counter(notes)
    return gaps


@pytest.mark.parametrize("name", SOME)
def test_captures_and_gaps_equal_read_capture(tmp_path, small_captures, name):
    path = small_captures / name
    items = list(recorded(path))
    frames = [item for item in items if isinstance(item, CapturedFrame)]
    tables = tables_of(tmp_path / "out", path, only=("captures",))
    [capture] = tables.read("captures").to_pylist()
    assert (capture["path"], capture["part"], capture["status"]) == (str(path), 0, "read")
    assert capture["frames"] == len(frames)
    assert capture["packets"] >= max(frame.packet for frame in frames)
    assert capture["first_ns"] <= frames[0].time_ns <= frames[-1].time_ns <= capture["last_ns"]
    assert capture["read_bytes"] == capture["file_bytes"] == path.stat().st_size
    gaps = same_gaps(tables, items)
    times = {frame.packet: frame.time_ns for frame in frames}
    assert all(row["time_ns"] == times[row["packet"]] for row in gaps if row["packet"] in times)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CAPTURES)
def test_captures_with_few_packets_or_none_of_pulsar(tmp_path, blobs):
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        paths = [Path(folder) / str(number) for number in range(len(blobs))]
        for path, blob in zip(paths, blobs, strict=True):
            path.write_bytes(blob)
        tables = tables_of(Path(folder) / "out", *paths, only=("captures", "findings"))
        captures = tables.read("captures").to_pylist()
        # The parts are in the order of their times.
        files = [(row["path"], io.BytesIO(Path(row["path"]).read_bytes())) for row in captures]
        items = list(read_capture(files, ReadOptions(ends=True)))
        same_findings(tables, items)
        same_gaps(tables, items)
        assert sum(row["frames"] for row in captures) == sum(isinstance(one, CapturedFrame) for one in items)
        assert sorted(row["path"] for row in captures) == list(map(str, paths))


def test_every_table_is_there_and_has_its_schema(tmp_path, small_captures):
    tables = tables_of(tmp_path / "out", small_captures / SOME[0], frames=True)
    assert set(tables.names) == set(TABLES)
    for name in tables.names:
        assert tables.read(name).schema.equals(TABLES[name].schema), name
    for name in ("messages", "exchanges", "consumers", "producers", "connections", "permits", "captures", "frames"):
        assert tables.read(name).num_rows, name


@pytest.mark.slow
def test_small_windows_give_the_same_tables(tmp_path, small_captures):
    paths = [small_captures / name for name in SOME[:4]]
    whole = tables_of(tmp_path / "whole", *paths, frames=True)
    for size in (1, 20_000):
        pieces = tables_of(tmp_path / str(size), *paths, frames=True, split_bytes=size)
        for name in whole.names:
            assert rows(pieces.read(name)) == rows(whole.read(name)), (name, size)


class Apart(InProcess):
    """Reads splits independently and merges them, as Spark's tasks do, but in this process."""

    apart = True


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flex/04-reconnect.pcapng", "java/late-capture.pcap", "faults/sticky-hole.pcap"])
def test_independent_splits_give_the_same_tables(tmp_path, small_captures, name):
    path = small_captures / name
    whole = tables_of(tmp_path / "whole", path, frames=True)
    for size in (3_000, 11_000):
        pieces = tables_of(tmp_path / str(size), path, frames=True, split_bytes=size, engine=Apart())
        for name in whole.names:
            assert rows(pieces.read(name)) == rows(whole.read(name)), (name, size)


def test_clusters_do_not_know_of_each_other(tmp_path, small_captures):
    alone = {}
    for cluster, name in (("east", SOME[0]), ("west", SOME[3])):
        (tmp_path / cluster).mkdir()
        shutil.copy(small_captures / name, tmp_path / cluster / "x.pcap")
        alone[cluster] = tables_of(tmp_path / f"{cluster}-out", tmp_path / cluster, cluster=cluster, frames=True)
    both = tables_of(tmp_path / "out", tmp_path / "east", tmp_path / "west", cluster="{cluster}/x.pcap", frames=True)
    for name in both.names:
        together = pa.concat_tables([alone["east"].read(name), alone["west"].read(name)])
        assert rows(both.read(name)) == rows(together), name


def test_a_repeated_run_writes_the_same_rows(tmp_path, small_captures):
    paths = [small_captures / name for name in SOME[:4]]
    first = tables_of(tmp_path / "out", *paths, frames=True)
    second = tables_of(tmp_path / "out", *paths, frames=True)
    assert (first.run.run, second.run.run) == (1, 2)
    for name in first.names:
        assert second.read(name).equals(first.read(name)), name


def test_only_the_named_tables_are_written(tmp_path, small_captures):
    tables = tables_of(tmp_path / "out", small_captures / SOME[0], only=("messages", "keys"))
    assert tables.names == ("captures", "gaps", "messages", "keys")


def test_partials_go_to_files_where_memory_is_short(tmp_path, small_captures, monkeypatch):
    wanted = tables_of(tmp_path / "memory", small_captures / SOME[0])
    monkeypatch.setattr("pcli.spark.analysis.MEMORY", 0)
    found = tables_of(tmp_path / "files", small_captures / SOME[0])
    for name in wanted.names:
        assert rows(found.read(name)) == rows(wanted.read(name)), name


class Stopped(InProcess):
    """Interrupt the work in this stage."""

    def __init__(self, stage):
        super().__init__(self.stop)
        self._stage = stage
        self.stages = []

    def stop(self, progress):
        self.stages.append(progress.what)
        if progress.what == self._stage:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_stopped_in_any_stage_everything_is_as_it_was(tmp_path, small_captures):
    out = tmp_path / "out"
    tables_of(out, small_captures / SOME[0])
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    watcher = Stopped("")
    tables_of(tmp_path / "other", *(small_captures / name for name in SOME[:3]), frames=True, engine=watcher)
    assert {"read", "merge", "observe", "permits", "frames"} <= set(watcher.stages)
    for stage in set(watcher.stages):
        with pytest.raises(KeyboardInterrupt):
            tables_of(out, *(small_captures / name for name in SOME[:3]), frames=True, engine=Stopped(stage))
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["go/chunks.pcap", "flex/04-reconnect.pcapng", "java/txn-commit.pcap"])
def test_many_buckets_give_the_same_tables(tmp_path, small_captures, monkeypatch, name):
    wanted = tables_of(tmp_path / "one", small_captures / name, only=("messages", "exchanges", "permits"))
    monkeypatch.setattr("pcli.spark.columnar.lifecycles.row_operations.ENTRY_BLOCK", 1)
    monkeypatch.setattr("pcli.spark.stages.merge_lifecycles._BUCKET_BYTES", 1000)
    monkeypatch.setattr("pcli.spark.stages.count_permits._BUCKET_BYTES", 100)
    found = tables_of(tmp_path / "many", small_captures / name, only=("messages", "exchanges", "permits"))
    assert found.run.table("messages").files > 3
    for table in wanted.names:
        assert rows(found.read(table)) == rows(wanted.read(table)), table


@pytest.mark.parametrize(
    ("paths", "out"),
    [("{uri}", "{here}/out"), ("{here}", "../captures/out"), ("{here}", "{uri}/out"), ("{here}", "{link}/out")],
)
def test_files_in_out_are_no_captures(tmp_path, small_captures, monkeypatch, paths, out):
    here = tmp_path / "captures"
    here.mkdir()
    monkeypatch.chdir(here)
    (tmp_path / "link").symlink_to(here)
    shutil.copy(small_captures / SOME[0], here)
    names = {"here": here, "uri": here.as_uri(), "link": tmp_path / "link"}
    for _ in range(2):
        found = tables_of(out.format(**names), paths.format(**names), only=("messages",)).read("captures")
        assert found.num_rows == 1


class Changing(InProcess):
    """An engine with independent tasks, before whose first stage with this name a function is called."""

    apart = True

    def __init__(self, stage, change):
        super().__init__()
        self.stage, self.change = stage, change

    def map(self, what, function, items, **more):
        if what == self.stage:
            self.change()
        return super().map(what, function, items, **more)


@pytest.mark.parametrize("stage", ["scan", "parse"])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path, data: path.write_bytes(data), "it changed while it was read: rows can be missing"),
        (lambda path, data: path.write_bytes(data[:500]), "it changed while it was read: rows can be missing"),
        (lambda path, data: path.unlink(), "it was removed while it was read: rows can be missing"),
    ],
    ids=["grown", "truncated", "removed"],
)
def test_a_file_that_changes_while_it_is_read_is_named(tmp_path, parts_of, stage, change, reason):
    """The other files are complete."""
    path, other = parts_of("flex/01-produce-consume.pcap", 2)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    engine = Changing(stage, lambda: change(path, data))
    summary = analyze(Request((str(path), str(other)), str(tmp_path / "out")), engine)
    [(name, status, error)] = summary.troubles
    assert (name, error) == (str(path), reason)
    assert status in ("partly", "unreadable")


def test_a_strict_run_refuses_a_file_that_changes_while_it_is_read(tmp_path, parts_of):
    path, other = parts_of("flex/01-produce-consume.pcap", 2)
    request = Request((str(path), str(other)), str(tmp_path / "out"), strict=True)
    with pytest.raises(CaptureError, match="was removed while it was read"):
        analyze(request, Changing("parse", path.unlink))
    assert list((tmp_path / "out").iterdir()) == []
