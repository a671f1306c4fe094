"""The history of a subscription: its consumers, times without a consumer, and changes of the cursor.

The events of the consumers are taken from their own histories; the events that only matter to a consumer (its first
message, its permits at the start) are omitted.
"""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.history.consumer_history import ConsumerHistory
from pcli.codec.observe.history.event_log import Event, Log, PrefixedLog
from pcli.codec.observe.history.object_history import LONG_NS, Counter, ObjectHistory, State, lasted, period_event
from pcli.codec.observe.history.object_names import subscription_name
from pcli.codec.observe.history.period_reader import Period, PeriodReader
from pcli.codec.observe.observer_state import Consumer, Facts
from pcli.codec.observe.rules.finding import Finding
from pcli.codec.observe.rules.finding_text import about_subscription, count_of, span
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.statistics.broker_statistics import topic_figures
from pcli.codec.observe.tracking.subscriptions.backlog import backlog_of
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.wire.commands import BY_NAME

MOST_MEMBERS: Final = 100
"""Maximum number of members (consumers, producers) whose events are collected."""

_SHOWN: Final = frozenset((
    "blocked", "refused", "silent", "transaction wait", "lost", "closed by broker", "no permits", "redelivery",
    "ack error", "discarded",
    "opened", "closed", "redelivery request", "active", "seek",
))  # fmt: skip
"""The kinds of a consumer's events that the history of its subscription contains."""

_CLOSE: Final = BY_NAME["CLOSE_CONSUMER"].number


