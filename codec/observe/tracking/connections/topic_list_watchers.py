"""Topic-list watchers: the topics sent to them, and whether the client then subscribed.

Rules of this file
1. WATCH_TOPIC_LIST contains the hash of the client's topics. A response with another hash lists topics that changed
   while no watcher was open (apache/pulsar#21852).
2. The client subscribes to a new topic on any connection, so subscriptions are matched by client address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord
from pcli.codec.wire.texts import as_text

_MAX_TOPICS: Final = 10_000
"""Maximum number of topics per client address, and of client addresses."""


class TopicListWatchers:
    """All watchers of a capture."""

    def __init__(self) -> None:
        # Subscribed topics by client address, and the connections whose watchers received topics.
        self._subscribed: BoundedDict[str, BoundedDict[str, None]] = BoundedDict(_MAX_TOPICS)
        self._watching: dict[str, dict[int, ConnectionRecord]] = {}

    def subscribe(self, connection: ConnectionState, facts: Facts) -> None:
        """Process a SUBSCRIBE."""
        client, topic = connection.record.client[0], facts.peer.topic if facts.peer is not None else ""
        if client not in self._subscribed:
            self._subscribed[client] = BoundedDict(_MAX_TOPICS)
        self._subscribed[client][topic] = None
        for record in self._watching.get(client, {}).values():
            record.watch_missed.pop(topic, None)

    def watch(self, connection: ConnectionState, facts: Facts) -> None:
        """Process a WATCH_TOPIC_LIST."""
        frame, watch = facts.frame, facts.frame.command.watchTopicList
        named = f"{as_text(watch.namespace)} {as_text(watch.topics_pattern)}"
        connection.record.watchers[watch.watcher_id] = (frame.number, frame.time_ns, named)
        connection.watch_hashes[watch.watcher_id] = as_text(watch.topics_hash)

    def close(self, connection: ConnectionState, facts: Facts) -> None:
        """Process a WATCH_TOPIC_LIST_CLOSE: the client no longer has to subscribe to the watcher's topics."""
        connection.record.watchers.pop(facts.frame.command.watchTopicListClose.watcher_id, None)
        if not connection.record.watchers:
            connection.record.watch_missed.clear()

    def success(self, connection: ConnectionState, facts: Facts) -> None:
        """Process the response to WATCH_TOPIC_LIST."""
        success = facts.frame.command.watchTopicListSuccess
        before = connection.watch_hashes.pop(success.watcher_id, "")
        topics = list(map(as_text, success.topic))
        if before and as_text(success.topics_hash) != before:
            sample = ", ".join(topics[:3])
            connection.record.watch_gaps.add(
                facts.frame.time_ns, facts.request_number, facts.frame.number, sample=sample
            )
            self._add_topics(connection, facts, topics)

    def update(self, connection: ConnectionState, facts: Facts) -> None:
        """Process a WATCH_TOPIC_UPDATE."""
        update = facts.frame.command.watchTopicUpdate
        subscribed = self._subscribed.get(connection.record.client[0])
        self._add_topics(connection, facts, list(map(as_text, update.new_topics)))
        for topic in map(as_text, update.deleted_topics):
            connection.record.watch_missed.pop(topic, None)
            if subscribed is not None:
                subscribed.pop(topic, None)

    def _add_topics(self, connection: ConnectionState, facts: Facts, topics: list[str]) -> None:
        record = connection.record
        known: Mapping[str, None] = self._subscribed.get(record.client[0], {})
        for topic in topics:
            if topic not in known and len(record.watch_missed) < _MAX_TOPICS:
                record.watch_missed[topic] = (facts.frame.number, facts.frame.time_ns)
        self._watching.setdefault(record.client[0], {})[record.stream] = record

    def forget(self, record: ConnectionRecord) -> None:
        """Drop a connection that has ended."""
        watched = self._watching.get(record.client[0], {})
        if watched.pop(record.stream, None) is not None and not watched:
            del self._watching[record.client[0]]
