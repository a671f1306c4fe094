"""The engine of processes: the tables of one process, and the end of the workers."""

import os
import signal
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pcli.codec.errors import LocalError
from pcli.spark import worker_server
from pcli.spark.analysis import analyze
from pcli.spark.columnar.observation import group_division
from pcli.spark.engine import Block, InProcess
from pcli.spark.processes import Processes
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

pytestmark = pytest.mark.usefixtures("importable_tests")


@pytest.fixture
def engine():
    with closing(Processes(2)) as running:
        yield running


def process_id(_item):
    return os.getpid()


def killed(item):
    if item == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def leaving(_item):
    os._exit(3)


def without_memory(_item):
    raise pa.ArrowMemoryError("malloc of size 1 failed")


def wrong(item):
    return 1 // item


def reading(path):
    """Report the process, then wait for an end of the named pipe that never comes."""
    Path(f"{path}.pid").write_text(str(os.getpid()))
    Path(path).read_bytes()


def cut(item):
    yield Block(item % 2, 0, "", pa.record_batch({"n": [item]}))


def joined(bucket, blocks):
    return bucket, [rows["n"].to_pylist() for _, rows in blocks]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_tasks_run_in_as_many_processes_as_requested_and_items_need(engine):
    [only] = engine.map("one", process_id, [0])
    found = set(engine.map("many", process_id, range(20)))
    assert only in found
    assert len(found) <= 2
    assert os.getpid() not in found


def test_the_largest_items_start_first():
    with closing(Processes(1)) as engine:
        order = []
        engine._on_progress = lambda now: order.append(now.bytes_done)
        assert engine.map("ids", str, [1, 2, 3], sizes=[10, 30, 20]) == ["1", "2", "3"]
    assert list(dict.fromkeys(order)) == [0, 30, 50, 60]


def test_rows_are_reported_while_buckets_are_joined(engine):
    told = []
    engine._on_progress = told.append
    assert engine.exchange("pairs", cut, range(5), 2, joined) == [(0, [[0], [2], [4]]), (1, [[1], [3]])]
    assert told[-1].rows_done == told[-1].rows_total == 5


def test_a_killed_worker_is_one_line_with_a_remedy(engine):
    with pytest.raises(LocalError, match=r"killed \(signal 9\), usually because memory ran out: use fewer .*-j N"):
        engine.map("kill", killed, range(4))
    assert engine.map("after", str, [1]) == ["1"]


def test_other_ends_of_a_worker(engine):
    with pytest.raises(LocalError, match=r"ended early \(exit code 3\)"):
        engine.map("leave", leaving, [1])
    with pytest.raises(LocalError, match="too little memory: use fewer"):
        engine.map("memory", without_memory, [1])
    with pytest.raises(ZeroDivisionError) as caught:
        engine.map("bug", wrong, [0])
    assert "in wrong" in caught.value.__notes__[0]


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_workers(engine, tmp_path):
    paths = [tmp_path / "one", tmp_path / "two"]
    for path in paths:
        os.mkfifo(path)
    reached = threading.Event()
    engine._on_progress = lambda now: reached.set() if now.active == 2 else None

    def interrupt():
        reached.wait()
        while not all(one.exists() and one.read_text() for one in (Path(f"{path}.pid") for path in paths)):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        engine.map("wait", reading, [str(path) for path in paths])
    assert not any(alive(int(Path(f"{path}.pid").read_text())) for path in paths)
    assert engine._folder == ""


SOME = ("flex/04-reconnect.pcapng", "go/chunks.pcap", "java/txn-commit.pcap", "faults/sticky-hole.pcap")


@pytest.mark.parametrize("names", [SOME[:1], SOME[1:2], SOME], ids=["one", "chunks", "several"])
def test_the_files_of_one_process(tmp_path, small_captures, monkeypatch, names):
    """All groups are divided, and the captures are divided into small splits."""
    request = Request(tuple(str(small_captures / name) for name in names), "", frames=True, split_bytes=10_000)
    one = analyze(replace(request, out=str(tmp_path / "one")), InProcess())
    monkeypatch.setattr(worker_server, "SMALL_BYTES", 0)
    monkeypatch.setattr(group_division, "_LEAST_GAIN", 0)
    with closing(Processes(2)) as engine:
        two = analyze(replace(request, out=str(tmp_path / "two")), engine)
    assert two.tables == one.tables
    wanted, found = (StoredTables(str(tmp_path / name)) for name in ("one", "two"))
    for name in wanted.names:
        assert found.read(name).equals(wanted.read(name)), name


def test_small_captures_need_no_workers(engine):
    assert isinstance(engine.suited(worker_server.SMALL_BYTES - 1), InProcess)
    assert engine.suited(worker_server.SMALL_BYTES) is engine
