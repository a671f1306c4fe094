"""--incremental: the tables equal those of one run, in any order of files, and only new files are read."""

import json
import pickle
import random
import shutil
from collections import Counter
from dataclasses import replace

import pytest

from pcli.codec.capture import Packet, PcapngWriter, read_packets
from pcli.codec.capture.recorder import TcpRecorder
from pcli.codec.errors import CaptureError, LocalError
from pcli.codec.observe.tracking.connections import connection_table
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.spark.analysis import analyze
from pcli.spark.columnar.observation.frames_from_rows import HeadFrame
from pcli.spark.columnar.observation.observe_group import Group
from pcli.spark.engine import InProcess
from pcli.spark.input import read_plan as plan_module
from pcli.spark.input import splits
from pcli.spark.request import Request
from pcli.spark.stages import incremental
from pcli.spark.stages.kept_values import load
from pcli.spark.tables.runs import read_runs
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import open_store

MANY = (
    "messages", "exchanges", "connections", "consumers", "producers", "findings", "permits", "frames", "keys",
    "segments", "layouts", "assignments",
)  # fmt: skip


def cut(path, folder, parts):
    """Write a capture as the parts of a rotated one; return their paths."""
    with path.open("rb") as file:
        packets = [item for item in read_packets([(path.name, file)]) if isinstance(item, Packet)]
    paths = []
    for number in range(parts):
        target = folder / f"part_{number:03d}.pcapng"
        with target.open("wb") as file:
            writer = PcapngWriter(file)
            for packet in packets[number * len(packets) // parts : (number + 1) * len(packets) // parts]:
                writer.packet(packet)
        paths.append(target)
    return paths


@pytest.fixture
def parts(tmp_path, small_captures):
    """A capture in five parts."""
    folder = tmp_path / "parts"
    folder.mkdir()
    return cut(small_captures / "flex" / "01-produce-consume.pcap", folder, 5)


@pytest.fixture
def captures(tmp_path):
    folder = tmp_path / "captures"
    folder.mkdir()
    return folder


def run(captures, out, **more):
    request = Request((str(captures),), str(out), only=MANY, split_bytes=20_000, **more)
    return analyze(request, InProcess())


def rows(table):
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in table.to_pylist())


def equal(one, other):
    left, right = StoredTables(str(one)), StoredTables(str(other))
    assert left.names == right.names
    for name in left.names:
        assert rows(left.read(name)) == rows(right.read(name)), name


@pytest.fixture
def opened(monkeypatch):
    """Return the parts that were opened for reading."""
    names = []
    whole = splits.open_split

    def noted(split):
        names.append(split.path.rpartition("/")[2])
        return whole(split)

    monkeypatch.setattr(splits, "open_split", noted)
    return names


