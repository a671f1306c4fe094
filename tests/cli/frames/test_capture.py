"""`pcli capture`: values of -a and -b, a live capture on loopback, the last line, exit codes."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from pcli.cli.frames.capture import ring_limits, stop_after
from pcli.codec.errors import LocalError


@pytest.mark.parametrize(
    ("rules", "seconds"),
    [([], 0), (["duration:60"], 60), (["duration:0.5"], 0.5), (["duration:1", "duration:2"], 2)],
)
def test_when_to_stop(rules, seconds):
    assert stop_after(rules) == seconds


@pytest.mark.parametrize(
    "rule", ["", "60", "duration", "duration:", "duration:x", "duration:0", "duration:-1", "duration:nan",
             "duration:inf", "files:3", ":5"],
)  # fmt: skip
def test_an_invalid_autostop_is_refused(rule):
    with pytest.raises(LocalError, match=re.escape(f"-a {rule}: write duration:SECONDS")):
        stop_after(["duration:1", rule])


def test_limits_of_a_ring():
    assert ring_limits([]) == []
    assert ring_limits(["filesize:1000", "files:5", "duration:3600"]) == ["filesize:1000", "files:5", "duration:3600"]


@pytest.mark.parametrize("rule", ["", "files", "files:", "files:0", "files:-1", "files:1.5", "files:²", "packets:3"])
def test_an_invalid_ring_limit_is_refused(rule):
    with pytest.raises(LocalError, match=re.escape(f"-b {rule}: write filesize:KB, files:N or duration:SECONDS")):
        ring_limits(["files:2", rule])


@pytest.mark.parametrize("arguments", [["-a", "forever"], ["-b", "files:none"]])
def test_a_wrong_rule_is_a_matter_of_usage(pcli, tmp_path, arguments):
    result = pcli("capture", "-i", "lo", "-w", tmp_path / "x.pcap", *arguments)
    assert result.code == 2
    assert f"{arguments[0]} {arguments[1]}: write " in result.err
    assert not (tmp_path / "x.pcap").exists()


@pytest.fixture
def talking():
    """A few packets per second on loopback."""
    stop = threading.Event()

    def talk():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while not stop.wait(0.05):
                sender.sendto(b"x" * 100, ("127.0.0.1", 9))

    talker = threading.Thread(target=talk)
    talker.start()
    yield
    stop.set()
    talker.join()


@pytest.fixture
def program(request, tmp_path_factory, monkeypatch):
    """A PATH that contains only this capture program."""
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed")
    folder = tmp_path_factory.mktemp("path")
    (folder / request.param).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    return request.param


def skip_unless_allowed(result):
    if re.search("permission|not permitted", result.err, re.IGNORECASE):
        pytest.skip(f"no live capture here: {result.err}")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["dumpcap", "tcpdump"], indirect=True)
def test_a_recording(pcli, tmp_path, talking, program):
    path = tmp_path / "x.pcap"
    result = pcli("capture", "-i", "lo", "-f", "udp port 9", "-w", path, "-a", "duration:2")
    skip_unless_allowed(result)
    assert (result.code, result.out) == (0, "")
    last = result.err.splitlines()[-1]
    assert re.fullmatch(rf"pcli: [1-9]\d* packets written to {path} by {program}, 0 dropped by the kernel", last)
    assert path.stat().st_size > 1000


@pytest.mark.parametrize("program", ["dumpcap"], indirect=True)
def test_a_full_disk(pcli, talking, program):
    result = pcli("capture", "-i", "lo", "-f", "udp port 9", "-w", "/dev/full", "-a", "duration:3")
    skip_unless_allowed(result)
    assert result.code == 2
    assert "no space left" in result.err
    assert re.search(r"\d+ packets captured", result.err)
    assert "packets written" not in result.err


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_ends_the_capture_program_with_a_summary(tmp_path, monkeypatch, number):
    """A fake capture program that records its end, because no process may remain."""
    script = (
        "import signal, sys\n"
        "def end(*_):\n"
        f"    open({str(tmp_path / 'ended')!r}, 'w').close()\n"
        "    sys.stderr.write('Packets captured: 3\\n')\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"open({str(tmp_path / 'begun')!r}, 'w').close()\n"
        "signal.pause()\n"
    )
    (tmp_path / "dumpcap").write_text(f"#!{sys.executable}\n{script}")
    (tmp_path / "dumpcap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    command = [sys.executable, "-m", "pcli.cli", "capture", "-i", "lo", "-w", str(tmp_path / "x.pcap")]
    waiting = threading.Event()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
            waiting.wait(0.05)
        process.send_signal(number)
        assert process.communicate(timeout=60)[1].startswith("pcli: 3 packets written")
    assert process.returncode == 0
    assert (tmp_path / "ended").exists()
