"""Plans of paths: labels, order, files that are not captures, and remote file systems."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyarrow import fs

from pcli.codec.capture import Packet, PcapngWriter
from pcli.codec.errors import LocalError
from pcli.spark.input.capture_files import find
from pcli.spark.input.read_plan import plan

SECOND = 1_000_000_000


def capture(first: int, packets: int = 3) -> bytes:
    """Create a pcapng whose packets begin at a given second."""
    out = io.BytesIO()
    writer = PcapngWriter(out)
    for number in range(packets):
        writer.packet(Packet(number + 1, (first + number) * SECOND, 1, b"\0" * 60, 60))
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create two clusters, one with two parts whose names are not in order of time, and a file that is no capture."""
    for name, first in (("east/x1.pcapng", 100), ("east/x2.pcapng", 50), ("west/y.pcapng", 10)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(capture(first))
    (tmp_path / "west" / "README").write_text("no capture")
    (tmp_path / "west" / "empty.pcap").touch()
    (tmp_path / "west" / ".hidden.pcapng").write_bytes(capture(1))
    return tmp_path


def test_a_folder_is_all_files_in_it_and_its_captures_one_recording_in_the_order_of_their_times(folder: Path) -> None:
    found = plan([str(folder)])
    (recording,) = found.recordings
    assert [Path(split.path).name for split in recording.splits] == ["y.pcapng", "x2.pcapng", "x1.pcapng"]
    assert [split.part for split in recording.splits] == [split.index for split in recording.splits] == [0, 1, 2]
    told = {Path(entry.found.path).name: (entry.head.status, entry.head.error, entry.part) for entry in found.entries}
    assert told["README"] == ("not a capture", "neither pcap nor pcapng: it begins with 6e 6f 20 63 (at byte 0)", -1)
    assert told["empty.pcap"] == ("not a capture", "the file is empty (at byte 0)", -1)
    assert told["x1.pcapng"] == ("read", "", 2)
    assert ".hidden.pcapng" not in told


@pytest.mark.parametrize("pattern", ["{cluster}/*", r"/(?P<cluster>\w+)/[^/]+$"])
def test_a_pattern_yields_the_label(folder: Path, pattern: str) -> None:
    found = plan([str(folder)], cluster=pattern)
    assert [(one.cluster, len(one.parts)) for one in found.recordings] == [("east", 2), ("west", 1)]
    assert {entry.cluster for entry in found.entries} == {"east", "west"}


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("nowhere/{cluster}/*.pcap", "matches none of 5 files"),
        ("{cluster}/*.pcapng", "does not match 2 of 5 files"),
        ("(?P<cluster>", "--cluster"),
        ("east/*", "needs {cluster}"),
        ("{cluster}/{cluster}", "once"),
    ],
)
def test_a_wrong_pattern_is_reported_in_one_line(folder: Path, pattern: str, error: str) -> None:
    with pytest.raises(LocalError, match="--cluster") as raised:
        plan([str(folder)], cluster=pattern)
    assert error in raised.value.text
    assert "\n" not in raised.value.text


def test_a_label_is_one_for_all(folder: Path) -> None:
    assert [one.cluster for one in plan([str(folder)], cluster="prod").recordings] == ["prod"]


def test_only_two_stars_match_subfolders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(pattern: str) -> list[str]:
        return [Path(one.path).name for one in find([pattern])]

    assert names(f"{folder}/*/x?.pcapng") == ["x1.pcapng", "x2.pcapng"]
    assert names(f"{folder}/**/*.pcapng") == ["x1.pcapng", "x2.pcapng", "y.pcapng"]
    assert names(f"{folder}/**/[!x]*.pcapng") == ["y.pcapng"]
    monkeypatch.chdir(folder)
    assert [one.path for one in find(["east/*2.pcapng"])] == ["east/x2.pcapng"]
    assert [one.path for one in find(["west"])] == ["west/README", "west/empty.pcap", "west/y.pcapng"]


def test_a_missing_file_does_not_stop_the_others(folder: Path) -> None:
    found = plan([str(folder / "gone.pcap"), str(folder / "west" / "y.pcapng")])
    assert [(entry.head.status, entry.head.error) for entry in found.entries] == [
        ("unreadable", "no such file or folder"),
        ("read", ""),
    ]


@pytest.mark.parametrize("named", [".", "west/*.pcap"])
def test_a_pipe_is_not_waited_for(folder: Path, named: str) -> None:
    os.mkfifo(folder / "west" / "pipe.pcap")
    found = plan([str(folder / named), str(folder / "east")])
    told = {Path(entry.found.path).name: (entry.head.status, entry.head.error) for entry in found.entries}
    assert told["pipe.pcap"] == ("unreadable", "it is a pipe, a socket or a device, not a file")
    assert told["x1.pcapng"] == ("read", "")


@pytest.mark.parametrize("name", ["nothing/*.pcap", "void", "west/README"])
def test_nothing_to_read_is_an_error(folder: Path, name: str) -> None:
    (folder / "void").mkdir()
    with pytest.raises(LocalError):
        plan([str(folder / name)])


