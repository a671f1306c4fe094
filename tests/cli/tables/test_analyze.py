"""`pcli analyze`: output, exit codes, errors in one line."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pcli.spark import worker_server
from pcli.spark.tables.stored_tables import StoredTables

CAPTURE = "flex/01-produce-consume.pcap"
FAST = ("--only", "captures")


@pytest.fixture
def folder(tmp_path, small_captures):
    """A folder that contains two captures."""
    captures = tmp_path / "captures"
    captures.mkdir()
    shutil.copy(small_captures / CAPTURE, captures / "one.pcap")
    shutil.copy(small_captures / "go" / "nack.pcap", captures / "two.pcap")
    return captures


def one_line(ran, code=2):
    """Return the only line of a command that failed with this code."""
    assert ran.code == code, (ran.out, ran.err)
    [line] = ran.err.splitlines()
    return line


def test_tables_and_their_sum(pcli, folder, tmp_path):
    ran = pcli("analyze", folder, "-o", tmp_path / "out")
    assert ran.code == 0
    assert ran.err == ""
    names = {line.split()[0] for line in ran.lines[1:] if line.startswith(tuple("abcefgklmpst"))}
    assert {"captures:", "findings:"} <= names
    tables = StoredTables(str(tmp_path / "out"))
    assert set(tables.names) <= names
    assert set(tables.names) >= {"messages", "exchanges", "findings", "consumers", "producers", "connections", "gaps"}
    assert "captures: 2 read; " in ran.out
    assert ran.lines[-1] == f"{tmp_path / 'out'}: run 1"


def test_an_incremental_run_without_new_captures_changes_nothing(pcli, folder, tmp_path):
    arguments = ("analyze", folder, "-o", tmp_path / "out", "--only", "findings,consumers", "--incremental")
    first = pcli(*arguments)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    second = pcli(*arguments)
    assert second.lines[-1] == f"{first.lines[-1]}, unchanged"
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == times


@pytest.mark.parametrize("number", ["0", "-2", "many"])
def test_a_wrong_number_of_processes_is_one_line(pcli, folder, tmp_path, number):
    ran = pcli("analyze", folder, "-o", tmp_path / "out", "-j", number)
    assert ran.code == 2
    assert ran.err.splitlines()[-1].startswith("Error: Invalid value for '-j' / '--jobs': ")
    assert not (tmp_path / "out").exists()


def test_several_processes_print_the_lines_of_one(pcli, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_server, "SMALL_BYTES", 0)
    ran = [pcli("analyze", folder, "-o", tmp_path / f"out{jobs}", "-j", jobs) for jobs in (1, 2)]
    assert [one.code for one in ran] == [0, 0]
    assert ran[0].lines[:-1] == ran[1].lines[:-1]


def test_out_may_lie_among_the_captures(pcli, folder):
    for _ in range(2):
        ran = pcli("analyze", folder, "-o", folder / "out", *FAST)
        assert ran.code == 0
        assert "captures: 2 read; " in ran.out
    assert ran.lines[-1].endswith("run 2")


def test_a_report_beside_the_tables(pcli, folder, tmp_path):
    pytest.importorskip("vl_convert")
    ran = pcli("analyze", folder, "-o", tmp_path / "out", "--report", tmp_path / "report.html")
    assert ran.code == 0, ran.err
    assert (tmp_path / "report.html").read_text().lower().startswith("<!doctype html>")


def test_times_leave_out_packets(pcli, folder, tmp_path):
    pcli("analyze", folder / "one.pcap", "-o", tmp_path / "all", *FAST)
    [whole] = StoredTables(str(tmp_path / "all")).read("captures").to_pylist()
    middle = (whole["first_ns"] + whole["last_ns"]) // 2
    text = f"{middle // 10**9}.{middle % 10**9:09d}"
    halves = []
    for option in ("--since", "--until"):
        ran = pcli("analyze", folder / "one.pcap", "-o", tmp_path / option, *FAST, option, text)
        assert ran.code == 0
        halves += StoredTables(str(tmp_path / option)).read("captures").to_pylist()
    assert sum(half["packets"] for half in halves) == whole["packets"]
    assert halves[0]["first_ns"] >= middle > halves[1]["last_ns"]
    assert all(half["packets"] for half in halves)


def test_clusters_by_a_pattern(pcli, tmp_path, small_captures):
    for cluster, name in (("east", CAPTURE), ("west", "go/nack.pcap")):
        (tmp_path / "in" / cluster).mkdir(parents=True)
        shutil.copy(small_captures / name, tmp_path / "in" / cluster / "x.pcap")
    arguments = ("analyze", tmp_path / "in", "-o", tmp_path / "out", "--only", "connections")
    assert pcli(*arguments, "--cluster", "in/{cluster}/*").code == 0
    tables = StoredTables(str(tmp_path / "out"))
    assert sorted(tables.read("captures")["cluster"].to_pylist()) == ["east", "west"]
    assert set(tables.read("connections")["cluster"].to_pylist()) == {"east", "west"}
    assert "matches none of 2 files" in one_line(pcli(*arguments, "--cluster", "none/{cluster}/*"))


# -- bad input -------------------------------------------------------------------------------------------------------


def test_nothing_there(pcli, tmp_path):
    (tmp_path / "empty").mkdir()
    out = ("-o", tmp_path / "out")
    assert "no files found" in one_line(pcli("analyze", tmp_path / "empty", *out))
    assert "no such file or folder" in one_line(pcli("analyze", tmp_path / "gone", *out))
    assert "no file" in one_line(pcli("analyze", tmp_path / "*.pcap", *out))
    (tmp_path / "empty" / "notes.txt").write_text("hello")
    assert "notes.txt" in one_line(pcli("analyze", tmp_path / "empty", *out))
    assert not (tmp_path / "out").exists()


def test_one_bad_file_among_good_ones(pcli, folder, tmp_path):
    (folder / "broken.pcap.gz").write_bytes(b"\x1f\x8b\x08\x00nonsense")
    (folder / "notes.txt").write_text("hello")
    ran = pcli("analyze", folder, "-o", tmp_path / "out", *FAST)
    assert "broken.pcap.gz: unreadable: " in one_line(ran, code=3)
    rows = StoredTables(str(tmp_path / "out")).read("captures").to_pylist()
    found = {Path(row["path"]).name: row["status"] for row in rows}
    assert found == {
        "one.pcap": "read", "two.pcap": "read", "broken.pcap.gz": "unreadable", "notes.txt": "not a capture",
    }  # fmt: skip
    ran = pcli("analyze", folder, "-o", tmp_path / "strict", *FAST, "--strict")
    assert "broken.pcap.gz" in one_line(ran)
    assert "--strict: nothing was changed" in ran.err
    assert not (tmp_path / "strict").exists()


def test_a_removed_file_is_reported(pcli, folder, tmp_path):
    ran = pcli("analyze", folder, folder / "three.pcap", "-o", tmp_path / "out", *FAST)
    assert "three.pcap: unreadable: no such file" in one_line(ran, code=3)


def test_a_part_that_is_still_being_written(pcli, folder, tmp_path):
    whole = (folder / "two.pcap").read_bytes()
    (folder / "two.pcap").write_bytes(whole[:-7])
    ran = pcli("analyze", folder, "-o", tmp_path / "out", *FAST)
    assert "two.pcap: partly: " in one_line(ran, code=3)
    [row] = [
        one for one in StoredTables(str(tmp_path / "out")).read("captures").to_pylist() if one["status"] == "partly"
    ]
    assert "still being written" in row["error"]
    assert row["read_bytes"] + row["not_read_bytes"] == row["file_bytes"] == len(whole) - 7
    [gap] = [one for one in StoredTables(str(tmp_path / "out")).read("gaps").to_pylist() if one["kind"] == "file"]
    assert (gap["capture"], gap["offset"]) == (row["path"], row["read_bytes"])
    ran = pcli("analyze", folder, "-o", tmp_path / "out", *FAST, "--strict")
    assert "two.pcap" in one_line(ran)
    assert StoredTables(str(tmp_path / "out")).run.run == 1


def test_a_folder_with_other_files_is_refused(pcli, folder, tmp_path):
    ran = pcli("analyze", folder / "one.pcap", "-o", folder, *FAST)
    assert "other files and no tables of pcli" in one_line(ran)
    assert sorted(path.name for path in folder.iterdir()) == ["one.pcap", "two.pcap"]
    ran = pcli("analyze", folder / "one.pcap", "-o", folder / "two.pcap", *FAST)
    assert "a file, not a folder" in one_line(ran)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "mesages"), "unknown table"),
        (("--since", "yesterday"), "--since yesterday: write seconds since 1970"),
        (("--since", "20", "--until", "10"), "is not before"),
        (("--cluster", "a/*"), "needs {cluster}"),
        (("--decode-as", "x"), "-d x: write"),
    ],
)
def test_options_that_make_no_sense(pcli, folder, tmp_path, arguments, message):
    assert message in one_line(pcli("analyze", folder, "-o", tmp_path / "out", *arguments))
    assert not (tmp_path / "out").exists()


def test_a_uri_of_no_file_system(pcli, folder):
    assert "nowhere://x/y" in one_line(pcli("analyze", folder, "-o", "nowhere://x/y"))


def test_a_disk_that_is_full_leaves_the_old_tables(pcli, folder, tmp_path):
    """The closest simulation of a full disk without root: the system refuses larger files."""
    out = tmp_path / "out"
    assert pcli("analyze", folder / "one.pcap", "-o", out, "--only", "connections").code == 0
    before = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))"
    script = f"import resource, sys; from pcli.cli.app import main; {limit}; main()"
    arguments = [sys.executable, "-c", script, "analyze", str(folder), "-o", str(out), "--only", "connections"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "file too large" in line
    assert {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


WAITING = """
import sys
from pcli.cli.app import main
from pcli.spark.tables.run_commit import OpenRun

