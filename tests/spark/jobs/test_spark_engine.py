"""Resources of Spark after completed and interrupted stages (for results see tests/spark/test_engine.py)."""

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from pcli.codec.errors import LocalError
from pcli.spark.engine import Block
from pcli.spark.jobs import spark_engine as module
from pcli.spark.jobs.spark_engine import SparkEngine


def length(item):
    return len(item)


def shared_length(shared, item):
    return len(shared.value) + item


def cut(item):
    for bucket in range(250):
        yield Block(bucket, 0, "n", pa.record_batch({"n": [item]}))


def joined(bucket, blocks):
    return bucket, [n for _, rows in blocks for n in rows["n"].to_pylist()]


def writing(folder, item):
    """Write to a file of the task for half a minute."""
    path = Path(folder, str(item))
    for _ in range(300):
        with path.open("a") as file:
            file.write("x")
        time.sleep(0.1)


def writing_beside_failing(folder, item):
    if item == 0:
        while not Path(folder, "1").exists():
            time.sleep(0.1)
        raise ValueError("item 0 is bad")
    writing(folder, item)


@pytest.fixture(autouse=True)
def by_value():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def context(spark):
    return spark.sparkContext


def broadcasts(context):
    """Return the driver's files of broadcasts."""
    return {path for path in Path(context._temp_dir).iterdir() if path.is_file()}


def test_a_context_will_do(context):
    assert SparkEngine(context).map("length", length, ["a", "bc"]) == [1, 2]


def test_large_items_go_as_broadcasts_and_these_are_destroyed(context, monkeypatch):
    monkeypatch.setattr(module, "_LARGE", 1000)
    before, made, broadcast = broadcasts(context), [], context.broadcast
    monkeypatch.setattr(context, "broadcast", lambda value: made.append(value) or broadcast(value))
    assert SparkEngine(context).map("length", length, ["a", "b" * 5000, "cd"]) == [1, 5000, 2]
    assert len(made) == 1
    assert broadcasts(context) == before


@pytest.mark.slow
def test_the_number_of_partitions_follows_the_size(context):
    """Some buckets share a partition, and there are more partitions than Spark's simplest shuffle supports (200)."""
    for size, partitions in ((1, 8), (1 << 33, 250)):
        told = []
        engine = SparkEngine(context, told.append)
        wanted = [(bucket, list(range(3))) for bucket in range(250)]
        assert engine.exchange("cut", cut, range(3), 250, joined, sizes=[size] * 3) == wanted
        assert told[-1].total == 3 + partitions


def test_a_broadcast_is_destroyed_after_its_last_reference(context):
    before, engine = broadcasts(context), SparkEngine(context)
    shared = engine.share("x" * 10)
    assert shared.value == "x" * 10
    assert engine.map("length", partial(shared_length, shared), [1, 2]) == [11, 12]
    assert len(broadcasts(context) - before) == 1
    assert engine.map("length", partial(shared_length, shared), [3]) == [13]
    del shared
    engine.close()
    assert broadcasts(context) == before


def test_without_a_listener_there_is_no_accumulator(context, monkeypatch):
    made, accumulator = [], context.accumulator
    monkeypatch.setattr(context, "accumulator", lambda value: made.append(value) or accumulator(value))
    assert SparkEngine(context).map("length", length, ["a"], sizes=[10]) == [1]
    assert made == []
    told = []
    assert SparkEngine(context, told.append).map("length", length, ["a"], sizes=[10]) == [1]
    assert len(made) == 1
    assert told[-1].bytes_done == 10


def grown(folder):
    """Return whether the files of tasks still grow."""
    before = {path: path.stat().st_size for path in folder.iterdir()}
    time.sleep(0.5)
    return {path: path.stat().st_size for path in folder.iterdir()} != before


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_no_task_that_writes(context, tmp_path):
    def interrupt():
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        SparkEngine(context).map("write", partial(writing, str(tmp_path)), [0, 1])
    assert not grown(tmp_path)
    assert SparkEngine(context).map("length", length, ["a"]) == [1]


def test_a_stage_that_fails_leaves_no_task_that_writes(context, tmp_path):
    with pytest.raises(LocalError, match="ValueError: item 0 is bad"):
        SparkEngine(context).map("write", partial(writing_beside_failing, str(tmp_path)), [0, 1])
    assert not grown(tmp_path)
