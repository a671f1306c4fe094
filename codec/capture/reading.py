"""The two ways to read captures: frames with notes, and raw packets.

Rules of this file
1. Several files are parts of one recording, in the order given: packets are counted on, and connections go on from
   file to file.
2. A file that is damaged, cut, or no capture is told by a Note and ends with what was whole; the next one is read.
   Only when nothing at all was a capture, CaptureError is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from pcli.codec.capture.fast import Reader
from pcli.codec.capture.files import Source, open_source
from pcli.codec.capture.frames import CapturedFrame, Note, StreamEnd
from pcli.codec.capture.judge import Judge
from pcli.codec.capture.output import Output
from pcli.codec.capture.packets import Packet, Secrets, Window
from pcli.codec.capture.pcap import MAGICS, pcap_windows
from pcli.codec.capture.pcapng import MAGIC, PcapngReader
from pcli.codec.capture.streams import Tcp
from pcli.codec.capture.walk import Walker
from pcli.codec.errors import CaptureError
from pcli.codec.wire.constants import MAX_FRAME_SIZE

__all__ = ["CaptureTotals", "Files", "ReadOptions", "is_other_file", "opened", "read_capture", "read_packets"]

Files = Iterable[tuple[str, BinaryIO]]
"""Names, for the notes only, and files."""


@dataclass(slots=True)
class CaptureTotals:
    """What captures contain, Pulsar or not."""

    packets: int = 0
    connections: int = 0
    """TCP connections."""
    ports: list[int] = field(default_factory=list)
    """Server ports of the TCP connections, each once, in the order of their first packets."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read."""

    decode_as: Mapping[int, str] = field(default_factory=dict)
    """TCP port to what is spoken there: pulsar, tls, http, other."""
    max_frame_size: int = MAX_FRAME_SIZE
    """Bytes of the largest frame; what CONNECTED announces raises it for its connection."""
    careful: bool = False
    """Take every packet through the general case. Slow; gives the same frames."""
    totals: CaptureTotals | None = None
    """Receives the totals when the captures have been read."""
    ends: bool = False
    """Give a StreamEnd for every TCP connection that ends, Pulsar or not, behind its last frame."""


def read_capture(files: Files, options: ReadOptions = ReadOptions()) -> Iterator[CapturedFrame | Note | StreamEnd]:
    """Frames and notes of a recording, in the order of the packets in which they become known.

    Raises CaptureError when no file is a capture; errors of the file objects themselves pass through.
    """
    output, judge = Output(), Judge(options.decode_as)
    output.ends = options.ends
    walker = Walker(output, judge)
    tcp = Tcp(output, walker, judge, options.max_frame_size)
    reader = Reader(tcp, output)
    reader.careful = options.careful

    def cut(window: Window) -> list[CapturedFrame | Note | StreamEnd]:
        reader.packets(*window)
        return _take(output)

    for name, source, note in opened(files):
        walker.snapped = False
        if source is not None:
            for item in _windows(name, source):
                if isinstance(item, Note):
                    yield replace(item, packet=reader.packet)
                elif not isinstance(item, Secrets):
                    yield from cut(item)
        if note is not None:
            yield note
    tcp.end(reader.packet)
    if options.totals is not None:
        options.totals.packets = reader.packet
        options.totals.connections = tcp.table.count
        options.totals.ports = list(tcp.table.ports)
    yield from _take(output)


def _take(output: Output) -> list[CapturedFrame | Note | StreamEnd]:
    found, output.out = output.out, []
    return found


def read_packets(files: Files) -> Iterator[Packet | Secrets | Note]:
    """Raw packets of a recording, numbered like ``CapturedFrame.packet``, and decryption secrets in front of them.

    Raises CaptureError when no file is a capture.
    """
    number = 0
    for name, source, note in opened(files):
        if source is not None:
            for item in _windows(name, source):
                if isinstance(item, tuple):
                    data, records = item
                    for start, end, wire, time_ns, face in records:
                        number += 1
                        marked = face.left_out is face
                        yield Packet(number, time_ns, face.link, data[start:end], wire, face.name, marked)
                else:
                    yield replace(item, packet=number) if isinstance(item, Note) else item
        if note is not None:
            yield note


def opened(files: Files) -> Iterator[tuple[str, Source | None, Note | None]]:
    """Each file as a source, or the note why it is none; raises CaptureError at the end when none was one."""
    failed: list[tuple[str, str]] = []
    good = False
    for name, file in files:
        source = open_source(file)
        text = _no_capture(source)
        if text:
            failed.append((name, text))
            # Held back as long as it may become the one error.
            if good:
                yield name, None, Note("file", text, source=name, offset=0)
            continue
        if not good:
            good = True
            for other, reason in failed:
                yield other, None, Note("file", reason, source=other, offset=0)
        yield name, source, None
    if not good:
        if not failed:
            raise CaptureError("no capture was given")
        name, text = failed[0]
        raise CaptureError(f"{name}: {text}" if name else text, 0)


def is_other_file(file: BinaryIO) -> bool:
    """Whether a file, packed or not, is certainly no capture: empty, or begins otherwise. A damaged one may be one."""
    source = open_source(file)
    return bool(_no_capture(source)) and source.error is None


def _no_capture(source: Source) -> str:
    """Why this is no capture; empty when it is one."""
    if not source.fill(0, 4):
        if source.error is not None:
            return str(source.error)
        return "the file is empty" if not source.data else "the file is too short for a capture"
    head = source.data[:4]
    if head in MAGICS or head == MAGIC:
        return ""
    return f"neither pcap nor pcapng: it begins with {head.hex(' ')}"


def _windows(name: str, source: Source) -> Iterator[Window | Secrets | Note]:
    """The windows of a capture, the secrets in it, and at the end a note if it is damaged or cut."""
    secrets: list[Secrets] = []
    told = 0
    try:
        if source.data[:4] == MAGIC:
            ng = PcapngReader(source)
            secrets, windows = ng.secrets, ng.windows()
        else:
            windows = pcap_windows(source)
        for window in windows:
            # First the secrets: a reader of the packets behind them needs them.
            yield from secrets[told:]
            told = len(secrets)
            yield window
    except CaptureError as error:
        yield Note("file", error.text, offset=error.offset, source=name)