class SubscriptionHistory(ObjectHistory):
    """The history of one subscription."""

    kind = "subscription"

    def __init__(self, subscription: SubscriptionState, log: Log, members: Log | None = None) -> None:
        """Create a history. ``members`` is the log for the events of the consumers, if it differs from ``log``."""
        super().__init__(log)
        self._members = log if members is None else members
        self._prefix = "" if members is None else f"{printable(subscription.record.name)}/"
        self._state = subscription
        self.record = record = subscription.record
        self._consumers: dict[int, ConsumerHistory] = {}
        self._closes: BoundedDict[int, int] = BoundedDict(64)
        self._empty_since: tuple[int, int, int | None] | None = None
        self._hash_waits = PeriodReader()
        self._skipped = Counter(lambda: record.skipped.count)
        self._dead_letters = Counter(lambda: record.dead_lettered.count)
        self._order = Counter(lambda: record.order_broken.count)
        self._resets = len(record.admin_resets)
        self._gone = record.gone

    @property
    def name(self) -> str:
        """The subscription's name after the topic."""
        return subscription_name(self.record.topic.name, self.record.name)

    @property
    def topic(self) -> str:
        """The full name of the topic."""
        return self.record.topic.name

    @property
    def subscription(self) -> str:
        """The name of the subscription."""
        return self.record.name

    def title(self) -> str:
        """Return the subscription with its topic and type."""
        return f"{about_subscription(self.record)}{f', {self.record.type}' if self.record.type else ''}"

    def see(self, facts: Facts) -> None:
        """Process a frame of a producer or consumer of the topic."""
        frame, peer = facts.frame, facts.peer
        attached = peer.record if isinstance(peer, Consumer) else None
        if isinstance(attached, AttachedConsumer) and attached.subscription.record is self.record:
            self._state = attached.subscription
            self._consumer(attached, facts)
            if frame.type == _CLOSE and not frame.from_client:
                self._closes[frame.number] = frame.time_ns
        self._update(frame.time_ns, frame.number)

    def _consumer(self, attached: AttachedConsumer, facts: Facts) -> None:
        key = id(attached.record)
        history = self._consumers.get(key)
        if history is None:
            if len(self._consumers) >= MOST_MEMBERS:
                return
            log = PrefixedLog(self._members, f"Consumer {self._prefix}{_consumer_name(facts.peer)}: ", _SHOWN)
            history = self._consumers[key] = ConsumerHistory(attached, log)
        history.see(facts)

    def settle(self, time_ns: int) -> None:
        """Record the ends of sessions that have no frame."""
        for history in self._consumers.values():
            history.settle(time_ns)
        self._update(time_ns, 0)

    def _update(self, time_ns: int, frame: int) -> None:
        record = self.record
        self._check_attached(time_ns, frame)
        if skipped := self._skipped.added():
            text = f"Removed and created again at the latest message: it skipped {count_of(skipped, 'message')}."
            self.log.add(Event("skipped", time_ns, frame, text, size=skipped))
        if letters := self._dead_letters.added():
            text = f"A client sent {count_of(letters, 'message')} to the dead letter topic."
            self.log.add(Event("dead letter", time_ns, frame, text, size=letters))
        if self._order.added():
            text = f"The order of key {printable(record.order_broken.sample)} was broken."
            self.log.add(Event("key order", time_ns, frame, text))
        period = self._hash_waits.ended(record.hash_waits, frame)
        if period is not None:
            text = f"Messages of a key waited for {lasted(period)}: consumer {printable(record.hash_holder)}."
            self.log.add(period_event("key wait", period, text))
        for number in record.admin_resets[self._resets :]:
            self._add_reset(number, time_ns)
        self._resets = len(record.admin_resets)
        if record.gone and not self._gone:
            self.log.add(Event("removed", time_ns, frame, "Removed from the broker."))
        self._gone = record.gone

    def _add_reset(self, number: int, time_ns: int) -> None:
        text = (
            "An administrator reset the cursor or deleted the subscription. This is inferred: the broker closed only "
            "the consumers of this subscription."
        )
        self.log.add(Event("reset", self._closes.get(number, time_ns), number, text))

    # -- times without a consumer

    def _check_attached(self, time_ns: int, frame: int) -> None:
        if self._state.attached:
            if self._empty_since is not None:
                since_ns, since_frame, backlog = self._empty_since
                self._empty_since = None
                self._add_empty(Period(since_ns, since_frame, time_ns, frame), backlog)
        elif self._empty_since is None and self._consumers:
            last = max(self._consumers.values(), key=lambda one: one.record.last_ns).record
            ended = last.session.ended_frame if last.session is not None else frame
            backlog, _ = backlog_of(self._state, time_ns)
            self._empty_since = (min(time_ns, last.last_ns or time_ns), ended or frame, backlog)

    def _add_empty(self, period: Period, backlog: int | None) -> None:
        if period.lasted_ns >= LONG_NS and not self.record.gone:
            waiting = f", with a backlog of {count_of(backlog, 'entry', 'entries')}" if backlog else ""
            text = f"No consumer was attached for {lasted(period)}{waiting}."
            self.log.add(period_event("no consumer", period, text))

    # -- the end

    def finish(self, now_ns: int) -> State:
        """Complete the history, and return the state at a time."""
        for history in self._consumers.values():
            history.finish(now_ns)
        self._update(now_ns, 0)
        record = self.record
        figures = topic_figures(self._state.topic, now_ns)["subscriptions"].get(record.name, {})
        attached = [one.record for one in self._state.attached]
        names = ", ".join(printable(one.name) or "(no name)" for one in attached[:5])
        more = f" and {len(attached) - 5} more" if len(attached) > 5 else ""
        if record.gone:
            text = "The subscription does not exist any more."
        elif attached:
            text = f"{count_of(len(attached), 'consumer')} attached: {names}{more}."
        else:
            empty = self._empty_since
            since = f", for {span(now_ns - empty[0])} so far" if empty and now_ns - empty[0] >= LONG_NS else ""
            text = f"No consumer is attached{since}."
        backlog, unacked = figures.get("msgBacklog"), figures.get("unackedMessages")
        if not record.gone and record.topic.persistent:
            known = "unknown" if backlog is None else count_of(backlog, "entry", "entries")
            text += f" Backlog: {known}." + (f" Unacknowledged messages: {unacked}." if unacked else "")
        delivered = (
            f" {count_of(record.delivered, 'message')} delivered." if record.delivered else " Nothing delivered."
        )
        return State(text + delivered, {"exists": not record.gone, "attached": len(attached), **figures})

    def complete(self) -> None:
        """Add the dropped messages of a non-persistent topic."""
        dropped = self.record.dropped
        if dropped.count:
            until = f" in {span(dropped.last_ns - dropped.first_ns)}" if dropped.last_ns > dropped.first_ns else ""
            text = f"The broker dropped {count_of(dropped.count, 'message')}{until}: no attached consumer had permits."
            number = dropped.frames[0] if dropped.frames else 0
            self.log.add(Event("dropped", dropped.first_ns, number, text, dropped.last_ns, size=dropped.count))

    def doubts(self) -> set[str]:
        """Return why the history may be incomplete."""
        return self.record.doubts | self.record.topic.doubts

    def relation(self, group: str, record: Any, finding: Finding) -> str | None:
        """Return how a record concerns the subscription."""
        if record is self.record or (group == "key" and record.subscription is self.record):
            return ""
        if group == "consumer" and record.subscription is self.record:
            return "its consumer"
        if record is self.record.topic:
            return "its topic"
        members = (one.relation(group, record, finding) for one in self._consumers.values())
        return "a connection of its consumers" if group == "host" and any(members) else None


def _consumer_name(peer: Any) -> str:
    name = printable(getattr(peer, "name", ""))
    return name or f"#{getattr(peer, 'id', '?')}"
