"""The history of a topic: its producers, its subscriptions, unloads, and refused requests that name the topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.history.event_log import Bursts, Event, Log, PrefixedLog
from pcli.codec.observe.history.object_history import Counter, ObjectHistory, State, because
from pcli.codec.observe.history.producer_history import ProducerHistory
from pcli.codec.observe.history.scalable_topic_history import segment_events
from pcli.codec.observe.history.subscription_history import MOST_MEMBERS, SubscriptionHistory
from pcli.codec.observe.observer_state import Consumer, Facts, Producer
from pcli.codec.observe.rules.finding import Finding
from pcli.codec.observe.rules.finding_text import at, count_of
from pcli.codec.observe.text_format import printable, short_topic
from pcli.codec.observe.tracking.producers.producer_session import ProducerSession
from pcli.codec.observe.tracking.records.topic_records import TopicRecord
from pcli.codec.observe.tracking.statistics.broker_statistics import topic_figures
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker
from pcli.codec.wire.commands import name_of
from pcli.codec.wire.frame import SEND
from pcli.codec.wire.topic_name import full_name

_PRODUCER_KINDS: Final = frozenset((
    "refused", "lost", "closed by broker", "send error", "waiting", "no receipt", "stored twice", "lost messages",
    "opened", "resent", "closed",
))  # fmt: skip

_SUBSCRIPTION_KINDS: Final = frozenset((
    "blocked", "refused", "dropped", "silent", "transaction wait", "lost", "closed by broker", "reset",
    "no consumer", "skipped",
    "no permits", "redelivery", "discarded", "opened", "seek", "removed", "key wait", "key order", "dead letter",
    "closed",
))  # fmt: skip
"""The kinds of the members' events that the history of their topic contains."""


