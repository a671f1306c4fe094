"""Spark Connect: the tables of a server whose workers lack pcli, and errors. For the engine see test_engine.py."""

import sys
from contextlib import closing

import pytest

from pcli.codec.errors import LocalError
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
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


def test_no_server_is_one_line():
    """The error does not contain the token."""
    message = r"^--master sc://127\.0\.0\.1:1/: no Spark Connect server responds at this address$"
    with pytest.raises(LocalError, match=message), open_connect("sc://127.0.0.1:1/;token=secret"):
        pass


def test_missing_packages_are_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
    with pytest.raises(LocalError, match=r"pip install 'pulsar-pcli\[connect\]'"), open_connect("sc://127.0.0.1:1"):
        pass
