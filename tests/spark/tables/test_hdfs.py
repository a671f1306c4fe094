"""Captures and tables in HDFS: a name node and a data node of Hadoop."""

import os
import pickle
import signal
import sys
import time
import warnings

import pytest

from pcli.codec.errors import LocalError
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.input.capture_files import find
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import open_store
from tests.interop.building import MissingError
from tests.spark.hadoop.cluster import hadoop
from tests.spark.tables.test_s3 import rows

CAPTURE = "go/nack.pcap"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    try:
        with hadoop(tmp_path_factory.mktemp("hadoop")) as running:
            yield running
    except MissingError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_captures_and_tables(url, tmp_path, small_captures):
    data = (small_captures / CAPTURE).read_bytes()
    with open_store(f"{url}/in/a folder").create("a.pcap") as file:
        file.write(data)
    [capture] = find([f"{url}/in"])
    assert (capture.path, capture.size) == (f"{url}/in/a%20folder/a.pcap", len(data))
    assert capture.changed_ns
    request = Request((f"{url}/in",), f"{url}/out", incremental=True)
    summaries = [analyze(request, InProcess()) for _ in range(2)]
    assert [(one.where, one.run) for one in summaries] == [(f"{url}/out", 1)] * 2
    analyze(Request((str(small_captures / CAPTURE),), str(tmp_path / "local")), InProcess())
    found, wanted = StoredTables(f"{url}/out"), StoredTables(str(tmp_path / "local"))
    for name in set(wanted.names) - {"captures", "findings"}:  # these two contain the path of the capture
        assert rows(found.read(name)) == rows(wanted.read(name)), name


@pytest.mark.slow
def test_a_task_writes_to_a_store_and_replaces_a_file(url):
    store = pickle.loads(pickle.dumps(open_store(f"{url}/store")))
    for text in (b"first", b"second"):
        with store.create("new") as file:
            file.write(text)
        store.move("new", "old")
    assert store.read("old") == b"second"


@pytest.mark.slow
def test_a_process_forks_after_it_has_used_hdfs(url):
    """pyspark forks to start the JVM."""
    assert open_store(f"{url}/store").read("missing") is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn if there are threads
        child = os.fork()
    if not child:
        os._exit(0)
    until = time.monotonic() + 20
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("hdfs:///in", "No fs.defaultFS setting found"),
        ("hdfs://MyCluster/in", "No NameNode hosts found"),
        ("hdfs://alice@node:8020/in", r"hdfs://node:8020: .* set HADOOP_USER_NAME=alice"),
    ],
)
def test_a_uri_without_a_name_node_is_one_line(monkeypatch, uri, message):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    for function in (find, open_store):
        with pytest.raises(LocalError, match=message):
            function([uri] if function is find else uri)


def test_no_name_node_is_one_line():
    with pytest.raises(LocalError, match=r"hdfs://127\.0\.0\.1:1/in: connection refused"):
        find(["hdfs://127.0.0.1:1/in"])


def test_a_missing_package_is_one_line(monkeypatch):
    monkeypatch.delitem(sys.modules, "pcli.spark.tables.hdfs", raising=False)
    monkeypatch.setitem(sys.modules, "hdfs_native.fsspec", None)
    with pytest.raises(LocalError, match=r"pip install 'pulsar-pcli\[hdfs\]'"):
        find(["hdfs:///in"])
