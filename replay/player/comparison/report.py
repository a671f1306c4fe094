"""The result of a replay: a summary table, the first differences, and everything as JSON.

docs/replay.md describes the JSON: ``summary`` (by command), ``rules`` (name to count), ``differences``, ``not_played``
(reason to count), ``composed``, ``not_said``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from pcli.replay.player.comparison.compare_responses import Outcome
from pcli.replay.player.comparison.difference_text import texts_of
from pcli.replay.player.id_translation import Ids
from pcli.replay.player.script.script import Script, Step


@dataclass(slots=True)
class Report:
    """Counts and differences of one replay against one broker."""

    equal: Counter[str] = field(default_factory=Counter)
    """Number of equal responses by command."""
    explained: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Number of responses by command and rule. A response that several rules explain is counted for each of these
    rules."""
    unexplained: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, Any]] = field(default_factory=list)
    """Every difference, explained or not."""
    not_played: dict[str, int] = field(default_factory=dict)
    composed: list[str] = field(default_factory=list)
    """The commands that were composed for connections that began before the capture."""
    not_said: list[str] = field(default_factory=list)
    """Client steps without a live connection or a live id."""

    @property
    def good(self) -> bool:
        """Whether every difference is explained."""
        return not self.unexplained

    @property
    def rules(self) -> Counter[str]:
        """Number of responses that each rule explained."""
        return sum(self.explained.values(), Counter[str]())

    def rows(self) -> list[tuple[str, int, int, int, str]]:
        """Return a row for each command: the rules, and the counts of equal, explained and unexplained responses."""
        names = sorted({*self.equal, *self.explained, *self.unexplained})
        return [
            (name, self.equal[name], self._explained(name), self.unexplained[name], self._rules(name)) for name in names
        ]

    def _explained(self, name: str) -> int:
        return sum(1 for one in self._whole(name))

    def _whole(self, name: str) -> set[int]:
        return {one["answer"] for one in self.differences if one["command"] == name} - {
            one["answer"] for one in self.differences if one["command"] == name and not one["rule"]
        }

    def _rules(self, name: str) -> str:
        return ", ".join(f"{rule} {count}" for rule, count in sorted(self.explained.get(name, Counter()).items()))

    def first(self, count: int) -> list[dict[str, Any]]:
        """Return the first differences that no rule explains."""
        return [one for one in self.differences if not one["rule"]][:count]

    def json(self) -> dict[str, Any]:
        """Return the report as JSON-compatible values."""
        words = ("command", "equal", "explained", "unexplained", "rules")
        return {
            "good": self.good,
            "summary": [dict(zip(words, row, strict=True)) for row in self.rows()],
            "rules": dict(self.rules),
            "differences": self.differences,
            "not_played": self.not_played,
            "composed": self.composed,
            "not_said": self.not_said,
        }


def report_of(outcomes: Iterable[Outcome], script: Script, not_said: Collection[Step], ids: Ids) -> Report:
    """Summarize outcomes. ``ids`` contains the ids that were mapped during the replay."""
    not_sent = [_position(step) for step in not_said]
    report = Report(not_played=dict(script.left_out), composed=script.composed, not_said=not_sent)
    for number, outcome in enumerate(outcomes):
        captured = outcome.step.frame if outcome.step is not None else None
        if not outcome.differences:
            report.equal[outcome.name] += 1
            continue
        if outcome.unexplained:
            report.unexplained[outcome.name] += 1
        for rule in sorted(set(outcome.rules.values())):
            report.explained[outcome.name][rule] += 1
        for difference in outcome.differences:
            texts = texts_of(difference, captured, outcome.frame, ids)
            report.differences.append(
                {
                    "answer": number,
                    "command": outcome.name,
                    "frame": _number(outcome.step),
                    "stream": outcome.step.stream if outcome.step is not None else outcome.pair.stream,
                    "field": difference.field,
                    "captured": texts[0],
                    "live": texts[1],
                    "rule": outcome.rules.get(difference.field, ""),
                }
            )
    return report


def _position(step: Step) -> str:
    return f"{step.name}, frame {_number(step)} of stream {step.stream}"


def _number(step: Step | None) -> int:
    """Return ``pulsar.number``, or 0 if the step has no frame in the capture."""
    return step.frame.number if step is not None and step.frame is not None else 0
