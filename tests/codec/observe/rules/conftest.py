"""Handwritten records for rules, as a tracker creates them, and a scalable topic with its clients."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from pcli.codec.capture import ReadOptions, StreamEnd, read_capture
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.rules import RULES, Finding, Moment
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, PermitLedger, ProducerRecord, Session
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord, ConnectionRecord
from pcli.codec.observe.tracking.records.counters import Occurrences, StateDuration
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord
from pcli.codec.observe.tracking.tracker import process_events
from pcli.codec.proto import pb
from pcli.codec.scalable.segment_name import SegmentName
from pcli.codec.wire.build import push_entry

TOPIC = "persistent://public/default/orders"
SCALABLE = "topic://public/default/orders"
SECOND = 1_000_000_000


def at(seconds: float) -> int:
    return round(seconds * SECOND)


@pytest.fixture
def evaluate() -> Callable[..., list[Finding]]:
    """Evaluate a rule for a record at a time in seconds, by default 10 s after the start."""

    def asked(rule: str, record: Any, now: float = 10, *, over: bool = True) -> list[Finding]:
        moment = Moment(at(now), over=over, capture=CaptureRecord(last_ns=at(now)))
        found = list(RULES[rule].evaluate(record, moment))
        assert all(one.rule == rule for one in found)
        return found

    return asked


@pytest.fixture
def subscription() -> Callable[..., SubscriptionRecord]:
    """Create a subscription, by default work on orders, with further fields by name."""

    def make(name: str = "work", persistent: bool = True, **fields: Any) -> SubscriptionRecord:
        topic = TopicRecord(TOPIC, persistent=persistent)
        topic.subscriptions[name] = made = SubscriptionRecord(topic, name, **fields)
        return made

    return make


@pytest.fixture
def consumer(subscription: Callable[..., SubscriptionRecord]) -> Callable[..., ConsumerRecord]:
    """Create a consumer that subscribed in frame 5 at 1 s. `permits` are fields of its ledger, others its own.

    It received the messages that it holds.
    """

    def make(
        name: str = "lazy",
        of: SubscriptionRecord | None = None,
        *,
        permits: dict[str, Any] | None = None,
        ended: float = -1,
        end: str = "closed",
        **fields: Any,
    ) -> ConsumerRecord:
        of = subscription(type="Shared", backlog=100) if of is None else of
        session = Session(0, 3, 5, at(1), ready_ns=at(1), ready_frame=6)
        if ended >= 0:
            session.ended_ns, session.ended_frame, session.end = at(ended), 99, end
        ledger = PermitLedger(**{"known": True, "queue": 10, "flows": 1, "flowed": 10, **(permits or {})})
        made = ConsumerRecord(TOPIC, of.name, name, of.type, of, session=session, sessions=1, permits=ledger)
        made.received_entries = fields.get("unacked", 0)
        for field, value in fields.items():
            setattr(made, field, value)
        of.consumers[name] = made
        return made

    return make


def tally(count: int = 1, *frames: int, first: float = 2, last: float = -1, sample: str = "") -> Occurrences:
    return Occurrences(count, at(first), at(first if last < 0 else last), list(frames), sample)


def lasting(since: float, frame: int) -> StateDuration:
    return StateDuration(count=1, since_ns=at(since), since_frame=frame)


def over(since: float, until: float, first: int, last: int) -> StateDuration:
    lasted = at(until - since)
    return StateDuration(1, lasted, -1, first, (at(since), at(until)), lasted, at(since), (first, last))


@pytest.fixture
def counted() -> Callable[..., Occurrences]:
    """Create a counter: count, frames, first and last time in seconds, sample."""
    return tally


@pytest.fixture
def ongoing() -> Callable[..., StateDuration]:
    """Create a state that lasts: start time and first frame."""
    return lasting


@pytest.fixture
def finished() -> Callable[..., StateDuration]:
    """Create a state that has ended: start, end, first and last frame."""
    return over


@pytest.fixture
def ns() -> Callable[[float], int]:
    """Convert seconds to nanoseconds."""
    return at


@pytest.fixture
def connection() -> Callable[..., ConnectionRecord]:
    """Create a connection from a client to a broker that began in frame 1 at 1 s, with further fields by name."""

    def make(stream: int = 0, **fields: Any) -> ConnectionRecord:
        made = ConnectionRecord(stream, ("10.0.0.1", 40_000), ("10.0.0.2", 6650), client_version="a client")
        made.connect_frame, made.first_frame, made.first_ns = 1, 1, at(1)
        made.client_frames, made.broker_frames, made.last_frame = 5, 5, 10
        for field, value in fields.items():
            setattr(made, field, value)
        return made

    return make


@pytest.fixture
def producer() -> Callable[..., ProducerRecord]:
    """Create a producer that opened in frame 5 at 1 s and has receipts for 50 messages, with further fields by name."""

    def make(name: str = "web", *, ended: float = -1, end: str = "fin_broker", **fields: Any) -> ProducerRecord:
        topic = TopicRecord(TOPIC)
        session = Session(0, 1, 5, at(1), ready_ns=at(1), ready_frame=6)
        if ended >= 0:
            session.ended_ns, session.ended_frame, session.end = at(ended), 99, end
        made = ProducerRecord(TOPIC, name, topic, session=session, sessions=1)
        made.sent = made.sent_entries = made.receipts = 50
        made.heard_ns, made.heard_frame = at(1), 6
        for field, value in fields.items():
            setattr(made, field, value)
        topic.producers[name] = made
        return made

    return make


@pytest.fixture
def diagnosed(corpus: Any) -> Callable[..., list[Finding]]:
    """Return the findings of one rule in a capture of the corpus."""

    def found(name: str, rule: str) -> list[Finding]:
        diagnosis = Diagnosis(only=[rule])
        process_events(read_capture([(name, io.BytesIO(corpus.data(name)))], ReadOptions(ends=True)), diagnosis)
        return diagnosis.findings()

    return found


class ControlledTopic:
    """A scalable topic with its controller, and clients on separate connections."""

    def __init__(self, conversation, segments=2):
        self.conversation = conversation
        self.conversation.now = SECOND
        self.diagnosis = Diagnosis()
        self.requests = itertools.count(1)
        self.epoch = 0
        width = 65536 // segments
        self.segments = {
            number: pb.SegmentInfoProto(
                segment_id=number, hash_start=number * width, hash_end=(number + 1) * width - 1, state=pb.ACTIVE,
                created_at_epoch=0, created_at_ms=1,
            )
            for number in range(segments)
        }  # fmt: skip

    def client(self, body, stream=0, entry=b""):
        self.diagnosis.see(self.conversation.client(body, entry, stream))

    def broker(self, body, stream=0):
        self.diagnosis.see(self.conversation.broker(body, b"", stream))

    def wait(self, seconds):
        self.conversation.now += round(seconds * SECOND)

    def lose(self, stream):
        """End a connection: the client's process is gone."""
        last = self.conversation.frames[-1]
        place = (self.conversation.streams[stream], last.packet, self.conversation.now)
        self.diagnosis.ended(StreamEnd(*place, from_client=True, reset=False, refused=False, silent=False))

    def name(self, number):
        one = self.segments[number]
        return str(SegmentName(SCALABLE, one.hash_start, one.hash_end, number))

    def layout(self, stream=0, session=1, controller="pulsar://b:6650"):
        dag = pb.ScalableTopicDAG(epoch=self.epoch, segments=self.segments.values())
        if controller:
            dag.controller_broker_url = controller
        self.broker(
            pb.CommandScalableTopicUpdate(session_id=session, dag=dag, resolved_topic_name=SCALABLE), stream=stream
        )

    def replace(self, parents, *ranges):
        """Seal segments and create their children. Return the ids of the children."""
        self.epoch += 1
        first = max(self.segments) + 1
        children = list(range(first, first + len(ranges)))
        for number in parents:
            self.segments[number].state, self.segments[number].sealed_at_epoch = pb.SEALED, self.epoch
            self.segments[number].child_ids.extend(children)
        for number, (start, end) in zip(children, ranges, strict=True):
            self.segments[number] = pb.SegmentInfoProto(
                segment_id=number, hash_start=start, hash_end=end, state=pb.ACTIVE, parent_ids=parents,
                created_at_epoch=self.epoch, created_at_ms=1,
            )  # fmt: skip
        return children

    def assignment(self, numbers):
        return pb.ScalableConsumerAssignment(
            layout_epoch=self.epoch,
            segments=[
                pb.ScalableAssignedSegment(
                    segment_id=number, hash_start=self.segments[number].hash_start,
                    hash_end=self.segments[number].hash_end, segment_topic=self.name(number),
                )
                for number in numbers
            ],
        )  # fmt: skip

    def register(self, name, *numbers, stream):
        request = next(self.requests)
        self.client(
            pb.CommandScalableTopicSubscribe(
                request_id=request, topic=SCALABLE, subscription="st", consumer_name=name, consumer_id=0,
                consumer_type=pb.STREAM,
            ),
            stream,
        )  # fmt: skip
        self.broker(
            pb.CommandScalableTopicSubscribeResponse(request_id=request, assignment=self.assignment(numbers)), stream
        )

    def assign(self, *numbers, stream):
        self.broker(pb.CommandScalableTopicAssignmentUpdate(consumer_id=0, assignment=self.assignment(numbers)), stream)

    def subscribe(self, name, number, *, stream, busy=False, kind=pb.CommandSubscribe.Exclusive):
        request = next(self.requests)
        self.client(
            pb.CommandSubscribe(
                topic=self.name(number), subscription="st", subType=kind,
                consumer_id=number + 1, request_id=request, consumer_name=f"{name}-seg-{number}",
                initialPosition=pb.CommandSubscribe.Earliest,
            ),
            stream,
        )  # fmt: skip
        if busy:
            self.broker(
                pb.CommandError(request_id=request, error=pb.ConsumerBusy, message="Exclusive consumer is connected"),
                stream,
            )
        else:
            self.broker(pb.CommandSuccess(request_id=request), stream)
            self.client(pb.CommandFlow(consumer_id=number + 1, messagePermits=1000), stream)

    def publish(self, number, count, stream=9):
        """Publish messages to a segment that a producer of this connection opens now."""
        request = next(self.requests)
        self.client(pb.CommandProducer(topic=self.name(number), producer_id=number, request_id=request), stream)
        self.broker(
            pb.CommandProducerSuccess(request_id=request, producer_name=f"p-{number}", last_sequence_id=-1), stream
        )
        for sequence in range(count):
            metadata = pb.MessageMetadata(producer_name=f"p-{number}", sequence_id=sequence, publish_time=1)
            self.client(
                pb.CommandSend(producer_id=number, sequence_id=sequence), stream, push_entry(metadata, b"hello")
            )
            place = pb.MessageIdData(ledgerId=100 + number, entryId=sequence)
            self.broker(pb.CommandSendReceipt(producer_id=number, sequence_id=sequence, message_id=place), stream)

    def deliver(self, number, entries, *, stream, first=0, redeliveries=0, **fields):
        for entry in range(first, first + entries):
            metadata = pb.MessageMetadata(producer_name=f"p-{number}", sequence_id=entry, publish_time=1, **fields)
            message = pb.CommandMessage(
                consumer_id=number + 1, message_id=pb.MessageIdData(ledgerId=100 + number, entryId=entry),
                redelivery_count=redeliveries,
            )  # fmt: skip
            self.diagnosis.see(self.conversation.broker(message, push_entry(metadata, b"hello"), stream))

    def found(self):
        """Return severity, rule and text of the findings about the scalable topic and its segments."""
        self.diagnosis.finish()
        return {one.rule: one for one in self.diagnosis.findings()}


@pytest.fixture
def topic(conversation: Any) -> ControlledTopic:
    return ControlledTopic(conversation)
