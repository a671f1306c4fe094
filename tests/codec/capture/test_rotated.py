"""The order of the parts of a capture, with names and times as capture tools write them."""

from __future__ import annotations

import io
import json
import random

import pytest

from pcli.codec.capture import Part, order_parts, pull_first_time

NAMES = {
    "tcpdump -C": ["x.pcap", "x.pcap1", "x.pcap2", "x.pcap9", "x.pcap10", "x.pcap11", "x.pcap100"],
    "tcpdump -C -W": [f"x.pcap{number:02}" for number in range(12)],
    "tcpdump -G": ["x-2026-11-20_18:59:58.pcap", "x-2026-11-20_19:00:58.pcap", "x-2026-11-21_00:00:58.pcap"],
    "tcpdump -G with seconds": ["x-999999998.pcap", "x-999999999.pcap", "x-1000000000.pcap"],
    "dumpcap": [f"x_{number:05}_2026112018{30 + number // 3}00.pcapng" for number in (1, 2, 3, 9, 10, 11)],
    "editcap": ["x_00000_20261120183458.pcap", "x_00001_20261120183459.pcap", "x_00002_20261120183500.pcap"],
    "packed": ["x.pcap.gz", "x.pcap1.gz", "x.pcap2.zst", "x.pcap10.gz"],
    "numbered before the ending": ["x.pcapng", "x1.pcapng", "x2.pcapng", "x10.pcapng"],
}


@pytest.mark.parametrize("tool", list(NAMES))
def test_order_by_names_alone(tool):
    shuffled = list(NAMES[tool])
    random.Random(3).shuffle(shuffled)
    assert [part.name for part in order_parts(map(Part, shuffled))] == NAMES[tool]


def test_an_overwritten_ring():
    """tcpdump -W 3: part 00 contains the newest packets."""
    parts = [Part("x00", 400), Part("x01", 200), Part("x02", 300)]
    assert [part.name for part in order_parts(parts)] == ["x01", "x02", "x00"]


def test_equal_times_and_parts_without_packets():
    parts = [Part("x3", 10), Part("x1", 10), Part("x2"), Part("x0"), Part("x10", 5)]
    assert [part.name for part in order_parts(parts)] == ["x0", "x10", "x1", "x2", "x3"]


@pytest.mark.parametrize("folder", ["31-ring", "31b-ring-tcpdump"])
@pytest.mark.parametrize("timed", [True, False])
def test_real_rings(captures, folder, timed):
    truth = json.loads((captures / f"python/{folder}.truth.json").read_text())
    wanted = [file["file"].rpartition("/")[2] for file in truth["capture"]["files"]]
    parts = [
        Part(path.name, pull_first_time(io.BytesIO(path.read_bytes())) if timed else None)
        for path in (captures / "python" / folder).iterdir()
    ]
    random.Random(5).shuffle(parts)
    assert [part.name for part in order_parts(parts)] == wanted


def test_first_time(w):
    assert pull_first_time(w.file(w.Tape().hello())) == 1_000_000
    assert pull_first_time(io.BytesIO(w.pcap([]))) is None
    assert pull_first_time(io.BytesIO(b"no capture")) is None
