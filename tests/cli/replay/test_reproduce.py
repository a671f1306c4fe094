"""`pcli reproduce` as a process."""

import pytest

SIMPLE = "flex/01-produce-consume.pcap"


@pytest.fixture
def reproduce(pcli):
    """Run ``pcli reproduce`` with these arguments."""
    return lambda *arguments: pcli("reproduce", *arguments)


def test_a_file(reproduce, small_captures, tmp_path):
    path = tmp_path / "test_it.py"
    done = reproduce(small_captures / SIMPLE, "-o", path)
    assert (done.code, done.out) == (0, "")
    assert done.err == "pcli: not replayed: connections that began before the capture: 1\n"
    text = path.read_text()
    assert "def test_01_produce_consume() -> None:" in text
    assert text == reproduce(small_captures / SIMPLE).out


def test_one_connection(reproduce, small_captures):
    text = reproduce(small_captures / SIMPLE, "-Y", "pulsar.type == 'PRODUCER'").out
    assert '.send("PRODUCER"' in text
    assert len(text) < len(reproduce(small_captures / SIMPLE).out)


def test_a_long_test_prints_a_hint(reproduce, captures, tmp_path):
    done = reproduce(captures / "python" / "26a-broker-restart.pcap", "-o", tmp_path / "test_it.py")
    assert "lines: choose connections with -Y or --only-stream" in done.err


def test_nothing_to_reproduce(reproduce, small_captures, tmp_path):
    path = tmp_path / "test_it.py"
    done = reproduce(small_captures / "python" / "30-snaplen-96.pcap", "-o", path)
    assert done.code == 2
    assert done.err.endswith("pcli: the capture contains nothing that can be reproduced\n")
    assert not path.exists()


@pytest.mark.parametrize(
    "arguments", [["nowhere.pcap"], ["-Y", "((", "CAPTURE"], ["-o", "no/such/folder/x.py", "CAPTURE"]]
)
def test_invalid_options_are_refused(reproduce, small_captures, arguments):
    done = reproduce(*(small_captures / SIMPLE if word == "CAPTURE" else word for word in arguments))
    assert (done.code, len(done.err.splitlines()[-1:])) == (2, 1)
    assert done.out == ""
