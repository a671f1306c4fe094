"""A broker of Pulsar 5, and clients that speak the commands of scalable topics."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb

TOPIC = "topic://public/default/orders"


class Scene:
    """A broker with the scalable topic ``orders``."""

    def __init__(self, world: Any, segments: int) -> None:
        self.world = world
        self.service = world.broker.scalable_topics
        self.topic = self.service.create(TOPIC, segments)

    def change(self, kind: str, *arguments: int) -> None:
        """Split, merge or rebucket in a turn of its own, as REST does."""
        self.world.broker.begin_turn(self.world.now)
        getattr(self.service, kind)(self.service.controlled(TOPIC), *arguments)
        self.world.broker.finish_turn()
        self.world.deliver()

    def register(self, client: Any, name: str, consumer_id: int = 1, kind: int = pb.STREAM) -> list[Any]:
        """Register a consumer; return what its connection received."""
        return client(
            pb.CommandScalableTopicSubscribe(
                request_id=9,
                topic=TOPIC,
                subscription="sub",
                consumer_name=name,
                consumer_id=consumer_id,
                consumer_type=pb.ScalableConsumerType.ValueType(kind),
            )
        )

    def name(self, number: int) -> str:
        """Return the name of a segment."""
        return str(self.topic.segment_name(self.topic.layout.segments[number]))


def assigned(message: Any) -> list[int]:
    """Return the segments in a response or an update."""
    return [one.segment_id for one in message.assignment.segments]


@pytest.fixture
def make_scene(make_world: Any) -> Any:
    def make(segments: int = 1, **settings: Any) -> Scene:
        return Scene(make_world(version="5.0.1", keepAliveIntervalSeconds=86400, **settings), segments)

    return make