class TopicHistory(ObjectHistory):
    """The history of one topic."""

    kind = "topic"

    def __init__(self, topic: str, subscriptions: SubscriptionTracker, log: Log) -> None:
        super().__init__(log)
        self._topic = topic
        self._tracker = subscriptions
        self._subscriptions: dict[str, SubscriptionHistory] = {}
        self._producers: dict[int, ProducerHistory] = {}
        # The tracker detaches the record from a refused producer before the history reads the ERROR.
        self._members: BoundedDict[Producer, int] = BoundedDict(MOST_MEMBERS)
        self._unloads: Counter | None = None
        self._sent = False
        self._refusals = Bursts(log, _refusal)

    @property
    def record(self) -> TopicRecord | None:
        """The record of the topic; None if no producer or consumer was opened."""
        state = self._tracker.lifecycles.topics.get(self._topic)
        return None if state is None else state.record

    @property
    def name(self) -> str:
        """The full name of the topic."""
        return self._topic

    @property
    def opened(self) -> bool:
        """Whether a producer or consumer of the topic was opened."""
        return self.record is not None

    @property
    def topic(self) -> str:
        """The full name of the topic."""
        return self._topic

    def title(self) -> str:
        """Return the topic."""
        return f"topic {short_topic(self._topic)}"

    def see(self, facts: Facts) -> None:
        """Process a frame of one of the topic's producers or consumers, or about the topic."""
        frame, peer = facts.frame, facts.peer
        record = self.record
        if record is not None and self._unloads is None:
            self._unloads = Counter(lambda: record.unloads.count)
        if isinstance(peer, Consumer) and isinstance(peer.record, AttachedConsumer):
            self._subscription(peer.record, facts)
        elif isinstance(peer, Producer):
            self._producer(peer, facts)
            if frame.type == SEND:
                self._send(facts)
        if peer is None:
            error, message = facts.error
            if error and facts.request is not None:
                key = f"{name_of(facts.request.type)}\0{error}\0{message}"
                self._refusals.add(key, frame.time_ns, frame.number)
        self._check_unloads(frame.time_ns, frame.number)

    def _subscription(self, attached: AttachedConsumer, facts: Facts) -> None:
        record = attached.subscription.record
        history = self._subscriptions.get(record.name)
        if history is None or history.record is not record:
            if len(self._subscriptions) >= MOST_MEMBERS:
                return
            log = PrefixedLog(self.log, f"Subscription {printable(record.name)}: ", _SUBSCRIPTION_KINDS)
            history = SubscriptionHistory(attached.subscription, log, members=self.log)
            self._subscriptions[record.name] = history
        history.see(facts)

    def _producer(self, peer: Producer, facts: Facts) -> None:
        session = peer.record
        key = id(session.record) if isinstance(session, ProducerSession) else self._members.get(peer, 0)
        if isinstance(session, ProducerSession) and key not in self._producers:
            if len(self._producers) >= MOST_MEMBERS:
                return
            log = PrefixedLog(self.log, f"Producer {printable(peer.name) or f'#{peer.id}'}: ", _PRODUCER_KINDS)
            self._producers[key] = ProducerHistory(session, log)
        if key in self._producers:
            self._members[peer] = key
            self._producers[key].see(facts)

    def _send(self, facts: Facts) -> None:
        frame = facts.frame
        if not self._sent:
            self._sent = True
            self.log.add(Event("first message", frame.time_ns, frame.number, "A producer sent the first message."))
        for history in self._subscriptions.values():
            history.see(facts)

    def settle(self, time_ns: int) -> None:
        """Record the ends of sessions that have no frame."""
        for history in self._histories():
            history.settle(time_ns)
        self._check_unloads(time_ns, 0)

    def _check_unloads(self, time_ns: int, frame: int) -> None:
        if self._unloads is not None and self._unloads.added():
            split = "a split or merge of the segment, " if self._topic.startswith("segment://") else ""
            text = (
                f"The broker closed producers or consumers of the topic without a request: {split}an unload, a "
                "restart, or a request of an administrator."
            )
            self.log.add(Event("unload", time_ns, frame, text))

    def finish(self, now_ns: int) -> State:
        """Complete the history, and return the state at a time."""
        for history in self._histories():
            history.finish(now_ns)
        self._check_unloads(now_ns, 0)
        self._refusals.finish()
        record, state = self.record, self._tracker.lifecycles.topics.get(self._topic)
        if record is None or state is None:
            return State("The capture contains no producer and no consumer of the topic.")
        figures = topic_figures(state, now_ns)
        if record.segment is not None:
            backlogs = {name: one["msgBacklog"] for name, one in figures["subscriptions"].items()}
            for event in segment_events(record.segment, backlogs):
                self.log.add(event)
        producers = [one for one in record.producers.values() if one.session is not None and not one.session.end]
        consumers = sum(len(one.attached) for one in state.subscriptions.values())
        text = (
            f"{count_of(record.messages_in, 'message')} published in the capture; "
            f"{count_of(len(producers), 'producer')} and {count_of(consumers, 'consumer')} attached."
        )
        for name, one in list(figures["subscriptions"].items())[:5]:
            backlog = one["msgBacklog"]
            known = "unknown" if backlog is None else count_of(backlog, "entry", "entries")
            text += f" Backlog of subscription {printable(name)}: {known}."
        return State(text, {"producers": len(producers), "consumers": consumers, **figures})

    def complete(self) -> None:
        """Add the events of the members that are known only at the end."""
        for history in self._histories():
            history.complete()

    def doubts(self) -> set[str]:
        """Return why the history may be incomplete."""
        return set() if self.record is None else self.record.doubts.union(*(one.doubts() for one in self._histories()))

    def relation(self, group: str, record: Any, finding: Finding) -> str | None:
        """Return how a record concerns the topic."""
        own = self.record
        if group == "exchange" and finding.rule == "request-refused":
            return "" if any(full_name(topic) == self._topic for _, topic in record.refused) else None
        if own is None:
            return None
        if record is own:
            return ""
        if group == "producer":
            return "its producer" if record.topic_record is own else None
        if group == "subscription":
            return "its subscription" if record.topic is own else None
        if group == "consumer":
            subscription = record.subscription
            return "its consumer" if subscription is not None and subscription.topic is own else None
        if group == "key":
            return "its subscription" if record.subscription.topic is own else None
        members = (one.relation(group, record, finding) for one in self._histories())
        return "a connection of its clients" if group == "host" and any(members) else None

    def _histories(self) -> Iterator[ObjectHistory]:
        yield from self._subscriptions.values()
        yield from self._producers.values()


def _refusal(key: str, count: int, until: int) -> tuple[str, str]:
    request, error, message = key.split("\0", 2)
    again = f" {count} times, until {at(until)}," if count > 1 and until else ""
    return "request refused", f"The broker refused {request}{again} with {printable(error)}{because(message)}."
