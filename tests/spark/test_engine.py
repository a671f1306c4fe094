"""The methods of `Engine`, in this process, in several processes, on Spark and on Spark Connect."""

import sys
from contextlib import closing
from functools import partial

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from pcli.codec.errors import LocalError
from pcli.spark import engine as engines
from pcli.spark.engine import Block, InProcess, Progress, packed, unpacked
from pcli.spark.jobs.connect_engine import ConnectEngine
from pcli.spark.jobs.connect_session import open_connect
from pcli.spark.jobs.spark_engine import SparkEngine
from pcli.spark.processes import Processes

pytestmark = pytest.mark.usefixtures("importable_tests")


def doubled(item):
    return item * 2


def refusing(item):
    raise LocalError(f"item {item} is bad")


def plus(shared, item):
    return item + shared.value


def cut(item):
    """Yield the numbers below 100 by their remainder; later items have lower ranks."""
    for part in range(2):
        for bucket in (0, 2):
            numbers = [n for n in range(item, 100, 10) if n % 4 == bucket and n % 3 % 2 == part]
            yield Block(bucket, -item, f"kind{part}", pa.record_batch({"n": pa.array(numbers, pa.int64())}))


def refusing_cut(item):
    yield Block(0, 0, "", pa.record_batch({"n": [1]}))
    raise LocalError(f"item {item} is bad")


def joined(bucket, blocks):
    return bucket, [(kind, rows["n"].to_pylist()) for kind, rows in blocks if rows.num_rows]


def refusing_join(bucket, blocks):
    raise LocalError(f"bucket {bucket} is bad")


def expected(bucket):
    found = []
    for item in reversed(range(10)):
        for part in range(2):
            numbers = [n for n in range(item, 100, 10) if n % 4 == bucket and n % 3 % 2 == part]
            if numbers:
                found.append((f"kind{part}", numbers))
    return bucket, found


@pytest.fixture
def told():
    return []


@pytest.fixture(params=["here", "processes", "spark", pytest.param("connect", marks=pytest.mark.slow)])
def engine(told, request):
    if request.param == "here":
        yield InProcess(told.append)
    elif request.param == "processes":
        with closing(Processes(2, told.append)) as running:
            yield running
    elif request.param == "spark":
        yield SparkEngine(request.getfixturevalue("spark"), told.append)
    else:
        with open_connect(request.getfixturevalue("connect_url")) as session:
            yield ConnectEngine(session, told.append)


@pytest.fixture(scope="module", autouse=True)
def functions_go_as_they_are():
    """The workers cannot import a module of the tests."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_results_of_map_are_in_the_order_of_items(engine):
    assert engine.map("double", doubled, [3, 1, 2]) == [6, 2, 4]
    assert engine.map("double", doubled, []) == []


def test_a_shared_value_is_available_in_tasks(engine):
    shared = engine.share(40)
    assert engine.map("add", partial(plus, shared), [1, 2]) == [41, 42]


def test_a_pcli_error_of_a_task_is_raised(engine):
    with pytest.raises(LocalError, match="item 7 is bad"):
        engine.map("refuse", refusing, [7])
    with pytest.raises(LocalError, match="item 7 is bad"):
        engine.exchange("refuse", refusing_cut, [7], 1, joined)
    with pytest.raises(LocalError, match="bucket 0 is bad"):
        engine.exchange("refuse", cut, [0], 3, refusing_join)


def test_an_exchange_groups_rows_by_bucket(engine):
    results = engine.exchange("sort", cut, range(10), 3, joined)
    assert results == [expected(0), expected(2)]
    assert engine.exchange("sort", cut, [], 3, joined) == []


def test_progress_is_reported_in_bytes(engine, told):
    """Spark Connect reports only tasks."""
    engine.map("double", doubled, [3, 1], sizes=[100, 50])
    assert told[0].what == "double"
    size = 0 if isinstance(engine, ConnectEngine) else 150
    assert told[-1] == Progress("double", 2, 0, 2, size, size)
    assert [progress.bytes_done for progress in told] == sorted(progress.bytes_done for progress in told)


def test_blocks_beyond_the_memory_limit_are_stored_in_a_file(monkeypatch):
    monkeypatch.setattr(engines, "_HELD", 100)
    assert InProcess().exchange("sort", cut, range(10), 3, joined) == [expected(0), expected(2)]


def test_rows_are_the_same_when_they_were_packed():
    rows = pa.record_batch({"a": [1, None, 3], "b": [b"x", b"", None]})
    assert unpacked(packed(rows)).equals(rows)
    assert unpacked(packed(rows.slice(1, 1))).to_pydict() == {"a": [None], "b": [b""]}
