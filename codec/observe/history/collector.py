"""Finds the objects that have a wanted name, and collects their histories in one pass over the capture.

Rules of this file
1. Objects are compared with the name when they first appear. The object is chosen at the end, because a later object
   may have the same name.
2. Only objects with the wanted name have a history, at most MOST_CANDIDATES. The memory is therefore bounded, except
   for the times of all frames (eight bytes each) if the name is a message id.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.fields.id_readers import id_reader
from pcli.codec.observe.history.connection_history import ConnectionHistory
from pcli.codec.observe.history.consumer_history import ConsumerHistory
from pcli.codec.observe.history.event_log import EventLog
from pcli.codec.observe.history.message_history import MessageHistory
from pcli.codec.observe.history.object_history import ObjectHistory
from pcli.codec.observe.history.object_names import EXACT, NameMatcher, consumer_name, producer_name, subscription_name
from pcli.codec.observe.history.producer_history import ProducerHistory
from pcli.codec.observe.history.scalable_topic_history import ControlledConsumerHistory, ScalableTopicHistory
from pcli.codec.observe.history.subscription_history import SubscriptionHistory
from pcli.codec.observe.history.topic_history import TopicHistory
from pcli.codec.observe.observer_state import Consumer, Facts, Producer
from pcli.codec.observe.text_format import short_topic
from pcli.codec.observe.tracking.lifecycle_filter import LifecycleFilter, is_system
from pcli.codec.observe.tracking.producers.producer_session import ProducerSession
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.records.scalable_records import ControlledConsumerRecord
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.topic_name import full_name

MOST_CANDIDATES: Final = 100
"""Maximum number of objects with the wanted name whose histories are collected."""

_MOST_PEERS: Final = 20_000
"""Number of producers and consumers, and of topics, whose comparison with the name is kept."""

_PRODUCER_SUCCESS: Final = BY_NAME["PRODUCER_SUCCESS"].number

Candidate = tuple[int, ObjectHistory]
"""The rank of an object's name (object_names.py), and its history."""

_Histories = tuple[ObjectHistory, ...]


