"""A topic with a publisher, and consumers whose deliveries are lists of payloads."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

TYPES = pb.CommandSubscribe.SubType


class Consumer:
    """A consumer with a separate connection."""

    def __init__(self, client: Any, kind: str, name: str, topic: str, **fields: Any) -> None:
        self.client = client
        answers = client(
            pb.CommandSubscribe(
                topic=topic, subscription="sub", subType=TYPES.Value(kind), consumer_id=1, consumer_name=name, **fields
            )
        )
        self.told = [answer for answer in answers if not isinstance(answer, pb.CommandSuccess)]
        self.ids: list[Any] = []

    def _say(self, body: Any) -> None:
        """Send a command; the responses are kept."""
        self.client.session.send(body)
        self.client.world.broker.receive(self.client.connection, self.client.session.output(), self.client.world.now)
        self.client.world.deliver()

    def flow(self, permits: int = 1000) -> list[str]:
        """Send a FLOW; return the payloads that are delivered now."""
        self._say(pb.CommandFlow(consumer_id=1, messagePermits=permits))
        return self.got()

    def got(self) -> list[str]:
        """Return the payloads received since the last call. All other commands are in ``told``."""
        found = []
        for event in self.client.heard:
            if isinstance(event.body, pb.CommandMessage):
                self.ids.append(event.body.message_id)
                found.append(event.frame.payload.decode())
            else:
                self.told.append(event.body)
        self.client.heard = []
        return found

    def ack(self, *ids: Any) -> None:
        """Acknowledge each id with a separate ACK."""
        self._say(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=ids))

    def redeliver(self, *ids: Any) -> None:
        self._say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids))

    def close(self) -> None:
        self._say(pb.CommandCloseConsumer(consumer_id=1, request_id=99))


class Scene:
    """One topic of a broker."""

    def __init__(self, world: Any, topic: str = "persistent://public/default/t") -> None:
        self.world = world
        self.topic = topic
        self.publisher = world.client()
        self.publisher.producer(topic, producer_name="p")
        self.next = 0

    def consumer(self, kind: str, name: str = "c", **fields: Any) -> Consumer:
        return Consumer(self.world.client(), kind, name, self.topic, **fields)

    def publish(self, *texts: str, together: bool = False, **metadata: Any) -> None:
        """Publish one entry for each text, in separate writes or in one write."""
        frames = b""
        for text in texts:
            fields = {"producer_name": "p", "sequence_id": self.next, "publish_time": self.world.now} | metadata
            entry = push_entry(pb.MessageMetadata(**fields), text.encode())
            self.publisher.session.send(pb.CommandSend(producer_id=1, sequence_id=self.next), entry)
            self.next += 1
            frames += self.publisher.session.output()
            if not together:
                self.publisher.raw(frames)
                frames = b""
        if frames:
            self.publisher.raw(frames)

    def keyed(self, *keys: str) -> None:
        """Publish one entry for each key, with the key as its payload."""
        for key in keys:
            self.publish(key, partition_key=key)

    @property
    def subscription(self) -> Any:
        return self.world.broker.topics[self.topic].subscriptions["sub"]


@pytest.fixture
def make_scene(make_world: Any) -> Any:
    return lambda **settings: Scene(make_world(**settings))


@pytest.fixture
def scene(world: Any) -> Scene:
    return Scene(world)
