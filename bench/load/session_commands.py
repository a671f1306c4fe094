"""The commands before and after the traffic: connects, lookups, subscriptions, producers; closes.

A response is in the tick after its request.
"""

from __future__ import annotations

from google.protobuf.message import Message

from load.frame_encoder import FrameEncoder
from load.participants import Participants
from load.settings import Load
from load.traffic import Traffic
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame

READY = 14
"""The first tick of the traffic."""

_URL = "pulsar://10.255.0.1:6650"
_TYPES = {
    "Exclusive": pb.CommandSubscribe.Exclusive, "Shared": pb.CommandSubscribe.Shared,
    "Failover": pb.CommandSubscribe.Failover, "Key_Shared": pb.CommandSubscribe.Key_Shared,
}  # fmt: skip


class _SessionCommands:
    """Adds frames to the traffic."""

    def __init__(self, traffic: Traffic, encoder: FrameEncoder) -> None:
        self.traffic, self.encoder = traffic, encoder
        self.requests: dict[int, int] = {}

    def request(self, connection: int) -> int:
        self.requests[connection] = self.requests.get(connection, -1) + 1
        return self.requests[connection]

    def exchange(self, tick: int, connection: int, request_body: Message, response: Message) -> None:
        self.send(tick, connection * 2, request_body)
        self.send(tick + 1, connection * 2 + 1, response)

    def send(self, tick: int, direction: int, body: Message) -> None:
        self.encoder.raw.append(push_frame(body))
        self.traffic.raw(tick, direction, len(self.encoder.raw) - 1)


def open_all(load: Load, participants: Participants, traffic: Traffic, encoder: FrameEncoder) -> _SessionCommands:
    """Add all commands up to the first permits, before tick READY."""
    commands = _SessionCommands(traffic, encoder)
    for connection in range(participants.connections):
        connect = pb.CommandConnect(
            client_version="Pulsar-Java-v4.0.0", auth_method_name="none", auth_data=b"", protocol_version=21
        )
        connected = pb.CommandConnected(
            server_version="Pulsar Server4.0.0", protocol_version=21, max_message_size=5_242_880
        )
        commands.exchange(0, connection, connect, connected)
    pairs = {(one.connection, one.topic) for one in participants.producers}
    pairs |= {(one.connection, one.topic) for one in participants.consumers}
    for connection, topic in sorted(pairs):
        _find(commands, connection, participants.topics[topic])
    for number, consumer in enumerate(participants.consumers):
        _subscribe(commands, load, participants, number)
        traffic.flow(8, number)
        if load.subscriptions[consumer.subscription] == "Failover":
            active = number == participants.first[consumer.topic, consumer.subscription]
            change = pb.CommandActiveConsumerChange(consumer_id=consumer.id, is_active=active)
            commands.send(8, consumer.connection * 2 + 1, change)
    for producer in participants.producers:
        request = commands.request(producer.connection)
        request_body = pb.CommandProducer(
            topic=participants.topics[producer.topic], producer_id=producer.id, request_id=request, epoch=0,
            producer_name=producer.name, user_provided_producer_name=False,
        )  # fmt: skip
        response = pb.CommandProducerSuccess(
            request_id=request, producer_name=producer.name, last_sequence_id=-1, schema_version=b"",
            producer_ready=True,
        )  # fmt: skip
        commands.exchange(10, producer.connection, request_body, response)
    return commands


def _find(commands: _SessionCommands, connection: int, topic: str) -> None:
    """Add the commands that request the partitions and the broker of a topic."""
    request = commands.request(connection)
    commands.exchange(
        2, connection, pb.CommandPartitionedTopicMetadata(topic=topic, request_id=request),
        pb.CommandPartitionedTopicMetadataResponse(
            partitions=0, request_id=request, response=pb.CommandPartitionedTopicMetadataResponse.Success
        ),
    )  # fmt: skip
    request = commands.request(connection)
    commands.exchange(
        4, connection, pb.CommandLookupTopic(topic=topic, request_id=request, authoritative=False),
        pb.CommandLookupTopicResponse(
            brokerServiceUrl=_URL, response=pb.CommandLookupTopicResponse.Connect, request_id=request,
            authoritative=True, proxy_through_service_url=False,
        ),
    )  # fmt: skip


def _subscribe(commands: _SessionCommands, load: Load, participants: Participants, number: int) -> None:
    one = participants.consumers[number]
    kind = load.subscriptions[one.subscription]
    request = commands.request(one.connection)
    request_body = pb.CommandSubscribe(
        topic=participants.topics[one.topic], subscription=f"sub-{kind}", subType=_TYPES[kind], consumer_id=one.id,
        request_id=request, consumer_name=one.name, durable=True, initialPosition=pb.CommandSubscribe.Earliest,
    )  # fmt: skip
    if kind == "Key_Shared":
        request_body.keySharedMeta.keySharedMode = pb.AUTO_SPLIT
    commands.exchange(6, one.connection, request_body, pb.CommandSuccess(request_id=request))


def close(commands: _SessionCommands, participants: Participants, tick: int) -> None:
    """Close all producers and consumers; TCP closes the connections."""
    for producer in participants.producers:
        request = commands.request(producer.connection)
        body = pb.CommandCloseProducer(producer_id=producer.id, request_id=request)
        commands.exchange(tick, producer.connection, body, pb.CommandSuccess(request_id=request))
    for consumer in participants.consumers:
        request = commands.request(consumer.connection)
        goodbye = pb.CommandCloseConsumer(consumer_id=consumer.id, request_id=request)
        commands.exchange(tick, consumer.connection, goodbye, pb.CommandSuccess(request_id=request))
