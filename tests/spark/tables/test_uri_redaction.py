"""Passwords in URIs are never printed or written."""

import pytest
from pyarrow import fs

from pcli.codec.errors import LocalError
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.input import capture_files
from pcli.spark.input.capture_files import place_of
from pcli.spark.input.read_plan import plan
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import open_store
from pcli.spark.tables.uri_redaction import hidden


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s3://key:s3cret@bucket/a@b?region=x", "s3://***@bucket/a@b?region=x"),
        ("cannot parse 's3://key:s3/cr+et@bucket/a'", "cannot parse 's3://***@bucket/a'"),
        ("s3://key:s3@cret@bucket/a", "s3://***@bucket/a"),
        ("s3://bucket/a?secret_key=s3cret&region=x", "s3://bucket/a?secret_key=***&region=x"),
        ("hdfs://me@node:8020/a/b@c", "hdfs://me@node:8020/a/b@c"),
        ("hdfs://node:8020/a/b@c", "hdfs://node:8020/a/b@c"),
        ("abfs://container@account.dfs.core.windows.net/a", "abfs://container@account.dfs.core.windows.net/a"),
        ("/folder/a:b@c?key=1", "/folder/a:b@c?key=1"),
    ],
)
def test_only_the_password_is_hidden(text, told):
    assert hidden(text) == told


@pytest.mark.parametrize("opened", [place_of, open_store, lambda uri: plan([uri])])
@pytest.mark.parametrize("uri", ["s3://key:s3/cret@b c/d", "gopher://key:s3cret@x/y"])
def test_no_message_contains_the_password(opened, uri):
    with pytest.raises(LocalError) as caught:
        opened(uri)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("incremental", [False, True])
def test_nothing_of_it_is_written(tmp_path, small_captures, monkeypatch, incremental):
    files, _ = fs.FileSystem.from_uri("mock:///")
    files.create_dir("bucket")
    with files.open_output_stream("bucket/a.pcap") as file:
        file.write((small_captures / "go" / "nack.pcap").read_bytes())
    with files.open_output_stream("bucket/bad.pcap") as file:
        file.write(b"nothing")

    def file_system_of(uri):
        assert "key:s3cret@" in uri
        return files, uri.partition("@")[2]

    monkeypatch.setattr(capture_files, "file_system_of", file_system_of)
    request = Request(("s3://key:s3cret@bucket",), str(tmp_path), incremental=incremental)
    analyze(request, InProcess())
    rows = StoredTables(str(tmp_path)).read("captures").to_pylist()
    assert {row["path"] for row in rows} == {"s3://***@bucket/bad.pcap", "s3://***@bucket/a.pcap"}
    assert StoredTables(str(tmp_path)).run.request["paths"] == ["s3://***@bucket"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