@pytest.mark.slow
def test_file_by_file_gives_the_tables_of_one_run(tmp_path, parts, captures, opened):
    for number, part in enumerate(parts, 1):
        shutil.copy2(part, captures)
        opened.clear()
        summary = run(captures, tmp_path / "out", incremental=True)
        assert opened == [part.name]
        assert summary.run == number
        if number in (3, 5):
            run(captures, tmp_path / f"whole-{number}")
            equal(tmp_path / "out", tmp_path / f"whole-{number}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["consumers-join-leave-crash", "migrate"])
def test_scalable_topics_file_by_file(tmp_path, captures_5, captures, name):
    (tmp_path / "parts").mkdir()
    for part in cut(captures_5 / f"{name}.pcap", tmp_path / "parts", 4):
        shutil.copy2(part, captures)
        run(captures, tmp_path / "out", incremental=True)
    run(captures, tmp_path / "whole")
    assert StoredTables(str(tmp_path / "out")).read("segments").num_rows > 4
    equal(tmp_path / "out", tmp_path / "whole")


class Apart(InProcess):
    """An engine with independent tasks, like that of Spark."""

    apart = True

    def __init__(self):
        super().__init__()
        self.items = []

    def map(self, what, function, items, **more):
        self.items += [(what, item) for item in items]
        results = super().map(
            what, lambda item: pickle.dumps(function(pickle.loads(pickle.dumps(item)))), items, **more
        )
        return [pickle.loads(one) for one in results]


def test_new_files_are_read_in_a_task(tmp_path, parts, captures):
    request = Request((str(captures),), str(tmp_path / "out"), only=MANY, split_bytes=20_000, incremental=True)
    read = []
    for part in (*parts[:3], parts[2]):
        shutil.copy2(part, captures)
        engine = Apart()
        analyze(request, engine)
        read.append([len(item.parts) for what, item in engine.items if what == "read"])
    assert read == [[1], [2], [3], []]
    run(captures, tmp_path / "whole")
    equal(tmp_path / "out", tmp_path / "whole")


def in_splits(captures, out, **more):
    """Run in splits of 2,000 bytes; return the numbers of the files that were read in splits and by one task."""
    engine, more = Apart(), {"only": MANY, "split_bytes": 2_000, "incremental": True} | more
    analyze(Request((str(captures),), str(out), **more), engine)
    scanned = {item[0].part for what, item in engine.items if what == "scan"}
    return sorted(scanned), [len(item.parts) for what, item in engine.items if what == "read"]


def test_large_new_files_are_read_in_splits(tmp_path, parts, captures):
    """A late file is read from the state after the file before it."""
    read = []
    for batch in ([0, 1, 3], [2], [4]):
        for number in batch:
            shutil.copy2(parts[number], captures)
        read.append(in_splits(captures, tmp_path / "out"))
    assert read == [([0, 1, 2], []), ([2, 3], []), ([4], [])]
    run(captures, tmp_path / "whole")
    equal(tmp_path / "out", tmp_path / "whole")


def test_splits_that_are_read_once_keep_their_numbers(tmp_path, parts, captures):
    """The state contains no renumbering, which has one number for each frame."""
    for part in parts:
        shutil.copy2(part, captures)
        assert not in_splits(captures, tmp_path / "out", only=("messages", "exchanges"))[1]
    analyze(Request((str(captures),), str(tmp_path / "whole"), only=("messages", "exchanges")), InProcess())
    equal(tmp_path / "out", tmp_path / "whole")
    store = open_store(str(tmp_path / "out"))
    [index] = (name for name in StoredTables(store).run.state if "/index-" in name)
    [kept] = load(store.read(index), index).recordings.values()
    shifts = [part.shift for split in kept.splits for some in split.tables.values() for part in some]
    assert shifts
    assert not any(shifts)


def test_only_new_frames_are_observed(tmp_path, parts, captures, monkeypatch):
    """A run continues from the state of each group, also if a late file requires an earlier state."""
    observed = []
    take = Group.take
    monkeypatch.setattr(Group, "take", lambda group, item: (observed.append(item), take(group, item))[1])

    def frames(number, late=0):
        """Return how many frames were observed after the copy of a part, and how many are in parts from ``late`` on."""
        shutil.copy2(parts[number], captures)
        observed.clear()
        run(captures, tmp_path / "out", incremental=True)
        counts = StoredTables(str(tmp_path / "out")).read("captures").sort_by("part")["frames"].to_pylist()
        return sum(isinstance(item, HeadFrame) for item in observed), sum(counts[late:])

    for number, late in ((0, 0), (1, 1), (3, 2), (4, 3), (2, 2)):
        seen, there = frames(number, late)
        assert seen == there > 0


CONNECT = push_frame(pb.CommandConnect(client_version="client", protocol_version=21))
CLIENT_HELLO = b"\x16\x03\x01\x00\x40\x01" + bytes(63)


def connections(path, *given):
    """Write ended connections to servers with these ports, each with these first bytes."""
    with path.open("wb") as file:
        recorder = TcpRecorder(PcapngWriter(file))
        for number, (port, data) in enumerate(given, int(path.stem) * 1_000):
            time_ns = number * 10**9
            one = recorder.open(("10.0.0.1", 40_000 + number), ("10.0.0.2", port), time_ns)
            recorder.data(one, data, time_ns, from_client=True)
            recorder.close(one, time_ns, from_client=True)


@pytest.mark.parametrize("first", [[(7777, CLIENT_HELLO)] * 3, [(6650, CONNECT)]], ids=["tls", "pulsar"])
def test_a_pulsar_server_is_identified_after_ended_connections(tmp_path, captures, monkeypatch, first):
    """TLS at a Pulsar server is reported, also if the Tracker has dropped the record of the TLS connection."""
    monkeypatch.setattr(connection_table, "MAX_ENDED", 1)
    second = [(7777, CLIENT_HELLO)] * 3 + [(7777, CONNECT)]
    for number, given in enumerate((first, second, [(7777, CONNECT)]), 1):
        connections(captures / f"{number}.pcapng", *given)
        run(captures, tmp_path / "out", incremental=True)
    run(captures, tmp_path / "whole")
    equal(tmp_path / "out", tmp_path / "whole")
    kinds = Counter(StoredTables(str(tmp_path / "out")).read("connections")["kind"].to_pylist())
    assert kinds == Counter(tls=3, pulsar=2) + Counter("tls" if data is CLIENT_HELLO else "pulsar" for _, data in first)


def test_nothing_new_changes_nothing(tmp_path, parts, captures, opened):
    for part in parts[:3]:
        shutil.copy2(part, captures)
    run(captures, tmp_path / "out", incremental=True)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    opened.clear()
    assert not run(captures, tmp_path / "out", incremental=True).changed
    assert opened == []
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


@pytest.mark.slow
@pytest.mark.parametrize("batch", [run, in_splits])
def test_notes_have_the_times_of_packets_that_earlier_runs_have_read(tmp_path, captures, small_captures, batch):
    """Missing data is reported at the end of the recording; a run without new files does not change it."""
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in cut(small_captures / "python" / "37-packets-lost.pcap", folder, 5):
        shutil.copy2(part, captures)
        batch(captures, tmp_path / "out", incremental=True)
        run(captures, tmp_path / "whole")
        equal(tmp_path / "out", tmp_path / "whole")
    kinds = StoredTables(str(tmp_path / "out")).read("gaps")["kind"].to_pylist()
    assert {"gap", "resync"} <= set(kinds)
    assert not run(captures, tmp_path / "out", incremental=True).changed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_in_any_order(tmp_path, parts, captures, seed):
    order = random.Random(seed).sample(parts, len(parts))
    for start in range(0, len(order), 2):
        for part in order[start : start + 2]:
            shutil.copy2(part, captures)
        run(captures, tmp_path / "out", incremental=True)
    run(captures, tmp_path / "whole")
    equal(tmp_path / "out", tmp_path / "whole")


def test_a_late_file_costs_only_the_files_after_it(tmp_path, parts, captures, opened):
    for part in (*parts[:3], parts[4]):
        shutil.copy2(part, captures)
    run(captures, tmp_path / "out", incremental=True)
    opened.clear()
    shutil.copy2(parts[3], captures)
    run(captures, tmp_path / "out", incremental=True)
    assert opened == [parts[3].name, parts[4].name]
    run(captures, tmp_path / "whole")
    equal(tmp_path / "out", tmp_path / "whole")


def test_removed_files_stay_in_the_tables(tmp_path, parts, captures):
    for part in parts:
        shutil.copy2(part, captures)
        run(captures, tmp_path / "out", incremental=True)
        for old in sorted(captures.iterdir())[:-1]:
            old.rename(tmp_path / old.name)
    for part in parts[:-1]:
        (tmp_path / part.name).rename(captures / part.name)
    run(captures, tmp_path / "whole")
    equal(tmp_path / "out", tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True])
