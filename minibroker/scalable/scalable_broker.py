"""The broker's interface for scalable topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pcli.minibroker.topics.broker_service import BrokerService

if TYPE_CHECKING:
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.topics.topic_registry import TopicRegistry


class ScalableBroker(BrokerService, Protocol):
    """What scalable topics need of a broker (implemented by `broker.Broker`)."""

    service_url: str
    topic_registry: TopicRegistry
    topics: dict[str, Topic]
    """Loaded topics by full name."""

    def terminate(self, topic: Topic) -> tuple[int, int]:
        """Terminate a topic."""

    def delete_topic(self, name: TopicName, *, force: bool = False) -> None:
        """Delete a topic."""
