"""The index of a capture: the facts that it gives back, its cache, damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from pcli.cli.browse.index_cache import open_index, remove_old
from pcli.cli.browse.sources import open_files
from pcli.cli.browse.stored_frames import StoredFrames
from pcli.cli.common.capture_reading import CaptureReading
from pcli.cli.common.output import Exit
from pcli.codec.observe import flatten
from pcli.codec.observe.output.frame_summary import describe
from pcli.codec.observe.payload_contents import Contents

SMALL = Path(__file__).parents[2] / "captures"
CAPTURES = sorted(path for path in SMALL.rglob("*.pcap*") if path.suffix in (".pcap", ".pcapng"))


def compare(frames: StoredFrames, reading: CaptureReading) -> int:
    """Compare the frames of an index with those of a pass over the capture. Return their number."""
    number = 0
    for number, facts in enumerate(reading.facts(), 1):
        stored = frames.facts(number)
        expected, found = flatten(facts, payload=True), flatten(stored, payload=True)
        # A schema that the capture contains later, and the response, are known when a frame is shown.
        found.pop("pulsar.answer_in", None)
        if "pulsar.value" not in expected:
            found.pop("pulsar.value", None)
        assert found == expected
        assert (describe(stored), stored.frame.packets) == (describe(facts), facts.frame.packets)
    return number


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_frames_of_the_index_are_those_of_the_capture(indexed, path):
    frames = indexed(path)
    assert compare(frames, CaptureReading(files=[str(path)], system=True, contents=Contents())) == frames.index.count


@pytest.mark.slow
def test_frames_of_all_captures(indexed, captures):
    paths = sorted(path for path in captures.rglob("*.pcap*") if path.suffix in (".pcap", ".pcapng"))
    counts = [
        compare(indexed(path), CaptureReading(files=[str(path)], system=True, contents=Contents())) for path in paths
    ]
    assert sum(counts) > 40_000


def test_frames_of_compressed_captures_are_copied(indexed, tmp_path):
    import gzip

    packed = tmp_path / "nack.pcap.gz"
    packed.write_bytes(gzip.compress((SMALL / "go" / "nack.pcap").read_bytes()))
    frames = indexed(packed)
    assert not frames.index.columns["source"].any()
    assert compare(frames, CaptureReading(files=[str(packed)], system=True, contents=Contents())) > 10


def test_the_index_refers_to_the_bytes_of_a_plain_capture(indexed):
    frames = indexed(SMALL / "go" / "nack.pcap")
    assert frames.index.columns["source"].all()
    assert (frames.index.folder / "bytes").stat().st_size == 0


def test_a_capture_in_a_pipe(tmp_path):
    import os
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes((SMALL / "go" / "nack.pcap").read_bytes()), daemon=True).start()
    source = open_files(CaptureReading(files=[str(pipe)]), Contents(), cache=True)
    source.build.join()
    source.build.refresh()
    assert source.frames.index.count == 60
    assert describe(source.frames.facts(60))
    assert source.close() is Exit.FINE


# -- the cache ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Open a copy of a capture with the cache of this test. Return whether the index came from the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    copy = tmp_path / "capture.pcap"
    copy.write_bytes((SMALL / "go" / "nack.pcap").read_bytes())

    def open_it(**options):
        source = open_files(CaptureReading(files=[str(copy)]), Contents(), cache=True)
        if source.build is not None:
            source.build.join()
        source.frames.facts(3)
        assert source.close() is Exit.FINE
        return source.build is None

    open_it.copy, open_it.folder = copy, tmp_path / "cache" / "pcli" / "browse"
    return open_it


def test_the_second_time_the_index_is_opened(opened):
    assert [opened(), opened()] == [False, True]
    [folder] = opened.folder.iterdir()
    assert opened.folder.stat().st_mode & 0o077 == folder.stat().st_mode & 0o077 == 0


def test_a_capture_that_has_changed_has_another_index(opened):
    opened()
    with opened.copy.open("r+b") as file:
        file.truncate(opened.copy.stat().st_size - 100)
    reading = CaptureReading(files=[str(opened.copy)])
    source = open_files(reading, Contents(), cache=True)
    assert source.build is not None
    source.build.join()
    assert source.close() is Exit.DAMAGED


@pytest.mark.parametrize("name", ["packet", "tables", "bytes", "missing"])
def test_a_damaged_index_is_built_again(opened, name):
    opened()
    [folder] = opened.folder.iterdir()
    if name == "missing":
        (folder / "time").unlink()
    else:
        data = bytearray((folder / name).read_bytes() or b"x")
        data[-1] ^= 1
        (folder / name).write_bytes(data)
    assert open_index(folder) is None
    assert not folder.exists()
    assert [opened(), opened()] == [False, True]


def test_old_indexes_are_removed(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "packet").write_bytes(bytes(100))
    import os

    for place, name in enumerate(("b", "c", "a")):
        os.utime(tmp_path / name, (place, place))
    remove_old(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"]


def test_a_capture_that_shrinks_while_it_is_shown(indexed, tmp_path):
    copy = tmp_path / "capture.pcap"
    copy.write_bytes((SMALL / "go" / "nack.pcap").read_bytes())
    frames = indexed(copy)
    copy.write_bytes(b"")
    facts = frames.facts(5)
    assert [problem.kind for problem in facts.frame.capture_problems] == ["cut"]
    assert describe(facts)
