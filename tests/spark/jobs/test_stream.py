"""A folder of rotated captures: every file is processed exactly once, even if processes are killed."""

import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from pcli.cli.app import main
from pcli.codec.errors import LocalError
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.jobs import stream as streams
from pcli.spark.jobs.stream import Stream
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

ONLY = ("messages", "connections")


def rows(out):
    stored = StoredTables(str(out))
    return {name: sorted(map(repr, stored.read(name).to_pylist())) for name in stored.names}


def whole(paths, out):
    analyze(Request(tuple(map(str, paths)), str(out), only=ONLY), InProcess())
    return rows(out)


@pytest.fixture
def places(tmp_path):
    """Folders of the captures, the tables and the checkpoint."""
    places = [tmp_path / name for name in ("in coming", "out", "checkpoint")]
    places[0].mkdir()
    return places


def stream_of(spark, places, only=ONLY, **more):
    incoming, out, checkpoint = map(str, places)
    return Stream(spark, Request((incoming,), out, only=only, incremental=True), checkpoint, **more)


def batches(spark, places, only=ONLY, **more):
    lines = []
    stream_of(spark, places, only, on_batch=lines.append, **more).run(once=True)
    return lines


def take(spark, places, **more):
    return [(batch.number, batch.files) for batch in batches(spark, places, **more)]


def move_in(path, places):
    shutil.copy(path, places[0].parent / path.name)
    (places[0].parent / path.name).rename(places[0] / path.name)


def test_the_key_log_is_read_for_each_batch(spark, small_captures, places):
    move_in(small_captures / "tls" / "aes-gcm.pcap", places)
    assert take(spark, places, key_log=str(small_captures / "tls" / "aes-gcm.keylog")) == [(0, 1)]
    assert rows(places[1])["messages"]


@pytest.mark.slow
def test_batches_give_the_tables_of_one_run(spark, parts_of, places, tmp_path):
    parts = parts_of("flex/01-produce-consume.pcap", 3)
    move_in(parts[0], places)
    assert take(spark, places) == [(0, 1)]
    first = rows(places[1])
    assert first["messages"] != whole(parts, tmp_path / "whole")["messages"]
    assert take(spark, places) == []
    for part in parts[1:]:
        move_in(part, places)
    assert take(spark, places, most=1) == [(1, 1), (2, 1)]
    got, wanted = rows(places[1]), rows(tmp_path / "whole")
    assert got["messages"] == wanted["messages"]
    assert len(got["connections"]) == len(wanted["connections"]) > 0
    number = StoredTables(str(places[1])).run.run
    # If the process is killed after the commit but before Spark records it, the batch is repeated.
    (places[2] / "commits" / "2").unlink()
    (places[2] / "commits" / ".2.crc").unlink(missing_ok=True)
    assert take(spark, places) == [(2, 1)]
    assert rows(places[1]) == got
    assert StoredTables(str(places[1])).run.run == number


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
"""A command whose runs wait before the commit."""


