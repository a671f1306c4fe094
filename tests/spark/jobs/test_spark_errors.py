"""Spark's errors in one line."""

import os
import signal
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import cloudpickle

from pcli.codec.errors import LocalError
from pcli.spark.jobs.spark_engine import SparkEngine
from pcli.spark.jobs.spark_errors import one_line, plain_errors


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x\n"
            "ModuleNotFoundError: No module named 'numpy'",
            "the Python of the workers lacks numpy: install pulsar-pcli[spark] there, or set PYSPARK_PYTHON to "
            "a different Python (docs/spark.md)",
        ),
        (
            "org.apache.spark.SparkException: Job aborted due to stage failure: java.io.IOException: "
            "No space left on device\n\tat java.base",
            "no space left for Spark's temporary files (spark.local.dir) or for the tables",
        ),
        (
            "org.apache.spark.SparkException: Job aborted due to stage failure: Total size of serialized results of 17 "
            "tasks (1030.2 MiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)\n\tat x",
            "the results of the tasks (1030.2 MiB) exceed the limit of the driver (1024.0 MiB): set --conf "
            "spark.driver.memory=8g",
        ),
        (
            'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such file or directory\n'
            "\tat x\nCaused by: java.io.IOException: error=2, No such file or directory",
            "the workers have no Python at ./environment/bin/python: set PYSPARK_PYTHON to a path that is valid on all "
            "workers (docs/spark.md)",
        ),
        ("Traceback\n  File x\nValueError: no such thing: 3\n", "ValueError: no such thing: 3"),
        (": java.lang.IllegalStateException: Cannot do\n\tat x.y.Z", "IllegalStateException: Cannot do"),
        ("", "unknown error; --debug shows the output"),
    ],
)
def test_known_errors_are_one_line(words, line):
    assert one_line(words) == line


def test_secrets_of_uris_are_hidden():
    with pytest.raises(LocalError, match=r"s3://\*\*\*@bucket") as told, plain_errors():
        raise ConnectionError("ValueError: s3://key:secret@bucket/x")
    assert "secret" not in str(told.value)


def test_ctrl_c_is_raised_instead_of_the_error_of_py4j():
    """The signal, the error of the socket that it closed, and the error of py4j."""
    closed = OSError("Bad file descriptor")
    closed.__context__ = KeyboardInterrupt()
    told = Py4JNetworkError("Answer from Java side is empty")
    told.__context__ = closed
    with pytest.raises(KeyboardInterrupt), plain_errors():
        raise told


def dying(mark, item):
    """Kill the process once."""
    if item == 1 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item * 2


def always_dying(item):
    os.kill(os.getpid(), signal.SIGKILL)


def broken(item):
    return item["no such key"]


@pytest.fixture
def engine(spark):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield SparkEngine(spark)
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_a_python_worker_that_is_killed_costs_no_results(engine, tmp_path):
    from functools import partial

    mark = tmp_path / "killed"
    assert engine.map("die", partial(dying, str(mark)), [0, 1, 2]) == [0, 2, 4]
    assert mark.exists()


def test_repeatedly_killed_workers_are_reported_in_one_line(engine, capfd):
    with pytest.raises(LocalError, match="a Python worker was killed repeatedly"):
        engine.map("die", always_dying, [1])
    assert capfd.readouterr() == ("", "")


def test_an_error_in_a_task_is_reported_in_one_line(engine):
    with pytest.raises(LocalError, match=r"^Spark: TypeError: 'int' object is not subscriptable$"):
        engine.map("break", broken, [1])
