"""Rules and findings.

Rules of this file
1. A rule reads one record of its group and the records referenced by it, never a frame. It has no state, so that the
   same rule can process single records here and groups of records in Spark.
2. A rule may be evaluated repeatedly for a record that is still changing, with increasing `Moment.now_ns`, and yields a
   finding as soon as it applies. Findings with the same rule, subject and variant are the same; the later finding
   replaces the earlier finding.
3. If the record's doubts could explain a finding, the finding has a lower certainty or is not reported. There are two
   kinds of doubts. If a record has a doubt in EDGES, it begins earlier or ends later than the capture, but is complete
   in between. If it has a doubt in GAPS, frames may be missing in the middle.
4. The fact is what the wire shows; the cause is why it happened. Only an explicit command or error on the wire makes a
   cause certain, because the wire does not show what happens inside a process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.counters import MAX_EVIDENCE, Occurrences
from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS

SEVERITIES: Final = ("error", "warning", "note")
"""Severities: messages are lost, duplicated or stuck; they will be, or they were and the state has recovered; the
behaviour is worth knowing."""

CULPRITS: Final = ("application", "client", "broker", "network", "capture")
"""Culprits: the program, its client library, the broker or its administrator, the network, the capture."""

CERTAINTIES: Final = ("certain", "likely", "possible")
"""Certainties of facts and causes: nothing in the capture allows another explanation; another explanation exists but is
unlikely; the capture is not sufficient to decide."""

EDGES: Final = frozenset(("start", "end"))
"""Doubts about records that are complete within the capture."""

GAPS: Final = frozenset(("gap", "cut", "unread", "one_way", "weak_sync", "evicted"))
"""Doubts about records whose frames may be missing in the middle."""

GROUPS: Final = (
    "consumer", "subscription", "key", "producer", "topic", "connection", "host", "exchange", "transaction", "capture",
    "scalable_topic",
)  # fmt: skip
"""The types of records that rules evaluate: ConsumerRecord, SubscriptionRecord, and others."""


def certainty(doubts: Collection[str], best: str = "certain") -> str:
    """Return the certainty that an event did NOT occur: ``best``, or lower if the record has doubts."""
    if GAPS.intersection(doubts):
        return "possible"
    return "likely" if doubts and best == "certain" else best


def why_unsure(doubts: Collection[str]) -> str:
    """Return the doubts as a sentence to append; empty if there are none."""
    words = [DOUBTS[one] for one in sorted(doubts)]
    return f" Caveat: {'; '.join(words)}." if words else ""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit of a rule that users can change."""

    name: str
    """The rule and a word: ``never-acked.age``."""
    default: int
    """Nanoseconds if ``is_time`` is set."""
    text: str
    """What the limit applies to, as a noun phrase."""
    is_time: bool = True


@dataclass(frozen=True, slots=True)
class Moment:
    """The time and circumstances of an evaluation."""

    now_ns: int
    """Time of the last frame so far."""
    over: bool
    """Whether the record is final: it is closed, or the capture has ended."""
    capture: CaptureRecord
    thresholds: Mapping[str, int] = field(default_factory=dict)
    """Changed thresholds, by name."""

    def value(self, threshold: Threshold) -> int:
        """Return the value of a threshold: the changed value, or the default."""
        return self.thresholds.get(threshold.name, threshold.default)


class Cause(NamedTuple):
    """The cause of a reported fact."""

    culprit: str
    """One of CULPRITS."""
    certainty: str = "certain"
    """One of CERTAINTIES, if the fact is certain."""
    alternatives: tuple[str, ...] = ()
    """Other causes that the capture allows, as noun phrases; at least one unless the cause is certain."""
    decide: str = ""
    """The capture, query or log that decides between the causes."""


