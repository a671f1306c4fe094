"""Spark Connect: the tables of a server whose workers lack pcli, and errors. For the engine see test_engine.py."""

import socket
import sys
from contextlib import closing

import pytest

from pcli.codec.errors import LocalError
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.jobs import connect_session
from pcli.spark.jobs.api import read_messages
from pcli.spark.jobs.connect_engine import ConnectEngine
from pcli.spark.jobs.connect_session import open_connect
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

NAME = "flex/01-produce-consume.pcap"


def rows_of(out):
    """Return the rows of each table, in any order."""
    tables = StoredTables(str(out))
    return {name: sorted(map(repr, tables.read(name).to_pylist())) for name in tables.names}


@pytest.mark.slow
def test_the_tables_equal_those_in_this_process(small_captures, connect_url, tmp_path):
    analyze(Request((str(small_captures / NAME),), str(tmp_path / "here")), InProcess())
    with open_connect(connect_url) as session, closing(ConnectEngine(session)) as engine:
        analyze(Request((str(small_captures / NAME),), str(tmp_path / "out")), engine)
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "here")


@pytest.mark.slow
def test_messages_as_a_data_frame(small_captures, connect_url, tmp_path):
    with open_connect(connect_url) as session:
        captures = session.createDataFrame([(str(small_captures / NAME),)], "path string")
        found = captures.transform(read_messages, str(tmp_path / "out"))
        assert found.count() == len(StoredTables(str(tmp_path / "out")).read("messages"))


@pytest.mark.parametrize(
    ("url", "shown", "problem"),
    [
        ("sc://127.0.0.1:{port}/;token=secret", "sc://127.0.0.1:{port}/", "no Spark Connect server responds"),
        ("sc://me:secret@127.0.0.1:{port}", "sc://***@127.0.0.1:{port}", ""),
        ("sc://127.0.0.1:{port};token=secret", "sc://127.0.0.1:{port}", "write sc://host:port"),
    ],
)
def test_a_server_that_does_not_respond_is_one_line(monkeypatch, url, shown, problem):
    """The error does not contain the token."""
    monkeypatch.setattr(connect_session, "_PATIENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(LocalError) as error, open_connect(url.format(port=port)):
            pass
    assert str(error.value).startswith(f"--master {shown.format(port=port)}: {problem}")
    assert "secret" not in str(error.value)


def test_missing_packages_are_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
    with pytest.raises(LocalError, match=r"pip install 'pulsar-pcli\[connect\]'"), open_connect("sc://127.0.0.1:1"):
        pass
