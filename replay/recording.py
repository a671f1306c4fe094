"""Recording live traffic to a file, by the fastest means at hand: dumpcap, tcpdump, else scapy.

Rules of this file
1. The capture program writes the file itself; we only read what it says about its counts. Python in the way of the
   packets would lose some.
2. It is asked to stop (SIGTERM), never killed, so that the file is whole; Ctrl-C and a duration do the same.
3. Drops are part of the result: a capture that does not say what it lost is none.
"""

from __future__ import annotations

import importlib.util
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcli.codec.errors import CaptureError, LocalError
from pcli.replay.sources import capture_command, refusal

__all__ = ["Recorded", "record"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a recording came to."""

    program: str
    """dumpcap, tcpdump or scapy."""
    packets: int
    dropped: int | None
    """Packets that the kernel lost; None: the program can't tell."""


# dumpcap: "Packets: 12" while it runs, "Packets captured: 12" and "…'lo': 12/0 (pcap:0/…" at the end;
# tcpdump: "12 packets captured" on SIGUSR1 and at the end, "0 packets dropped by kernel".
_COUNT = re.compile(r"Packets(?: captured)?: (\d+)|(\d+) packets? captured")
_DROPPED = re.compile(r"': \d+/(\d+) \(|(\d+) packets? dropped by kernel")


def record(
    interface: str,
    path: str,
    *,
    capture_filter: str = "",
    ring: Sequence[str] = (),
    duration: float = 0,
    on_count: Callable[[int], None] = lambda _count: None,
) -> Recorded:
    """Record until the duration (seconds; 0: for ever) is over or Ctrl-C.

    ``on_count`` is told the packets so far about once a second. CaptureError when the program refuses (no such
    interface, no permission, a wrong filter, no space), with its own last word; LocalError when there is none.
    """
    try:
        command = capture_command(interface, capture_filter, path, ring)
    except LocalError:
        if ring or importlib.util.find_spec("scapy") is None:
            raise
        return _record_with_scapy(interface, path, capture_filter, duration, on_count)
    said = _Said(on_count)
    until = time.monotonic() + duration if duration else None
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0) as process:  # noqa: S603
        assert process.stderr is not None
        # Ctrl-C is how a recording ends; the program gets it too.
        with suppress(KeyboardInterrupt):
            _watch(process, said, until)
        process.terminate()
        said.feed(process.stderr.read())
    if said.packets is None and process.returncode not in (0, -signal.SIGTERM):
        raise CaptureError(f"{interface}: {said.refusal or 'the capture program failed'}")
    return Recorded(Path(command[0]).name, said.packets or 0, said.dropped)


class _Said:
    """What a capture program says on stderr, as far as it has said it."""

    def __init__(self, on_count: Callable[[int], None]) -> None:
        self.packets: int | None = None
        self.dropped: int | None = None
        self.refusal = ""
        """Why it refused, if it did."""
        self._on_count = on_count
        self._rest = ""

    def feed(self, data: bytes | None) -> None:
        """Take the next bytes; the programs end lines with a carriage return as well."""
        *lines, self._rest = re.split(r"[\r\n]", self._rest + (data or b"").decode(errors="replace"))
        if not data:
            lines.append(self._rest)
        for line in lines:
            count, dropped = _COUNT.search(line), _DROPPED.search(line)
            if count is not None:
                self.packets = int(count.group(1) or count.group(2))
                self._on_count(self.packets)
            if dropped is not None:
                self.dropped = int(dropped.group(1) or dropped.group(2))
            self.refusal = self.refusal or refusal(line.encode())


def _watch(process: subprocess.Popen[bytes], said: _Said, until: float | None) -> None:
    """Read what the program says until it ends or the time is over."""
    assert process.stderr is not None
    is_tcpdump = Path(str(process.args[0] if isinstance(process.args, list) else "")).name == "tcpdump"
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        while process.poll() is None and (until is None or time.monotonic() < until):
            if selector.select(min(1.0, max(0.0, until - time.monotonic())) if until is not None else 1.0):
                data = process.stderr.read(65536)
                if not data:
                    return
                said.feed(data)
            elif is_tcpdump:  # it tells its counts when it is asked
                process.send_signal(signal.SIGUSR1)


def _record_with_scapy(
    interface: str, path: str, capture_filter: str, duration: float, on_count: Callable[[int], None]
) -> Recorded:
    """The slow way, where neither program is installed; scapy's sniffer can't tell what it lost."""
    from scapy.sendrecv import sniff
    from scapy.utils import PcapWriter

    packets = 0
    writer = PcapWriter(path, sync=True)

    def keep(packet: Any) -> None:
        nonlocal packets
        packets += 1
        writer.write(packet)
        on_count(packets)

    try:
        sniff(iface=interface, filter=capture_filter or None, prn=keep, store=False, timeout=duration or None)
    except OSError as error:
        raise CaptureError(f"{interface}: {error}") from None
    finally:
        writer.close()
    return Recorded("scapy", packets, None)