def wait(*_, **__):
    print("made", flush=True)
    sys.stdin.read()

OpenRun.commit = wait
main()
"""
"""An analysis that waits before the commit."""


def test_killed_in_the_middle_the_old_tables_are_there(folder, tmp_path, pcli):
    """kill -9 of a whole process. tests/spark/tables/test_run_commit.py covers every point of the commit."""
    out = tmp_path / "out"
    assert pcli("analyze", folder / "one.pcap", "-o", out, "--only", "connections").code == 0
    before = StoredTables(str(out)).read("connections")
    arguments = [sys.executable, "-c", WAITING, "analyze", str(folder), "-o", str(out), "--only", "connections"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"made\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert StoredTables(str(out)).read("connections").equals(before)
    assert StoredTables(str(out)).run.run == 1
    assert pcli("analyze", folder, "-o", out, "--only", "connections").code == 0
    assert not (out / "_work").exists()
    assert StoredTables(str(out)).read("connections").num_rows > before.num_rows


def test_without_a_required_package_the_packages_to_install_are_reported(folder, tmp_path):
    for missing in ("deltalake", "numpy", "pyarrow"):
        script = f"import sys; sys.modules[{missing!r}] = None; from pcli.cli.app import main; main()"
        arguments = [sys.executable, "-c", script, "analyze", str(folder), "-o", str(tmp_path / "out")]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2
        assert done.stderr == "pcli: tables need deltalake, numpy and pyarrow: pip install 'pulsar-pcli[tables]'\n"


def test_help_needs_none_of_them():
    script = (
        "import sys; from pcli.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'numpy', 'pyarrow', 'pyspark', 'vl_convert', 'rich'} & sys.modules.keys()))"
    )
    arguments = [sys.executable, "-c", script, "analyze", "--help"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
