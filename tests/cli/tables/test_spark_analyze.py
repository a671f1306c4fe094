"""`pcli spark-analyze` and `pcli spark-stream`: mostly without Spark, and one run with it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pcli.codec.errors import LocalError
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

NAME = "flex/01-produce-consume.pcap"


def rows(out):
    stored = StoredTables(str(out))
    return {name: sorted(map(repr, stored.read(name).to_pylist())) for name in stored.names}


@pytest.mark.slow
def test_a_run(small_captures, tmp_path):
    """Run in a separate process, because a process has one Spark session."""
    capture, only = small_captures / NAME, "messages,connections"
    arguments = ("spark-analyze", capture, "-o", tmp_path / "out", "--master", "local[1]", "--only", only)
    command = [sys.executable, "-m", "pcli.cli", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split()[:4] == ["table", "rows", "bytes", "files"]
    assert ran.stdout.endswith(f"{tmp_path / 'out'}: run 1\n")
    analyze(Request((str(capture),), str(tmp_path / "here"), only=(only,)), InProcess())
    assert rows(tmp_path / "out") == rows(tmp_path / "here")


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (["--conf", "spark.x"], "--conf spark.x: write KEY=VALUE"),
        (["--master", "spark://127.0.0.1:1"], "no Spark master responds at this address"),
        (["--only", "mesages"], "did you mean messages"),
    ],
)
@pytest.mark.parametrize("command", ["spark-analyze", "spark-stream"])
def test_invalid_options_are_reported_in_one_line(pcli, small_captures, tmp_path, command, arguments, result):
    more = ["--checkpoint", tmp_path / "check"] if command == "spark-stream" else []
    ran = pcli(command, small_captures, "-o", tmp_path / "out", *more, *arguments)
    assert ran.code == 2
    assert result in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--finding", "nonsense"], "--finding nonsense: unknown rule"),
        (["--on-finding", "http://me:SECRET@hooks/"], "--on-finding: invalid URL"),
        (["--master", "sc://127.0.0.1:1/;token=SECRET"], "spark-stream cannot use Spark Connect"),
    ],
)
def test_options_that_only_a_stream_refuses(pcli, small_captures, tmp_path, arguments, message):
    ran = pcli("spark-stream", small_captures, "-o", tmp_path / "out", "--checkpoint", tmp_path / "check", *arguments)
    assert (ran.code, ran.err.count("\n"), message in ran.err, "SECRET" in ran.err) == (2, 1, True, False), ran.err


@pytest.mark.parametrize(("command", "connects"), [("spark-analyze", True), ("spark-stream", False)])
def test_only_spark_analyze_offers_spark_connect(pcli, command, connects):
    text = pcli(command, "--help").out
    assert "spark://host:7077" in text
    assert ("sc://" in text) is connects


def test_without_java_the_remedy_is_printed(pcli, small_captures, tmp_path, monkeypatch):
    from pcli.spark.jobs import java

    monkeypatch.setattr(java, "find_spec", lambda name: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = pcli("spark-analyze", small_captures / NAME, "-o", tmp_path / "out")
    assert ran.code == 2
    assert "pip install 'pulsar-pcli[spark]'" in ran.err
    assert ran.err.count("\n") == 1


def test_debug_shows_the_stack_trace(capsys):
    from pcli.cli.tables.spark_analyze import print_traces

    for debug in (True, False):
        with pytest.raises(LocalError), print_traces(debug):
            raise LocalError("so it is")
        assert ("Traceback" in capsys.readouterr().err) is debug


def at_a_terminal(folder, *arguments):
    """A command in its own session, so that a signal also reaches its JVM."""
    return subprocess.Popen(
        [sys.executable, "-m", "pcli.cli", *map(str, arguments)],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # this process may ignore SIGINT
    )


@pytest.mark.slow
def test_ctrl_c_ends_a_stream_without_a_trace(small_captures, tmp_path):
    (tmp_path / "in").mkdir()
    shutil.copy(small_captures / NAME, tmp_path / "in")
    arguments = ("-o", "out", "--checkpoint", "check", "--master", "local[1]", "--only", "connections")
    process = at_a_terminal(tmp_path, "spark-stream", "in", *arguments)
    try:
        until = time.monotonic() + 90
        while not (tmp_path / "out" / "runs" / "_delta_log").exists() and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        _, result = process.communicate(timeout=240)  # a busy machine takes a minute
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert "Traceback" not in result
    assert {line[:5] for line in result.splitlines()} <= {"pcli:"}
    assert rows(tmp_path / "out")["connections"]


def of_session(number):
    """Return the running processes of a session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            if os.getsid(int(entry.name)) == number and state != "Z":
                found.append((entry / "cmdline").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.slow
def test_ctrl_c_while_java_starts_leaves_none(small_captures, tmp_path):
    process = at_a_terminal(tmp_path, "spark-analyze", small_captures / NAME, "-o", "out", "--master", "local[1]")
    until = time.monotonic() + 60
    # Spark's scripts start a Java that prints the command line of the second one.
    while not any("SparkSubmit" in one and "launcher" not in one for one in of_session(process.pid)):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, result = process.communicate(timeout=60)
    assert (process.returncode, result) == (130, "")
    while of_session(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert of_session(process.pid) == []
