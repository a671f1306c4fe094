"""Captures and tables in S3: moto's server stands in for the storage."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import closing

import pytest
from deltalake import DeltaTable

from pcli.codec.errors import LocalError
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.run_commit import begin
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import open_store
from tests.spark.tables.test_run_commit import CAPTURES, GAPS, a_run, our_paths, run_whole

CAPTURE = "go/nack.pcap"


def free_port():
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def server():
    """The URL of an S3 server that accepts any credentials."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{url}/moto-api/data.json", timeout=5).close()
            break
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
    yield url
    process.kill()
    process.wait()


@pytest.fixture
def bucket(server):
    """Return a function that creates URIs in a new bucket, with credentials and the address of the server."""
    urllib.request.urlopen(f"{server}/moto-api/reset", data=b"", timeout=5).close()
    urllib.request.urlopen(urllib.request.Request(f"{server}/bucket", method="PUT"), timeout=5).close()
    query = f"endpoint_override={server.removeprefix('http://')}&scheme=http&region=us-east-1"

    def uri(path, key="key", secret="secret"):
        return f"s3://{key}:{secret}@bucket/{path}?{query}"

    return uri


def rows(table):
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in table.to_pylist())


def test_captures_and_tables(bucket, tmp_path, small_captures):
    data = (small_captures / CAPTURE).read_bytes()
    with open_store(bucket("in")).create("a.pcap") as file:
        file.write(data)
    for run in (1, 2):
        assert analyze(Request((bucket("in/a.pcap"),), bucket("out")), InProcess()).run == run
    analyze(Request((str(small_captures / CAPTURE),), str(tmp_path / "local")), InProcess())
    found, wanted = StoredTables(bucket("out")), StoredTables(str(tmp_path / "local"))
    for name in set(wanted.names) - {"captures", "findings"}:  # these two contain the path of the capture
        assert rows(found.read(name)) == rows(wanted.read(name)), name
    assert found.read("findings", ["what"]).equals(wanted.read("findings", ["what"]))
    [capture] = found.read("captures").to_pylist()
    assert (capture["path"].partition("?")[0], capture["status"]) == ("s3://***@bucket/in/a.pcap", "read")


def test_another_program_reads_the_tables(bucket, server):
    run_whole(open_store(bucket("out")), "a", "b")
    options = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": server,
               "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}  # fmt: skip
    table = DeltaTable("s3://bucket/out/captures", storage_options=options)
    assert sorted(table.to_pyarrow_table()["path"].to_pylist()) == ["a", "b"]


@pytest.mark.parametrize("first", [True, False], ids=["new folder", "existing tables"])
def test_of_two_writers_at_once_the_second_changes_nothing(bucket, first):
    store = open_store(bucket("out"))
    if not first:
        run_whole(store, "a")
    slow, made = a_run(store, "slow")
    run_whole(store, "quick")
    with pytest.raises(LocalError, match="captures: a different run or program has committed in the meantime"):
        slow.commit(made, [CAPTURES, GAPS], request={})
    slow.abandon()
    assert our_paths(store) == ["quick"]
    assert store.list("_work") == []


def test_invalid_credentials_are_reported_in_one_line(small_captures):
    port = free_port()
    environment = {"INITIAL_NO_AUTH_ACTION_COUNT": "0", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert time.monotonic() < until
                    time.sleep(0.1)
            place = f"s3://no:s3cret@bucket/out?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
            for use in (lambda: begin(open_store(place)), lambda: StoredTables(place)):
                with pytest.raises(LocalError) as caught:
                    use()
                assert "\n" not in str(caught.value)
                assert "s3cret" not in str(caught.value)
                assert "bucket/out" in str(caught.value)
        finally:
            process.kill()
