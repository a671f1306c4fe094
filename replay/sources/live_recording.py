"""Recording of live traffic to a file by the fastest installed program: dumpcap, tcpdump or scapy, in this order.

Rules of this file
1. The capture program writes the file itself; this module only reads its packet counts. If Python handled the packets,
   some would be lost.
2. The program is stopped with SIGTERM and never killed, so that the file is complete. This also applies to Ctrl-C and
   to the end of the duration.
3. The program's exit code shows whether it succeeded. tcpdump returns 0 even if the disk is full, so the packets in the
   file that it wrote are counted.
4. The result includes the number of dropped packets.

Two wrappers of a live capture stream report the start, and keep the bytes in a temporary file.
"""

from __future__ import annotations

import io
import re
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from pcli.codec.errors import CaptureError
from pcli.replay.sources.capture_sources import capture_command, refusal
from pcli.replay.sources.scapy_capture import record_with_scapy


@dataclass(frozen=True, slots=True)
class RecordingResult:
    """The result of a recording."""

    program: str
    """The capture program: dumpcap, tcpdump or scapy."""
    packets: int
    dropped: int | None
    """Packets that the kernel dropped, or None if the program does not report them."""


# dumpcap: "Packets: 12" while it runs, "Packets captured: 12" and "…'lo': 12/0 (pcap:0/…" at the end;
# tcpdump: "12 packets captured" on SIGUSR1 and at the end, "0 packets dropped by kernel".
_COUNT = re.compile(r"Packets(?: captured)?: (\d+)|(\d+) packets? captured")
_DROPPED = re.compile(r"': \d+/(\d+) \(|(\d+) packets? dropped by kernel")
_LINES_KEPT: Final = 50
"""Number of stderr lines to keep. The first lines contain the reason for a failure."""


def record(
    interface: str,
    path: str,
    *,
    capture_filter: str = "",
    ring: Sequence[str] = (),
    duration: float = 0,
    on_count: Callable[[int], None] = lambda _count: None,
) -> RecordingResult:
    """Record for the duration (in seconds; 0 for no limit) or until Ctrl-C.

    ``on_count`` receives the number of packets about once a second. Raises CaptureError with the program's message and
    the counts so far if the program fails (no such interface, no permission, an invalid filter, no space). Raises
    LocalError if no program is installed.
    """
    command = capture_command(interface, capture_filter, path, ring)
    if command is None:
        return RecordingResult("scapy", record_with_scapy(interface, path, capture_filter, duration, on_count), None)
    program = Path(command[0]).name
    output = _ProgramOutput(on_count)
    until = time.monotonic() + duration if duration else None
    # Ctrl-C is a normal end of a recording. The program also receives the signal.
    expected_codes = {0}
    with (
        _interrupts_later() as deliver_signals,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0) as process,  # noqa: S603
    ):
        assert process.stderr is not None
        try:
            deliver_signals()
            ended = _watch(process, program, output, until)
        except KeyboardInterrupt:
            ended = False
        if not ended:
            process.terminate()
            expected_codes |= {-signal.SIGTERM, -signal.SIGINT}
        output.feed(process.stderr.read())
    if process.returncode not in expected_codes:
        raise CaptureError(f"{interface}: {output.refusal or f'{program} failed'}{output.counts}")
    if program == "tcpdump" and output.packets and Path(path).is_file():
        _check_all_written(path, output)
    return RecordingResult(program, output.packets or 0, output.dropped)


@contextmanager
def _interrupts_later() -> Iterator[Callable[[], None]]:
    """Defer SIGINT and SIGTERM until the yielded function is called or the block ends.

    Otherwise a signal during the start of a program would leave the program running without a parent that stops it.
    """
    before: dict[int, Callable[[int, Any], object]] = {}
    deferred: list[int] = []

    def deliver_signals() -> None:
        while before:
            signal.signal(*before.popitem())
        while deferred:
            signal.raise_signal(deferred.pop())

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler) and threading.current_thread() is threading.main_thread():
                before[number] = handler
                signal.signal(number, lambda number, _: deferred.append(number))
        yield deliver_signals
    finally:
        deliver_signals()


