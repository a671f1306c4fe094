"""--incremental: `frames` receives only the rows of new files. Each capture is one file and one batch."""

from dataclasses import replace

import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.stages import merge_files
from pcli.spark.tables.stored_tables import StoredTables
from tests.spark.stages.conftest import publish_and_ack


@pytest.fixture
def run(recording):
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)
    for number in range(12):
        publish_and_ack(recording.client, (number,))
        recording.rotate()

    def run(out, *, incremental=True):
        request = Request((str(recording.captures),), str(recording.folder / out), only=("frames",))
        analyze(replace(request, incremental=incremental), InProcess())
        return StoredTables(str(recording.folder / out))

    return run


def test_a_batch_adds_the_rows_of_new_files(recording, run):
    kept, before = [], set()
    files = recording.files()
    for number in (0, 1, 2, 4, 3, 5, 6):
        recording.write(number, files[number])
        after = set(run("out").files("frames"))
        kept.append(len(before & after))
        before = after
    assert kept == [0, 1, 2, 3, 3, 5, 6]
    rows = run("out").read("frames").sort_by("number")
    assert rows.equals(run("whole", incremental=False).read("frames").sort_by("number"))


def test_small_files_are_merged(recording, run, monkeypatch):
    monkeypatch.setattr(merge_files, "_LEAST", 4)
    counts = []
    for number, packets in enumerate(recording.files()):
        recording.write(number, packets)
        counts.append(len(run("out").files("frames")))
    assert max(counts) < 9
    rows = run("out").read("frames").sort_by("number")
    assert rows.equals(run("whole", incremental=False).read("frames").sort_by("number"))
