"""Inputs: files, folders, globs and pipes, their order, and errors for missing ones."""

import gzip
import io
import subprocess
import sys

import pytest

from pcli.codec.errors import CaptureError, LocalError
from pcli.replay.sources import capture_sources
from pcli.replay.sources.capture_sources import capture_command, open_inputs, refusal


def names(inputs):
    found = [one.name for one in inputs]
    for one in inputs:
        one.file.close()
    return found


def test_a_file(small_captures):
    path = small_captures / "go" / "nack.pcap"
    (one,) = open_inputs([str(path)])
    assert (one.name, one.size) == (str(path), path.stat().st_size)
    assert one.file.read() == path.read_bytes()
    one.file.close()


def test_files_are_ordered_by_their_first_packet(captures, tmp_path):
    parts = sorted((captures / "python" / "31-ring").iterdir())
    assert names(open_inputs([str(path) for path in reversed(parts)])) == [str(path) for path in parts]
    # The names have no order, so the times determine it.
    for place, part in enumerate(parts):
        (tmp_path / f"{99 - place}.pcapng").symlink_to(part)
    assert names(open_inputs([str(tmp_path)])) == [
        str(tmp_path / f"{99 - place}.pcapng") for place in range(len(parts))
    ]


def test_a_glob(small_captures):
    found = names(open_inputs([str(small_captures / "go" / "*.pcap")]))
    assert sorted(found) == sorted(map(str, (small_captures / "go").glob("*.pcap")))


@pytest.mark.parametrize("path", ["/nonexistent.pcap", "/nonexistent/*.pcap", "/dev/null/x"])
def test_a_missing_file_is_an_error(path):
    with pytest.raises(CaptureError, match=r"no such file|no file matches|not a directory"):
        open_inputs([path])


def test_an_empty_folder(tmp_path):
    with pytest.raises(CaptureError, match="the folder is empty"):
        open_inputs([str(tmp_path)])


def test_a_folder_is_expanded_to_its_captures(small_captures, tmp_path):
    """Compressed and damaged captures are included; only other files are skipped."""
    data = (small_captures / "go" / "nack.pcap").read_bytes()
    packed = gzip.compress(data)
    files = {
        "a.pcap": data,
        "b.gz": packed,
        "c.gz": packed[:15],
        "d.txt": b"some text",
        "e.gz": gzip.compress(b"text"),
        "f": b"",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert sorted(names(open_inputs([str(tmp_path)]))) == [str(tmp_path / name) for name in ("a.pcap", "b.gz", "c.gz")]


def test_a_folder_without_captures(tmp_path):
    (tmp_path / "README.md").write_text("text")
    with pytest.raises(CaptureError, match="no capture in this folder"):
        open_inputs([str(tmp_path)])


def test_no_input_is_an_error():
    with pytest.raises(LocalError, match="give files with -r"):
        open_inputs([])


def test_a_rewindable_pipe_can_be_read_twice(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"bytes of a capture")

    monkeypatch.setattr(capture_sources.sys, "stdin", Stdin)
    (one,) = open_inputs(["-"], rewindable=True)
    assert one.size == 18
    assert one.file.read() == b"bytes of a capture"
    one.file.seek(0)
    assert one.file.read() == b"bytes of a capture"
    one.file.close()


@pytest.mark.parametrize(
    ("installed", "ring", "program"),
    [
        ({"tcpdump", "dumpcap"}, (), "tcpdump"),
        ({"tcpdump", "dumpcap"}, ("files:3",), "dumpcap"),
        ({"dumpcap"}, (), "dumpcap"),
        ({"tcpdump"}, (), "tcpdump"),
    ],
)
def test_the_best_installed_program_is_used(monkeypatch, installed, ring, program):
    monkeypatch.setattr(capture_sources.shutil, "which", lambda name: name if name in installed else None)
    assert capture_command("lo", "port 6650", "-", ring)[0] == program


def test_no_installed_program_is_an_error(monkeypatch):
    monkeypatch.setattr(capture_sources.shutil, "which", lambda name: None)
    monkeypatch.setattr(capture_sources, "has_scapy", lambda: True)
    assert capture_command("lo", "", "-") is None
    with pytest.raises(LocalError, match="needs dumpcap"):
        capture_command("lo", "", "x", ["files:3"])
    monkeypatch.setattr(capture_sources, "has_scapy", lambda: False)
    with pytest.raises(LocalError, match="install tcpdump or dumpcap"):
        capture_command("lo", "", "-")


# Messages of dumpcap 4.0 and tcpdump 4.99.
@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (b"Capturing on 'x'\ndumpcap: There is no device named \"x\".\n", 'dumpcap: There is no device named "x".'),
        (
            b"tcpdump: x: You don't have permission\n(socket: not permitted)\n\nSee the guide.\n",
            "tcpdump: x: You don't have permission (socket: not permitted)",
        ),
        (b"Capturing on 'Loopback: lo'\nFile: y\nPackets: 3 \rPackets captured: 3\n", ""),
        (b"tcpdump: listening on lo, link-type EN10MB\n3 packets captured\n", ""),
    ],
)
def test_the_reason_of_a_failed_program(output, reason):
    assert refusal(output) == reason


MANY = """
import resource, sys
from pcli.codec.capture import CapturedFrame, read_capture
from pcli.replay.sources.capture_sources import open_inputs

resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
inputs = open_inputs([sys.argv[1]])
for _ in range(2):
    events = list(read_capture((one.name, one.file) for one in inputs))
    print(len(inputs), sum(isinstance(event, CapturedFrame) for event in events))
    for one in inputs:
        assert one.file.tell() <= one.size
        one.file.seek(0)
"""


@pytest.mark.parametrize("cut", [0, 1], ids=["whole", "damaged"])
def test_more_files_than_a_process_may_open(small_captures, tmp_path, cut):
    """This includes damaged files, which are not read to their end."""
    data = (small_captures / "go" / "nack.pcap").read_bytes()
    broken = data[:24] + b"\xff" * 40 + data[24:] * 20
    for number in range(60):
        (tmp_path / f"{number:03}.pcap").write_bytes(broken if cut and number else data)
    done = subprocess.run([sys.executable, "-c", MANY, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith("60 ")
    assert int(first.split()[1]) > 0


def test_a_lazy_file_behaves_like_a_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"0123456789")
    (one,) = open_inputs([str(path)])
    file = one.file
    assert (file.read(4), file.tell()) == (b"0123", 4)
    assert (file.read(100), file.read(100), file.tell()) == (b"456789", b"", 10)
    assert not file.closed
    file.seek(2)
    assert (file.tell(), file.read()) == (2, b"23456789")
    file.close()
    assert file.closed
    with pytest.raises(ValueError, match="closed file"):
        file.read(1)


def test_two_alternately_read_files_keep_their_positions(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode() + b"123")
    inputs = open_inputs([str(tmp_path / name) for name in "ab"])
    read = [one.file.read(2) for one in inputs] + [one.file.read(2) for one in inputs]
    assert sorted(read) == [b"23", b"23", b"a1", b"b1"]
    names(inputs)


def test_a_file_that_was_deleted_is_an_error(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"0123")
    (one,) = open_inputs([str(path)])
    path.unlink()
    with pytest.raises(CaptureError, match="x: no such file"):
        one.file.read(1)
    one.file.close()
