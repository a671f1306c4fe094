"""The record of a stream in its checkpoint: each finding is reported once, or again if that failed."""

import shutil

import pytest

from pcli.codec.errors import LocalError
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.jobs.stream_record import StreamRecord, identity_of
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import open_store


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "out"))


@pytest.fixture
def checkpoint(tmp_path):
    return open_store(str(tmp_path / "checkpoint"))


@pytest.fixture
def summaries(tmp_path, parts_of):
    """Yield the summary of the tables after each of four files."""

    def run():
        (tmp_path / "in").mkdir()
        for part in parts_of("java/refusals.pcap", 4):
            shutil.copy(part, tmp_path / "in")
            request = Request((str(tmp_path / "in"),), str(tmp_path / "out"), only=("findings",), incremental=True)
            yield analyze(request, InProcess())

    return run()


def findings(store):
    return {identity_of(row) for row in StoredTables(store).read("findings").to_pylist()}


def test_each_finding_is_reported_once(store, checkpoint, summaries):
    reported = []
    counts = [StreamRecord.read(checkpoint).report(store, reported.append) for _ in summaries]
    assert [reason for _, reason in counts] == [""] * 4
    assert sum(count for count, _ in counts) == len(reported)
    assert [row["run"] for row in reported] == [run for run, (count, _) in enumerate(counts, 1) for _ in range(count)]
    assert len(counts) - [count for count, _ in counts].count(0) > 1
    assert {identity_of(row) for row in reported} == findings(store)
    # If the process is killed before the record is written, the findings are reported again.
    checkpoint.remove("pcli-stream.json")
    again = []
    StreamRecord.read(checkpoint).report(store, again.append)
    assert {identity_of(row) for row in again} == findings(store)


def test_findings_that_could_not_be_reported_are_reported_later(store, checkpoint, summaries):
    reported = []

    def refuse_second(row):
        if reported:
            raise LocalError("HTTP 503")
        reported.append(row)

    assert len(list(summaries)) == 4
    count, reason = StreamRecord.read(checkpoint).report(store, refuse_second)
    assert (count, reason, len(reported)) == (len(findings(store)), "HTTP 503", 1)
    more = []
    assert StreamRecord.read(checkpoint).report(store, more.append) == (count - 1, "")
    assert {identity_of(row) for row in (*reported, *more)} == findings(store)


def test_without_a_table_of_findings(store, checkpoint, tmp_path, parts_of):
    (part, *_) = parts_of("java/refusals.pcap", 4)
    analyze(Request((str(part),), str(tmp_path / "out"), only=("messages",)), InProcess())
    assert StreamRecord.read(checkpoint).report(store, None) == (None, "")
    assert StreamRecord.read(checkpoint).tables


def test_a_damaged_record_is_reported(checkpoint):
    for data in (b"{}", b"x", b"[]", b'{"tables": "a", "reported": 5}'):
        checkpoint.write("pcli-stream.json", data)
        with pytest.raises(LocalError, match=r"pcli-stream\.json: damaged; remove the file"):
            StreamRecord.read(checkpoint)
