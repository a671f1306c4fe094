"""What is said before and after the traffic: connect, look up, subscribe, begin to produce; close.

A question of the client stands in one tick, its answer in the next.
"""

from __future__ import annotations

from google.protobuf.message import Message

from load.cast import Cast
from load.settings import Load
from load.traffic import Traffic
from load.wording import Wording
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame

__all__ = ["READY", "close", "open_all"]

READY = 14
"""The first tick of the traffic."""

_URL = "pulsar://10.255.0.1:6650"
_TYPES = {
    "Exclusive": pb.CommandSubscribe.Exclusive, "Shared": pb.CommandSubscribe.Shared,
    "Failover": pb.CommandSubscribe.Failover, "Key_Shared": pb.CommandSubscribe.Key_Shared,
}  # fmt: skip


class _Talk:
    """Puts frames into the traffic."""

    def __init__(self, traffic: Traffic, wording: Wording) -> None:
        self.traffic, self.wording = traffic, wording
        self.requests: dict[int, int] = {}

    def request(self, connection: int) -> int:
        self.requests[connection] = self.requests.get(connection, -1) + 1
        return self.requests[connection]

    def ask(self, tick: int, connection: int, question: Message, answer: Message) -> None:
        self.say(tick, connection * 2, question)
        self.say(tick + 1, connection * 2 + 1, answer)

    def say(self, tick: int, way: int, body: Message) -> None:
        self.wording.raw.append(push_frame(body))
        self.traffic.raw(tick, way, len(self.wording.raw) - 1)


def open_all(load: Load, cast: Cast, traffic: Traffic, wording: Wording) -> _Talk:
    """Everything up to the first permits, before tick READY."""
    talk = _Talk(traffic, wording)
    for connection in range(cast.connections):
        hello = pb.CommandConnect(
            client_version="Pulsar-Java-v4.0.0", auth_method_name="none", auth_data=b"", protocol_version=21
        )
        welcome = pb.CommandConnected(
            server_version="Pulsar Server4.0.0", protocol_version=21, max_message_size=5_242_880
        )
        talk.ask(0, connection, hello, welcome)
    meetings = {(one.connection, one.topic) for one in cast.producers}
    meetings |= {(one.connection, one.topic) for one in cast.consumers}
    for connection, topic in sorted(meetings):
        _find(talk, connection, cast.topics[topic])
    for number, consumer in enumerate(cast.consumers):
        _subscribe(talk, load, cast, number)
        traffic.flow(8, number)
        if load.subscriptions[consumer.subscription] == "Failover":
            active = number == cast.first[consumer.topic, consumer.subscription]
            change = pb.CommandActiveConsumerChange(consumer_id=consumer.id, is_active=active)
            talk.say(8, consumer.connection * 2 + 1, change)
    for producer in cast.producers:
        request = talk.request(producer.connection)
        question = pb.CommandProducer(
            topic=cast.topics[producer.topic], producer_id=producer.id, request_id=request, epoch=0,
            producer_name=producer.name, user_provided_producer_name=False,
        )  # fmt: skip
        answer = pb.CommandProducerSuccess(
            request_id=request, producer_name=producer.name, last_sequence_id=-1, schema_version=b"",
            producer_ready=True,
        )  # fmt: skip
        talk.ask(10, producer.connection, question, answer)
    return talk


def _find(talk: _Talk, connection: int, topic: str) -> None:
    """How many partitions a topic has, and where it is."""
    request = talk.request(connection)
    talk.ask(
        2, connection, pb.CommandPartitionedTopicMetadata(topic=topic, request_id=request),
        pb.CommandPartitionedTopicMetadataResponse(
            partitions=0, request_id=request, response=pb.CommandPartitionedTopicMetadataResponse.Success
        ),
    )  # fmt: skip
    request = talk.request(connection)
    talk.ask(
        4, connection, pb.CommandLookupTopic(topic=topic, request_id=request, authoritative=False),
        pb.CommandLookupTopicResponse(
            brokerServiceUrl=_URL, response=pb.CommandLookupTopicResponse.Connect, request_id=request,
            authoritative=True, proxy_through_service_url=False,
        ),
    )  # fmt: skip


def _subscribe(talk: _Talk, load: Load, cast: Cast, number: int) -> None:
    one = cast.consumers[number]
    kind = load.subscriptions[one.subscription]
    request = talk.request(one.connection)
    question = pb.CommandSubscribe(
        topic=cast.topics[one.topic], subscription=f"sub-{kind}", subType=_TYPES[kind], consumer_id=one.id,
        request_id=request, consumer_name=one.name, durable=True, initialPosition=pb.CommandSubscribe.Earliest,
    )  # fmt: skip
    if kind == "Key_Shared":
        question.keySharedMeta.keySharedMode = pb.AUTO_SPLIT
    talk.ask(6, one.connection, question, pb.CommandSuccess(request_id=request))


def close(talk: _Talk, cast: Cast, tick: int) -> None:
    """All producers and consumers are closed; the connections are left to TCP."""
    for producer in cast.producers:
        request = talk.request(producer.connection)
        body = pb.CommandCloseProducer(producer_id=producer.id, request_id=request)
        talk.ask(tick, producer.connection, body, pb.CommandSuccess(request_id=request))
    for consumer in cast.consumers:
        request = talk.request(consumer.connection)
        goodbye = pb.CommandCloseConsumer(consumer_id=consumer.id, request_id=request)
        talk.ask(tick, consumer.connection, goodbye, pb.CommandSuccess(request_id=request))
