"""Lifecycles by topic: open lifecycles, and the latest complete lifecycles.

Rules of this file
1. A lifecycle is complete when all subscriptions of the topic have acknowledged it. MAX_COMPLETE complete lifecycles
   are kept, because a lost ACK, a seek or a new subscription may open a lifecycle again. On a non-persistent topic, a
   lifecycle is complete when MAX_NON_PERSISTENT newer lifecycles exist.
2. If there are too many lifecycles, the oldest are evicted and counted.
3. A consumer whose SUBSCRIBE is missing has no topic. If the ledger of its messages is known, the topic is inferred
   from the ledger, because a ledger belongs to one topic. Otherwise its lifecycles belong to the topic with the empty
   name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.system_topics import is_system_topic
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import EntryBudget, Position, TopicState
from pcli.codec.wire.topic_name import full_name

MAX_LIFECYCLES: Final = 50_000
"""Maximum number of lifecycles in memory. They occupy about 100 MB if each has one delivery."""

MAX_COMPLETE: Final = 5_000
"""Maximum number of complete lifecycles in memory. They occupy about 15 MB."""

MAX_OWNERS: Final = 20_000
"""Maximum number of ledgers whose topic is known."""

MAX_NON_PERSISTENT: Final = 1_000
"""Maximum number of lifecycles of a non-persistent topic, because no frame shows that they are complete."""

OnLatency = Callable[[str, Lifecycle | None, TopicRecord, str, int], None]
"""Function that receives the kind of a step, the lifecycle (None if it was evicted), the topic, the subscription, and
the duration of the step in ns. The kinds:

