"""The diagnosis of captures: a first pass for the findings, and a second pass for the frames that they refer to.

Rules of this file
1. The second pass ends with the last frame to which a finding refers. A live capture has no second pass; instead, the
   lines of its last frames are kept.
2. -Y selects findings, not frames, because the rules need all frames.
3. A damaged capture has its own exit code, unless --fail-on determines the exit code.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from pcli.cli.common.capture_reading import CaptureReading
from pcli.cli.common.output import Exit, colored, ignoring_closed_stdout, text_width, write_bytes, write_line
from pcli.cli.common.packet_numbers import PacketIndex
from pcli.cli.diagnosis.finding_output import (
    FindingText,
    shown_html,
    shown_json,
    shown_ndjson,
    shown_text,
    summary,
    wrapped,
)

if TYPE_CHECKING:
    from pcli.codec.capture import ReadOptions
    from pcli.codec.observe import Facts
    from pcli.codec.observe.diagnosis import Diagnosis
    from pcli.codec.observe.rules import Finding

__all__ = ["FAIL_WORDS", "FrameLines", "checked_rules", "explain", "fails", "run"]

FAIL_WORDS: Final = {"error": ("error",), "warning": ("error", "warning"), "any": ("error", "warning", "note")}
"""Values of --fail-on that are not rules, with the severities that they select."""

_POLL_S: Final = 1.0
"""Seconds between two checks of open requests and consumers in a live capture."""

_KEPT_LINES: Final = 20_000
"""Number of frames of a live capture whose lines are kept (4 MB). Findings follow their frames within seconds."""


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


def run(
    *,
    files: Sequence[str],
    interface: str,
    filter_: str,
    options: ReadOptions,
    output: str,
    only: Sequence[str],
    fail_on: Sequence[str],
    color: bool,
    packet_numbers: bool,
) -> Exit:
    """Diagnose the inputs, print the findings, and return the exit code."""
    from pcli.codec.observe import compile_filter
    from pcli.codec.observe.diagnosis import Diagnosis

    if filter_:
        compile_filter(filter_)  # reports an invalid filter before the capture is read
    diagnosis = Diagnosis(only)
    reading = CaptureReading(files, interface, options=options, system=True, rewindable=not interface)
    reading.on_note, reading.on_end = diagnosis.note, diagnosis.ended
    lines = FrameLines(filter_)
    packets = PacketIndex() if packet_numbers else None
    width = text_width()
    text = FindingText(0, lines.text, packets, color=color and colored(), **({} if width is None else {"width": width}))
    if interface:
        _listen(reading, diagnosis, lines, text, printed=output == "text")
    else:
        for facts in reading.facts():
            diagnosis.see(facts)
            if packets is not None:
                packets.add(facts.frame)
    diagnosis.finish(time.time_ns() if interface else 0)
    found = diagnosis.findings()
    if not interface:
        lines.read(reading, found)
    found = [one for one in found if lines.wanted(one)]
    text.first_ns = reading.first_ns
    with ignoring_closed_stdout():
        if output == "json":
            write_bytes(shown_json(found, diagnosis, text).encode())
        elif output == "ndjson":
            write_bytes(shown_ndjson(found, text).encode())
        elif output == "html":
            write_bytes(shown_html(found, diagnosis, text, files).encode())
        else:
            for one in diagnosis.unreported():
                if lines.wanted(one):
                    write_line(shown_text(one, text))
            for line in wrapped("", summary(found, diagnosis), text.width if width else sys.maxsize):
                write_line(line)
    code = reading.finish()
    return Exit.NO if fails(found, fail_on) else code


def fails(found: Sequence[Finding], fail_on: Sequence[str]) -> bool:
    """Whether --fail-on includes one of the findings."""
    severities = {one for word in fail_on for one in FAIL_WORDS.get(word, ())}
    return any(one.rule in fail_on or one.severity in severities for one in found)


class FrameLines:
    """One line for each frame to which findings refer, and whether the frame matches the filter."""

    def __init__(self, filter_: str = "") -> None:
        from pcli.codec.observe import compile_filter

        self._match = compile_filter(filter_).match if filter_ else None
        self._lines: dict[int, str] = {}
        self._matched: set[int] = set()

    def keep(self, facts: Facts) -> None:
        """Keep the line of a frame."""
        from pcli.codec.observe.output.frame_summary import describe
        from pcli.codec.wire.commands import name_of

        frame = facts.frame
        self._lines[frame.number] = f"{name_of(frame.type)}  {describe(facts)}"
        if self._match is None or self._match(facts):
            self._matched.add(frame.number)

    def keep_last(self, facts: Facts) -> None:
        """Keep the line of a frame, and drop the line of the frame that is `_KEPT_LINES` frames earlier."""
        self.keep(facts)
        old = facts.frame.number - _KEPT_LINES
        self._lines.pop(old, None)
        self._matched.discard(old)

    def read(self, reading: CaptureReading, found: Sequence[Finding]) -> None:
        """Read the inputs again up to the last frame to which a finding refers."""
        wanted = {number for one in found for number in one.frames}
        if not wanted:
            return
        last = max(wanted)
        for facts in reading.facts():
            if facts.frame.number in wanted:
                self.keep(facts)
            if facts.frame.number >= last:
                break

    def wanted(self, finding: Finding) -> bool:
        """Whether to show a finding: true if one of its frames matches, or if there is no filter."""
        return self._match is None or not self._matched.isdisjoint(finding.frames)

    def text(self, number: int) -> str:
        """Return the line of a frame, or an empty string if it is unknown or was dropped."""
        return self._lines.get(number, "")


def _listen(
    reading: CaptureReading, diagnosis: Diagnosis, lines: FrameLines, text: FindingText, *, printed: bool
) -> None:
    """Diagnose a live capture until Ctrl-C. If ``printed`` is set, print findings immediately."""
    lock, stop = threading.Lock(), threading.Event()

    def look() -> None:
        with lock:
            new = [one for one in diagnosis.poll(time.time_ns()) if lines.wanted(one)]
            text.first_ns = reading.first_ns
            for one in new if printed else ():
                write_line(shown_text(one, text))
                sys.stdout.flush()

    watcher = threading.Thread(target=repeat, args=(look, stop), daemon=True)
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


def repeat(look: Callable[[], None], stop: threading.Event) -> None:
    """Call ``look`` every second until ``stop`` is set."""
    while not stop.wait(_POLL_S):
        look()