@dataclass(slots=True)
class Finding:
    """One result of a rule."""

    severity: str
    """One of SEVERITIES."""
    certainty: str
    """Certainty of the fact: one of CERTAINTIES."""
    cause: Cause
    subject: dict[str, Any]
    """The affected object: values of topic, subscription, consumer, producer, stream, key, client, server, …."""
    what: str
    """One or two sentences that state the problem with its figures; the first letter is capitalised."""
    since_ns: int = 0
    """When the problem began; 0 if unknown."""
    frames: list[int] = field(default_factory=list)
    """``pulsar.number`` of the frames that are evidence, most important first; at most MAX_EVIDENCE."""
    opposite: str = ""
    """What would disprove the finding, and whether the capture contains that."""
    advice: str = ""
    """What to do."""
    variant: str = ""
    """A word that distinguishes findings of one rule about one subject; often empty."""
    count: int = 0
    """Number of affected messages, requests, connections, …, as in ``what``; 0 if nothing is counted."""
    until_ns: int = 0
    """When the problem ended; 0 if it continues or if the end is unknown."""
    rule: str = ""
    """Name of the rule, which `Rule.evaluate` adds; docs/findings/NAME.md explains it."""
    seen: InitVar[Occurrences | None] = None
    """The occurrences that the finding is about: they set ``since_ns``, ``frames`` and ``count``."""
    doubts: InitVar[Collection[str]] = ()
    """Doubts of the record that could explain the fact: they lower ``certainty``, and ``opposite`` names them."""

    def __post_init__(self, seen: Occurrences | None, doubts: Collection[str]) -> None:
        if seen is not None:
            self.since_ns, self.frames, self.count = seen.first_ns, seen.frames, seen.count
        self.certainty, self.opposite = certainty(doubts, self.certainty), self.opposite + why_unsure(doubts)
        self.what = self.what[:1].upper() + self.what[1:]
        self.frames = list(dict.fromkeys(one for one in self.frames if one))[:MAX_EVIDENCE]

    @property
    def culprit(self) -> str:
        """One of CULPRITS."""
        return self.cause.culprit

    @property
    def cause_certainty(self) -> str:
        """Certainty of the cause, which is at most the certainty of the fact."""
        return max(self.certainty, self.cause.certainty, key=CERTAINTIES.index)

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key of the finding: equal for repeated evaluations."""
        return (self.rule, self.variant, *sorted((name, str(value)) for name, value in self.subject.items()))

    def is_more_severe(self, before: str | None) -> bool:
        """Return whether the severity is higher than ``before``, or whether there is none before (None)."""
        return before is None or SEVERITIES.index(self.severity) < SEVERITIES.index(before)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. Its page is docs/findings/NAME.md."""

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
    find: Callable[[Any, Moment], Iterator[Finding]]
    """The function that yields the findings for a record, without the name of the rule."""
    page: str
    """The text of the page: a sentence, the meaning, the frames on the wire, what would disprove the finding, and what
    to do."""
    because_of: tuple[str, ...] = ()
    """Rules whose findings can be the reason for a finding of this rule, the closest first; see incidents.py."""
    thresholds: tuple[Threshold, ...] = ()
    """The limits that users can change."""
    effect: tuple[str, str] | None = None
    """The effect after a number, singular and plural: ``message was resent``; None if the finding is not counted."""

    def evaluate(self, record: Any, moment: Moment) -> Iterator[Finding]:
        """Yield the findings for a record."""
        for found in self.find(record, moment):
            found.rule = self.name
            yield found


DEFINED: Final[dict[str, Rule]] = {}
"""Every rule whose module is loaded, by its name."""

_Find = TypeVar("_Find", bound=Callable[[Any, Moment], Iterator[Finding]])


def rule(
    group: str,
    facts: tuple[str, ...],
    title: str,
    issue: str,
    because_of: tuple[str, ...] = (),
    thresholds: tuple[Threshold, ...] = (),
    effect: tuple[str, str] | None = None,
    *,
    name: str = "",
    page: str = "",
) -> Callable[[_Find], _Find]:
    """Return a decorator that defines a rule; see Rule for the values.

    Without a name and a page, they are the name and the docstring of the module: a module with one rule.
    """

    def define(find: _Find) -> _Find:
        module = sys.modules[find.__module__]
        found = name or module.__name__.rpartition(".")[2].replace("_", "-")
        text = (page or module.__doc__ or "").strip()
        DEFINED[found] = Rule(found, group, facts, title, issue, find, text, because_of, thresholds, effect)
        return find

    return define
