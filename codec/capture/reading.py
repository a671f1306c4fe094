"""Reading of captures, either as frames with notes or as raw packets.

Rules of this file
1. Several files are read as parts of one capture, in the given order: packet numbers and connections continue from file
   to file.
2. A file that is damaged, truncated or not a capture is reported by a Note. Its intact part is read, and then the next
   file is read. CaptureError is raised only if no file is a capture.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from pcli.codec.capture.fast_path import Reader
from pcli.codec.capture.files import Source, open_source, unpacking_hint
from pcli.codec.capture.frame_extraction import FrameExtractor
from pcli.codec.capture.frames import CapturedFrame, Note, StreamEnd
from pcli.codec.capture.output import Output
from pcli.codec.capture.packets import TLS_KEY_LOG, Packet, Secrets, Window
from pcli.codec.capture.pcap import MAGICS, pcap_windows
from pcli.codec.capture.pcapng import MAGIC, PcapngReader
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.streams import TcpReassembly
from pcli.codec.capture.tls import KeyLog
from pcli.codec.errors import CaptureError
from pcli.codec.wire.constants import MAX_FRAME_SIZE

Files = Iterable[tuple[str, BinaryIO]]
"""Pairs of a name, which only notes use, and a file."""


@dataclass(slots=True)
class CaptureTotals:
    """Totals of all captures, including traffic other than Pulsar."""

    packets: int = 0
    files: list[tuple[str, int]] = field(default_factory=list)
    """Name of each file, and the number of packets before it."""
    connections: int = 0
    """Number of TCP connections."""
    ports: list[int] = field(default_factory=list)
    """Distinct server ports of the TCP connections, in the order of their first packets."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading captures."""

    decode_as: Mapping[int, str] = field(default_factory=dict)
    """Protocol by TCP port: pulsar, tls, http, other."""
    max_frame_size: int = MAX_FRAME_SIZE
    """Size of the largest frame in bytes. CONNECTED may raise it for its connection."""
    careful: bool = False
    """Whether to use only the slow path, which produces the same frames."""
    totals: CaptureTotals | None = None
    """The object that receives the totals after the captures were read."""
    key_log: bytes = b""
    """TLS secrets in the format of SSLKEYLOGFILE, in addition to those in pcapng files."""
    more_secrets: Callable[[], bytes] | None = None
    """A function that returns the present text of the key log, called when a secret is missing."""
    ends: bool = False
    """Whether to report the end of every TCP connection, Pulsar or not, as a StreamEnd after its last frame."""
    streams: Container[int] | None = None
    """Numbers of the connections to read; None for all connections. The frames of others are neither returned nor
    counted."""
    on_window: Callable[[str, int, Window], None] | None = None
    """A function that receives each window of packets before its frames are yielded: the name of the file, the offset
    of the window in the decompressed file, and the window."""


def read_capture(files: Files, options: ReadOptions = ReadOptions()) -> Iterator[CapturedFrame | Note | StreamEnd]:
    """Yield the frames and notes of a capture, in the order of the packets that complete them.

    Raise CaptureError if no file is a capture. Errors of the file objects themselves are passed on.
    """
    output, classifier = Output(), StreamClassifier(options.decode_as)
    output.ends = options.ends
    extractor = FrameExtractor(output, classifier, KeyLog(options.key_log, options.more_secrets))
    tcp = TcpReassembly(output, extractor, classifier, options.max_frame_size)
    tcp.wanted = options.streams
    reader = Reader(tcp, output)
    reader.careful = options.careful

    for name, source, note in opened(files):
        extractor.snapped = False
        if options.totals is not None:
            options.totals.files.append((name, reader.packet))
        if source is not None:
            for item in _windows(name, source):
                if isinstance(item, Note):
                    yield replace(item, packet=reader.packet)
                elif isinstance(item, Secrets):
                    if item.kind == TLS_KEY_LOG:
                        extractor.key_log.add(item.data)
                else:
                    if options.on_window is not None:
                        options.on_window(name, source.position, item)
                    reader.packets(*item)
                    yield from _take(output)
            yield from reader.unread.take(name, reader.packet)
        if note is not None:
            yield note
    tcp.end(reader.packet)
    if options.totals is not None:
        options.totals.packets = reader.packet
        options.totals.connections = tcp.table.count
        options.totals.ports = list(tcp.table.ports)
    yield from _take(output)


def _take(output: Output) -> Iterator[CapturedFrame | Note | StreamEnd]:
    """Yield the items of the output. The output keeps none of them, so a frame can be freed before the next."""
    found, output.out = output.out, []
    found.reverse()
    while found:
        yield found.pop()


def read_packets(files: Files) -> Iterator[Packet | Secrets | Note]:
    """Yield the raw packets of a capture, numbered like ``CapturedFrame.packet``, preceded by decryption secrets.

    Raise CaptureError if no file is a capture.
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
    """Yield a source for each capture and a note for any other file. Raise CaptureError if no file is a capture."""
    failed: list[tuple[str, str]] = []
    good = False
    for name, file in files:
        source = open_source(file)
        text = no_capture_reason(source)
        if text:
            failed.append((name, text))
            # The note is deferred until a capture is found. If none is found, its text becomes the error.
            if good:
                yield name, None, Note.of_file(name, text, 0)
            continue
        if not good:
            good = True
            for other, reason in failed:
                yield other, None, Note.of_file(other, reason, 0)
        yield name, source, None
    if not good:
        if not failed:
            raise CaptureError("no capture was given")
        name, text = failed[0]
        raise CaptureError(f"{name}: {text}" if name else text, 0)


def is_other_file(file: BinaryIO) -> bool:
    """Whether a file is certainly not a capture: it is empty or begins differently. A damaged file may be a capture."""
    source = open_source(file)
    return bool(no_capture_reason(source)) and source.error is None


def no_capture_reason(source: Source) -> str:
    """Return why the source is not a capture, or an empty string if it is a capture."""
    if not source.fill(0, 4):
        if source.error is not None:
            return str(source.error)
        return "the file is empty" if not source.data else "the file is too short for a capture"
    head = source.data[:4]
    if head in MAGICS or head == MAGIC:
        return ""
    hint = unpacking_hint(head) or f"it begins with {head.hex(' ')}"
    return f"neither pcap nor pcapng: {hint}"


def _windows(name: str, source: Source) -> Iterator[Window | Secrets | Note]:
    """Yield the windows of a capture, its secrets, and a note at the end if it is damaged or truncated."""
    secrets: list[Secrets] = []
    emitted = 0
    try:
        if source.data[:4] == MAGIC:
            ng = PcapngReader(source)
            secrets, windows = ng.secrets, ng.windows()
        else:
            windows = pcap_windows(source)
        for window in windows:
            # The secrets are yielded first, because the reader of the packets needs them.
            yield from secrets[emitted:]
            emitted = len(secrets)
            yield window
    except CaptureError as error:
        yield Note.of_file(name, error.text, error.offset)
