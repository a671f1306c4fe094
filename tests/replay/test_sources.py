"""Inputs: files, folders, globs, pipes; the order of parts; what is told when they are not there."""

import io

import pytest

from pcli.codec.errors import CaptureError, LocalError
from pcli.replay import sources
from pcli.replay.sources import capture_command, open_inputs, refusal


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


def test_parts_are_put_in_order_of_their_packets(captures, tmp_path):
    parts = sorted((captures / "python" / "31-ring").iterdir())
    assert names(open_inputs([str(path) for path in reversed(parts)])) == [str(path) for path in parts]
    # Names that say nothing: the times decide.
    for place, part in enumerate(parts):
        (tmp_path / f"{99 - place}.pcapng").symlink_to(part)
    assert names(open_inputs([str(tmp_path)])) == [
        str(tmp_path / f"{99 - place}.pcapng") for place in range(len(parts))
    ]


def test_a_glob(small_captures):
    found = names(open_inputs([str(small_captures / "go" / "*.pcap")]))
    assert sorted(found) == sorted(map(str, (small_captures / "go").glob("*.pcap")))


@pytest.mark.parametrize("path", ["/nonexistent.pcap", "/nonexistent/*.pcap", "/dev/null/x"])
def test_what_is_not_there(path):
    with pytest.raises(CaptureError, match=r"no such file|no file matches|not a directory"):
        open_inputs([path])


def test_an_empty_folder(tmp_path):
    with pytest.raises(CaptureError, match="an empty folder"):
        open_inputs([str(tmp_path)])


def test_nothing_given():
    with pytest.raises(LocalError, match="give files with -r"):
        open_inputs([])


def test_a_pipe_can_be_read_twice_when_asked_for(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"bytes of a capture")

    monkeypatch.setattr(sources.sys, "stdin", Stdin)
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
def test_the_best_program_at_hand(monkeypatch, installed, ring, program):
    monkeypatch.setattr(sources.shutil, "which", lambda name: name if name in installed else None)
    assert capture_command("lo", "port 6650", "-", ring)[0] == program


def test_no_program_at_hand(monkeypatch):
    monkeypatch.setattr(sources.shutil, "which", lambda name: None)
    with pytest.raises(LocalError, match="install tcpdump or dumpcap"):
        capture_command("lo", "", "-")


# What dumpcap 4.0 and tcpdump 4.99 say.
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"Capturing on 'x'\ndumpcap: There is no device named \"x\".\n", 'dumpcap: There is no device named "x".'),
        (b"tcpdump: x: No such device exists\n(No such device exists)\n", "tcpdump: x: No such device exists"),
        (b"Capturing on 'Loopback: lo'\nFile: y\nPackets: 3 \rPackets captured: 3\n", ""),
        (b"tcpdump: listening on lo, link-type EN10MB\n3 packets captured\n", ""),
    ],
)
def test_why_a_program_refused(said, reason):
    assert refusal(said) == reason