publish: from a SEND to its receipt; without a subscription
dispatch: from the receipt to the first delivery to the subscription; 0 if the delivery precedes the receipt. Chunked
messages, and messages whose SEND is not in the capture, have no such duration.
acknowledge: from a delivery to the ACK that acknowledges the whole entry
"""


class OpenLifecycles:
    """The state of all topics, with their open lifecycles."""

    def __init__(
        self,
        capture: CaptureRecord,
        on_lifecycle: Callable[[Lifecycle], None] | None,
        on_done: Callable[[str, Any], None] | None,
        max_lifecycles: int,
        on_latency: OnLatency | None = None,
    ) -> None:
        self.capture = capture
        self.on_done = on_done
        self.on_latency = on_latency
        self.topics: dict[str, TopicState] = {}
        self._budget = EntryBudget()
        self.owners: BoundedDict[int, TopicState] = BoundedDict(MAX_OWNERS)
        """Topics of the latest ledgers."""
        self.on_complete: Callable[[Lifecycle], None] | None = None
        """A function that receives each lifecycle when it is complete. It may be opened again."""
        self._on_lifecycle = on_lifecycle
        self._max_lifecycles = max_lifecycles
        self._lifecycles: dict[Lifecycle, TopicState] = {}
        self._complete: dict[Lifecycle, TopicState] = {}
        self._names: dict[str, str] = {}

    def topic(self, name: str) -> TopicState:
        """Return the state of a topic; create it if necessary. Every form of the topic's name is accepted."""
        known = self.topics.get(name)
        if known is not None:
            return known
        full = self._names.get(name)
        if full is None:
            full = self._names[name] = full_name(name)
        if full not in self.topics:
            persistent = not full.startswith("non-persistent:")
            self.topics[full] = TopicState(TopicRecord(full, is_system_topic(full), persistent), self._budget)
        return self.topics[full]

    def subscription(self, topic: TopicState, name: str) -> SubscriptionState:
        """Return the state of a subscription; create it if necessary."""
        subscription = topic.subscriptions.get(name)
        if subscription is None:
            record = topic.record.subscriptions.get(name)
            if record is None:
                record = topic.record.subscriptions[name] = SubscriptionRecord(topic.record, name)
            subscription = topic.subscriptions[name] = SubscriptionState(topic, record)
            subscription.base = record.delivered
            record.gone = False
        return subscription

    def move_to_topic(self, subscription: SubscriptionState, topic: TopicState) -> TopicState:
        """Move an unidentified consumer's subscription to the topic of an entry that it received."""
        name, old = subscription.record.name, subscription.topic
        if old is not topic:
            del old.subscriptions[name], old.record.subscriptions[name]
            topic.subscriptions[name], topic.record.subscriptions[name] = subscription, subscription.record
            subscription.topic, subscription.record.topic = topic, topic.record
            for consumer in subscription.record.consumers.values():
                consumer.topic = topic.record.name
        return topic

    def put(self, topic: TopicState, at: Position, lifecycle: Lifecycle) -> None:
        """Store a lifecycle at a position."""
        topic.lifecycles[at] = lifecycle
        if topic.record.name and at[0] not in self.owners:
            self.owners[at[0]] = topic
        if lifecycle not in self._lifecycles:
            self.add(topic, lifecycle)

    def add(self, topic: TopicState, lifecycle: Lifecycle) -> None:
        """Add a lifecycle; evict old lifecycles if there are too many."""
        self._lifecycles[lifecycle] = topic
        if len(self._lifecycles) > self._max_lifecycles:
            self._evict()

    def _evict(self) -> None:
        """Evict the oldest lifecycles, many at once: finding the first key of a dict is slow after many deletions."""
        evicted = self.capture.evicted
        for oldest, other in list(islice(self._lifecycles.items(), 1 + self._max_lifecycles // 100)):
            oldest.evicted = True
            evicted["lifecycle"] = evicted.get("lifecycle", 0) + 1
            self.remove(other, oldest)

    def remove(self, topic: TopicState, lifecycle: Lifecycle) -> None:
        """Remove a lifecycle from memory and emit it."""
        if self._lifecycles.pop(lifecycle, None) is not None:
            self._close(topic, lifecycle, positions(lifecycle))
            for name in lifecycle.without_permits:
                if name not in lifecycle.deliveries:
                    dropped = topic.record.subscriptions[name].dropped
                    dropped.add(lifecycle.sent_ns, lifecycle.sent_frame, count=lifecycle.messages)
            self.emit(lifecycle)

    def reopen(self, topic: TopicState, at: Position) -> Lifecycle | None:
        """Return the complete lifecycle at a position and make it an open lifecycle; None if there is none."""
        lifecycle = topic.complete.get(at)
        if lifecycle is not None:
            del self._complete[lifecycle]
            for place in positions(lifecycle):
                topic.complete.pop(place, None)
                topic.lifecycles[place] = lifecycle
            self.add(topic, lifecycle)
        return lifecycle

    def _keep(self, topic: TopicState, lifecycle: Lifecycle, places: list[Position]) -> None:
        """Make an open lifecycle complete; emit the oldest complete lifecycles if there are too many."""
        if self._lifecycles.pop(lifecycle, None) is None:
            return
        self._close(topic, lifecycle, places)
        self._complete[lifecycle] = topic
        for at in places:
            topic.complete[at] = lifecycle
        if self.on_complete is not None:
            self.on_complete(lifecycle)
        if len(self._complete) > MAX_COMPLETE:
            for oldest, other in list(islice(self._complete.items(), 1 + MAX_COMPLETE // 100)):
                del self._complete[oldest]
                for at in positions(oldest):
                    other.complete.pop(at, None)
                self.emit(oldest)

    def _close(self, topic: TopicState, lifecycle: Lifecycle, places: list[Position]) -> None:
        """Remove a lifecycle from its topic, and set its state."""
        for at in places:
            topic.lifecycles.pop(at, None)
        for name in (lifecycle.uuid, lifecycle.published_as) if topic.unpositioned else ():
            if topic.unpositioned.get(name) is lifecycle:
                del topic.unpositioned[name]
        lifecycle.state = final_state(lifecycle)

    def emit(self, lifecycle: Lifecycle) -> None:
        """Pass a lifecycle on that leaves memory, or that was never stored."""
        if self._on_lifecycle is not None:
            self._on_lifecycle(lifecycle)

    def report_dispatch(self, topic: TopicRecord, lifecycle: Lifecycle, subscription: str) -> None:
        """Pass on the duration from the receipt to the first delivery to a subscription."""
        if self.on_latency is not None and lifecycle.receipt_ns >= 0 and not lifecycle.chunks and lifecycle.sent_frame:
            delivered_ns = lifecycle.deliveries[subscription][0].time_ns
            self.on_latency("dispatch", lifecycle, topic, subscription, max(0, delivered_ns - lifecycle.receipt_ns))

    def sent_before(self, time_ns: int) -> Iterator[Lifecycle]:
        """Yield the oldest open lifecycles, until one of them began after this time."""
        for lifecycle in self._lifecycles:
            if _began_ns(lifecycle) > time_ns:
                return
            yield lifecycle

    def forget(self, lifecycle: Lifecycle) -> None:
        """Drop a lifecycle that was merged into another lifecycle."""
        self._lifecycles.pop(lifecycle, None)

    def remove_if_acknowledged(self, topic: TopicState, at: Position) -> None:
        """Make the lifecycle at a position complete if all subscriptions have acknowledged it."""
        lifecycle = topic.lifecycles.get(at)
        if lifecycle is None:
            return
        places = positions(lifecycle)
        for subscription in topic.subscriptions.values():
            if subscription.unidentified:
                pending = subscription.pending_acks
                if any(place in pending for place in places):
                    return
            elif subscription.opened:
                mark, acked = subscription.mark_delete, subscription.acked
                for place in places:
                    if (mark is None or place > mark) and place not in acked:
                        return
        self._keep(topic, lifecycle, places)

    def remove_acknowledged(self, topic: TopicState) -> None:
        """Make all acknowledged lifecycles of a topic complete, after a cursor moved or a subscription was removed."""
        for at in list(topic.lifecycles):
            self.remove_if_acknowledged(topic, at)

    def forget_topic(self, topic: TopicState) -> None:
        """Remove a topic and emit its lifecycles."""
        for lifecycle in dict.fromkeys((*topic.lifecycles.values(), *topic.unpositioned.values())):
            self.remove(topic, lifecycle)
        for lifecycle in dict.fromkeys(topic.complete.values()):
            del self._complete[lifecycle]
            self.emit(lifecycle)
        del self.topics[topic.record.name]
        for ledger in topic.ledgers:
            if self.owners.get(ledger) is topic:
                del self.owners[ledger]

    def forget_names(self) -> None:
        """Remove the forms of the names of removed topics."""
        self._names = {name: full for name, full in self._names.items() if full in self.topics}

    def finish(self) -> None:
        """Emit the remaining lifecycles, complete lifecycles first."""
        for lifecycle in self._complete:
            self.emit(lifecycle)
        self._complete.clear()
        for lifecycle, topic in list(self._lifecycles.items()):
            self.remove(topic, lifecycle)


def positions(lifecycle: Lifecycle) -> list[Position]:
    """Return the positions of a lifecycle: the position of its entry, or of each chunk that has an id."""
    if lifecycle.chunks:
        found = [(ledger, entry) for _, _, ledger, entry in lifecycle.chunks if ledger >= 0]
        if found:
            return found
    return [(lifecycle.ledger, lifecycle.entry)] if lifecycle.ledger >= 0 else []


def _began_ns(lifecycle: Lifecycle) -> int:
    """Return the time of the SEND or, if it is not captured, of the first delivery."""
    if lifecycle.sent_ns >= 0:
        return lifecycle.sent_ns
    return min((one[0].time_ns for one in lifecycle.deliveries.values() if one), default=-1)


def final_state(lifecycle: Lifecycle) -> str:
    """Return the state of a lifecycle that has an id or was delivered: a key of lifecycle.STATES."""
    if lifecycle.topic is not None and not lifecycle.topic.persistent:
        return "non_persistent"
    if lifecycle.unacked:
        return "unacked" if any(lifecycle.unacked.values()) else "acked"
    if lifecycle.topic is not None and any(not one.gone for one in lifecycle.topic.subscriptions.values()):
        return "never_delivered"
    return "stored"
