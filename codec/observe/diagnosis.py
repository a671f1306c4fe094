"""Asks the rules about everything that is kept of a recording, and collects what they find.

Rules of this file
1. A record is asked about when it is given out (it ends, or too many are kept) and else at the end: once, when all is
   known of it. `poll` asks about what is open in the meantime and tells only what it has not told before.
2. Whatever is the broker's own traffic is never asked about.
3. Two findings of the same identity are one, the later. A rule that raises is a bug, and is heard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from pcli.codec.capture.frames import Note, StreamEnd
from pcli.codec.observe.rules import RULES, Finding, Moment, Rule
from pcli.codec.observe.rules.finding import GROUPS, SEVERITIES, SURE
from pcli.codec.observe.system_topics import is_system_subscription
from pcli.codec.observe.tracking.connections.hosts import Hosts
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.topic_records import KeyRecord, SubscriptionRecord
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker
from pcli.codec.observe.tracking.tracker import Tracker

__all__ = ["MAX_FINDINGS", "Diagnosis", "by_weight", "looked_at_text"]

MAX_FINDINGS: Final = 10_000
"""Findings that are kept, about 20 MB; a thousand consumers with the same trouble are told as such."""

_COUNTED: Final = ("connection", "producer", "consumer", "subscription", "topic")
"""Groups whose records are counted, for what was looked at."""


class Diagnosis:
    """What is wrong in a recording, found while its frames go by."""

    def __init__(
        self,
        only: Collection[str] = (),
        *,
        on_asked: Callable[[str, Any, list[Finding]], None] | None = None,
        hosts: Hosts | None = None,
        servers: Iterable[tuple[str, int]] = (),
        tracker: Callable[..., Tracker] = Tracker,
    ) -> None:
        """``only``: names of rules; empty: all of them.

        ``on_asked`` is given every record that is done with: its group, the record, and what was found. ``hosts`` and
        ``servers`` as for a Tracker; ``tracker`` makes it.
        """
        self._rules: dict[str, list[Rule]] = {group: [] for group in GROUPS}
        for rule in RULES.values():
            if not only or rule.name in only:
                self._rules[rule.group].append(rule)
        self._asked = sum(map(len, self._rules.values()))
        self._tracker = tracker(on_done=self._done, hosts=hosts, servers=servers)
        self._on_asked = on_asked
        self._found: dict[tuple[Any, ...], Finding] = {}
        self._told: set[tuple[Any, ...]] = set()
        self._seen: Counter[str] = Counter()
        self._messages = 0
        self._end_ns = 0
        self.see = self._tracker.see
        """Take in a frame, after the Observer."""
        self.more = 0
        """Findings beyond MAX_FINDINGS, which were dropped."""

    @property
    def capture(self) -> CaptureRecord:
        """What is known of the capture itself."""
        return self._tracker.capture

    @property
    def subscriptions(self) -> SubscriptionTracker:
        """What is known of topics, subscriptions and consumers, for their figures."""
        return self._tracker.subscriptions

    def note(self, note: Note) -> None:
        """Take in what the capture says."""
        self._tracker.note(note)

    def ended(self, end: StreamEnd) -> None:
        """A TCP connection has ended."""
        self._tracker.ended(end)

    def finish(self, now_ns: int = 0) -> None:
        """No more will come: ask about all that is left. ``now_ns``: live, the time of the end."""
        self._tracker.finish()
        self._end_ns = now_ns
        for group, record in self._tracker.records():
            self._done(group, record)

    def poll(self, now_ns: int) -> list[Finding]:
        """What was not told before, of everything so far; ``now_ns`` is the time of now, in ns since 1970."""
        self._tracker.subscriptions.update(now_ns)
        moment = Moment(now_ns, over=False, capture=self.capture)
        new = {name: found for name, found in self._found.items() if name not in self._told}
        for group, record in self._tracker.records():
            if not _is_system(record):
                for rule in self._rules[group]:
                    new |= {found.identity: found for found in rule.look(record, moment)}
        new = {name: found for name, found in new.items() if name not in self._told}
        self._told.update(new)
        return sorted(new.values(), key=by_weight)

    def findings(self) -> list[Finding]:
        """All, by how much they matter, how sure they are, and when it began."""
        return sorted(self._found.values(), key=by_weight)

    def untold(self) -> list[Finding]:
        """Those that no poll has told."""
        return [found for found in self.findings() if found.identity not in self._told]

    def looked_at(self) -> dict[str, int]:
        """What was there to be looked at: counts of frames, connections, …, and rules. The broker's own aside."""
        counts = {f"{group}s": self._seen[group] for group in _COUNTED}
        return {"frames": self.capture.frames, **counts, "messages": self._messages, "rules": self._asked}

    def _done(self, group: str, record: Any) -> None:
        new: list[Finding] = []
        if not _is_system(record):
            self._seen[group] += 1
            if group == "topic":
                self._messages += record.messages_in
            moment = Moment(max(self.capture.last_ns, self._end_ns), over=True, capture=self.capture)
            new += (found for rule in self._rules[group] for found in rule.look(record, moment))
        for found in new:
            if len(self._found) < MAX_FINDINGS or found.identity in self._found:
                self._found[found.identity] = found
            else:
                self.more += 1
        if self._on_asked is not None:
            self._on_asked(group, record, new)


def by_weight(found: Finding) -> tuple[int, int, int]:
    """A key to sort findings by."""
    return SEVERITIES.index(found.severity), SURE.index(found.sure), found.since_ns


def looked_at_text(counts: dict[str, int]) -> str:
    """Return ``1204 frames, 3 connections, …, 45 rules checked`` from `Diagnosis.looked_at`."""
    *things, rules = (f"{count} {name if count != 1 else name[:-1]}" for name, count in counts.items())
    return f"{', '.join(things)}, {rules} checked"


def _is_system(record: Any) -> bool:
    """Whether a record is of the broker's own traffic; those of no particular topic are not."""
    if isinstance(record, KeyRecord):
        record = record.subscription
    if isinstance(record, SubscriptionRecord):
        return record.topic.system or is_system_subscription(record.name)
    return bool(getattr(record, "system", False))
