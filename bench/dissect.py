"""Benchmark of dissect on 400 MB derived from the corpus, with tshark in the same run.

    python bench/dissect.py [CAPTURES] [--megabytes 400]

The capture repeats real captures with other client ports and later times, so that every repetition has new connections.
tshark (from Debian, without a Pulsar dissector) prints the reassembled payload of each segment: `-d tcp.port==6650,data
-T fields -e tcp.payload`. Without `-d`, its SMPP heuristic would decode the traffic. It also runs with the dissector of
`pcli wireshark`. Printed: CPU and wall seconds, frames (tshark: packets) per second of CPU, peak memory, and ratios.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from struct import pack_into, unpack_from

from pcli.codec.capture import CapturedFrame, Packet, read_capture, read_packets
from pcli.codec.capture.writer import PcapngWriter
from pcli.codec.wireshark import lua_dissector

HERE = Path(__file__).parent.parent
SOURCES = (
    "python/01-exclusive-unbatched.pcapng",
    "python/10-shared-redelivery.pcap",
    "python/22-batch-index-acks.pcap",
    "python/24-stuck-unacked.pcap",
    "python/28-busy-system.pcapng",
    "java/ack-grouping.pcap",
    "java/permits.pcap",
    "java/batching.pcap",
    "go/compressions.pcapng",
    "flex/02-shared-key-shared.pcapng",
)


@dataclass
class Run:
    """The cost of one command."""

    cpu: float
    wall: float
    peak_mb: float
    lines: int


def packets(source: Path, turn: int) -> Iterator[Packet]:
    """Yield one repetition, with other client ports and with times that are later by a minute per repetition."""
    with source.open("rb") as file:
        for packet in read_packets([(str(source), file)]):
            if not isinstance(packet, Packet) or packet.link != 1:
                continue
            data = bytearray(packet.data)
            tcp = 14 + (data[14] & 15) * 4
            for place in (tcp, tcp + 2):
                port = unpack_from(">H", data, place)[0]
                if port > 10_000:
                    pack_into(">H", data, place, 10_000 + (port + turn * 61) % 55_000)
            yield replace(packet, data=bytes(data), time_ns=packet.time_ns + turn * 60_000_000_000)


def make(folder: Path, target: Path, megabytes: int) -> int:
    """Write the capture; return its number of frames."""
    sources = [folder / name for name in SOURCES if (folder / name).exists()]
    with target.open("wb", buffering=1 << 20) as file:
        writer = PcapngWriter(file)
        turn = 0
        while file.tell() < megabytes * 1_000_000:
            for source in sources:
                for packet in packets(source, turn):
                    writer.packet(packet)
            turn += 1
    with target.open("rb") as file:
        return sum(isinstance(event, CapturedFrame) for event in read_capture([(str(target), file)]))


def run(command: list[str]) -> Run:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    lines = sum(chunk.count(b"\n") for chunk in iter(lambda: process.stdout.read(1 << 20), b""))
    _, _, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("captures", nargs="?", type=Path, default=HERE / "tests" / "captures")
    parser.add_argument("--megabytes", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "bench.pcapng"
        small = Path(folder) / "small.pcapng"
        frames = make(options.captures, capture, options.megabytes)
        make(options.captures, small, max(1, options.megabytes // 8))
        size = capture.stat().st_size / 1e6
        pcli = [sys.executable, "-m", "pcli.cli", "dissect", "-r"]
        one_percent = "pulsar.type == 'SUBSCRIBE' or pulsar.message.redelivery_count > 0"
        rows: list[tuple[str, Run]] = [
            ("pcli, a filter that keeps little", run([*pcli, str(capture), "-Y", one_percent])),
            ("pcli, every line printed", run([*pcli, str(capture), "--system"])),
            ("pcli, -T ndjson", run([*pcli, str(capture), "--system", "-T", "ndjson"])),
            ("pcli, the same filter, an eighth of the file", run([*pcli, str(small), "-Y", one_percent])),
        ]
        print(f"{size:.0f} MB, {frames:,} frames")
        print(f"{'':46} {'CPU s':>8} {'wall s':>8} {'frames/s':>10} {'MB/s':>7} {'peak MB':>8} {'lines':>10}")
        for name, one in rows:
            part = 1 / 8 if "eighth" in name else 1
            print(
                f"{name:46} {one.cpu:8.1f} {one.wall:8.1f} {part * frames / one.cpu:10,.0f} "
                f"{part * size / one.cpu:7.1f} {one.peak_mb:8.0f} {one.lines:10,}"
            )
        if shutil.which("tshark"):
            peer = run(["tshark", "-r", str(capture), "-d", "tcp.port==6650,data", "-T", "fields", "-e", "tcp.payload"])
            print(
                f"{'tshark, payload of each segment':46} {peer.cpu:8.1f} {peer.wall:8.1f} {frames / peer.cpu:10,.0f} "
                f"{size / peer.cpu:7.1f} {peer.peak_mb:8.0f} {peer.lines:10,}"
            )
            for name, one in rows[:3]:
                print(f"{name}: {peer.cpu / one.cpu:.2f} times as fast as tshark, by CPU time")
            dissector = Path(folder) / "pulsar.lua"
            dissector.write_text(lua_dissector("bench"), "utf-8")
            lua = run(
                ["tshark", "-X", f"lua_script:{dissector}", "-r", str(small), "-T", "fields", "-e", "pulsar.type"]
            )
            print(f"tshark with the dissector of pcli wireshark: {frames / 8 / lua.cpu:,.0f} frames/s of CPU")
        else:
            print("tshark is not installed: nothing to compare with")


if __name__ == "__main__":
    main()
