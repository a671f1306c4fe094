"""The command: its errors, and a session in tmux."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pcli.cli.browse import browse as command

SMALL = Path(__file__).parents[2] / "captures"
NACK = SMALL / "go" / "nack.pcap"


def test_without_a_terminal(pcli):
    ran = pcli("browse", "-r", NACK)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "pcli: browse requires a terminal; pcli dissect prints frames as text\n"


def test_without_textual(pcli, monkeypatch):
    monkeypatch.setitem(sys.modules, "textual", None)
    ran = pcli("browse", "-r", NACK)
    assert (ran.code, ran.err) == (2, "pcli: browse requires pulsar-pcli[tui]\n")


@pytest.fixture
def terminal(monkeypatch):
    """Let the command see a terminal of 80×24, which it must not open."""
    monkeypatch.setattr(command, "check_terminal", lambda web: None)


ERRORS = [
    (["-r", "missing.pcap"], "missing.pcap: no such file or directory"),
    (["-r", "-"], "-: browse reads keys from the terminal: write the capture to a file first"),
    ([], "no capture to read: give files with -r, or an interface with -i"),
    (["-r", str(NACK), "-e", "pulsar.nothing"], "-e: no column pulsar.nothing"),
    (["-r", str(NACK), "-Y", "pulsar.typ"], "invalid filter: no field 'pulsar.typ'"),
    (["-r", __file__], "neither pcap nor pcapng"),
]


@pytest.mark.parametrize(("arguments", "text"), ERRORS)
def test_wrong_arguments(pcli, terminal, monkeypatch, tmp_path, arguments, text):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ran = pcli("browse", *arguments)
    assert ran.code == 2
    assert text in ran.err
    assert ran.err.startswith("pcli: ")
    assert list(tmp_path.rglob("new-*")) == []


def test_a_capture_without_frames(pcli, terminal, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(NACK.read_bytes()[:24])
    ran = pcli("browse", "-r", empty)
    assert (ran.code, ran.err) == (1, "pcli: no Pulsar frames in 0 packets (no TCP connection)\n")


@pytest.fixture
def tmux(tmp_path):
    """Start a command in a terminal. Return a function that sends keys, and one that waits for a text on the screen."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    server = ["tmux", "-S", str(tmp_path / "tmux"), "-f", "/dev/null"]

    def run(*words: str) -> str:
        return subprocess.run([*server, *words], capture_output=True, text=True, check=True).stdout

    def start(width: int, height: int, *arguments: str):
        line = " ".join([sys.executable, "-m", "pcli.cli", *arguments, "; echo exit $?; sleep 60"])
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "TERM": "screen"}
        command = [*server, "new-session", "-d", "-x", str(width), "-y", str(height), line]
        subprocess.run(command, env=environment, check=True)

        def wait(text: str) -> str:
            end = time.monotonic() + 60
            while text not in (screen := run("capture-pane", "-p")):
                assert time.monotonic() < end, screen
                time.sleep(0.1)
            return screen

        return (lambda *keys: run("send-keys", *keys)), wait

    yield start
    subprocess.run([*server, "kill-server"], check=False, capture_output=True)


@pytest.mark.slow
def test_a_session_in_tmux(tmux):
    send, wait = tmux(80, 24, "browse", "-r", str(NACK))
    screen = wait("? help")
    assert "CONNECT" in screen
    send("/")
    send("-l", 'pulsar.type == "REDELIVER_UNACKNOWLEDGED_MESSAGES"')
    send("Enter")
    assert "CONNECTED" not in wait("1/2 of 60 frames")
    send("q")
    wait("exit 0")


@pytest.mark.slow
def test_a_narrow_terminal_in_tmux(tmux):
    _, wait = tmux(20, 24, "browse", "-r", str(NACK))
    screen = wait("exit 2").replace("\n", "")
    assert "the terminal has 20×24 characters: browse needs 40×10" in screen
