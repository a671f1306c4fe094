"""A client engine and a broker with one scalable topic, whose layout and assignments the test sends."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.payload.batch import join_batch
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.commands import COMMANDS, name_of
from pcli.codec.wire.reader import FrameReader
from pcli.replay.client.actions import Connect, Disconnect, Write
from pcli.replay.client.engine import Engine
from pcli.replay.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from pcli.replay.service_url import ServiceUrl

TOPIC = "topic://public/default/t"
ROOT, LEFT, RIGHT = (f"segment://public/default/t/{part}" for part in ("0000-ffff-0", "0000-7fff-1", "8000-ffff-2"))
RANGES = {0: (0, 65535), 1: (0, 32767), 2: (32768, 65535)}


def layout(epoch: int, *active: int, sealed: tuple[int, ...] = ()) -> pb.ScalableTopicDAG:
    """Return a layout with segments of `RANGES`."""
    dag = pb.ScalableTopicDAG(epoch=epoch)
    for number in sorted((*active, *sealed)):
        state = pb.ACTIVE if number in active else pb.SEALED
        first, last = RANGES[number]
        dag.segments.add(
            segment_id=number, hash_start=first, hash_end=last, state=state, created_at_epoch=0, created_at_ms=1
        )
    return dag


class ScriptedBroker:
    """A broker that accepts everything, except what the test sets. The connection is opened at once."""

    def __init__(self, *, scalable: bool = True) -> None:
        self.engine = Engine(ServiceUrl.parse("pulsar://a:1"), ClientSettings(), now=1000, random=lambda: 0.0)
        self.scalable = scalable
        self.dag = layout(0, 0)
        """The layout that a new session gets."""
        self.assigned: list[tuple[int, str, tuple[tuple[int, int], ...]]] = [(0, ROOT, ())]
        """The assignment that a registration gets: id, topic and entry buckets of each segment."""
        self.refuse: dict[str, list[str]] = {}
        """Errors of the next PRODUCER or SUBSCRIBE of a topic, or of the next SCALABLE_TOPIC_LOOKUP of ``TOPIC``."""
        self.receipts = True
        """Whether SENDs get receipts."""
        self.registers = True
        """Whether registrations get responses."""
        self.sent: list[tuple[str, Any, Any]] = []
        """Name, body and frame of what the engine has sent."""
        self.connections: list[Any] = []
        self._readers: dict[Any, FrameReader] = {}

    def step(self, milliseconds: int = 0) -> None:
        """Advance the time in steps of 1 ms, and exchange frames until both sides are silent."""
        for _ in range(max(1, milliseconds)):
            self.engine.advance(self.engine.now + bool(milliseconds))
            while actions := self.engine.take():
                for action in actions:
                    self._do(action)

    def _do(self, action: Any) -> None:
        if isinstance(action, Connect):
            self.connections.append(action.connection)
            self._readers[action.connection] = FrameReader()
            self.engine.connected(action.connection, self.engine.now)
        elif isinstance(action, Write):
            for frame in self._readers[action.connection].feed(action.data):
                name, body = name_of(frame.type), getattr(frame.command, COMMANDS[frame.type].field)
                self.sent.append((name, body, frame))
                answers = [push_frame(one) for one in self._answers(name, body)]
                self.engine.received(action.connection, b"".join(answers), self.engine.now)
        else:
            assert isinstance(action, Disconnect)

    def _answers(self, name: str, body: Any) -> list[Any]:
        number = getattr(body, "request_id", 0)
        if name == "CONNECT":
            flags = pb.FeatureFlags(supports_scalable_topics=self.scalable)
            return [pb.CommandConnected(server_version="x", protocol_version=21, feature_flags=flags)]
        if name == "LOOKUP":
            connect = pb.CommandLookupTopicResponse.Connect
            return [pb.CommandLookupTopicResponse(request_id=number, response=connect, brokerServiceUrl="pulsar://a:1")]
        refused = self.refuse.get(getattr(body, "topic", ""))
        if refused and name in ("PRODUCER", "SUBSCRIBE", "SCALABLE_TOPIC_LOOKUP"):
            error = pb.ServerError.Value(refused.pop(0))
            if name == "SCALABLE_TOPIC_LOOKUP":
                return [pb.CommandScalableTopicUpdate(session_id=body.session_id, error=error, message="no")]
            return [pb.CommandError(request_id=number, error=error, message="no")]
        if name == "SCALABLE_TOPIC_LOOKUP":
            return [self.update(body.session_id)]
        if name == "SCALABLE_TOPIC_SUBSCRIBE":
            response = pb.CommandScalableTopicSubscribeResponse(request_id=number, assignment=self.assignment())
            return [response] if self.registers else []
        if name == "PRODUCER":
            return [pb.CommandProducerSuccess(request_id=number, producer_name="p", last_sequence_id=-1)]
        if name == "SEND":
            place = pb.MessageIdData(ledgerId=body.producer_id, entryId=body.sequence_id)
            receipt = pb.CommandSendReceipt(
                producer_id=body.producer_id, sequence_id=body.sequence_id, message_id=place,
                highest_sequence_id=body.highest_sequence_id,
            )  # fmt: skip
            return [receipt] if self.receipts else []
        if name in ("SUBSCRIBE", "CLOSE_CONSUMER", "CLOSE_PRODUCER", "SCALABLE_TOPIC_UNSUBSCRIBE"):
            return [pb.CommandSuccess(request_id=number)]
        return []

    def update(self, session: int = 1) -> pb.CommandScalableTopicUpdate:
        """Return the layout for a session."""
        return pb.CommandScalableTopicUpdate(session_id=session, dag=self.dag, resolved_topic_name=TOPIC)

    def assignment(self) -> pb.ScalableConsumerAssignment:
        """Return the assignment."""
        body = pb.ScalableConsumerAssignment(layout_epoch=0)
        for number, topic, buckets in self.assigned:
            first, last = RANGES[number]
            one = body.segments.add(segment_id=number, hash_start=first, hash_end=last, segment_topic=topic)
            for start, end in buckets:
                one.bucket_ranges.add(start=start, end=end)
        return body

    def assign(self, *assigned: tuple[int, str, tuple[tuple[int, int], ...]]) -> None:
        """Send an assignment to the stream consumer 0."""
        self.assigned = list(assigned)
        self.send(pb.CommandScalableTopicAssignmentUpdate(consumer_id=0, assignment=self.assignment()))

    def change(self, dag: pb.ScalableTopicDAG, session: int = 1) -> None:
        """Send a layout."""
        self.dag = dag
        self.send(self.update(session))

    def send(self, *bodies: Any) -> None:
        """Send commands on the last connection."""
        data = b"".join(map(push_frame, bodies))
        self.engine.received(self.connections[-1], data, self.engine.now)
        self.step()

    def deliver(self, consumer: int, *entries: int, ledger: int = 7, batch: int = 0) -> None:
        """Deliver entries to a consumer of a segment: messages, or batches of empty messages."""
        for entry in entries:
            place = pb.MessageIdData(ledgerId=ledger, entryId=entry)
            metadata = pb.MessageMetadata(producer_name="p", sequence_id=entry, publish_time=1, uncompressed_size=1)
            payload = b"%d" % entry
            if batch:
                metadata.num_messages_in_batch = batch
                payload = join_batch([(pb.SingleMessageMetadata(), b"")] * batch)
            data = push_frame(pb.CommandMessage(consumer_id=consumer, message_id=place), push_entry(metadata, payload))
            self.engine.received(self.connections[-1], data, self.engine.now)
        self.step()

    def cut(self) -> None:
        """Close the connection."""
        self.engine.disconnected(self.connections[-1], self.engine.now, "cut")
        self.step()

    def take(self, *names: str) -> list[Any]:
        """Return and forget the bodies of these commands that the engine has sent; forget all others."""
        found, self.sent = [body for name, body, _ in self.sent if name in names], []
        return found

    def produce(self, **settings: Any) -> Any:
        """Return a producer, or the failure."""
        made: list[Any] = []
        self.engine.produce(TOPIC, ProducerSettings(**settings), made.append)
        self.step()
        return made[0] if made else None

    def subscribe(self, **settings: Any) -> Any:
        """Return a consumer with the name ``c`` and the subscription ``s``, or the failure, or None."""
        made: list[Any] = []
        given = {"topicNames": (TOPIC,), "subscriptionName": "s", "consumerName": "c"} | settings
        self.engine.subscribe(ConsumerSettings(**given), made.append)
        self.step()
        return made[0] if made else None


@pytest.fixture
def scripted() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
def old_broker() -> ScriptedBroker:
    """A broker without scalable topics."""
    return ScriptedBroker(scalable=False)