class HistoryCollector:
    """The histories of the objects that have a wanted name."""

    def __init__(self, wanted: NameMatcher) -> None:
        self._wanted = wanted
        self._tracker: Tracker | None = None
        self._candidates: dict[tuple[object, ...], Candidate] = {}
        self._peers: BoundedDict[Producer | Consumer, _Histories] = BoundedDict(_MOST_PEERS)
        self._topics: BoundedDict[str, _Histories] = BoundedDict(_MOST_PEERS)
        self._streams: BoundedDict[int, _Histories] = BoundedDict(_MOST_PEERS)
        self._subscriptions: dict[str, set[ObjectHistory]] = {}
        """Histories of subscriptions by topic: frames of producers concern them too."""
        message_id = wanted.message_id
        self._lifecycles = None if message_id is None else LifecycleFilter(message_id=message_id)
        self._times = array("q", [0])
        """The time of each frame in ns, if the name is a message id."""

    def follow(self, tracker: Tracker) -> None:
        """Set the tracker whose records are compared. It must process each frame before the collector."""
        self._tracker = tracker

    @property
    def tracker(self) -> Tracker:
        """The tracker that processes the frames."""
        assert self._tracker is not None
        return self._tracker

    def see(self, facts: Facts) -> None:
        """Process a frame, after the tracker."""
        stream, peer = facts.frame.stream, facts.peer
        if self._lifecycles is not None:
            self._times.append(facts.frame.time_ns)
        found = self._streams.get(stream.number)
        if found is None:
            rank = self._wanted.connection(stream.number, stream.client, stream.server)
            key = ("connection", stream.number)
            found = self._add(key, rank, lambda log: ConnectionHistory(stream, self.tracker.connections, log))
            self._streams[stream.number] = found
        if peer is not None:
            found += self._of_peer(peer, renamed=facts.frame.type == _PRODUCER_SUCCESS)
            if self._subscriptions and isinstance(peer.record, ProducerSession):
                found += tuple(self._subscriptions.get(peer.record.record.topic, ()))
        elif "#" in self._wanted.name:
            found += self._of_unidentified(facts)
        elif facts.request is not None and facts.request.topic:
            topics = facts.request.topic
            for topic in [topics] if isinstance(topics, str) else topics:
                found += self._of_topic(full_name(topic))
        for history in found:
            history.see(facts)

    def _of_peer(self, peer: Producer | Consumer, *, renamed: bool) -> _Histories:
        found = self._peers.get(peer)
        if found is not None and not renamed:
            return found
        record = peer.record
        if isinstance(record, AttachedConsumer):
            found = self._of_consumer(record)
        elif isinstance(record, ProducerSession):
            found = self._of_producer(record)
        else:
            return found or ()
        self._peers[peer] = found
        return found

    def _of_unidentified(self, facts: Facts) -> _Histories:
        """Return the history of a consumer whose SUBSCRIBE is not in the capture."""
        get = id_reader("consumer_id", facts.frame.type)
        number = get(facts) if get is not None else -1
        if not isinstance(number, int):
            return ()
        attached = self.tracker.subscriptions.attached(facts.frame.stream.number, number)
        return () if attached is None else self._of_consumer(attached)

    def _of_consumer(self, attached: AttachedConsumer) -> _Histories:
        record, subscription = attached.record, attached.subscription
        topic = subscription.topic.record.name
        rank = self._wanted.consumer(topic, record.subscription_name, record.name, attached.stream, attached.id)
        found = self._add(("consumer", id(record)), rank, lambda log: ConsumerHistory(attached, log))
        if subscription.unidentified:
            return found
        name = subscription.record.name
        rank = self._wanted.subscription(topic, name)
        own = self._add(("subscription", topic, name), rank, lambda log: SubscriptionHistory(subscription, log))
        if own:
            self._subscriptions.setdefault(topic, set()).update(own)
        found += own
        return found + self._of_topic(topic)

    def _of_producer(self, producer: ProducerSession) -> _Histories:
        record = producer.record
        session = producer.session
        rank = self._wanted.producer(record.topic, record.name, session.stream, session.id)
        found = self._add(("producer", id(record)), rank, lambda log: ProducerHistory(producer, log))
        if not record.topic:
            return found
        return found + self._of_topic(record.topic)

    def _of_topic(self, topic: str) -> _Histories:
        found = self._topics.get(topic)
        if found is None:
            rank = self._wanted.topic(topic)
            found = self._add(("topic", topic), rank, lambda log: TopicHistory(topic, self.tracker.subscriptions, log))
            self._topics[topic] = found
        return found

    def _add(self, key: tuple[object, ...], rank: int, make: Callable[[EventLog], ObjectHistory]) -> _Histories:
        """Return the history of an object that has the wanted name; create it if necessary."""
        if not rank:
            return ()
        known = self._candidates.get(key)
        if known is None:
            if len(self._candidates) >= MOST_CANDIDATES:
                return ()
            known = self._candidates[key] = (rank, make(EventLog()))
        return (known[1],)

    def lifecycle(self, lifecycle: Lifecycle) -> None:
        """Process a lifecycle that has left memory or is complete."""
        if self._lifecycles is None or not self._lifecycles.holds(lifecycle) or is_system(lifecycle):
            return
        key = ("message", lifecycle.topic.name if lifecycle.topic is not None else "")
        known = self._candidates.get(key)
        if known is not None and isinstance(known[1], MessageHistory):
            known[1].add(lifecycle)
        else:
            self._candidates[key] = (EXACT, MessageHistory(lifecycle, self._times, EventLog()))

    def settle(self, time_ns: int) -> None:
        """Record changes without a frame, after the tracker has processed the end of a connection."""
        for _, history in self._candidates.values():
            history.settle(time_ns)

    def _add_scalable_topics(self) -> None:
        """Add scalable topics, and consumers that are registered with their controllers."""
        for topic in self.tracker.scalable_topics.topics.values():
            if topic.layout is None and not topic.consumers:
                continue  # only its segments are known, or a classic topic
            rank = self._wanted.topic(topic.name)
            self._add(("scalable", topic.name), rank, partial(ScalableTopicHistory, topic))
            consumers: dict[tuple[str, str], list[ControlledConsumerRecord]] = {}
            for one in topic.consumers:
                consumers.setdefault((one.subscription, one.name), []).append(one)
            for (subscription, name), records in consumers.items():
                rank = self._wanted.consumer(topic.name, subscription, name, records[-1].stream, records[-1].id)
                key = ("registered", topic.name, subscription, name)
                self._add(key, rank, partial(ControlledConsumerHistory, records))

    def found(self) -> list[ObjectHistory]:
        """Return the histories of the objects whose names have the highest rank.

        A topic that only requests name, such as a partitioned topic, is returned only if there is no other object.
        """
        self._add_scalable_topics()
        known = [one for one in self._candidates.values() if one[1].opened] or list(self._candidates.values())
        best = max((rank for rank, _ in known), default=0)
        return [history for rank, history in known if rank == best]


def known_names(tracker: Tracker) -> Iterator[str]:
    """Yield the names of the topics, subscriptions, consumers and producers that the tracker contains."""
    for group, record in tracker.records():
        if group == "topic" and not record.system:
            yield short_topic(record.name)
        elif group == "subscription" and not record.topic.system:
            yield from (record.name, subscription_name(record.topic.name, record.name))
        elif group == "consumer" and record.name and not record.system:
            yield from (record.name, consumer_name(record.topic, record.subscription_name, record.name))
        elif group == "producer" and record.name and not record.system:
            yield from (record.name, producer_name(record.topic, record.name))
        elif group == "scalable_topic":
            yield record.name
            for consumer in record.consumers:
                yield from (consumer.name, consumer_name(record.name, consumer.subscription, consumer.name))
