"""Removal of state that has ended, for live traffic that is tracked for days.

Rules of this file
1. A consumer has ended when it has left. A subscription has ended when the broker has removed it. A durable
   subscription without consumers, whose backlog may grow, has ended after a longer time. A topic has ended when it has
   no producers and no subscriptions.
2. Records are passed to ``on_done`` and lifecycles are emitted, as if they were evicted. If an object appears again, it
   has a new record.
"""

from __future__ import annotations

from typing import Any

from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.topic_state import TopicState
from pcli.codec.steps import Steps


def forget_ended_topics(lifecycles: OpenLifecycles, before_ns: int, unattended_ns: int) -> Steps[None]:
    """Remove the consumers, subscriptions and topics that ended before a time.

    Subscriptions without consumers are removed if their last consumer left before ``unattended_ns``.
    """
    for topic in list(lifecycles.topics.values()):
        yield
        _forget_subscriptions(lifecycles, topic, before_ns, unattended_ns)
        _forget_acknowledged_positions(topic)
        record = topic.record
        if record.subscriptions or max(record.last_in_ns, *map(_ended_ns, record.producers.values()), 0) >= before_ns:
            continue
        if record.name:
            lifecycles.forget_topic(topic)
            _done(lifecycles, "topic", record)
    lifecycles.forget_names()


def _forget_subscriptions(lifecycles: OpenLifecycles, topic: TopicState, before_ns: int, unattended_ns: int) -> None:
    for name, record in list(topic.record.subscriptions.items()):
        state = topic.subscriptions.get(name)
        ended = sorted(record.consumers.items(), key=lambda item: _ended_ns(item[1]))
        # The last consumer shows since when the subscription is unattended.
        for key, consumer in ended if record.gone else ended[:-1]:
            if _ended_ns(consumer) < before_ns:
                del record.consumers[key]
                _done(lifecycles, "consumer", consumer)
        last_ns = max(map(_ended_ns, record.consumers.values()), default=0)
        if last_ns < (before_ns if record.gone or state is None else unattended_ns):
            for consumer in record.consumers.values():
                _done(lifecycles, "consumer", consumer)
            del topic.record.subscriptions[name]
            _done(lifecycles, "subscription", record)
            if topic.subscriptions.pop(name, None) is not None:
                lifecycles.remove_acknowledged(topic)


def _ended_ns(client: ConsumerRecord | ProducerRecord) -> int:
    """Return the time at which a producer or consumer ended; a time in the future if it is connected."""
    session = client.session
    return 0 if session is None else session.ended_ns if session.end else 1 << 63


def _forget_acknowledged_positions(topic: TopicState) -> None:
    """Remove the markers and aborted messages that every subscription has passed."""
    marks = [one.mark_delete for one in topic.subscriptions.values()]
    passed = [one for one in marks if one is not None]
    if passed and len(passed) == len(marks):
        least = min(passed)
        topic.markers = {at for at in topic.markers if at > least}
        topic.aborted = {at for at in topic.aborted if at > least}


def _done(lifecycles: OpenLifecycles, group: str, record: Any) -> None:
    if lifecycles.on_done is not None:
        lifecycles.on_done(group, record)
