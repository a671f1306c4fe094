"""A topic with a consumer, and a client of the transaction coordinators."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

TYPES = pb.CommandSubscribe.SubType

TOPIC = "persistent://public/default/t"
ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign"
COMMIT, ABORT = pb.COMMIT, pb.ABORT


class Scene:
    """A broker with one topic. Transactions are pairs of the most and the least significant bits."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.coordinator = world.client()
        self.connect(0)
        self.publisher = world.client()
        self.publisher.producer(TOPIC, producer_name="p")
        self.consumer = world.client()
        self._sequence = 0

    @property
    def topic(self) -> Any:
        return self.world.broker.topics[TOPIC]

    @property
    def subscription(self) -> Any:
        return self.topic.subscriptions["sub"]

    # -- coordinator ---------------------------------------------------------------------------------------------------

    def connect(self, number: int) -> Any:
        self.coordinator.look_up(f"{ASSIGN}-partition-{number}")
        return self.coordinator.one(pb.CommandTcClientConnectRequest(tc_id=number))

    def begin(self, ttl: int = 60_000, number: int = 0) -> tuple[int, int]:
        answer = self.coordinator.one(pb.CommandNewTxn(txn_ttl_millis=ttl, tc_id=number))
        assert not answer.HasField("error")
        return answer.txnid_most_bits, answer.txnid_least_bits

    def add_topic(self, txn: tuple[int, int], topic: str = TOPIC) -> Any:
        return self.coordinator.one(pb.CommandAddPartitionToTxn(partitions=[topic], **bits(txn)))

    def add_subscription(self, txn: tuple[int, int]) -> Any:
        part = {"topic": TOPIC, "subscription": "sub"}
        return self.coordinator.one(pb.CommandAddSubscriptionToTxn(subscription=[part], **bits(txn)))

    def end(self, txn: tuple[int, int], action: Any = COMMIT) -> Any:
        """Send END_TXN; return the error of the response, 0 for success, or None if there is no response."""
        answers = self.coordinator(pb.CommandEndTxn(txn_action=action, **bits(txn)))
        return answers[0].error if answers else None

    # -- messages ------------------------------------------------------------------------------------------------------

    def publish(self, text: str, txn: tuple[int, int] | None = None) -> Any:
        """Publish a message; return its id, or the SEND_ERROR."""
        fields = bits(txn) if txn is not None else {}
        meta = pb.MessageMetadata(producer_name="p", sequence_id=self._sequence, publish_time=self.world.now, **fields)
        send = pb.CommandSend(producer_id=1, sequence_id=self._sequence, **fields)
        self._sequence += 1
        answer = self.publisher.one(send, entry=push_entry(meta, text.encode()))
        return answer.message_id if isinstance(answer, pb.CommandSendReceipt) else answer

    def subscribe(self, kind: str = "Shared", consumer_id: int = 1) -> list[str]:
        """Add a consumer with permits; return the payloads that it receives."""
        self.consumer.subscribe(
            TOPIC, consumer_id, subType=TYPES.Value(kind), initialPosition=pb.CommandSubscribe.Earliest
        )
        self._say(pb.CommandFlow(consumer_id=consumer_id, messagePermits=1000))
        return self.received()

    def _say(self, body: Any) -> None:
        """Send a command of the consumer; the answers are kept."""
        self.consumer.session.send(body)
        self.world.broker.receive(self.consumer.connection, self.consumer.session.output(), self.world.now)
        self.world.deliver()

    def received(self) -> list[str]:
        """Return the payloads that the consumer has received since the last call."""
        events, self.consumer.heard = self.consumer.heard, []
        return [event.frame.payload.decode() for event in events if isinstance(event.body, pb.CommandMessage)]

    def ack(self, message_id: Any, txn: tuple[int, int] | None = None, consumer_id: int = 1) -> int:
        """Acknowledge a message; return the error of the response, or 0."""
        fields = bits(txn) if txn is not None else {}
        ack = pb.CommandAck(
            consumer_id=consumer_id, ack_type=pb.CommandAck.Individual, message_id=[message_id], request_id=9, **fields
        )
        self._say(ack)
        [answer] = [event for event in self.consumer.heard if isinstance(event.body, pb.CommandAckResponse)]
        self.consumer.heard.remove(answer)
        return answer.body.error


def bits(txn: tuple[int, int]) -> dict[str, int]:
    return {"txnid_most_bits": txn[0], "txnid_least_bits": txn[1]}


@pytest.fixture
def make_scene(make_world: Any) -> Any:
    return lambda **settings: Scene(make_world(transactionCoordinatorEnabled=True, **settings))


@pytest.fixture
def scene(make_scene: Any) -> Scene:
    return make_scene()