class _ProgramOutput:
    """The stderr output of a capture program so far."""

    def __init__(self, on_count: Callable[[int], None]) -> None:
        self.packets: int | None = None
        self.dropped: int | None = None
        self.has_output = False
        """Whether there was any output. If there was, the program is running and handles its signals."""
        self._on_count = on_count
        self._rest = ""
        self._lines: list[str] = []

    @property
    def refusal(self) -> str:
        """The reason for a failure, if any."""
        return refusal("\n".join(self._lines).encode())

    @property
    def counts(self) -> str:
        """The counts so far, as the end of an error message; empty if there are no counts yet."""
        if self.packets is None:
            return ""
        lost = "" if self.dropped is None else f", {self.dropped} dropped"
        return f" ({self.packets} packets captured{lost})"

    def feed(self, data: bytes | None) -> None:
        """Parse the next bytes. Lines may also end with a carriage return."""
        *lines, self._rest = re.split(r"[\r\n]", self._rest + (data or b"").decode(errors="replace"))
        self.has_output = self.has_output or bool(data)
        if not data:
            lines.append(self._rest)
        for line in lines:
            count, dropped = _COUNT.search(line), _DROPPED.search(line)
            if count is not None:
                self.packets = int(count.group(1) or count.group(2))
                self._on_count(self.packets)
            if dropped is not None:
                self.dropped = int(dropped.group(1) or dropped.group(2))
            if count is None and len(self._lines) < _LINES_KEPT:
                self._lines.append(line)


def _watch(process: subprocess.Popen[bytes], program: str, output: _ProgramOutput, until: float | None) -> bool:
    """Read the program's output until the program ends (True) or the time is over (False)."""
    assert process.stderr is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        while until is None or time.monotonic() < until:
            if selector.select(1.0 if until is None else min(1.0, max(0.0, until - time.monotonic()))):
                data = process.stderr.read(65536)
                if not data:
                    return True
                output.feed(data)
            elif program == "tcpdump" and output.has_output:  # tcpdump prints its counts on SIGUSR1
                process.send_signal(signal.SIGUSR1)
    return False


def _check_all_written(path: str, output: _ProgramOutput) -> None:
    """Raise CaptureError if the file lacks packets, because tcpdump does not check that they were written."""
    from pcli.codec.capture import Packet, read_packets

    with Path(path).open("rb") as file:
        written = sum(isinstance(item, Packet) for item in read_packets([(path, file)]))
    if written < (output.packets or 0):
        raise CaptureError(f"{path}: only {written} packets are in the file: is the disk full?{output.counts}")


class StartNotifier(io.RawIOBase):
    """A reader of a live source that reports the first bytes.

    A capture program writes them when it starts to capture.
    """

    def __init__(self, source: BinaryIO, on_begin: Callable[[], None]) -> None:
        """``on_begin`` is called before the first bytes are returned. If there are no bytes, it is not called."""
        super().__init__()
        self._source = source
        self._on_begin: Callable[[], None] | None = on_begin

    def read(self, size: int = -1, /) -> bytes:
        """Return the available bytes, at most ``size``, or no bytes at the end."""
        data = self._source.read(size)
        if data and self._on_begin is not None:
            on_begin, self._on_begin = self._on_begin, None
            on_begin()
        return data


class SpooledStream(io.RawIOBase):
    """A reader of a live source that keeps all bytes; after `seek(0)` it reads the kept bytes."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__()
        self._source: BinaryIO | None = source
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115  (closed with this)

    def read(self, size: int = -1, /) -> bytes:
        """Return the available bytes, at most ``size``, or no bytes at the end."""
        if self._source is None:
            return self._kept.read(size)
        data = self._source.read(size)
        self._kept.write(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position in the kept bytes. The source is not read afterwards."""
        self._source = None
        return self._kept.seek(offset, whence)

    def tell(self) -> int:
        """Return the number of bytes read so far, or the position in the kept bytes."""
        return self._kept.tell()

    def close(self) -> None:
        """Delete the kept bytes. The owner of the source closes the source."""
        if not self.closed:
            self._kept.close()
        super().close()
