"""Comparison with tshark on every capture: the same streams, times and payload bytes."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

if shutil.which("tshark") is None:
    pytest.skip("tshark is not installed", allow_module_level=True)

NAMES = [
    "python/01-exclusive-unbatched.pcapng",
    "python/10-shared-redelivery.pcap",
    "go/chunks.pcap",
    "java/schemas.pcap",
]
MORE = ["python/07-chunked.pcap", "python/33-ipv6.pcap", "python/34-any-device.pcap", "python/35-veth.pcap",
        "python/38-repeated-reordered.pcap", "python/39-vlan.pcap", "python/26a-broker-restart.pcap"]  # fmt: skip


def tshark(path: Path, *arguments: str) -> list[str]:
    command = ["tshark", "-n", "-r", str(path), "-d", "tcp.port==6650,data", "-o", "tcp.reassemble_out_of_order:TRUE"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=True).stdout.splitlines()


def followed(path: Path, streams: list[int]) -> dict[tuple[int, int], str]:
    """Return the payload of each side as hex, by stream and port."""
    lines = tshark(path, "-q", *(word for number in streams for word in ("-z", f"follow,tcp,raw,{number}")))
    found: dict[tuple[int, int], str] = defaultdict(str)
    stream, ports = -1, [0, 0]
    for line in lines:
        if line.startswith("Filter: "):
            stream = int(line.split()[-1])
        elif line.startswith(("Node 0: ", "Node 1: ")):
            ports[int(line[5])] = int(line.rpartition(":")[2])
        elif line and not line.strip("0123456789abcdef\t"):
            found[stream, ports[line[0] == "\t"]] += line.strip()
    return found


def agree(w, path: Path) -> None:
    frames, _ = w.read(path.read_bytes())
    seen = {}
    for line in tshark(
        path, "-Y", "tcp", "-T", "fields", "-e", "frame.number", "-e", "frame.time_epoch", "-e", "tcp.stream"
    ):
        number, time, stream = line.split("\t")
        seen[int(number)] = (time, int(stream))
    ours = defaultdict(str)
    for frame in frames:
        seconds, nanos = divmod(frame.time_ns, 1_000_000_000)
        assert seen[frame.packet] == (f"{seconds}.{nanos:09}", frame.stream.number)
        end = frame.stream.client if frame.from_client else frame.stream.server
        ours[frame.stream.number, end[1]] += frame.data.hex()
    theirs = followed(path, sorted({stream for stream, _ in ours}))
    assert {key: value for key, value in theirs.items() if value} == ours


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_captures(w, small_captures, name):
    agree(w, small_captures / name)


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_captures_in_other_formats(w, captures, name):
    agree(w, captures / name)