def test_a_file_that_cannot_be_read_now_stays_in_the_tables(tmp_path, parts, captures, monkeypatch, named):
    for part in parts[:4]:
        shutil.copy2(part, captures)
    monkeypatch.chdir(captures)
    paths = tuple(part.name for part in parts) if named else (str(captures),)
    request = Request(paths, str(tmp_path / "out"), only=MANY, split_bytes=20_000, incremental=True)
    analyze(request, InProcess())
    shutil.copy2(parts[4], captures)
    whole = plan_module.open_file

    def refused(where, place):
        if where.endswith(parts[1].name):
            raise PermissionError(13, "no")
        return whole(where, place)

    if named:
        (captures / parts[1].name).rename(tmp_path / "away")
    monkeypatch.setattr(plan_module, "open_file", refused)
    for _ in range(2):
        summary = analyze(request, InProcess())
    assert summary.run == 2
    told = StoredTables(str(tmp_path / "out")).read("captures").to_pylist()
    reason = "no such file or folder" if named else "permission denied"
    error = f"not readable now: {reason}; its rows are from an earlier run"
    assert [row["error"] for row in told if row["error"]] == [error]
    assert [row["part"] for row in sorted(told, key=lambda row: row["path"])] == [0, 1, 2, 3, 4]
    monkeypatch.setattr(plan_module, "open_file", whole)
    if named:
        (tmp_path / "away").rename(captures / parts[1].name)
    analyze(request, InProcess())
    analyze(replace(request, out=str(tmp_path / "whole"), incremental=False), InProcess())
    equal(tmp_path / "out", tmp_path / "whole")


