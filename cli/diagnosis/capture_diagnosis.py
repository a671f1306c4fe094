"""How `pcli diagnose` runs: one pass for the findings, another one for the frames that they name.

Rules of this file
1. The second pass ends with the last frame that a finding names. A live capture has none: there the lines of the last
   frames are kept as they go by.
2. -Y chooses findings, not frames: without all frames there would be false ones.
3. A capture that is damaged says so by its exit code, unless --fail-on has its own.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from pcli.cli.common.capture_reading import CaptureReading
from pcli.cli.common.output import Exit, write_bytes, write_line
from pcli.cli.diagnosis.finding_output import FindingText, shown_html, shown_json, shown_text, summary

if TYPE_CHECKING:
    from pcli.codec.observe import Facts
    from pcli.codec.observe.diagnosis import Diagnosis
    from pcli.codec.observe.rules import Finding

__all__ = ["FAIL_WORDS", "Lines", "checked_rules", "explain", "fails", "run"]

FAIL_WORDS: Final = {"error": ("error",), "warning": ("error", "warning"), "any": ("error", "warning", "note")}
"""What --fail-on takes beside rules: the severities that each stands for."""

_POLL_S: Final = 1.0
"""Seconds between two looks at what is open, live."""

_KEPT_LINES: Final = 20_000
"""Frames of a live capture of which the lines are kept, some 4 MB: findings are told within seconds."""


def checked_rules(names: Sequence[str], option: str, words: Collection[str] = ()) -> list[str]:
    """The same names; LocalError when one is neither a rule nor one of the words."""
    from pcli.codec.errors import LocalError
    from pcli.codec.observe.fields.field_table import nearest
    from pcli.codec.observe.rules import RULES

    known = [*words, *RULES]
    for name in names:
        if name not in known:
            near = nearest(name, known) or "; --explain all lists them"
            raise LocalError(f"{option} {name}: no rule of that name{near}")
    return list(names)


def explain(name: str) -> None:
    """Print the page of a rule, or the list of ``all``."""
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
    decode_as: dict[int, str],
    output: str,
    only: Sequence[str],
    fail_on: Sequence[str],
) -> Exit:
    """Diagnose these inputs and print what is found; the exit code."""
    from pcli.codec.observe import compile_filter
    from pcli.codec.observe.diagnosis import Diagnosis

    if filter_:
        compile_filter(filter_)  # a wrong one is told before the work
    diagnosis = Diagnosis(only)
    reading = CaptureReading(files, interface, decode_as=decode_as, system=True, rewindable=not interface)
    reading.on_note, reading.on_end = diagnosis.note, diagnosis.ended
    lines = Lines(filter_)
    if interface:
        _listen(reading, diagnosis, lines, told=output == "text")
    else:
        for facts in reading.facts():
            diagnosis.see(facts)
    diagnosis.finish(time.time_ns() if interface else 0)
    found = diagnosis.findings()
    if not interface:
        lines.read(reading, found)
    found = [one for one in found if lines.wanted(one)]
    text = FindingText(reading.first_ns, lines.text)
    if output == "json":
        write_bytes(shown_json(found, diagnosis, text).encode())
    elif output == "html":
        write_bytes(shown_html(found, diagnosis, text, files).encode())
    else:
        for one in diagnosis.untold():
            if lines.wanted(one):
                write_line(shown_text(one, text))
        write_line(summary(found, diagnosis))
    code = reading.finish()
    return Exit.NO if fails(found, fail_on) else code


def fails(found: Sequence[Finding], fail_on: Sequence[str]) -> bool:
    """Whether one of the findings is what --fail-on names."""
    severities = {one for word in fail_on for one in FAIL_WORDS.get(word, ())}
    return any(one.rule in fail_on or one.severity in severities for one in found)


class Lines:
    """One line for each frame that findings name, and whether it matches the filter."""

    def __init__(self, filter_: str = "") -> None:
        from pcli.codec.observe import compile_filter

        self._match = compile_filter(filter_).match if filter_ else None
        self._lines: dict[int, str] = {}
        self._matched: set[int] = set()

    def keep(self, facts: Facts) -> None:
        """Keep this frame's line; of a live capture the oldest goes for it."""
        from pcli.codec.observe.output.frame_summary import describe
        from pcli.codec.wire.commands import name_of

        frame = facts.frame
        self._lines[frame.number] = f"{name_of(frame.type)}  {describe(facts)}"
        if self._match is None or self._match(facts):
            self._matched.add(frame.number)

    def keep_last(self, facts: Facts) -> None:
        """Keep this frame's line instead of that of the frame before the last so many."""
        self.keep(facts)
        old = facts.frame.number - _KEPT_LINES
        self._lines.pop(old, None)
        self._matched.discard(old)

    def read(self, reading: CaptureReading, found: Sequence[Finding]) -> None:
        """Read the inputs once more, as far as findings name frames."""
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
        """Whether a finding is to be shown: one of its frames matches, or there is no filter."""
        return self._match is None or not self._matched.isdisjoint(finding.frames)

    def text(self, number: int) -> str:
        """The line of a frame; empty: not known any more."""
        return self._lines.get(number, "")


def _listen(reading: CaptureReading, diagnosis: Diagnosis, lines: Lines, *, told: bool) -> None:
    """Follow a live capture until Ctrl-C; ``told``: findings are printed as they arise."""
    lock, stop = threading.Lock(), threading.Event()

    def look() -> None:
        with lock:
            new = [one for one in diagnosis.poll(time.time_ns()) if lines.wanted(one)]
            for one in new if told else ():
                write_line(shown_text(one, FindingText(reading.first_ns, lines.text)))
                sys.stdout.flush()

    watcher = threading.Thread(target=repeat, args=(look, stop), daemon=True)
    watcher.start()
    try:
        for facts in reading.facts():
            with lock:
                diagnosis.see(facts)
                lines.keep_last(facts)
    except KeyboardInterrupt:
        pass  # how it is meant to end: the summary follows
    finally:
        stop.set()
        watcher.join()


def repeat(look: Callable[[], None], stop: threading.Event) -> None:
    """Look again and again, a second apart, until somebody says stop."""
    while not stop.wait(_POLL_S):
        look()
