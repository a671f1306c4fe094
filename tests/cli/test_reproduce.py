"""`pcli reproduce` as a user has it."""

import subprocess
import sys

import pytest

COMMAND = (
    "from pcli.cli import app as edge\n"
    "from pcli.cli.reproduce import reproduce\n"
    "names = [one.name for one in edge.app.registered_commands]\n"
    "'reproduce' in names or edge.app.command('reproduce')(reproduce)\n"
    "edge.main()\n"
)
SIMPLE = "flex/01-produce-consume.pcap"


@pytest.fixture
def reproduce():
    """Run ``pcli reproduce`` with these arguments."""

    def run(*words):
        command = [sys.executable, "-c", COMMAND, "reproduce", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def test_a_file(reproduce, small_captures, tmp_path):
    path = tmp_path / "test_it.py"
    done = reproduce(small_captures / SIMPLE, "-o", path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "pcli: not played: connections that began before the capture: 1\n"
    text = path.read_text()
    assert "def test_01_produce_consume() -> None:" in text
    assert text == reproduce(small_captures / SIMPLE).stdout


def test_one_connection(reproduce, small_captures):
    text = reproduce(small_captures / SIMPLE, "-Y", "pulsar.type == 'PRODUCER'").stdout
    assert '.say("PRODUCER"' in text
    assert len(text) < len(reproduce(small_captures / SIMPLE).stdout)


def test_a_long_one_is_told(reproduce, captures, tmp_path):
    done = reproduce(captures / "python" / "26a-broker-restart.pcap", "-o", tmp_path / "test_it.py")
    assert "lines: choose connections with -Y or --only-stream" in done.stderr


def test_nothing_to_reproduce(reproduce, small_captures, tmp_path):
    path = tmp_path / "test_it.py"
    done = reproduce(small_captures / "java" / "late-capture.pcap", "-o", path)
    assert done.returncode == 2
    assert done.stderr.endswith("pcli: there is nothing in it that can be reproduced\n")
    assert not path.exists()


@pytest.mark.parametrize("words", [["nowhere.pcap"], ["-Y", "((", "CAPTURE"], ["-o", "no/such/folder/x.py", "CAPTURE"]])
def test_what_cannot_be(reproduce, small_captures, words):
    done = reproduce(*(small_captures / SIMPLE if word == "CAPTURE" else word for word in words))
    assert (done.returncode, len(done.stderr.splitlines()[-1:])) == (2, 1)
    assert done.stdout == ""
