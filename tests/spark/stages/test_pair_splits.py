"""SENDs, receipts, ACKs and responses of different splits, shuffled or paired by the driver, give the same tables."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.stages import pair_splits
from pcli.spark.tables.stored_tables import StoredTables

sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))
try:
    from load.load_writer import write_load
    from load.settings import Load
finally:
    del sys.path[0]

LOAD = Load(
    size=400_000, rate=3_000_000, nacks=0.03, ping=0.1, ledger=300, connections=9, reorder=0.02, loss=0.01, wanted=1,
    seed=21,
)  # fmt: skip
NAMES = ("messages", "exchanges")


class Apart(InProcess):
    """Reads splits independently and merges them, as on Spark."""

    apart = True  # type: ignore[misc]

    def __init__(self):
        super().__init__()
        self.stages = []

    def exchange(self, what, *arguments, **options):
        self.stages.append(what)
        return super().exchange(what, *arguments, **options)


def tables(path, out, engine, split=1 << 28):
    analyze(Request((str(path),), str(out), only=NAMES, split_bytes=split), engine)
    read = StoredTables(str(out))
    return {name: sorted(map(repr, read.read(name).to_pylist())) for name in NAMES}


def one_direction(path, folder, *, client):
    """The packets of one direction of a capture."""
    data, at = path.read_bytes(), 24
    parts = [data[:24]]
    while at < len(data):
        end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        ip = at + 16 + 14
        (port,) = struct.unpack_from(">H", data, ip + (data[ip] & 15) * 4 + 2)
        if (port == 6650) == client:
            parts.append(data[at:end])
        at = end
    made = folder / "one.pcap"
    made.write_bytes(b"".join(parts))
    return made


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    (path,) = write_load(LOAD, tmp_path_factory.mktemp("load"))
    return path


@pytest.mark.slow
def test_the_shuffle_and_the_driver_give_the_same_tables(capture, tmp_path, monkeypatch):
    whole = tables(capture, tmp_path / "whole", InProcess())
    driver, shuffle = Apart(), Apart()
    assert tables(capture, tmp_path / "driver", driver, 1 << 16) == whole
    monkeypatch.setattr(pair_splits, "FEW_BYTES", 0)
    assert tables(capture, tmp_path / "shuffle", shuffle, 1 << 16) == whole
    assert (driver.stages.count("pair"), shuffle.stages.count("pair")) == (0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("client", [True, False])
def test_one_direction_needs_no_shuffle_of_pairs(capture, tmp_path, monkeypatch, client):
    monkeypatch.setattr(pair_splits, "FEW_BYTES", 0)
    path, engine = one_direction(capture, tmp_path, client=client), Apart()
    assert tables(path, tmp_path / "apart", engine, 1 << 16) == tables(path, tmp_path / "whole", InProcess())
    assert "pair" not in engine.stages
