"""The zip file of `pcli bundle`: frames are selected and redacted, then the new capture is diagnosed and packed.

Rules of this file
1. Findings and traces are computed from the redacted capture. They therefore contain only names that this capture
   contains, and show that it can still be diagnosed.
2. The zip file is written as ``.part`` and renamed when it is complete.
"""

from __future__ import annotations

import platform
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from pcli.cli.common.capture_reading import CaptureReading
from pcli.cli.common.output import Exit, complete_file, fail, say

if TYPE_CHECKING:
    from pcli.codec.capture import Note, Packet, Secrets, StreamEnd
    from pcli.codec.observe import Facts
    from pcli.codec.observe.redaction import CaptureRewriter, Selection

CAPTURE: Final = "capture.pcapng"
"""The name of the capture in the zip file."""

MOST_TRACED: Final = 20
"""Maximum number of lifecycles in trace.txt."""


@dataclass(frozen=True, slots=True)
class Order:
    """The options of a bundle."""

    output: str
    around: int = 0
    window: str = ""
    keep_names: bool = False


def make(reading: CaptureReading, order: Order) -> Exit:
    """Write the bundle and return the exit code. The command fails if no frame matches or if the output is an input."""
    for name in reading.files:
        with suppress(OSError):
            if Path(name).samefile(order.output):
                fail(f"-o {order.output}: this file is an input of the command")
    folder = Path(order.output).parent
    if not folder.is_dir():
        fail(f"-o {order.output}: the folder {folder} does not exist")
    with complete_file(order.output) as part, part.open("wb") as file, tempfile.TemporaryFile() as capture:
        rewriting = _rewrite(reading, order, capture)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in _Contents(reading, order, rewriting, capture).texts():
                archive.writestr(name, text)
            _copy(capture, archive)
    say(
        f"{order.output}: {rewriting.frames} frames in {rewriting.written} packets, redacted; "
        "see README.txt in the file"
    )
    return reading.finish()


def _copy(capture: BinaryIO, archive: zipfile.ZipFile) -> None:
    import shutil

    capture.seek(0)
    with archive.open(CAPTURE, "w", force_zip64=True) as entry:
        shutil.copyfileobj(capture, entry)


def _rewrite(reading: CaptureReading, order: Order, capture: BinaryIO) -> CaptureRewriter:
    """Write the redacted capture."""
    from pcli.codec.capture import PcapngWriter
    from pcli.codec.observe.redaction import CaptureRewriter, Names

    selection, decrypted = _selection(reading, order)
    rewriting = CaptureRewriter(Names(keep_names=order.keep_names), selection, reading.read_options().decode_as)
    rewriting.prepare(_packets(reading, decrypted))
    rewriting.write(_packets(reading, decrypted), PcapngWriter(capture))
    if not rewriting.written:
        reading.finish()
        fail("no Pulsar connection: nothing to bundle", Exit.NO)
    if not rewriting.frames:
        say("the bundle has no Pulsar frame, only redacted bytes of Pulsar connections")
    return rewriting


def _packets(reading: CaptureReading, decrypted: Collection[int]) -> Iterator[Packet | Secrets | Note]:
    """Yield the packets. The decrypted connections become plain, because redacted TLS could not be decrypted."""
    from pcli.cli.common.progress import watched
    from pcli.codec.capture import read_packets
    from pcli.codec.capture.tls.plain_packets import decrypted_packets

    packets = watched(read_packets(reading.named_files()), reading.inputs(), printed=False)
    return decrypted_packets(packets, decrypted, reading.read_options())


def _selection(reading: CaptureReading, order: Order) -> tuple[Selection, set[int]]:
    """Return the selected frames, and the connections that are decrypted from TLS.

    The capture is always read once in full, to collect its notes.
    """
    from pcli.codec.capture import Stream, read_capture
    from pcli.codec.observe.bit_set import Bits
    from pcli.codec.observe.redaction import DEFAULT_WINDOW, Selection, select_around

    streams = Bits()
    matches, decrypted = 0, set[int]()
    for facts in reading.facts():
        matches += 1
        stream = facts.frame.stream
        streams.add(stream.number)
        if isinstance(stream, Stream) and stream.decrypted:
            decrypted.add(stream.number)
    if reading.filter and not matches:
        reading.finish()
        raise SystemExit(int(Exit.NO))
    chosen = streams if reading.filter else None
    if not order.around:
        return Selection(chosen), decrypted
    options = reading.read_options()
    window = order.window or DEFAULT_WINDOW
    around = select_around(lambda: read_capture(reading.named_files(), options), order.around, window, chosen)
    return around, decrypted


