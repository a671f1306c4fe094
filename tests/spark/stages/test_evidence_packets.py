"""The positions of the evidence in the table of findings, compared with the packets of the files."""

from io import BytesIO
from itertools import accumulate

import pytest
from scapy.utils import RawPcapReader

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables


class Apart(InProcess):
    """Reads files independently, as on Spark, but without Spark."""

    apart = True


def findings(out, paths, engine, **options):
    analyze(Request(tuple(map(str, paths)), str(out), only=("findings",), **options), engine)
    return StoredTables(str(out)).read("findings").to_pylist()


def packets_in(path):
    with RawPcapReader(str(path)) as packets:
        return sum(1 for _ in packets)


def positions(paths):
    """The file, packet and time of each frame, by number."""
    before = [0, *accumulate(map(packets_in, paths))]
    frames = read_capture([(str(path), BytesIO(path.read_bytes())) for path in paths])
    return {
        one.number: {
            "frame": one.number, "capture": str(path), "packet": one.packet - first, "time_ns": one.time_ns
        }
        for one in frames
        if isinstance(one, CapturedFrame)
        for path, first, last in zip(paths, before, before[1:])
        if first < one.packet <= last
    }  # fmt: skip


@pytest.mark.parametrize("engine", [InProcess, Apart])
def test_frames_are_found_in_their_files(parts_of, tmp_path, engine):
    parts = parts_of("python/10-shared-redelivery.pcap", 40)
    frames, found = positions(parts), findings(tmp_path / "out", parts, engine())
    assert len({one["capture"] for row in found for one in row["evidence"]}) > 1
    for row in found:
        assert row["evidence"] == [frames[number] for number in row["frames"]]
        first = row["evidence"][0]
        assert row["show"].startswith(f"pcli dissect -r {first['capture']} -Y 'frame.number in {{")
        assert str(first["packet"]) in row["show"]


def test_packets_of_a_time_range_are_unknown(parts_of, tmp_path):
    parts = parts_of("python/10-shared-redelivery.pcap", 4)
    found = findings(tmp_path / "out", parts, InProcess(), since_ns=1)
    assert found
    assert {one["packet"] for row in found for one in row["evidence"]} == {None}
    assert {row["show"] for row in found} == {None}
