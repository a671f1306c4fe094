"""Captures of TLS with their key log: frames, gaps, and the same bytes as tshark."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame, Note, PcapngWriter, ReadOptions, TcpRecorder, read_capture
from pcli.codec.capture.packets import TLS_KEY_LOG, Packet, Secrets
from pcli.codec.capture.reading import read_packets
from pcli.codec.capture.tls.plain_packets import decrypted_packets
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame

SECOND = 1_000_000_000
PING = push_frame(pb.CommandPing())


def read(data: bytes, key_log: bytes = b"", *, careful: bool = False) -> tuple[list[CapturedFrame], list[Note]]:
    items = list(read_capture([("", io.BytesIO(data))], ReadOptions(key_log=key_log, careful=careful)))
    return [one for one in items if isinstance(one, CapturedFrame)], [one for one in items if isinstance(one, Note)]


@pytest.fixture
def real(captures: Path) -> tuple[bytes, bytes]:
    """A connection of the Python client (TLS 1.2) and its key log."""
    folder = captures / "python"
    return (folder / "21-tls.pcapng").read_bytes(), (folder / "21-tls.keylog").read_bytes()


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize(
    ("name", "frames_of_streams"),
    [("python/21-tls.pcapng", [35]), ("tls/aes-gcm.pcap", [10, 10, 18, 18]), ("tls/chacha20.pcap", [10, 10, 18, 18])],
)
def test_the_same_bytes_as_tshark(small_captures: Path, name: str, frames_of_streams: list[int]) -> None:
    path = small_captures / name
    key_log = path.with_suffix(".keylog")
    frames, notes = read(path.read_bytes(), key_log.read_bytes())
    assert notes == []
    for stream, count in enumerate(frames_of_streams):
        command = ["tshark", "-n", "-r", str(path), "-q", "-z", f"follow,tls,raw,{stream}"]
        keys = ["-o", f"tls.keylog_file:{key_log}"]
        lines = subprocess.run([*command, *keys], capture_output=True, text=True, check=True).stdout.splitlines()
        hex_lines = [one for one in lines if one and not one.strip("0123456789abcdef\t")]
        sides = [
            "".join(one.strip() for one in hex_lines if one.startswith("\t") == broker) for broker in (False, True)
        ]
        own = [one for one in frames if one.stream.number == stream]
        found = ["".join(one.data.hex() for one in own if one.from_client != broker) for broker in (False, True)]
        assert len(own) == count
        assert sorted(found) == sorted(sides)


def test_without_a_key_log(real: tuple[bytes, bytes]) -> None:
    frames, [note] = read(real[0])
    assert (frames, note.kind) == ([], "tls")
    assert "--keylog" in note.text


@pytest.fixture
def recorded(tls_conversation: Any) -> Any:
    """A capture of a TLS 1.3 conversation that consists of PINGs, with its key log in the file or separately."""

    def make(*, secrets: bool = False, lost: int = 0) -> tuple[bytes, bytes, dict[bool, int]]:
        """``lost`` is the number of a flight from the end whose packets are missing."""
        talk = tls_conversation("TLS_AES_128_GCM_SHA256")
        file = io.BytesIO()
        writer = PcapngWriter(file)
        if secrets:
            writer.secrets(Secrets(TLS_KEY_LOG, talk.key_log))
        recorder = TcpRecorder(writer)
        connection = recorder.open(("10.0.0.1", 40_000), ("10.0.0.2", 6651), SECOND)
        for place, (from_client, piece) in enumerate(talk.pieces):
            before = file.tell()
            recorder.data(connection, piece, SECOND * (2 + place), from_client=from_client)
            if place == len(talk.pieces) - lost:
                file.seek(before)
                file.truncate()
        counts = {side: len(data) // len(PING) for side, data in talk.sent.items()}
        return file.getvalue(), talk.key_log, counts

    return make


def counted(frames: list[CapturedFrame]) -> dict[bool, int]:
    assert {one.data for one in frames} == {PING}
    return {side: sum(one.from_client == side for one in frames) for side in (True, False)}


@pytest.mark.parametrize("secrets", [False, True], ids=["separate", "in-the-file"])
@pytest.mark.parametrize("careful", [False, True])
def test_all_frames(recorded: Any, secrets: bool, careful: bool) -> None:
    data, key_log, counts = recorded(secrets=secrets)
    frames, notes = read(data, b"" if secrets else key_log, careful=careful)
    assert (counted(frames), notes) == (counts, [])
    assert {one.stream.kind for one in frames} == {"pulsar"}
    assert [one.time_ns for one in frames] == sorted(one.time_ns for one in frames)


def test_lost_packets_end_the_decryption_of_their_direction(recorded: Any) -> None:
    data, key_log, counts = recorded(lost=4)
    frames, notes = read(data, key_log)
    found = counted(frames)
    assert found[False] == counts[False]
    assert found[True] == counts[True] - (1 + 19**2) - (1 + 18**2)
    assert [one.kind for one in notes] == ["tls"]
    assert notes[0].text.endswith("bytes are missing from the capture; the rest is not decrypted")


def test_a_key_log_of_other_connections(recorded: Any, real: tuple[bytes, bytes]) -> None:
    frames, notes = read(recorded()[0], real[1])
    assert frames == []
    assert {one.kind for one in notes} == {"tls"}
    assert all("the key log has no" in one.text for one in notes)


def plain(data: bytes, key_log: bytes) -> bytes:
    """Return the capture with its first connection decrypted."""
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for one in decrypted_packets(read_packets([("", io.BytesIO(data))]), {0}, ReadOptions(key_log=key_log)):
        assert isinstance(one, Packet)
        writer.packet(one)
    return file.getvalue()


def reordered(data: bytes, swaps: int) -> bytes:
    """Return the capture with some packets exchanged with the next packet."""
    packets = [one for one in read_packets([("", io.BytesIO(data))]) if isinstance(one, Packet)]
    for place in range(3, len(packets) - 1, swaps):
        packets[place], packets[place + 1] = packets[place + 1], packets[place]
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for one in packets:
        writer.packet(one)
    return file.getvalue()


@pytest.mark.parametrize("swaps", [0, 2, 3, 5, 7])
def test_plain_packets_have_the_same_frames(recorded: Any, real: tuple[bytes, bytes], swaps: int) -> None:
    for capture, key_log in (recorded()[:2], recorded(secrets=True)[:2], real):
        data = reordered(capture, swaps) if swaps else capture
        frames, notes = read(data, key_log)
        again, plain_notes = read(plain(data, key_log))
        assert [(one.data, one.packets, one.time_ns, one.offset) for one in again] == [
            (one.data, one.packets, one.time_ns, one.offset) for one in frames
        ]
        assert frames
        assert (notes, plain_notes) == ([], [])


def test_plain_packets_after_lost_packets_show_missing_bytes(recorded: Any) -> None:
    data, key_log, _ = recorded(lost=4)
    frames, notes = read(plain(data, key_log))
    assert [one.data for one in frames] == [one.data for one in read(data, key_log)[0]]
    assert {one.kind for one in notes} == {"gap", "snaplen"}
