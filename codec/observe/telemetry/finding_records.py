"""Findings as events of spans and as log records.

Rules of this file
1. A finding is an event of each exported span with a frame that is evidence of the finding, and one log record. The log
   record belongs to the trace of the first of these messages. If the severity of a finding rises, there is another log
   record, and spans that are exported later have the new event.
2. Findings of rules whose text contains the keys of messages have the title of the rule instead of their text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.rules import RULES, Finding
from pcli.codec.observe.rules.finding import SEVERITIES
from pcli.codec.observe.telemetry.spans import Attributes, Event, LogRecord, Span

_WITH_KEYS: Final = frozenset({"key-order-broken", "mixed-key-batches", "stuck-blocked-hash"})
"""Rules whose text contains keys."""


MAX_FRAMES: Final = 80_000
"""Maximum number of frames whose findings are kept: those of 10,000 findings."""


class FindingIndex:
    """The findings of a capture by the frames that are evidence."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self._by_frame: BoundedDict[int, list[Finding]] = BoundedDict(MAX_FRAMES)
        for one in findings:
            self.add(one)

    def __bool__(self) -> bool:
        return bool(self._by_frame)

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        for frame in finding.frames:
            self._by_frame.setdefault(frame, []).append(finding)

    def of(self, frames: Iterable[int]) -> Iterator[Finding]:
        """Yield the findings for which one of these frames is evidence, each once with its highest severity."""
        found = [one for frame in frames for one in self._by_frame.get(frame, ())]
        found.sort(key=lambda one: SEVERITIES.index(one.severity), reverse=True)
        yield from {one.identity: one for one in found}.values()


def finding_event(finding: Finding, span: Span) -> Event:
    """Return the finding as an event, at its start or, if that is outside the span, at the start of the span."""
    within = span.start_ns <= finding.since_ns <= span.end_ns
    return Event(
        "finding",
        finding.since_ns if within else span.start_ns,
        {**_attributes(finding), "pcli.finding.text": _text(finding)},
    )


def log_record(finding: Finding, now_ns: int, trace: tuple[int, int] = (0, 0)) -> LogRecord:
    """Return the finding as a log record. ``trace`` is the trace and the span of a message."""
    attributes = _attributes(finding)
    attributes["pcli.finding.culprit"] = finding.culprit
    attributes["pcli.finding.subject"] = ", ".join(
        f"{name} {value}" for name, value in finding.subject.items() if name != "key"
    )
    return LogRecord(finding.since_ns or now_ns, finding.severity, _text(finding), attributes, *trace)


def _attributes(finding: Finding) -> Attributes:
    return {
        "pcli.finding.rule": finding.rule,
        "pcli.finding.severity": finding.severity,
        "pcli.finding.certainty": finding.certainty,
        "pcli.finding.frames": tuple(finding.frames),
    }


def _text(finding: Finding) -> str:
    return RULES[finding.rule].title if finding.rule in _WITH_KEYS else finding.what
