"""What a rule says, and what a rule is.

Rules of this file
1. A rule reads one record of its group and what that refers to; never a frame. It keeps nothing between two records,
   so that the same rule works one record after the other here, and group by group in Spark.
2. A rule may be asked about a record that goes on, again and again, with growing `Moment.now_ns`: it says a finding
   as soon as it is one. The same rule, subject and cause are the same finding: the later one replaces the earlier.
3. What the record's doubts could explain is said with less certainty, or not at all; never as sure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.counters import MAX_EVIDENCE

__all__ = ["CULPRITS", "GROUPS", "SEVERITIES", "SURE", "Finding", "Moment", "Rule"]

SEVERITIES: Final = ("error", "warning", "note")
"""How much it matters: something does not work; something will not go on like this; worth knowing."""

CULPRITS: Final = ("application", "client", "broker", "network", "capture")
"""Whose doing: the program, its client library, the broker (or who administers it), what is between, the recording."""

SURE: Final = ("certain", "likely", "possible")
"""How sure: all frames that matter were seen; something else could explain it but is unlikely; the capture does not
show enough to decide."""

GROUPS: Final = (
    "consumer", "subscription", "key", "producer", "topic", "connection", "host", "exchange", "transaction", "capture",
)  # fmt: skip
"""What a rule may look at, one record at a time: ConsumerRecord, SubscriptionRecord, …."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When and with what a rule is asked."""

    now_ns: int
    """Time of the last frame so far."""
    over: bool
    """Whether nothing more will come of the record: it is closed, or the capture has ended."""
    capture: CaptureRecord


@dataclass(slots=True)
class Finding:
    """Something that was found."""

    rule: str
    """Name of the rule; docs/findings/NAME.md explains it."""
    severity: str
    """One of SEVERITIES."""
    culprit: str
    """One of CULPRITS."""
    sure: str
    """One of SURE."""
    subject: dict[str, Any]
    """What it is about: topic, subscription, consumer, producer, stream, key, client, server, … with their values."""
    what: str
    """One or two sentences: what is the case, with the figures."""
    since_ns: int
    """When it began; 0: unknown."""
    frames: list[int] = field(default_factory=list)
    """``pulsar.number`` of the evidence, at most MAX_EVIDENCE, the most telling first."""
    opposite: str = ""
    """What would show that it is not so, and what of that was looked at."""
    advice: str = ""
    """What to do."""
    cause: str = ""
    """A word that tells apart findings of one rule about one subject; mostly empty."""

    def __post_init__(self) -> None:
        self.frames = list(dict.fromkeys(one for one in self.frames if one))[:MAX_EVIDENCE]

    @property
    def identity(self) -> tuple[Any, ...]:
        """The same for the same finding, however often it is said."""
        return (self.rule, self.cause, *sorted((name, str(value)) for name, value in self.subject.items()))


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, as it stands in a file of its own; its page is docs/findings/NAME.md."""

    name: str
    """Words with hyphens."""
    group: str
    """One of GROUPS: the record that it reads."""
    facts: tuple[str, ...]
    """The fields of that record, and of those it refers to, that it reads: ``permits.exhausted``, ``topic.unloads``.
    What names the record, its doubts, its session, its first time and the frames of evidence go without saying."""
    title: str
    """What it looks for, in a line."""
    issue: str
    """The public issue or proposal that asked for it: ``apache/pulsar#24418``, ``PIP-491``."""
    look: Callable[[Any, Moment], Iterator[Finding]]
    """Gives what it finds in a record."""