class _Contents:
    """The files in the zip file besides the capture. They are derived from the capture."""

    def __init__(self, reading: CaptureReading, order: Order, rewriting: CaptureRewriter, capture: BinaryIO) -> None:
        self._reading = reading
        self._order = order
        self._rewriting = rewriting
        self._capture = capture
        self._versions: dict[str, set[str]] = {"client": set(), "broker": set()}
        self._first_ns = 0

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the names and contents of the files."""
        yield from self._findings()
        yield "trace.txt", self._trace()
        yield "versions.txt", self._versions_text()
        yield "README.txt", self._readme()

    def _facts(self, on_note: Callable[[Note], None], on_end: Callable[[StreamEnd], None]) -> Iterator[Facts]:
        """Yield the frames of the redacted capture from its start."""
        from pcli.codec.capture import CapturedFrame, Note, ReadOptions, read_capture
        from pcli.codec.observe import Observer

        self._capture.seek(0)
        options = ReadOptions(decode_as=self._reading.read_options().decode_as, ends=True)
        see = Observer().see
        for event in read_capture([(CAPTURE, self._capture)], options):
            if isinstance(event, CapturedFrame):
                self._first_ns = self._first_ns or event.time_ns
                yield see(event)
            elif isinstance(event, Note):
                on_note(event)
            else:
                on_end(event)

    def _findings(self) -> Iterator[tuple[str, str]]:
        from pcli.cli.diagnosis.evidence_lines import FrameLines
        from pcli.cli.diagnosis.finding_output import FindingText, incidents_text, shown_json, summary
        from pcli.codec.observe.diagnosis import Diagnosis

        diagnosis, lines = Diagnosis(), FrameLines()
        for facts in self._facts(diagnosis.note, diagnosis.ended):
            diagnosis.see(facts)
        diagnosis.finish()
        found = diagnosis.findings()
        named = {number for one in found for number in one.frames}
        for facts in self._facts(lambda _: None, lambda _: None):
            if facts.frame.number in named:
                lines.keep(facts)
        text, incidents = (
            FindingText(self._first_ns, lines, lambda packet: (CAPTURE, packet), [CAPTURE]),
            diagnosis.incidents(),
        )
        yield "findings.json", shown_json(incidents, diagnosis, text)
        yield "findings.txt", f"{incidents_text(incidents, found, text)}\n{summary(found, diagnosis)}\n"

    def _trace(self) -> str:
        from pcli.cli.diagnosis.lifecycle_search import lifecycles_of
        from pcli.codec.observe.output.message_text import lifecycle_lines
        from pcli.codec.observe.tracking.lifecycle_filter import is_system, severity_key

        def versions(facts: Facts) -> None:
            body = facts.frame.body
            for side, name in (("client", "client_version"), ("broker", "server_version")):
                if getattr(body, name, ""):
                    self._versions[side].add(str(getattr(body, name)))

        lifecycles = lifecycles_of(lambda tracker: self._facts(tracker.note, tracker.ended), versions)
        worst = nlargest(
            MOST_TRACED, (lifecycle for lifecycle in lifecycles if not is_system(lifecycle)), key=severity_key
        )
        head = "The messages with the worst outcome, the most deliveries, or the longest time."
        blocks = ("\n".join(line for _, line in lifecycle_lines(lifecycle)) for lifecycle in worst)
        return "\n\n".join([head, *blocks, ""])

    def _versions_text(self) -> str:
        from pcli.cli import __version__

        rows = [f"pcli {__version__}", f"Python {platform.python_version()}"]
        rows += [f"{side}: {version}" for side, found in self._versions.items() for version in sorted(found)]
        return "\n".join([*rows, ""])

    def _readme(self) -> str:
        around = f" around frame {self._order.around}" if self._order.around else ""
        chosen = " of chosen connections" if self._reading.filter or around else ""
        names = _KEPT_NAMES if self._order.keep_names else _NO_NAMES
        return _README.format(frames=self._rewriting.frames, chosen=chosen + around, names=names)


_NO_NAMES: Final = (
    "tenants, namespaces, topics, subscriptions, producers and consumers have pseudonyms, which still show\n"
    "  partitions, dead letter topics and system topics"
)
_KEPT_NAMES: Final = "tenants, namespaces, topics, subscriptions, producers and consumers have their real names"

_README: Final = """\
A redacted capture of Apache Pulsar's binary protocol, made by pcli bundle.

capture.pcapng   {frames} frames{chosen}, for Wireshark and for pcli dissect, diagnose and trace
findings.txt     the findings of pcli diagnose; findings.json contains them as JSON
trace.txt        the lifecycles of the messages with the worst outcome
versions.txt     versions of pcli, the clients and the brokers

Unchanged: times, ports, starts and ends of connections, lost and retransmitted packets, commands, ids, sequence
numbers, permits, batches and the number of their messages, sizes of uncompressed payloads, versions, validity of
checksums.

Removed or replaced:
- payloads are filler; compressed payloads have about the same size
- {names}
- properties, roles, hosts and addresses have pseudonyms; error texts keep only the standard words of brokers
- keys have pseudonyms with the same hash slot, so a guess of a key can be tested
- credentials, encryption keys and schemas are filler; TLS keys are removed, decrypted TLS is plain TCP
- packets other than TCP, link layers, tunnels and unknown fields are removed
"""
