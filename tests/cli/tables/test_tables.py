"""`pcli tables`: the list of tables and runs, and their maintenance; `pcli report` of an earlier run."""

import json

import pytest

from pcli.spark.tables.stored_tables import StoredTables
from tests.cli.tables.test_analyze import one_line

CAPTURE = "java/schemas.pcap"


@pytest.fixture
def out(pcli, small_captures, tmp_path):
    """A folder with the tables of two runs."""
    for name in (CAPTURE, "go/nack.pcap"):
        assert pcli("analyze", small_captures / name, "-o", tmp_path / "out", "--only", "connections").code == 0
    return tmp_path / "out"


def test_the_tables_of_the_last_run(pcli, out):
    rows = json.loads(pcli("tables", out, "-T", "json").out)
    assert [(row["table"], row["version"], row["files"]) for row in rows] == [
        ("captures", 1, 1), ("gaps", 1, 0), ("connections", 1, 1),
    ]  # fmt: skip
    connections = StoredTables(str(out)).read("connections").num_rows
    assert rows[-1]["rows"] == connections
    text = pcli("tables", out).lines
    assert text[0].split() == ["table", "version", "rows", "bytes", "files"]
    assert text[-1].split()[:3] == ["connections", "1", str(connections)]


def test_the_runs(pcli, out):
    rows = json.loads(pcli("tables", out, "--runs", "-T", "json").out)
    assert [(row["run"], row["tables"]) for row in rows] == [(1, 3), (2, 3)]


def test_earlier_runs_are_removed(pcli, out):
    assert pcli("tables", "vacuum", out).out == "0 files removed\n"
    assert pcli("tables", "vacuum", out, "--keep", "0", "--dry-run").out == "2 files would be removed\n"
    assert pcli("tables", "vacuum", out, "--keep", "0").code == 0
    assert "no run 1; " in one_line(pcli("report", out, "--run", "1", "-o", out / "r.html"))


def test_small_files_are_merged(pcli, out):
    assert pcli("tables", "compact", out).out == f"{out}: run 2, 2 files\n"


@pytest.mark.parametrize("words", [[], ["--runs"], ["vacuum"], ["compact"]])
def test_a_folder_without_tables(pcli, tmp_path, words):
    arguments = [words[0], tmp_path] if words and not words[0].startswith("-") else [tmp_path, *words]
    assert one_line(pcli("tables", *arguments)).endswith(
        "the folder contains no tables: create them with `pcli analyze -o`"
    )


def test_a_report_of_an_earlier_run(pcli, out, tmp_path):
    pytest.importorskip("vl_convert")
    for number in (1, 2):
        page = tmp_path / f"{number}.html"
        assert pcli("report", out, "--run", number, "-o", page).code == 0
        assert ("schemas.pcap" in page.read_text()) == (number == 1)
    assert pcli("report", out, "--as-of", "2999-01-01", "-o", tmp_path / "x.html").code == 0
    assert (tmp_path / "x.html").read_text() == (tmp_path / "2.html").read_text()
    line = one_line(pcli("report", out, "--as-of", "2001-01-01", "-o", tmp_path / "y.html"))
    assert "no run that had finished at this time" in line
    assert "--run and --as-of" in one_line(pcli("report", out, "--run", 1, "--as-of", "2999-01-01"))


def test_days_without_end_are_refused(pcli, out):
    ran = pcli("tables", "vacuum", out, "--keep", "inf")
    assert ran.code == 2
    assert "Traceback" not in ran.err
