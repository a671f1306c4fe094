"""Comparison of the findings of two captures: before and after a change.

Rules of this file
1. Two findings are the same if rule, variant and subject are equal. Numbers that differ in each capture do not count:
   tcp.stream, transaction ids, the ports of clients, and the numbers of unnamed consumers and producers.
2. --fail-on selects among the new findings only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pcli.cli.common.output import Exit, ignoring_closed_stdout, json_text, write_bytes, write_line
from pcli.cli.diagnosis.capture_diagnosis import fails
from pcli.cli.diagnosis.finding_output import JSON_VERSION, FindingText, finding_row, shown_text, wrapped

if TYPE_CHECKING:
    from pcli.cli.diagnosis.capture_diagnosis import DiagnosisRun
    from pcli.codec.observe.rules import Finding

_NUMBERS: Final = re.compile(r"#\d+ of stream \d+|:\d+$")
"""The number of an unnamed consumer or producer, and the port of a client."""


class Comparison(NamedTuple):
    """The findings of two captures."""

    new: list[Finding]
    """Findings of the second capture only."""
    missing: list[Finding]
    """Findings of the first capture only."""
    remaining: list[tuple[Finding, Finding]]
    """Findings of both captures."""


def compare(before: Iterable[Finding], after: Iterable[Finding]) -> Comparison:
    """Compare findings. If several findings of a capture are the same, the first ones are paired."""
    earlier: dict[tuple[Any, ...], list[Finding]] = defaultdict(list)
    for one in before:
        earlier[_identity(one)].append(one)
    result = Comparison([], [], [])
    for one in after:
        same = earlier[_identity(one)]
        if same:
            result.remaining.append((same.pop(0), one))
        else:
            result.new.append(one)
    result.missing.extend(one for rest in earlier.values() for one in rest)
    return result


def _identity(finding: Finding) -> tuple[Any, ...]:
    subject = (
        (name, str(value) if name == "server" else _NUMBERS.sub("", str(value)))
        for name, value in finding.subject.items()
        if name not in ("stream", "transaction")
    )
    return (finding.rule, finding.variant, *sorted(subject))


def run_comparison(before: DiagnosisRun, after: DiagnosisRun, *, output: str, fail_on: Sequence[str]) -> Exit:
    """Diagnose both captures, print the differences, and return the exit code."""
    for run in (before, after):
        run.read()
    found = compare(before.found, after.found)
    with ignoring_closed_stdout():
        if output == "text":
            _print(found, before.text, after.text)
        else:
            write_bytes(_json(found, before.text, after.text, lines=output == "ndjson").encode())
    code = max(before.reading.finish(), after.reading.finish())
    return Exit.NO if fails(found.new, fail_on) else code


def _print(found: Comparison, before: FindingText, after: FindingText) -> None:
    for one in found.new:
        write_line("new:  " + shown_text(one, after))
    rows = [
        *(("missing", one.severity, f"{one.rule}: {one.what}") for one in found.missing),
        *(("remains", one.severity, _remaining_text(old, one)) for old, one in found.remaining),
    ]
    for word, severity, words in rows:
        for line in wrapped(f"{word}:  {severity.upper()}  ", words, after.width):
            write_line(line)
    write_line(
        f"{len(found.new)} new, {len(found.missing)} missing, {len(found.remaining)} remaining: "
        f"{' '.join(before.inputs)} compared with {' '.join(after.inputs)}"
    )


def _remaining_text(old: Finding, new: Finding) -> str:
    change = f" ({old.count} before, {new.count} after)" if old.count != new.count else ""
    return f"{new.rule}{change}: {new.what}"


def _json(found: Comparison, before: FindingText, after: FindingText, *, lines: bool) -> str:
    new = [finding_row(one, after) for one in found.new]
    missing = [finding_row(one, before) for one in found.missing]
    remaining = [{"before": finding_row(old, before), "after": finding_row(one, after)} for old, one in found.remaining]
    if not lines:
        content = {"version": JSON_VERSION, "new": new, "missing": missing, "remaining": remaining}
        return json_text(content, indent=1) + "\n"
    rows = [
        *({"change": "new", "after": one} for one in new),
        *({"change": "missing", "before": one} for one in missing),
        *({"change": "remaining", **one} for one in remaining),
    ]
    return "".join(json_text(row) + "\n" for row in rows)