def test_a_required_file_that_is_missing_is_reported(tmp_path, parts, captures):
    for part in (*parts[:2], parts[3]):
        shutil.copy2(part, captures)
    run(captures, tmp_path / "out", incremental=True)
    before = StoredTables(str(tmp_path / "out")).run
    (captures / parts[3].name).unlink()
    shutil.copy2(parts[2], captures)
    with pytest.raises(LocalError, match=r"part_003\.pcapng: this file must be read again"):
        run(captures, tmp_path / "out", incremental=True)
    assert StoredTables(str(tmp_path / "out")).run == before
    run(captures, tmp_path / "out")


def test_an_incomplete_file_is_read_again_when_it_is_complete(tmp_path, parts, captures, opened):
    for part in parts[:3]:
        shutil.copy2(part, captures)
    last = captures / parts[2].name
    last.write_bytes(parts[2].read_bytes()[:-1001])
    assert [status for _, status, _ in run(captures, tmp_path / "out", incremental=True).troubles] == ["partly"]
    shutil.copy2(parts[2], captures)
    shutil.copy2(parts[3], captures)
    opened.clear()
    assert run(captures, tmp_path / "out", incremental=True).troubles == []
    assert opened == [parts[2].name, parts[3].name]
    run(captures, tmp_path / "whole")
    equal(tmp_path / "out", tmp_path / "whole")


def test_more_parts_than_states_are_kept_for(tmp_path, parts, captures, opened, monkeypatch):
    monkeypatch.setattr("pcli.spark.stages.incremental._CHECKPOINTS", 2)
    for part in parts[1:4]:
        shutil.copy2(part, captures)
    run(captures, tmp_path / "out", incremental=True)
    shutil.copy2(parts[0], captures)
    opened.clear()
    run(captures, tmp_path / "out", incremental=True)
    assert opened == [part.name for part in parts[:4]]
    run(captures, tmp_path / "whole")
    equal(tmp_path / "out", tmp_path / "whole")


def test_several_clusters(tmp_path, parts, captures, small_captures):
    for cluster in ("east", "west"):
        (captures / cluster).mkdir()
    more = {"cluster": "captures/{cluster}/*"}
    shutil.copy2(small_captures / "go" / "nack.pcap", captures / "west")
    for part in parts[:3]:
        shutil.copy2(part, captures / "east")
        run(captures, tmp_path / "out", incremental=True, **more)
    run(captures, tmp_path / "whole", **more)
    equal(tmp_path / "out", tmp_path / "whole")


