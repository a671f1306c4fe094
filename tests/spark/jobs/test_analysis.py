"""The analysis on Spark gives the tables that it gives in one process."""

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest
from pyspark import cloudpickle

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.jobs.spark_engine import SparkEngine
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables


def tables(out, paths, engine, **options):
    """Return every table as sorted rows."""
    analyze(Request(tuple(map(str, paths)), str(out), **options), engine)
    stored = StoredTables(str(out))
    return {name: sorted(map(repr, stored.read(name).to_pylist())) for name in stored.names}


def once(mark, function, item):
    """Call the function, but kill the process the first time."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return function(item)


class Killing(SparkEngine):
    """A Python worker is killed in each stage."""

    def __init__(self, session, folder):
        super().__init__(session)
        self.folder = folder

    def map(self, what, function, items, **more):
        return super().map(what, partial(once, str(self.folder / what), function), items, **more)

    def exchange(self, what, cut, items, buckets, join, **more):
        return super().exchange(what, partial(once, str(self.folder / what), cut), items, buckets, join, **more)


@pytest.fixture
def by_value():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.slow
@pytest.mark.usefixtures("by_value")
def test_tables_are_the_same_though_workers_are_killed(spark, parts_of, tmp_path):
    """Parts of a recording divided into splits; a worker is killed in every stage."""
    parts = parts_of("python/10-shared-redelivery.pcap", 2)
    wanted = tables(tmp_path / "one", parts, InProcess(), frames=True)
    marks = tmp_path / "marks"
    marks.mkdir()
    engine = Killing(spark, marks)
    assert tables(tmp_path / "spark", parts, engine, frames=True, split_bytes=60_000) == wanted
    assert {mark.name for mark in marks.iterdir()} >= {"scan", "parse", "merge", "observe"}
    assert wanted["messages"]
    assert not [path for path in (tmp_path / "spark" / "_work").rglob("*") if path.is_file()]
