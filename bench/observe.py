"""Benchmark of the diagnosis: its memory over gigabytes, and its time compared with `dissect` on the same input.

    python bench/observe.py [CAPTURES] [--gigabytes 2] [--megabytes 400]

The capture of the first part is generated in memory. It repeats real captures, each time with later times (also in the
messages), other ports and other ledgers, so that every message is new while topics, consumers and hosts are the same.
The second part writes such a capture to a file, for the commands and for the layers below them. Printed: peak memory,
CPU seconds, frames per CPU second, and the ratios.
"""

from __future__ import annotations

import argparse
import gc
import io
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import google_crc32c
from dissect import HERE, SOURCES, run

from pcli.codec.capture import CapturedFrame, PcapngWriter, ReadOptions, TcpRecorder, read_capture
from pcli.codec.capture.frames import StreamEnd
from pcli.codec.observe import Observer
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.hot import push_varint

GIGABYTE = 1_000_000_000
SECOND = 1_000_000_000
MARKS = (0.25, 0.5, 1.0, 1.5, 2.0)
"""Gigabytes at which memory is printed."""

# -- an endless capture ------------------------------------------------------------------------------------------------

ONE, OTHER = 1 << 14 | 1 << 7, 2 << 14 | 2 << 7 | 64
"""Two ledgers whose three-byte varints differ in every byte, also after a small number is added to both."""
LAST = 1 << 21
"""The first ledger whose varint is longer."""


@dataclass
class RecordedFrame:
    """A frame of a real capture."""

    stream: int
    from_client: bool
    after_ns: int
    """Time since the first frame."""
    data: bytes
    ledgers: list[tuple[int, int]]
    """Positions of ledger ids, and the ids minus the lowest id of the capture."""
    published: tuple[int, int, int] | None
    """Positions of the publish time and of the first byte that the checksum covers, and the publish time in ms since
    the first frame; None if the frame has no message."""


def message_ids(body: Any) -> Iterator[pb.MessageIdData]:
    """Yield every MessageIdData with a ledger in a command."""
    if isinstance(body, pb.MessageIdData) and body.ledgerId != MINUS_ONE:
        yield body
    for field, value in body.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from message_ids(inner)


def with_ledgers_moved(frame: CapturedFrame, by: int) -> bytes:
    """Return the frame with other ledgers. Checksums do not change: they cover only the bytes after the command."""
    command = pb.BaseCommand.FromString(frame.command.SerializePartialToString())
    for place in message_ids(command):
        place.ledgerId += by
    return join_frame(command.SerializePartialToString(), frame.data[frame.parts.command_end :])


