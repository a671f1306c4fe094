"""Handwritten records for rules, as a tracker creates them; times are in seconds."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.rules import RULES, Finding, Moment
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, PermitLedger, ProducerRecord, Session
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord, ConnectionRecord
from pcli.codec.observe.tracking.records.counters import Occurrences, StateDuration
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord
from pcli.codec.observe.tracking.tracker import process_events

TOPIC = "persistent://public/default/orders"
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