@pytest.mark.parametrize("only", ["messages", "permits", "connections"])
def test_a_single_table(tmp_path, parts, captures, only):
    for number in (2, 4):
        for part in parts[:number]:
            shutil.copy2(part, captures)
        for out in ("out", "whole"):
            request = Request((str(captures),), str(tmp_path / out), only=(only,), incremental=out == "out")
            analyze(request, InProcess())
    equal(tmp_path / "out", tmp_path / "whole")


def test_other_options_are_refused(tmp_path, parts, captures):
    shutil.copy2(parts[0], captures)
    run(captures, tmp_path / "out", incremental=True)
    request = Request((str(captures),), str(tmp_path / "out"), only=("messages",), incremental=True)
    with pytest.raises(LocalError, match="different choice of tables"):
        analyze(request, InProcess())
    with pytest.raises(LocalError, match="different --since"):
        run(captures, tmp_path / "out", incremental=True, since_ns=5)


@pytest.mark.parametrize("number", ["", "1-"])
def test_a_state_of_a_different_format_is_refused(tmp_path, parts, captures, monkeypatch, number):
    """The first format had no number."""
    shutil.copy2(parts[0], captures)
    with monkeypatch.context() as patch:
        patch.setattr(incremental, "_INDEX", f"index-{number}")
        run(captures, tmp_path / "out", incremental=True)
    shutil.copy2(parts[1], captures)
    message = r"different format .*: omit --incremental, or use a new OUT and a new checkpoint"
    with pytest.raises(LocalError, match=message):
        run(captures, tmp_path / "out", incremental=True)
    run(captures, tmp_path / "out")


def test_a_full_run_removes_the_state(tmp_path, parts, captures):
    shutil.copy2(parts[0], captures)
    run(captures, tmp_path / "out", incremental=True)
    assert (tmp_path / "out" / "_state").exists()
    run(captures, tmp_path / "out")
    assert not (tmp_path / "out" / "_state").exists()


def test_the_state_does_not_grow_with_runs(tmp_path, parts, captures):
    sizes = []
    for part in parts:
        shutil.copy2(part, captures)
        run(captures, tmp_path / "out", incremental=True)
        files = [path for path in (tmp_path / "out" / "_state").rglob("*") if path.is_file()]
        assert {f"_state/{path.name}" for path in files} == set(StoredTables(str(tmp_path / "out")).run.state)
        sizes.append(sum(1 for path in files if path.name.startswith(("checkpoint", "index"))))
    assert max(sizes) <= 5


def test_files_of_earlier_runs_are_removed(tmp_path, parts, captures, monkeypatch):
    """Each run replaces the files with open rows."""
    monkeypatch.setattr("pcli.spark.analysis._VACUUM_RUNS", 2)
    for number, part in enumerate(parts, 1):
        shutil.copy2(part, captures)
        run(captures, tmp_path / "out", incremental=True)
        if number % 2 == 0:
            stored = [StoredTables(str(tmp_path / "out"), run=one) for one in (number - 1, number)]
            there = {str(path) for path in (tmp_path / "out" / "messages").rglob("*.parquet")}
            assert there == {path for one in stored for path in one.files("messages")}
    assert [one.run for one in read_runs(open_store(str(tmp_path / "out")))][-2:] == [len(parts) - 1, len(parts)]


def test_a_strict_run_without_new_files_reports_a_file_that_is_not_complete(tmp_path, parts, captures):
    (captures / parts[0].name).write_bytes(parts[0].read_bytes()[:-1001])
    assert run(captures, tmp_path / "out", incremental=True).troubles
    with pytest.raises(CaptureError, match=parts[0].name):
        run(captures, tmp_path / "out", incremental=True, strict=True)
