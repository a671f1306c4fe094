"""`pcli report`: to a file or a pipe, complete or no output at all; errors in one line."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request


@pytest.fixture(scope="module")
def tables(tmp_path_factory, captures):
    out = tmp_path_factory.mktemp("tables") / "out"
    path = str(captures / "java" / "dead-letter.pcap")
    analyze(Request((path,), str(out), only=("messages", "findings")), InProcess())
    return out


def test_a_file(pcli, tables, tmp_path):
    result = pcli("report", tables, "-o", tmp_path / "page.html", "--title", "Orders & <more>")
    assert (result.code, result.out, result.err) == (0, "", "")
    text = (tmp_path / "page.html").read_text()
    assert "<h1>Orders &amp; &lt;more&gt;</h1>" in text
    assert "poison-message" in text
    assert "Permits over time" not in text  # no such table in this run
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_stdout_receives_the_same_page(pcli, tables, tmp_path):
    assert pcli("report", tables, "-o", tmp_path / "page.html").code == 0
    assert pcli("report", tables, "-o", "-").raw == (tmp_path / "page.html").read_bytes()


def test_the_number_of_threads(pcli, tables, tmp_path):
    assert pcli("report", tables, "-o", "-", "-j", 1).raw == pcli("report", tables, "-o", "-").raw
    assert "0 is out of range" in pcli("report", tables, "-o", "-", "-j", 0).err.splitlines()[-1]


@pytest.mark.parametrize("what", ["missing", "empty", "other"])
def test_no_tables(pcli, tmp_path, what):
    folder = tmp_path / "there"
    if what != "missing":
        folder.mkdir()
    if what == "other":
        (folder / "notes.txt").write_text("mine")
    result = pcli("report", folder, "-o", tmp_path / "page.html")
    assert result.code == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert "no tables" in result.err
    assert not (tmp_path / "page.html").exists()


def test_no_folder_for_the_page(pcli, tables, tmp_path):
    result = pcli("report", tables, "-o", tmp_path / "nowhere" / "page.html")
    assert result.code == 2
    assert "there is no folder" in result.err


def test_a_folder_of_that_name(pcli, tables, tmp_path):
    result = pcli("report", tables, "-o", tmp_path)
    assert (result.code, result.out) == (2, "")
    assert "this is a folder" in result.err


def test_an_unwritable_page_is_reported_before_the_analysis(pcli, captures, tmp_path):
    page = tmp_path / "nowhere" / "page.html"
    result = pcli("analyze", captures / "java" / "dead-letter.pcap", "-o", tmp_path / "out", "--report", page)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"pcli: --report {page}: there is no folder {page.parent}\n"
    assert not (tmp_path / "out").exists()


EVIL = "\x1b[2J\u202e<script>alert(1)</script>"


@pytest.mark.parametrize(("table", "code"), [("captures", 0), ("findings", 2), ("messages", 2)])
def test_tables_of_another_author(pcli, tables, tmp_path, table, code):
    """Names can be any text. Other columns contain words of pcli; another word is an error, not a traceback."""
    shutil.copytree(tables, tmp_path / "out")
    [file, *_] = (tmp_path / "out" / table).rglob("*.parquet")
    found = pq.read_table(file, partitioning=None)
    columns = [
        pa.array([EVIL] * len(found), column.type) if pa.types.is_string(column.type) else column
        for column in found.columns
    ]
    pq.write_table(pa.table(columns, schema=found.schema), file)
    result = pcli("report", tmp_path / "out", "-o", "-")
    assert (result.code, result.err.count("\n")) == (code, code // 2)
    assert ("&lt;script&gt;" in result.out) == (code == 0)
    assert not {"\x1b", "\u202e"} & {*result.out, *result.err}
    assert "<script>alert" not in result.out


def test_a_range_and_a_topic(pcli, tables, tmp_path):
    page = tmp_path / "page.html"
    result = pcli("report", tables, "-o", page, "--topic", "go-dead-letter", "--topic", "dead-letter")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "no topic go-dead-letter" in result.err
    assert not page.exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--since", "2031-01-01T00:00:00Z"], "no packet is in this range"),
        (["--since", "1795000001", "--until", "1795000000"], "the range is empty"),
        (["--until", "yesterday"], "--until yesterday: write seconds since 1970"),
    ],
)
def test_a_range_that_selects_nothing_is_one_line(pcli, tables, tmp_path, options, text):
    result = pcli("report", tables, "-o", tmp_path / "page.html", *options)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert text in result.err


def test_a_missing_extra_is_one_line_with_the_remedy(pcli, tables, tmp_path, monkeypatch):
    monkeypatch.setattr("pcli.cli.tables.report.find_spec", lambda name: None if name == "vl_convert" else name)
    result = pcli("report", tables, "-o", tmp_path / "page.html")
    assert (result.code, result.out) == (2, "")
    assert result.err == "pcli: a report needs vl_convert: pip install 'pulsar-pcli[report]'\n"


def test_serving_is_refused_in_one_line(pcli, tables, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = pcli("report", tables, "--serve", "--port", port)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"pcli: port {port} of 127.0.0.1: address already in use\n"
    result = pcli("report", tables, "--serve", "--bind", "0.0.0.0")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "accept this with --insecure" in result.err
    result = pcli("report", tmp_path / "nowhere", "--serve", "--port", "0")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "no tables" in result.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serving_ends_with_a_signal(tables, running, number):
    command = [sys.executable, "-m", "pcli.cli", "report", str(tables), "--serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    running.append(SimpleNamespace(process=process, line=None))
    url = re.fullmatch(r"report at  (http://127\.0\.0\.1:\d+/)\n", process.stdout.readline())[1]
    with urllib.request.urlopen(f"{url}tables/messages", timeout=60) as response:
        assert b"dead-letter" in response.read()
    process.send_signal(number)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0
