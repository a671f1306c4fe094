"""Rules and findings.

Rules of this file
1. A rule reads one record of its group and the records referenced by it, never a frame. It has no state, so that the
   same rule can process single records here and groups of records in Spark.
2. A rule may be evaluated repeatedly for a record that is still changing, with increasing `Moment.now_ns`, and yields a
   finding as soon as it applies. Findings with the same rule, subject and cause are the same; the later finding
   replaces the earlier finding.
3. If the record's doubts could explain a finding, the finding has a lower certainty or is not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.counters import MAX_EVIDENCE

__all__ = ["CERTAINTIES", "CULPRITS", "GROUPS", "SEVERITIES", "Finding", "Moment", "Rule"]

SEVERITIES: Final = ("error", "warning", "note")
"""Severities: they mean that something does not work, that a problem is developing, or that the behaviour is normal but
worth knowing."""

CULPRITS: Final = ("application", "client", "broker", "network", "capture")
"""Culprits: the program, its client library, the broker or its administrator, the network, the capture."""

CERTAINTIES: Final = ("certain", "likely", "possible")
"""Certainties: they mean that all relevant frames were captured, that another explanation exists but is unlikely, or
that the capture is not sufficient to decide."""

GROUPS: Final = (
    "consumer", "subscription", "key", "producer", "topic", "connection", "host", "exchange", "transaction", "capture",
)  # fmt: skip
"""The types of records that rules evaluate: ConsumerRecord, SubscriptionRecord, and others."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The time and circumstances of an evaluation."""

    now_ns: int
    """Time of the last frame so far."""
    over: bool
    """Whether the record is final: it is closed, or the capture has ended."""
    capture: CaptureRecord


@dataclass(slots=True)
class Finding:
    """One result of a rule."""

    rule: str
    """Name of the rule; docs/findings/NAME.md explains it."""
    severity: str
    """One of SEVERITIES."""
    culprit: str
    """One of CULPRITS."""
    sure: str
    """One of CERTAINTIES."""
    subject: dict[str, Any]
    """The affected object: values of topic, subscription, consumer, producer, stream, key, client, server, …."""
    what: str
    """One or two sentences that state the problem with its figures; the first letter is capitalised."""
    since_ns: int
    """When the problem began; 0 if unknown."""
    frames: list[int] = field(default_factory=list)
    """``pulsar.number`` of the frames that are evidence, most important first; at most MAX_EVIDENCE."""
    opposite: str = ""
    """What would disprove the finding, and whether the capture contains that."""
    advice: str = ""
    """What to do."""
    cause: str = ""
    """A word that distinguishes findings of one rule about one subject; often empty."""

    def __post_init__(self) -> None:
        self.what = self.what[:1].upper() + self.what[1:]
        self.frames = list(dict.fromkeys(one for one in self.frames if one))[:MAX_EVIDENCE]

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key of the finding: equal for repeated evaluations."""
        return (self.rule, self.cause, *sorted((name, str(value)) for name, value in self.subject.items()))


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. It is defined in a separate module; its page is docs/findings/NAME.md."""

    name: str
    """Lower-case words with hyphens."""
    group: str
    """One of GROUPS: the type of record that the rule reads."""
    facts: tuple[str, ...]
    """The fields that the rule reads from the record and from referenced records, such as ``permits.exhausted`` and
    ``topic.unloads``. Names, doubts, sessions, the first time and the frames of evidence are not listed."""
    title: str
    """What the rule finds, in one line."""
    issue: str
    """A public issue or proposal with background on the problem, such as ``apache/pulsar#24418`` or ``PIP-491``."""
    evaluate: Callable[[Any, Moment], Iterator[Finding]]
    """The function that yields the findings for a record."""
