"""Diagnosis: application of the rules to all tracked records of a capture, and collection of the findings.

Rules of this file
1. A record is evaluated once, when it is complete or evicted, or at the end of the capture. `poll` also evaluates the
   records that are still open, and returns only findings that it has not returned before with at least this severity.
2. Records of the broker's own traffic, and of connections that repeat others, are not evaluated.
3. If two findings have the same identity, the later finding is kept. An error in a rule is a bug and is not caught.
4. The parts of a capture can be diagnosed separately (pcli.spark.columnar.observation) and merged. The findings of
   equal weight are therefore ordered by what they are about, not by when they were found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.capture.frames import Note, StreamEnd
from pcli.codec.observe.incidents import Incident, Place, incidents_of
from pcli.codec.observe.rules import RULES, Finding, Moment, Rule
from pcli.codec.observe.rules.connection_text import place
from pcli.codec.observe.rules.finding import CERTAINTIES, GROUPS, SEVERITIES
from pcli.codec.observe.system_topics import is_system_subscription
from pcli.codec.observe.tracking.connections.connection_tracker import ConnectionTracker
from pcli.codec.observe.tracking.connections.hosts import Hosts
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord, ConnectionRecord
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord
from pcli.codec.observe.tracking.records.topic_records import KeyRecord, SubscriptionRecord
from pcli.codec.observe.tracking.scalable import ScalableTopicTracker
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.steps import Steps, run_steps

MAX_FINDINGS: Final = 10_000
"""Maximum number of findings. They occupy about 20 MB."""

_MAX_REPORTED: Final = 5 * MAX_FINDINGS
"""Maximum number of reported findings that are recognized. After that, an old finding may be reported again."""

_MAX_SERVERS: Final = 20_000
"""Maximum number of connections whose servers are kept. They occupy about 5 MB."""

_KINDS: Final = (
    "capture", "connection", "exchange", "host", "producer", "transaction", "topic", "subscription", "consumer", "key",
    "scalable_topic",
)  # fmt: skip
"""The groups of rules, in the order of findings of equal weight about one topic."""

_COUNTED: Final = ("connection", "producer", "consumer", "subscription", "topic")
"""Groups whose records are counted for the summary."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """Which rules are evaluated, with which limits."""

    only: Collection[str] = ()
    """Names of rules; empty for all rules."""
    ignore: Collection[str] = ()
    thresholds: Mapping[str, int] | None = None
    """Changed limits of rules, as in `Moment.thresholds`."""


ALL_RULES: Final = RuleChoice()


@dataclass(frozen=True, slots=True)
class _Found:
    """A finding and the objects that it concerns."""

    finding: Finding
    streams: frozenset[int]
    """The connections of the objects."""
    last_frame: int
    """Number of the last frame of the connection; 0 if the finding does not concern one connection."""


@dataclass(slots=True)
class PartialDiagnosis:
    """The findings and counts of a part of a capture. They can be pickled."""

    found: dict[tuple[Any, ...], _Found] = field(default_factory=dict)
    """The findings by identity."""
    servers: dict[int, str] = field(default_factory=dict)
    """The servers of connections."""
    seen: Counter[str] = field(default_factory=Counter)
    """Numbers of evaluated records by group."""
    messages: int = 0
    dropped: int = 0
    """Number of findings dropped because of MAX_FINDINGS."""
    repeated: list[ConnectionRecord] = field(default_factory=list)
    """The connections that repeat others."""


class Diagnosis:
    """The findings of a capture, collected frame by frame."""

    def __init__(
        self,
        only: Collection[str] = (),
        *,
        ignore: Collection[str] = (),
        thresholds: Mapping[str, int] | None = None,
        on_record: Callable[[str, Any, list[Finding]], None] | None = None,
        hosts: Hosts | None = None,
        servers: Iterable[tuple[str, int]] = (),
        tracker: Callable[..., Tracker] = Tracker,
        is_own: Callable[[object], bool] = lambda _: True,
    ) -> None:
        """Create a diagnosis with the rules named in ``only``, or all rules if it is empty, except those in ``ignore``.

        ``thresholds`` are changed limits of rules, as in `Moment`.
        ``on_record`` receives each complete record with its group and its findings. ``hosts`` and ``servers`` are
        passed to ``tracker``, which creates the Tracker. Records for which ``is_own`` is false are ignored.
        """
        self._rules: dict[str, list[Rule]] = {group: [] for group in GROUPS}
        for rule in RULES.values():
            if (not only or rule.name in only) and rule.name not in ignore:
                self._rules[rule.group].append(rule)
        self._thresholds = thresholds or {}
        self._rule_count = sum(map(len, self._rules.values()))
        self._tracker = tracker(on_done=self._done, hosts=hosts, servers=servers)
        self._on_record, self._is_own = on_record, is_own
        self._found: dict[tuple[Any, ...], _Found] = {}
        self._servers: BoundedDict[int, str] = BoundedDict(_MAX_SERVERS)
        """The servers of the last connections that are complete, for the places of incidents."""
        self._reported: BoundedDict[tuple[Any, ...], str] = BoundedDict(_MAX_REPORTED)
        """The highest severities of the findings that polls have returned, by identity."""
        self._seen: Counter[str] = Counter()
        self._messages = 0
        self._end_ns, self._finished = 0, False
        self.see = self._tracker.see
        """Process a frame that the Observer has processed."""
        self._repeated: list[ConnectionRecord] = []
        self.dropped = 0
        """Number of findings dropped because of MAX_FINDINGS."""

    @property
    def capture(self) -> CaptureRecord:
        """The record of the capture itself."""
        return self._tracker.capture

    @property
    def connections(self) -> ConnectionTracker:
        """The tracked connections."""
        return self._tracker.connections

    @property
    def subscriptions(self) -> SubscriptionTracker:
        """The tracked topics, subscriptions and consumers, for their statistics."""
        return self._tracker.subscriptions

    @property
    def scalable_topics(self) -> ScalableTopicTracker:
        """The scalable topics of the capture."""
        return self._tracker.scalable_topics

    def note(self, note: Note) -> None:
        """Process a note of the capture reader."""
        self._tracker.note(note)

    def ended(self, end: StreamEnd) -> None:
        """Process the end of a TCP connection."""
        self._tracker.ended(end)

    def forget_ended(self, before_ns: int, unattended_ns: int) -> Steps[None]:
        """Remove what has ended, as `Tracker.forget_ended`, and findings that a poll has returned if there are many."""
        yield from self._tracker.forget_ended(before_ns, unattended_ns)
        if len(self._found) > MAX_FINDINGS // 2:
            self._found = {name: one for name, one in self._found.items() if self._is_new(name, one.finding)}

    def finish(self, now_ns: int = 0) -> None:
        """Evaluate all remaining records. ``now_ns`` is the current time, for live traffic."""
        self._tracker.finish()
        self._end_ns, self._finished = now_ns, True
        for group, record in self._tracker.records():
            self._done(group, record)

    @property
    def repeated(self) -> list[ConnectionRecord]:
        """The connections that repeat others; the connection that was active last is the last one."""
        return sorted([*self._repeated, *self.connections.repeated()], key=lambda one: one.last_frame)

    def partial(self) -> PartialDiagnosis:
        """Return the findings and counts of a part of a capture, after `finish`."""
        servers = dict(self._servers.items())
        return PartialDiagnosis(self._found, servers, self._seen, self._messages, self.dropped, self.repeated)

    def merge(
        self, parts: Iterable[PartialDiagnosis], capture: CaptureRecord, records: Iterable[tuple[str, Any]]
    ) -> None:
        """Take the findings of all parts of a capture, then evaluate the records that belong to no part.

        ``capture`` is the record of the whole capture. If several findings have the same identity, that of the
        connection with the latest last frame is kept.
        """
        self._tracker.capture = capture
        for part in parts:
            for identity, one in part.found.items():
                older = self._found.get(identity)
                if older is None or older.last_frame <= one.last_frame:
                    self._found[identity] = one
            for stream, server in part.servers.items():
                self._servers[stream] = server
            self._seen += part.seen
            self._repeated += part.repeated
            self._messages += part.messages
            self.dropped += part.dropped
        for group, record in records:
            self._done(group, record)

    def poll(self, now_ns: int) -> list[Finding]:
        """Return the findings that no earlier call has returned, and those whose severity has risen since.

        ``now_ns`` is the current time in ns since 1970.
        """
        return run_steps(self.poll_steps(now_ns))

    def poll_steps(self, now_ns: int) -> Steps[list[Finding]]:
        """Return the findings of `poll` after a step for each record; none if the capture ends meanwhile."""
        finished = self._finished
        moment = Moment(now_ns, over=False, capture=self.capture, thresholds=self._thresholds)
        new = {name: one.finding for name, one in self._found.items() if self._is_new(name, one.finding)}
        for group, record in self._tracker.records(now_ns):
            yield
            if not _is_excluded(record):
                for rule in self._rules[group]:
                    new |= {found.identity: found for found in rule.evaluate(record, moment)}
        if self._finished != finished:
            return []
        new = {name: found for name, found in new.items() if self._is_new(name, found)}
        self._reported.update({name: found.severity for name, found in new.items()})
        return sorted(new.values(), key=by_weight)

    def findings(self) -> list[Finding]:
        """Return all findings by severity, certainty and start, then by topic, kind of object and first frame."""
        return sorted((one.finding for one in self._found.values()), key=_order)

    def incidents(self) -> list[Incident]:
        """Return the incidents of the findings, the most severe first."""
        findings = self.findings()
        places = {}
        for one in findings:
            streams = self._found[one.identity].streams
            servers = frozenset(self._servers[stream] for stream in streams if stream in self._servers)
            places[id(one)] = Place(streams, servers | {one.subject["server"]} if "server" in one.subject else servers)
        return incidents_of(findings, places)

    def unreported(self) -> list[Finding]:
        """Return the findings that no poll has returned with this or a higher severity."""
        return [found for found in self.findings() if self._is_new(found.identity, found)]

    def _is_new(self, identity: tuple[Any, ...], found: Finding) -> bool:
        return found.is_more_severe(self._reported.get(identity))

    def checked_counts(self) -> dict[str, int]:
        """Return the numbers of evaluated frames, connections, … and rules. The broker's own traffic is not counted."""
        counts = {f"{group}s": self._seen[group] for group in _COUNTED}
        return {"frames": self.capture.frames, **counts, "messages": self._messages, "rules": self._rule_count}

    def _done(self, group: str, record: Any) -> None:
        if not self._is_own(record):
            return
        new: list[Finding] = []
        if group == "connection":
            self._servers[record.stream] = place(record.server)
        if not _is_excluded(record):
            self._seen[group] += 1
            if group == "topic":
                self._messages += record.messages_in
            now_ns = max(self.capture.last_ns, self._end_ns)
            moment = Moment(now_ns, over=True, capture=self.capture, thresholds=self._thresholds)
            new += (found for rule in self._rules[group] for found in rule.evaluate(record, moment))
        last_frame = record.last_frame if group == "connection" else 0
        for found in new:
            if len(self._found) < MAX_FINDINGS or found.identity in self._found:
                self._found[found.identity] = _Found(found, _streams_of(record), last_frame)
            else:
                self.dropped += 1
        if self._on_record is not None:
            self._on_record(group, record, new)


