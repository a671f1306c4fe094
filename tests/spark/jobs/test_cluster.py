"""A cluster of two workers without pcli, whose executors are killed."""

import json
import subprocess
import sys

import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

DRIVER = """
import json, os, signal, sys, tempfile
from functools import partial
from pathlib import Path
from pcli.codec.errors import PcliError
from pcli.spark.jobs import session as sessions
from pcli.spark.jobs import code_distribution
from pcli.spark.jobs.spark_engine import SparkEngine

def where(item):
    import pcli.codec.wire.hot, pcli.spark.engine
    return item, os.getppid(), pcli.codec.wire.hot.__file__

def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

def dying(mark, item):
    # The parent of a worker is the daemon that forks workers, whose parent is the executor's JVM.
    if item == 5 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(parent(os.getppid()), signal.SIGKILL)
    return item * 2

master, mark = sys.argv[1:]
told = {}
sessions.ship = lambda context, folder: None
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    # The first task waits until both executors are there: the quicker one would do all of them.
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "170s",
}
with sessions.open_spark(master, CONF) as spark, tempfile.TemporaryDirectory() as folder:
    engine = SparkEngine(spark)
    try:
        engine.map("where", where, [1])
    except PcliError as error:
        told["without"] = str(error)
    code_distribution.ship(spark.sparkContext, Path(folder))
    told["with"] = engine.map("where", where, list(range(8)))
    told["killed"] = engine.map("die", partial(dying, mark), list(range(12)))
print(json.dumps(told))
"""


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mark(tmp_path_factory):
    return tmp_path_factory.mktemp("mark") / "killed"


@pytest.fixture(scope="module")
def told(cluster, mark):
    return json.loads(cluster.run(DRIVER, mark).stdout)


def test_the_workers_have_no_code_of_ours(told):
    assert told["without"] == "Spark: ModuleNotFoundError: No module named 'pcli'"


def test_they_get_it(told):
    assert [item for item, *_ in told["with"]] == list(range(8))
    assert len({daemon for _, daemon, _ in told["with"]}) == 2
    assert all("pcli-code-" in file for *_, file in told["with"])


def test_an_executor_that_is_killed_costs_no_results(told, mark):
    assert told["killed"] == [2 * item for item in range(12)]
    assert mark.exists()


def rows(out):
    stored = StoredTables(str(out))
    return {name: sorted(map(repr, stored.read(name).to_pylist())) for name in stored.names}


def test_the_command_gives_the_tables_of_one_process(cluster, parts_of, tmp_path):
    """Two files, so two tasks: the second one begins in the middle of connections."""
    parts = list(map(str, parts_of("flex/01-produce-consume.pcap", 2)))
    words = ["-o", str(tmp_path / "out"), "--master", cluster.url, "--only", "messages,findings,frames"]
    words += ["--conf", "spark.executor.memory=512m"]
    command = [sys.executable, "-m", "pcli.cli", "spark-analyze", *parts, *words]
    ran = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, timeout=180, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    only = ("messages", "findings", "frames")
    analyze(Request(tuple(parts), str(tmp_path / "here"), only=only), InProcess())
    assert rows(tmp_path / "out") == rows(tmp_path / "here")


ANALYSIS = """
import os, signal, sys
from functools import partial
from pathlib import Path
from pcli.spark.analysis import analyze
from pcli.spark.jobs.session import open_context
from pcli.spark.jobs.spark_engine import SparkEngine
from pcli.spark.request import Request

def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

def dying(function, mark, *given):
    made = function(*given)
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(parent(os.getppid()), signal.SIGKILL)
    return made

class Dying(SparkEngine):
    def map(self, what, function, items, **more):
        if what == "frames":
            function = partial(dying, function, f"{marks}/{what}")
        return super().map(what, function, items, **more)

    def exchange(self, what, cut, items, buckets, join, **more):
        if what == "merge":
            join = partial(dying, join, f"{marks}/{what}")
        return super().exchange(what, cut, items, buckets, join, **more)

master, marks, out, *paths = sys.argv[1:]
CONF = {"spark.executor.memory": "512m", "spark.cores.max": "2", "spark.shuffle.io.retryWait": "100ms"}
with open_context(master, CONF) as spark:
    analyze(Request(tuple(paths), out, only=("messages", "frames")), Dying(spark))
"""


def test_an_executor_that_is_killed_after_its_task_has_written_rows_changes_no_table(cluster, parts_of, tmp_path):
    """The task is run again: the tables contain the rows of one attempt."""
    parts, marks = list(map(str, parts_of("flex/01-produce-consume.pcap", 2))), tmp_path / "marks"
    marks.mkdir()
    cluster.run(ANALYSIS, marks, tmp_path / "out", *parts)
    assert {mark.name for mark in marks.iterdir()} == {"frames", "merge"}
    analyze(Request(tuple(parts), str(tmp_path / "here"), only=("messages", "frames")), InProcess())
    assert rows(tmp_path / "out") == rows(tmp_path / "here")