def test_a_packed_file_is_one_split_and_looked_into(tmp_path: Path) -> None:
    (tmp_path / "a.pcapng.gz").write_bytes(gzip.compress(capture(7, 3000)))
    (tmp_path / "b.pcapng.gz").write_bytes(gzip.compress(capture(8))[:-9])
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"something else"))
    found = plan([str(tmp_path)], split=10_000)
    heads = [entry.head for entry in found.entries]
    assert [(head.status, head.format, head.packing, head.first_ns) for head in heads] == [
        ("read", "pcapng", "gzip", 7 * SECOND),
        ("read", "pcapng", "gzip", 8 * SECOND),
        ("not a capture", "", "", None),
    ]
    assert len(found.recordings[0].splits) == 2


def test_a_file_system_that_is_not_local() -> None:
    files, _ = fs.FileSystem.from_uri("mock:///")
    files.create_dir("bucket/east")
    for name, first in (("a.pcapng", 20), ("b.pcapng", 10)):
        with files.open_output_stream(f"bucket/east/{name}") as file:
            file.write(capture(first))

    def place(path: str) -> tuple[Any, str]:
        return files, path.removeprefix("mock:///")

    for path in ("mock:///bucket", "mock:///bucket/*/*.pcapng", "mock:///bucket/east/a.pcapng"):
        found = plan([path], cluster="bucket/{cluster}/*", place=place)
        assert found.entries[0].found.where == "mock:///bucket/east/a.pcapng"
        assert found.recordings[0].cluster == "east"
    assert [split.path[-8:] for split in plan(["mock:///bucket"], place=place).recordings[0].splits] == [
        "b.pcapng",
        "a.pcapng",
    ]


def test_an_unknown_file_system_is_reported_in_one_line() -> None:
    with pytest.raises(LocalError, match="gopher://x/y: "):
        plan(["gopher://x/y"])


def test_splits_outside_of_the_times_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.pcapng").write_bytes(capture(1000, 3000))
    whole = plan([str(tmp_path)], split=20_000).recordings[0].splits
    part = plan([str(tmp_path)], split=20_000, since_ns=2500 * SECOND, until_ns=2600 * SECOND).recordings[0].splits
    times = [split.first_ns // SECOND for split in whole if split.first_ns is not None]
    assert times == sorted(times)
    assert len(times) == len(whole) > 5
    kept = [time for time, following in zip(times, [*times[1:], 4000]) if following + 60 >= 2500 and time - 60 < 2600]
    assert [(split.first_ns or 0) // SECOND for split in part] == kept
    assert [split.index for split in part] == list(range(len(kept)))


NAMES = ["a b.pcapng", "c%41.pcapng", "d?e.pcapng", "f#[g].pcapng", "h+i=j,k.pcapng", "ü.pcapng"]


@pytest.mark.parametrize("end", ["", "/", "/*.pcapng", "*/*"])
def test_any_name_below_a_uri_is_found_and_opened(tmp_path: Path, end: str) -> None:
    folder = tmp_path / "x y%z"
    folder.mkdir()
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(capture(10 + number))
    found = plan([f"{folder.as_uri()}{end}"])
    assert [entry.head.first_ns for entry in found.recordings[0].parts] == [
        (10 + number) * SECOND for number in range(len(NAMES))
    ]
    assert {entry.found.where for entry in found.entries} == {
        f"{folder.as_uri()}/{quote(name, safe='+=,')}" for name in NAMES
    }


def test_a_file_keeps_the_form_of_its_uri(folder: Path) -> None:
    (folder / "a b.pcapng").write_bytes(capture(1))
    uri = f"{folder.as_uri()}/a%20b.pcapng"
    assert [one.where for one in find([uri])] == [uri]


def test_the_query_of_a_uri_applies_to_each_file() -> None:
    files, _ = fs.FileSystem.from_uri("mock:///")
    files.create_dir("bucket")
    with files.open_output_stream("bucket/a b") as file:
        file.write(capture(1))
    found = find(["mock:///bucket?region=x"], lambda path: (files, path[8:].partition("?")[0]))
    assert [one.where for one in found] == ["mock:///bucket/a%20b?region=x"]


@pytest.mark.parametrize("named", ["folder", "pattern", "file"])
def test_a_name_that_is_not_utf_8_costs_its_own_file_only(tmp_path: Path, named: str) -> None:
    (tmp_path / "a.pcapng").write_bytes(capture(1))
    odd = tmp_path / os.fsdecode(b"caf\xe9.pcapng")
    odd.write_bytes(capture(2))
    paths = {"folder": [tmp_path], "pattern": [tmp_path / "*.pcapng"], "file": [tmp_path / "a.pcapng", odd]}
    found = plan([str(path) for path in paths[named]])
    told = {Path(entry.found.path).name: (entry.head.status, entry.head.error) for entry in found.entries}
    assert told == {
        "a.pcapng": ("read", ""),
        "caf\\xe9.pcapng": ("unreadable", "its name is not UTF-8: rename the file"),
    }


def test_a_label_that_is_not_utf_8_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.pcapng").write_bytes(capture(1))
    with pytest.raises(LocalError, match=r"^--cluster west\\xff: it is not UTF-8$"):
        plan([str(tmp_path)], cluster=os.fsdecode(b"west\xff"))
