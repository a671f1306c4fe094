"""The state of scalable topics in a broker that is recorded, because no frame contains it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcli.codec.scalable import Layout

if TYPE_CHECKING:
    from pcli.minibroker.broker import Broker


class RestoredTopics:
    """The scalable topics that a start of the broker has restored."""

    def __init__(self, broker: Broker) -> None:
        service = broker.scalable_topics
        self.layouts = {name: Layout.of(service.layout_message(name)) for name in service.topics}
        """The layouts by topic, as a session would receive them."""
        self.consumers = {
            (name, one.subscription): {consumer.name: consumer.kind for consumer in one.consumers.values()}
            for name, topic in service.topics.items()
            for one in topic.coordinators.values()
        }
        """The names and types of the registered consumers, by topic and subscription."""


def drained_segments(broker: Broker, registration: Any) -> frozenset[int]:
    """Return the ids of the sealed segments in which a subscription has no backlog.

    ``registration`` is the SCALABLE_TOPIC_SUBSCRIBE of one of its consumers. A segment whose topic is not loaded counts
    as drained.
    """
    topic = broker.scalable_topics.topics.get(registration.topic)
    return frozenset(
        one.id
        for one in (topic.layout.sealed if topic is not None else ())
        if (stored := broker.topics.get(one.name(registration.topic))) is None
        or ((found := stored.subscriptions.get(registration.subscription)) is not None and not found.backlog)
    )
