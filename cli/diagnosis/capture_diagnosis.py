"""The diagnosis of captures: a first pass for the findings, and a second pass for the frames that they refer to.

Rules of this file
1. The second pass reads only the connections of the frames to which findings refer. A live capture has no second pass;
   instead, the lines of its last frames are kept.
2. -Y selects findings, not frames, because the rules need all frames.
3. A damaged capture has its own exit code, unless --fail-on determines the exit code.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pcli.cli.common.capture_reading import CaptureReading
from pcli.cli.common.output import Exit, colored, ignoring_closed_stdout, say, text_width, write_bytes, write_line
from pcli.cli.common.packet_numbers import PacketIndex
from pcli.cli.common.sliced_work import in_slices
from pcli.cli.diagnosis.broker_query import compare_with_broker, report_json, report_lines
from pcli.cli.diagnosis.evidence_lines import FrameLines
from pcli.cli.diagnosis.finding_output import (
    WIDTH,
    FindingText,
    incidents_text,
    shown_html,
    shown_json,
    shown_ndjson,
    shown_text,
    summary,
    wrapped,
)
from pcli.cli.diagnosis.process_diagnosis import diagnosed_in_processes

if TYPE_CHECKING:
    from pcli.cli.common.admin_api import AdminApi
    from pcli.cli.common.signals import StopEvent
    from pcli.cli.diagnosis.rule_settings import RuleSettings
    from pcli.codec.capture import ReadOptions
    from pcli.codec.observe.diagnosis import Diagnosis
    from pcli.codec.observe.rules import Finding

FAIL_WORDS: Final = {"error": ("error",), "warning": ("error", "warning"), "any": ("error", "warning", "note")}
"""Values of --fail-on that are not rules, with the severities that they select."""

_POLL_S: Final = 1.0
"""Seconds between two checks of open requests and consumers in a live capture."""

_IDLE_SHARE: Final = 9
"""Minimum time between two evaluations, as a multiple of the time that an evaluation takes."""


def checked_rules(names: Sequence[str], option: str, words: Collection[str] = ()) -> list[str]:
    """Return the names. Raises LocalError if a name is neither a rule nor in ``words``."""
    from pcli.codec.errors import LocalError
    from pcli.codec.observe.fields.field_table import nearest
    from pcli.codec.observe.rules import RULES

    known = [*words, *RULES]
    for name in names:
        if name not in known:
            near = nearest(name, known) or "; --explain all lists all rules"
            raise LocalError(f"{option} {name}: unknown rule{near}")
    return list(names)


def explain(name: str) -> None:
    """Print the page of a rule, or the list of all rules for ``all``."""
    from pcli.codec.observe.rules import RULES
    from pcli.codec.observe.rules.rule_pages import page_of

    if name == "all":
        width = max(map(len, RULES))
        for rule in RULES.values():
            write_line(f"{rule.name:<{width}}  {rule.title}")
    else:
        write_line(page_of(RULES[checked_rules([name], "--explain")[0]]).rstrip("\n"))


@dataclass(slots=True)
class DiagnosisRun:
    """The diagnosis of one set of inputs, and the context of its text."""

    files: Sequence[str]
    interface: str
    capture_filter: str
    options: ReadOptions
    rules: RuleSettings
    filter: str = ""
    color: bool = False
    packet_numbers: bool = False
    jobs: int | None = 1
    """Number of processes for a large capture; None for one on each core."""
    alone: str = ""
    """Why one process must read the captures; empty if several may."""
    reading: CaptureReading = field(init=False)
    diagnosis: Diagnosis = field(init=False)
    lines: FrameLines = field(init=False)
    text: FindingText = field(init=False)
    found: list[Finding] = field(default_factory=list)
    """The findings that match the filter, after `read`."""

    def __post_init__(self) -> None:
        from pcli.codec.observe import compile_filter
        from pcli.codec.observe.diagnosis import Diagnosis

        if self.filter:
            compile_filter(self.filter)  # reports an invalid filter before the capture is read
        rules = self.rules
        self.diagnosis = Diagnosis(rules.only, ignore=rules.ignore, thresholds=rules.thresholds)
        self.reading = CaptureReading(
            self.files,
            self.interface,
            self.capture_filter,
            options=self.options,
            system=True,
            rewindable=not self.interface,
            connections=self.diagnosis.connections,
        )
        self.reading.on_note, self.reading.on_end = self.diagnosis.note, self.diagnosis.ended
        self.lines = FrameLines(self.filter)
        self.text = FindingText(
            0, self.lines, self.reading.origin, self.files or [f"-i {self.interface}"],
            PacketIndex() if self.packet_numbers else None,
            color=self.color and colored(), width=text_width() or WIDTH,
        )  # fmt: skip

    def read(self, *, printed: bool = False) -> None:
        """Read the inputs. If ``printed`` is set, print the findings of a live capture immediately."""
        if self.interface:
            _listen(self.reading, self.diagnosis, self.lines, self.text, printed=printed)
            self.diagnosis.finish(time.time_ns())
        else:
            self._read_files()
        self.found = [one for one in self.diagnosis.findings() if self.lines.wanted(one)]
        self.text.first_ns = self.reading.first_ns

    def _read_files(self) -> None:
        """Diagnose the captures, and read the frames to which the findings refer."""
        packets = self.text.packets
        alone = self.alone or ("packet numbers are assigned" if packets is not None else "")
        alone = alone or ("TLS is decrypted" if self.options.key_log else "")
        with diagnosed_in_processes(self.reading, self.rules, self.jobs, alone=alone) as found:
            if found is not None:
                self.diagnosis = found.diagnosis
                self.reading.take_first_pass(found)
            else:
                see = self.diagnosis.see
                for facts in self.reading.facts():
                    see(facts)
                    if packets is not None:
                        packets.add(facts.frame)
                self.diagnosis.finish()
            self.lines.read(self.reading, self.diagnosis.findings())


def run(one: DiagnosisRun, *, output: str, fail_on: Sequence[str], api: AdminApi | None = None) -> Exit:
    """Diagnose the inputs, print the findings, and return the exit code. ``api`` is compared with the findings."""
    one.read(printed=output == "text")
    diagnosis, text, found = one.diagnosis, one.text, one.found
    incidents = [incident for incident in diagnosis.incidents() if any(map(one.lines.wanted, incident.findings))]
    report = None
    if api is not None:
        report = compare_with_broker(api, found, diagnosis.subscriptions.lifecycles.topics)
        if report.error:
            say(report.failure)
    shown = [finding for incident in incidents for finding in incident.findings]
    admin = None if report is None else report_json(report, shown)
    with ignoring_closed_stdout():
        if output == "json":
            write_bytes(shown_json(incidents, diagnosis, text, admin).encode())
        elif output == "ndjson":
            write_bytes(shown_ndjson(incidents, text, admin).encode())
        elif output == "html":
            write_bytes(shown_html(incidents, diagnosis, text, one.files, report_lines(report, text.width)).encode())
        else:
            if paragraphs := incidents_text(incidents, diagnosis.unreported(), text):
                write_line(paragraphs)
            for line in report_lines(report, text.width):
                write_line(line)
            for line in wrapped("", summary(found, diagnosis), text_width() or sys.maxsize):
                write_line(line)
    code = one.reading.finish()
    code = Exit.NO if fails(found, fail_on) else code
    return code if report is None else report.exit_code(code)


def fails(found: Sequence[Finding], fail_on: Sequence[str]) -> bool:
    """Whether --fail-on includes one of the findings."""
    severities = {one for word in fail_on for one in FAIL_WORDS.get(word, ())}
    return any(one.rule in fail_on or one.severity in severities for one in found)


def _listen(
    reading: CaptureReading, diagnosis: Diagnosis, lines: FrameLines, text: FindingText, *, printed: bool
) -> None:
    """Diagnose a live capture until Ctrl-C. If ``printed`` is set, print findings immediately."""
    lock, stop = threading.Lock(), threading.Event()

    def poll() -> None:
        found = in_slices(diagnosis.poll_steps(time.time_ns()), lock)
        with lock:
            new = [one for one in found if lines.wanted(one)]
            text.first_ns = reading.first_ns
            for one in new if printed else ():
                write_line(shown_text(one, text))
                sys.stdout.flush()

    watcher = threading.Thread(target=repeat, args=(poll, stop), daemon=True)
    watcher.start()
    try:
        for facts in reading.facts():
            with lock:
                diagnosis.see(facts)
                lines.keep_last(facts)
                if text.packets is not None:
                    text.packets.add(facts.frame)
    except KeyboardInterrupt:
        pass  # this is the normal end; the summary follows
    finally:
        stop.set()
        watcher.join()


def repeat(look: Callable[[], None], stop: threading.Event | StopEvent, interval: float = _POLL_S) -> None:
    """Call ``look`` every ``interval`` seconds until ``stop`` is set; less often if it takes a tenth of the time."""
    took = 0.0
    while not stop.wait(max(interval, _IDLE_SHARE * took)):
        began = time.monotonic()
        look()
        took = time.monotonic() - began
