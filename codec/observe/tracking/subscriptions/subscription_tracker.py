"""The consumer side: consumers, subscriptions, keys, and lifecycles of messages after they are stored.

- open_lifecycles.py: lifecycles by topic; topic_state.py, subscription_state.py: state besides the records
- consumer_sessions.py: consumers across reconnects; cursor_positions.py: cursors
- deliveries.py, acks.py, redelivery.py, transaction_end.py: MESSAGE, ACK, REDELIVER, transactions
- permit_ledger.py: permits; key_order.py: order per key; dispatch_stalls.py: missing deliveries

Rules of this file
1. Each command type that concerns consumers has its own function.
2. Values that depend on the absence of frames are inferred (inference.py), on copies until the end of the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.observer_state import Consumer, Facts, Producer
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.records.topic_records import TopicRecord
from pcli.codec.observe.tracking.subscriptions import permit_ledger
from pcli.codec.observe.tracking.subscriptions.acks import Acks
from pcli.codec.observe.tracking.subscriptions.consumer_sessions import ConsumerSessions
from pcli.codec.observe.tracking.subscriptions.cursor_positions import (
    closed_by_broker,
    connections_lost,
    producer_reconnected,
)
from pcli.codec.observe.tracking.subscriptions.dead_letters import dead_letter, is_marked
from pcli.codec.observe.tracking.subscriptions.deliveries import deliver
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import may_be_blocked, permits_granted
from pcli.codec.observe.tracking.subscriptions.ended_state import forget_ended_topics
from pcli.codec.observe.tracking.subscriptions.inference import conclude, topics_at
from pcli.codec.observe.tracking.subscriptions.message_counting import begin
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import MAX_LIFECYCLES, OnLatency, OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.redelivery import redeliver
from pcli.codec.observe.tracking.subscriptions.stored_entries import stored
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer
from pcli.codec.observe.tracking.subscriptions.topic_state import TopicState
from pcli.codec.observe.tracking.subscriptions.transaction_end import TransactionEnd
from pcli.codec.steps import Steps
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.texts import as_text

_MAX_OPEN_PRODUCERS: Final = 1_000


class SubscriptionTracker:
    """Consumers, subscriptions, keys, and lifecycles of messages."""

    def __init__(
        self,
        capture: CaptureRecord,
        *,
        on_lifecycle: Callable[[Lifecycle], None] | None = None,
        on_done: Callable[[str, Any], None] | None = None,
        on_latency: OnLatency | None = None,
        max_lifecycles: int = MAX_LIFECYCLES,
    ) -> None:
        """Create a tracker with at most ``max_lifecycles`` lifecycles in memory.

        ``on_lifecycle`` receives each lifecycle that leaves memory, ``on_done`` receives other evicted records, and
        ``on_latency`` the duration of each step.
        """
        self.capture = capture
        self.lifecycles = OpenLifecycles(capture, on_lifecycle, on_done, max_lifecycles, on_latency)
        self._acks = acks = Acks(self.lifecycles)
        self._sessions = sessions = ConsumerSessions(self.lifecycles, acks)
        endings = TransactionEnd(self.lifecycles, acks)
        steps: dict[str, Callable[[Facts], object]] = {
            "SEND": self._send,
            "CONNECT": sessions.connect,
            "SUBSCRIBE": sessions.subscribe,
            "SUCCESS": sessions.response,
            "ERROR": sessions.response,
            "FLOW": self._flow,
            "MESSAGE": self._message,
            "ACK": self._ack,
            "ACK_RESPONSE": acks.response,
            "REDELIVER_UNACKNOWLEDGED_MESSAGES": self._redeliver,
            "CLOSE_CONSUMER": sessions.close,
            "PRODUCER": self._on_producer,
            "CLOSE_PRODUCER": self._close_producer,
            "PRODUCER_SUCCESS": self._producer,
            "SEEK": sessions.seek_request,
            "ACTIVE_CONSUMER_CHANGE": sessions.active_change,
            "GET_LAST_MESSAGE_ID_RESPONSE": sessions.last_message_id,
            "END_TXN": endings.request,
            "END_TXN_ON_PARTITION": endings.request,
            "END_TXN_ON_SUBSCRIPTION": endings.request,
            "END_TXN_RESPONSE": endings.response,
            "END_TXN_ON_PARTITION_RESPONSE": endings.response,
            "END_TXN_ON_SUBSCRIPTION_RESPONSE": endings.response,
        }
        self._initial: BoundedDict[int, str] = BoundedDict(_MAX_OPEN_PRODUCERS)
        """Initial subscriptions of PRODUCERs without a response, by frame."""
        self._steps = {BY_NAME[name].number: step for name, step in steps.items()}

    def see(self, facts: Facts) -> None:
        """Process a frame."""
        step = self._steps.get(facts.frame.type)
        if step is not None:
            step(facts)

    def topic(self, name: str) -> TopicRecord:
        """Return the record of a topic; create it if necessary."""
        return self.lifecycles.topic(name).record

    def attached(self, stream: int, consumer_id: int) -> AttachedConsumer | None:
        """Return the consumer with this id on a connection, or None."""
        return self._sessions.find(stream, consumer_id)

    def stored(self, lifecycle: Lifecycle) -> None:
        """Store a lifecycle whose message has an id; called once for each chunk."""
        stored(self.lifecycles, lifecycle)

    def never_stored(self, lifecycle: Lifecycle) -> None:
        """Emit a lifecycle without an id: refused, duplicate, lost, or in flight at the end."""
        self.lifecycles.emit(lifecycle)

    def producer_lost(self, name: str) -> None:
        """Record that the broker's side has ended the connection of a producer of a topic."""
        connections_lost(self.lifecycles.topic(name))

    def add_doubts(self, stream: int, doubts: set[str]) -> None:
        """Add doubts (keys of DOUBTS) to the consumers of a connection."""
        self._sessions.add_doubts(stream, doubts)

    def end(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        """End the consumers of a connection; ``end`` is a key of ENDS, and ``frame`` is the last frame."""
        self._sessions.end(stream, end, time_ns, frame)

    def forget_ended(self, before_ns: int, unattended_ns: int) -> Steps[None]:
        """Remove what ended before a time, and subscriptions whose last consumer left before ``unattended_ns``."""
        yield from self._sessions.forget_ended(before_ns)
        yield from forget_ended_topics(self.lifecycles, before_ns, unattended_ns)

    def finish(self, now_ns: int) -> None:
        """Complete all records; ``now_ns`` is the time of the last frame."""
        self.conclude(now_ns)
        self._sessions.finish(now_ns)
        self._acks.finish()
        self.lifecycles.finish()

    def conclude(self, now_ns: int) -> None:
        """Add what the broker has probably done by the end of the capture; no frames follow."""
        for topic in self.lifecycles.topics.values():
            conclude(topic, now_ns)

    def topics_at(self, now_ns: int) -> dict[str, TopicState]:
        """Return copies of the topics that contain what the broker has probably done by a time, by name."""
        return topics_at(self.lifecycles.topics, now_ns)

    def records(self, now_ns: int | None = None) -> Iterator[tuple[str, Any]]:
        """Yield every topic, subscription, consumer and key record with the name of its group.

        At a time, they are copies that contain what the broker has probably done by then.
        """
        for name, original in list(self.lifecycles.topics.items()):
            # One topic at a time, because copies of a million topics need gigabytes.
            topic = original if now_ns is None else topics_at({name: original}, now_ns)[name]
            if topic.record.name:
                yield "topic", topic.record
            for record in topic.record.subscriptions.values():
                if topic.record.name:
                    yield "subscription", record
                for consumer in record.consumers.values():
                    yield "consumer", consumer
            for subscription in topic.subscriptions.values():
                if subscription.keys is not None:
                    for key in subscription.keys.records.values():
                        yield "key", key

    # -- commands processed here

    def _flow(self, facts: Facts) -> None:
        frame = facts.frame
        flow = frame.command.flow
        if facts.peer is None and not flow.HasField("consumer_id"):
            return  # truncated
        consumer = self._sessions.consumer(facts)
        if not consumer.ended:
            record, subscription = consumer.record, consumer.subscription
            unacked = record.unacked if subscription.individual and subscription.topic.record.persistent else -1
            if record.session is not None and record.asked_all.last_ns >= record.session.began_ns:
                unacked = -1  # messages that the broker took back may still be in the client's queue
            permit_ledger.flow(record.permits, flow.messagePermits, frame.time_ns, frame.number, unacked)
            if record.permits.able_ns == frame.time_ns and unacked > 0:
                permits_granted(consumer)

    def _message(self, facts: Facts) -> None:
        peer = facts.peer
        consumer = peer.record if isinstance(peer, Consumer) else None
        if consumer is None or not consumer.ready:
            consumer = self._sessions.consumer(facts)
        deliver(self.lifecycles, consumer, facts)

    def _ack(self, facts: Facts) -> None:
        peer = facts.peer
        consumer = peer.record if isinstance(peer, Consumer) else None
        if consumer is None:
            consumer = self._sessions.consumer(facts)
        if not consumer.ready:
            return  # closed, or SUBSCRIBE has no response yet: the broker ignores the ACK
        now = facts.frame.time_ns
        may_be_blocked(consumer, now)
        self._acks.see(consumer, facts)
        record = consumer.record
        if record.blocked.since_ns >= 0 and record.unacked <= record.blocked_at // 2:
            record.blocked.end(now, facts.frame.number)
            consumer.able_entries_out = consumer.subscription.record.entries_out

    def _redeliver(self, facts: Facts) -> None:
        consumer = self._sessions.consumer(facts)
        if not consumer.ended:
            may_be_blocked(consumer, facts.frame.time_ns)
            redeliver(consumer, facts)

    def _send(self, facts: Facts) -> None:
        if is_marked(facts.frame):
            dead_letter(self.lifecycles, facts)

    def _on_producer(self, facts: Facts) -> None:
        name = as_text(facts.frame.command.producer.initial_subscription_name)
        if name:
            self._initial[facts.frame.number] = name

    def _producer(self, facts: Facts) -> None:
        peer = facts.peer
        if isinstance(peer, Producer) and peer.topic:
            topic = self.lifecycles.topic(peer.topic)
            producer_reconnected(topic)
            name = self._initial.pop(facts.request_number, "")
            if name:
                subscription = self.lifecycles.subscription(topic, name)
                begin(subscription, facts.frame.time_ns, facts.frame.number)

    def _close_producer(self, facts: Facts) -> None:
        frame, peer = facts.frame, facts.peer
        if not frame.from_client and isinstance(peer, Producer) and peer.topic:
            closed_by_broker(self.lifecycles.topic(peer.topic), "", frame.time_ns, frame.number)
