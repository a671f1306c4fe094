"""Synthetic connections: tshark reports no errors, and the reader extracts the same frames."""

from __future__ import annotations

import io

import pytest

from pcli.codec.capture import PcapngWriter, TcpRecorder
from pcli.codec.errors import LocalError


def recorded(w, mtu=1500, client="10.0.0.1", server="10.0.0.2"):
    """Record two concurrent connections, one closed and one reset."""
    file = io.BytesIO()
    recorder = TcpRecorder(PcapngWriter(file), mtu)
    first = recorder.open((client, 40000), (server, 6650), 1_000_000_000)
    second = recorder.open((client, 40001), (server, 6650), 1_000_001_000)
    for talk in (first, second):
        recorder.data(talk, w.connect, 1_100_000_000, from_client=True)
        recorder.data(talk, w.connected, 1_200_000_000, from_client=False)
        recorder.data(talk, b"", 1_250_000_000, from_client=True)
        for number in range(20):
            recorder.data(talk, w.send(number, bytes(number * 500)), 1_300_000_000 + number, from_client=True)
            recorder.data(talk, w.receipt(number), 1_300_000_000 + number, from_client=False)
    recorder.close(first, 2_000_000_000, from_client=True)
    recorder.close(first, 2_000_000_001, from_client=False)
    recorder.close(second, 2_000_000_000, from_client=False, reset=True)
    with pytest.raises(LocalError):
        recorder.data(first, b"late", 3, from_client=True)
    return file.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("mtu", [576, 1500, 9000, 65535])
@pytest.mark.parametrize("ends", [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")])
def test_tshark_reports_no_errors_in_recorded_connections(w, tmp_path, mtu, ends, tshark):
    path = tmp_path / "made.pcapng"
    path.write_bytes(recorded(w, mtu, *ends))
    checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-d", "tcp.port==6650,data"]
    assert tshark(path, *checks, "-Y", "_ws.expert.severity > 4194304 && !tcp.flags.reset") == []
    assert (
        tshark(path, *checks, "-Y", "tcp.analysis.flags || tcp.checksum.status == 0 || ip.checksum.status == 0") == []
    )
    assert len(tshark(path, *checks, "-Y", "tcp.checksum.status == 1")) == len(tshark(path))
    assert max(int(size) for size in tshark(path, "-T", "fields", "-e", "frame.len")) <= mtu + 14


def test_recorded_frames_are_extracted_unchanged(w):
    frames, notes = w.read(recorded(w))
    for stream in (0, 1):
        own = [frame for frame in frames if frame.stream.number == stream]
        assert [frame.data for frame in own if frame.from_client] == [
            w.connect, *(w.send(number, bytes(number * 500)) for number in range(20)),
        ]  # fmt: skip
        assert [frame.data for frame in own if not frame.from_client] == [w.connected, *map(w.receipt, range(20))]
    assert {frame.sync for frame in frames} == {"start"}
    assert frames[-1].time_ns == 1_300_000_019
    assert notes == []


def test_the_same_calls_write_the_same_bytes(w):
    assert recorded(w) == recorded(w)


@pytest.mark.parametrize(
    ("client", "server"),
    [(("nowhere", 1), ("10.0.0.1", 2)), (("10.0.0.1", 1), ("fd00::1", 2)), (("10.0.0.1", 1), ("10.0.0.2", 70000))],
)
def test_an_invalid_address_is_refused(client, server):
    recorder = TcpRecorder(PcapngWriter(io.BytesIO()))
    with pytest.raises(LocalError):
        recorder.open(client, server, 0)


def test_an_invalid_mtu_is_refused():
    with pytest.raises(LocalError):
        TcpRecorder(PcapngWriter(io.BytesIO()), 100)


def test_a_checksum_of_all_ones_is_written_as_zero(tmp_path, tshark):
    """The 16-bit words of the SYN from this port add up to 0xFFFF; a checksum of 0xFFFF would be wrong (RFC 1624)."""
    path = tmp_path / "made.pcapng"
    with path.open("wb") as file:
        TcpRecorder(PcapngWriter(file)).open(("10.0.0.1", 28713), ("10.0.0.2", 6650), 0)
    checks = ["-o", "tcp.check_checksum:TRUE"]
    assert len(tshark(path, *checks, "-Y", "frame.number == 1 && tcp.checksum == 0")) == 1
    assert tshark(path, *checks, "-Y", "tcp.checksum.status == 0") == []