def _order(found: Finding) -> tuple[Any, ...]:
    topic, kind = found.subject.get("topic", ""), _KINDS.index(RULES[found.rule].group)
    return *by_weight(found), topic, kind, min(found.frames, default=0), found.identity


def _streams_of(record: Any) -> frozenset[int]:
    """Return the connections of a record: its own, or those of its session or its consumers."""
    if isinstance(record, KeyRecord):
        record = record.subscription
    if isinstance(record, SubscriptionRecord):
        return frozenset().union(*map(_streams_of, record.consumers.values()))
    if isinstance(record, ScalableTopicRecord):
        return frozenset(one.stream for one in record.sessions) | {one.stream for one in record.consumers}
    session = getattr(record, "session", None)
    stream = getattr(record, "stream", None) if session is None else session.stream
    return frozenset() if stream is None else frozenset((stream,))


def by_weight(found: Finding) -> tuple[int, int, int]:
    """Return the sort key of a finding: severity, certainty, start."""
    return SEVERITIES.index(found.severity), CERTAINTIES.index(found.certainty), found.since_ns


def checked_counts_text(counts: dict[str, int]) -> str:
    """Return ``1204 frames, 3 connections, …, 45 rules checked`` from `Diagnosis.checked_counts`."""
    *things, rules = (f"{count} {name if count != 1 else name[:-1]}" for name, count in counts.items())
    return f"{', '.join(things)}, {rules} checked"


def _is_excluded(record: Any) -> bool:
    """Whether a record belongs to the broker's own traffic, or repeats another connection with translated addresses."""
    if isinstance(record, KeyRecord):
        record = record.subscription
    if isinstance(record, SubscriptionRecord):
        return record.topic.system or is_system_subscription(record.name)
    return bool(getattr(record, "system", False) or getattr(record, "translated", False))