@pytest.mark.slow
def test_a_driver_that_is_killed_costs_nothing(spark, parts_of, places, tmp_path):
    parts = parts_of("flex/01-produce-consume.pcap", 2)
    for part in parts:
        move_in(part, places)
    incoming, out, checkpoint = places
    words = [incoming, "-o", out, "--checkpoint", checkpoint, "--master", "local[1]", "--only", ",".join(ONLY)]
    command = [sys.executable, "-c", WAITING, "spark-stream", *map(str, words)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    driver = subprocess.Popen(command, **pipes)
    lines = [driver.stdout.readline() for _ in range(2)]
    assert lines[-1] == b"made\n", lines
    driver.kill()
    lines, _ = driver.communicate()
    assert list(out.glob("_work/*/parts/*"))
    assert driver.returncode == -signal.SIGKILL, lines
    assert not (out / "runs").exists()
    assert take(spark, places) == [(0, 2)]
    assert rows(out)["messages"] == whole(parts, tmp_path / "whole")["messages"]


def test_a_checkpoint_without_its_tables_is_refused(spark, parts_of, places):
    (places[2] / "commits").mkdir(parents=True)
    (places[2] / "commits" / "0").write_text("v1")
    with pytest.raises(LocalError, match="specify the folder of these tables, or a new checkpoint"):
        take(spark, places)


def test_a_checkpoint_with_other_tables_is_refused(spark, parts_of, places, tmp_path):
    part = parts_of("flex/01-produce-consume.pcap", 2)[0]
    move_in(part, places)
    [batch] = batches(spark, places)
    assert batch.new_findings is None
    assert batch.state_bytes == sum(path.stat().st_size for path in (places[1] / "_state").iterdir())
    assert 0 <= batch.lag_s < 600
    whole([part], tmp_path / "other")
    both = rf"{places[2]}: it belongs to tables that are not in {tmp_path}/other: "
    with pytest.raises(LocalError, match=both):
        take(spark, [places[0], tmp_path / "other", places[2]])


def test_a_folder_that_is_none(spark, places):
    with pytest.raises(LocalError, match="no such folder"):
        take(spark, [places[0] / "none", *places[1:]])


def test_an_error_of_a_batch_is_reported(spark, parts_of, places):
    move_in(parts_of("flex/01-produce-consume.pcap", 2)[0], places)
    places[1].mkdir()
    (places[1] / "notes.txt").touch()
    with pytest.raises(LocalError, match="the folder contains other files"):
        take(spark, places)


def test_an_error_of_the_record_is_reported(spark, parts_of, places):
    move_in(parts_of("flex/01-produce-consume.pcap", 2)[0], places)
    (places[2] / "pcli-stream.json.new").mkdir(parents=True)
    with pytest.raises(LocalError, match=rf"^{places[2]}/pcli-stream\.json\.new: "):
        take(spark, places)


def test_findings_that_a_run_could_not_report_are_reported_at_the_start_of_the_next_run(spark, small_captures, places):
    def refuse(_):
        raise LocalError("HTTP 503")

    move_in(small_captures / "java" / "refusals.pcap", places)
    [batch] = batches(spark, places, ("findings",), on_finding=refuse)
    assert batch.new_findings > 0
    reported = []
    for function, wanted in ((refuse, "HTTP 503"), (reported.append, ""), (refuse, "")):
        stream = stream_of(spark, places, ("findings",), on_finding=function)
        stream.run(once=True)
        assert stream.unreported == wanted
    assert len(reported) == batch.new_findings


def test_the_findings_of_other_runs_are_not_reported_at_the_start(spark, small_captures, places):
    """A stream with a new checkpoint has not tried to report the findings in the tables."""
    request = Request((str(small_captures / "java" / "refusals.pcap"),), str(places[1]), only=("findings",))
    analyze(request, InProcess())
    reported = []
    stream_of(spark, places, ("findings",), on_finding=reported.append).run(once=True)
    assert reported == []


def test_the_command_fails_until_the_findings_are_sent(spark, small_captures, places, monkeypatch, capfd):
    incoming, out, checkpoint = places
    move_in(small_captures / "java" / "refusals.pcap", places)
    monkeypatch.setattr("pcli.spark.jobs.session.open_spark", lambda *_, **__: nullcontext(spark))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    common = ("pcli", "spark-stream", incoming, "-o", out, "--checkpoint", checkpoint, "--only", "findings", "--once")
    again = "the findings are sent again after the next batch, and when the command starts again"
    again = f"pcli: --on-finding false: exit code 1; {again}"
    for command, failed in (("false", True), ("false", True), ("cat", False), ("false", False)):
        monkeypatch.setattr(sys, "argv", [*map(str, common), "--on-finding", command])
        with pytest.raises(SystemExit) as end:
            main()
        text = capfd.readouterr()
        assert (end.value.code or 0, again in text.err.splitlines()) == (int(failed), failed), text.err
        assert ('"rule"' in text.out) is (command == "cat")


@pytest.mark.slow
def test_a_batch_without_a_capture_does_not_stop_the_stream(spark, parts_of, places, tmp_path):
    """Neither the first batch nor a batch after the deletion of all read captures may fail."""
    (places[0] / "README").write_text("no capture at all, that is for sure")
    assert take(spark, places) == [(0, 1)]
    assert [sorted(rows(places[1]))[0], rows(places[1])["messages"]] == ["captures", []]
    part, other = parts_of("flex/01-produce-consume.pcap", 2)
    wanted = whole([part, other], tmp_path / "whole")["messages"]
    move_in(part, places)
    move_in(other, places)
    assert take(spark, places) == [(1, 2)]
    for path in places[0].iterdir():
        path.unlink()
    (places[0] / "other.pcap").write_text("nor is this one a capture")
    assert take(spark, places) == [(2, 1)]
    assert rows(places[1])["messages"] == wanted
    lines = StoredTables(str(places[1])).read("captures").to_pylist()
    names = ((row["path"].rpartition("/")[2], row["status"]) for row in lines)
    assert sorted(names) == [
        ("other.pcap", "not a capture"), (part.name, "read"), (other.name, "read"),
    ]  # fmt: skip


def test_secrets_of_uris_are_hidden(spark, monkeypatch):
    store = SimpleNamespace(place="s3://key:secret@bucket/check", list=lambda _: ["0"], read=lambda _: None)
    monkeypatch.setattr(streams, "open_store", lambda _: store)
    monkeypatch.setattr(streams, "tables_id", lambda _: "")
    folder = "s3://key:secret@bucket/{}".format
    request = Request((folder("in"),), folder("out"), only=ONLY, incremental=True)
    with pytest.raises(LocalError, match=r"^s3://\*\*\*@bucket/check: .* not in s3://\*\*\*@bucket/out: "):
        Stream(spark, request, folder("check"))