def frames_of(path: Path) -> tuple[list[RecordedFrame], int]:
    """Return the frames of a capture, and the size of its range of ledgers."""
    with path.open("rb") as file:
        captured = [one for one in read_capture([(path.name, file)]) if isinstance(one, CapturedFrame)]
    ledgers = [place.ledgerId for frame in captured for place in message_ids(frame.command)]
    lowest = min(ledgers, default=0)
    frames = []
    for frame in captured:
        one, other = with_ledgers_moved(frame, ONE - lowest), with_ledgers_moved(frame, OTHER - lowest)
        spots, at = [], 0
        while at < len(one):
            if one[at] != other[at]:
                low, middle, high = one[at : at + 3]
                spots.append((at, (low & 127 | (middle & 127) << 7 | high << 14) - ONE))
                at += 3
            else:
                at += 1
        after_ns = frame.time_ns - captured[0].time_ns
        published = published_of(frame, len(one) - len(frame.data), captured[0].time_ns // 1_000_000)
        frames.append(RecordedFrame(frame.stream.number, frame.from_client, after_ns, one, spots, published))
    return frames, max(ledgers, default=0) - lowest + 1


def published_of(frame: CapturedFrame, moved: int, start_ms: int) -> tuple[int, int, int] | None:
    """Return `RecordedFrame.published` of a frame whose message has moved by some bytes."""
    metadata, parts = frame.metadata, frame.parts
    if metadata is None or frame.checksum != "good":
        return None
    tag = bytes([pb.MessageMetadata.PUBLISH_TIME_FIELD_NUMBER << 3])
    at = frame.data.index(tag + push_varint(metadata.publish_time), parts.metadata_start, parts.metadata_end)
    return at + 1 + moved, parts.checked_start + moved, metadata.publish_time - start_ms


class EndlessCapture(io.RawIOBase):
    """A pcapng that is generated while it is read."""

    def __init__(self, paths: list[Path], limit: int) -> None:
        self.captures = [frames_of(path) for path in paths]
        self.limit = limit
        self.size = 0
        """Number of bytes so far."""
        self.buffer = io.BytesIO()
        self.recorder = TcpRecorder(PcapngWriter(self.buffer), mtu=65_535)
        self.buffer.seek(0)
        self.now = 1_700_000_000 * SECOND
        self.ledger = ONE
        self.repetitions = self.connections = 0

    def readable(self) -> bool:
        """As io.RawIOBase."""
        return True

    def readinto(self, target: Any) -> int:
        """As io.RawIOBase."""
        if not (data := self.buffer.read(len(target))):
            if self.size >= self.limit:
                return 0
            self.buffer.seek(0)
            self.buffer.truncate()
            self.append_capture(*self.captures[self.repetitions % len(self.captures)])
            self.size += self.buffer.tell()
            self.buffer.seek(0)
            data = self.buffer.read(len(target))
        target[: len(data)] = data
        return len(data)

    def append_capture(self, frames: list[RecordedFrame], ledgers: int) -> None:
        """Append one more repetition of a capture."""
        self.repetitions += 1
        if self.ledger + ledgers >= LAST:
            self.ledger = ONE
        links: dict[int, Any] = {}
        for frame in frames:
            time_ns = self.now + frame.after_ns
            if frame.stream not in links:
                self.connections += 1
                client = (f"10.0.0.{1 + frame.stream % 250}", 10_000 + self.connections % 50_000)
                links[frame.stream] = self.recorder.open(client, ("10.1.0.1", 6650), time_ns)
            data = bytearray(frame.data)
            for at, ledger in frame.ledgers:
                data[at : at + 3] = push_varint(self.ledger + ledger)
            if frame.published is not None:
                at, checked, after_ms = frame.published
                published = push_varint(self.now // 1_000_000 + after_ms)
                data[at : at + len(published)] = published
                data[checked - 4 : checked] = google_crc32c.value(bytes(data[checked:])).to_bytes(4, "big")
            self.recorder.data(links[frame.stream], bytes(data), time_ns, from_client=frame.from_client)
        self.now += frames[-1].after_ns + SECOND
        for link in links.values():
            self.recorder.close(link, self.now, from_client=True)
        self.ledger += ledgers


def memory(paths: list[Path], gigabytes: float) -> None:
    """Diagnose this number of gigabytes, and print the peak memory at intervals."""
    gc.set_threshold(50_000)  # as pcli.cli.commands.run does
    source = EndlessCapture(paths, int(gigabytes * GIGABYTE))
    diagnosis, observer = Diagnosis(), Observer()
    marks = [mark for mark in MARKS if mark < gigabytes] + [gigabytes]
    print(f"{'GB':>6} {'frames':>12} {'peak MB':>8}")
    frames = 0
    for item in read_capture([("endless", cast(BinaryIO, source))], ReadOptions(ends=True)):
        frames += feed(item, observer, diagnosis)
        if marks and source.size >= marks[0] * GIGABYTE:
            print(f"{marks.pop(0):6.2f} {frames:12,} {peak():8,.0f}", flush=True)
    diagnosis.finish()
    print(f"{'end':>6} {frames:12,} {peak():8,.0f}   {len(diagnosis.findings()):,} findings")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# -- time --------------------------------------------------------------------------------------------------------------


def feed(item: Any, observer: Observer, diagnosis: Diagnosis) -> bool:
    """Process an item of a recording as `pcli diagnose` does; return whether it is a frame."""
    if isinstance(item, CapturedFrame):
        diagnosis.see(observer.see(item))
        return True
    if isinstance(item, StreamEnd):
        diagnosis.ended(item)
        observer.close(item.stream.number)
    else:
        diagnosis.note(item)
    return False


def layers(capture: Path, frames: int) -> None:
    """Print the CPU time of each layer, including the layers below it."""

    def diagnose(item: Any) -> None:
        feed(item, observer, diagnosis)

    def observe(item: Any) -> None:
        if isinstance(item, CapturedFrame):
            observer.see(item)

    diagnosis, observer = Diagnosis(), Observer()
    steps: list[tuple[str, Callable[[Any], None]]] = [
        ("reading", lambda item: None), ("+ observer", observe), ("+ tracker and rules", diagnose)
    ]  # fmt: skip
    for name, step in steps:
        observer = Observer()
        started = time.process_time()
        with capture.open("rb") as file:
            for item in read_capture([(capture.name, file)], ReadOptions(ends=True)):
                step(item)
            if step is diagnose:
                diagnosis.finish()
        took = time.process_time() - started
        print(f"{name:46} {took:8.1f} {frames / took:12,.0f} {took / frames * 1e6:8.2f} us a frame")


def write(paths: list[Path], capture: Path, megabytes: int) -> int:
    """Write an endless capture of this size to a file; return its number of frames."""
    with capture.open("wb") as file:
        shutil.copyfileobj(cast(BinaryIO, EndlessCapture(paths, megabytes * 1_000_000)), file)
    with capture.open("rb") as file:
        return sum(isinstance(item, CapturedFrame) for item in read_capture([(capture.name, file)]))


def commands(capture: Path, frames: int) -> None:
    """Compare `diagnose` with `dissect`, each in its own process."""
    pcli = [sys.executable, "-m", "pcli.cli"]
    seldom = "pulsar.type == 'SUBSCRIBE' or pulsar.message.redelivery_count > 0"
    rows = {
        "dissect, a filter that keeps little": [*pcli, "dissect", "-r", str(capture), "-Y", seldom],
        "dissect, every line printed": [*pcli, "dissect", "-r", str(capture), "--system"],
        "diagnose": [*pcli, "diagnose", "-r", str(capture)],
    }
    print(f"{'':46} {'CPU s':>8} {'frames/s':>12} {'peak MB':>8}")
    taken: dict[str, float] = {}
    for name, command in rows.items():
        one = run(command)
        taken[name] = one.cpu
        print(f"{name:46} {one.cpu:8.1f} {frames / one.cpu:12,.0f} {one.peak_mb:8,.0f}")
    own = taken.pop("diagnose")
    for name, cpu in taken.items():
        print(f"diagnose: {cpu / own:.2f} of the frames per second of {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("captures", nargs="?", type=Path, default=HERE / "tests" / "captures")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--megabytes", type=int, default=400)
    options = parser.parse_args()
    paths = [options.captures / name for name in SOURCES if (options.captures / name).exists()]
    memory(paths, options.gigabytes)
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "bench.pcapng"
        frames = write(paths, capture, options.megabytes)
        print(f"{capture.stat().st_size / 1e6:.0f} MB, {frames:,} frames")
        commands(capture, frames)
        layers(capture, frames)


if __name__ == "__main__":
    main()
