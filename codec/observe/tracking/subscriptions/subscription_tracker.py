"""The consumer's side: consumers, subscriptions, keys, and the life of every message from its storing on.

- shelf.py: the lives, by topic; books.py: what is kept beside the records
- sessions.py: consumers across reconnects; cursors.py: where subscriptions stand
- deliveries.py, acks.py, redelivery.py, endings.py: MESSAGE, ACK, REDELIVER, transactions
- permit_ledger.py: permits; keys.py: order per key; silence.py: why nothing comes; figures.py: all that as statistics

Rules of this file
1. One step per command type; what has no step is nothing to a consumer.
2. Figures that follow from the absence of frames are made when somebody asks for the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pcli.codec.observe.observer_state import Consumer, Facts, Producer
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.records.topic_records import TopicRecord
from pcli.codec.observe.tracking.subscriptions import permit_ledger
from pcli.codec.observe.tracking.subscriptions.acks import Acks
from pcli.codec.observe.tracking.subscriptions.backlog import backlog_of
from pcli.codec.observe.tracking.subscriptions.consumer_sessions import ConsumerSessions
from pcli.codec.observe.tracking.subscriptions.cursor_positions import closed_by_broker, repeated_reconnects
from pcli.codec.observe.tracking.subscriptions.dead_letters import MARK, dead_letter
from pcli.codec.observe.tracking.subscriptions.deliveries import deliver
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import look, may_be_blocked
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import MAX_LIVES, OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.redelivery import ask
from pcli.codec.observe.tracking.subscriptions.stored_entries import stored
from pcli.codec.observe.tracking.subscriptions.transaction_end import TransactionEnd
from pcli.codec.wire.commands import BY_NAME

__all__ = ["SubscriptionTracker"]


class SubscriptionTracker:
    """Consumers, subscriptions, keys, and what becomes of messages."""

    def __init__(
        self,
        capture: CaptureRecord,
        *,
        on_life: Callable[[Lifecycle], None] | None = None,
        on_done: Callable[[str, Any], None] | None = None,
        max_lives: int = MAX_LIVES,
    ) -> None:
        """``on_life`` is given every life when it leaves, ``on_done`` other records that are forgotten.

        ``max_lives``: how many are kept in memory.
        """
        self.capture = capture
        self.shelf = OpenLifecycles(capture, on_life, on_done, max_lives)
        self._acks = acks = Acks(self.shelf)
        self._sessions = sessions = ConsumerSessions(self.shelf, acks)
        self._endings = endings = TransactionEnd(self.shelf, acks)
        steps: dict[str, Callable[[Facts], object]] = {
            "SEND": self._send,
            "CONNECT": sessions.connect,
            "SUBSCRIBE": sessions.subscribe,
            "SUCCESS": sessions.answered,
            "ERROR": sessions.answered,
            "FLOW": self._flow,
            "MESSAGE": self._message,
            "ACK": self._ack,
            "ACK_RESPONSE": acks.answer,
            "REDELIVER_UNACKNOWLEDGED_MESSAGES": self._redeliver,
            "CLOSE_CONSUMER": sessions.close,
            "PRODUCER": self._ask_producer,
            "CLOSE_PRODUCER": self._close_producer,
            "PRODUCER_SUCCESS": self._producer,
            "SEEK": sessions.asked_seek,
            "ACTIVE_CONSUMER_CHANGE": sessions.active,
            "GET_LAST_MESSAGE_ID_RESPONSE": sessions.told_mark,
            "END_TXN": endings.ask,
            "END_TXN_ON_PARTITION": endings.ask,
            "END_TXN_ON_SUBSCRIPTION": endings.ask,
            "END_TXN_RESPONSE": endings.answer,
            "END_TXN_ON_PARTITION_RESPONSE": endings.answer,
            "END_TXN_ON_SUBSCRIPTION_RESPONSE": endings.answer,
        }
        self._initial: dict[int, str] = {}
        self._steps = {BY_NAME[name].number: step for name, step in steps.items()}

    def see(self, facts: Facts) -> None:
        """Take in a frame."""
        step = self._steps.get(facts.frame.type)
        if step is not None:
            step(facts)

    def topic(self, name: str) -> TopicRecord:
        """The record of a topic, made when new."""
        return self.shelf.topic(name).record

    def stored(self, life: Lifecycle) -> None:
        """An entry of a life has an id; called once for each chunk."""
        stored(self.shelf, life)

    def gone(self, life: Lifecycle) -> None:
        """A life that never gets an id: refused, a duplicate, lost, or in flight at the end."""
        self.shelf.give(life)

    def doubt(self, stream: int, doubts: set[str]) -> None:
        """The capture does not show all of a connection, for these reasons (doubts.py)."""
        self._sessions.doubt(stream, doubts)

    def end(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        """A connection has ended, in one of the ways of links.ENDS; ``frame`` is its last one."""
        self._sessions.end(stream, end, time_ns, frame)

    def finish(self, now_ns: int) -> None:
        """No more will come; ``now_ns`` is the time of the last frame."""
        self.look(now_ns)
        self._sessions.finish(now_ns)
        self._acks.finish()
        self.shelf.finish()

    def look(self, now_ns: int) -> None:
        """Bring up to date what no frame tells: backlogs, silence."""
        for topic in self.shelf.topics.values():
            for book in topic.subscriptions.values():
                look(book, now_ns)
                book.record.backlog, _ = backlog_of(book, now_ns)

    def records(self) -> Iterator[tuple[str, Any]]:
        """Every consumer, subscription, key and topic that is kept, with the name of its group."""
        for topic in self.shelf.topics.values():
            if topic.record.name:
                yield "topic", topic.record
            for subscription in topic.record.subscriptions.values():
                if topic.record.name:
                    yield "subscription", subscription
                for consumer in subscription.consumers.values():
                    yield "consumer", consumer
            for book in topic.subscriptions.values():
                if book.keys is not None:
                    for key in book.keys.records.values():
                        yield "key", key

    # -- the steps that need no file of their own

    def _flow(self, facts: Facts) -> None:
        hot, frame = facts.hot, facts.frame
        if hot is not None:
            consumer, permits = hot
        else:
            consumer = facts.command.get("pulsar.flow.consumer_id", -1)
            permits = facts.command.get("pulsar.flow.messagePermits", 0)
        if facts.peer is None and consumer < 0:
            return
        member = self._sessions.member(facts, consumer)
        if not member.ended:
            record, book = member.record, member.book
            unacked = record.unacked if book.individual and book.topic.record.persistent else -1
            if record.session is not None and record.asked_all.last_ns >= record.session.began_ns:
                unacked = -1  # what the broker took back may lie in the client's queue still
            permit_ledger.flow(record.permits, permits, frame.time_ns, frame.number, unacked)

    def _message(self, facts: Facts) -> None:
        peer = facts.peer
        member = peer.record if isinstance(peer, Consumer) else None
        if member is None or not member.ready:
            hot = facts.hot
            member = self._sessions.member(
                facts, hot[0] if hot is not None else facts.command.get("pulsar.message.consumer_id", -1)
            )
        deliver(self.shelf, member, facts)

    def _ack(self, facts: Facts) -> None:
        peer = facts.peer
        member = peer.record if isinstance(peer, Consumer) else None
        if member is None:
            hot = facts.hot
            member = self._sessions.member(
                facts, hot[0] if hot is not None else facts.command.get("pulsar.ack.consumer_id", -1)
            )
        if not member.ready:
            return  # closed, or its SUBSCRIBE has no answer yet: the broker does not look at it
        now = facts.frame.time_ns
        may_be_blocked(member, now)
        self._acks.see(member, facts)
        record = member.record
        if record.blocked.since_ns >= 0 and record.unacked <= record.blocked_at // 2:
            record.blocked.end(now, facts.frame.number)
            member.turn = member.book.record.entries_out

    def _redeliver(self, facts: Facts) -> None:
        consumer = facts.command.get("pulsar.redeliverUnacknowledgedMessages.consumer_id", -1)
        member = self._sessions.member(facts, consumer)
        if not member.ended:
            may_be_blocked(member, facts.frame.time_ns)
            ask(member, facts)

    def _send(self, facts: Facts) -> None:
        frame = facts.frame
        parts = frame.parts
        if parts.metadata_start >= 0 and frame.data.find(MARK, parts.metadata_start, parts.metadata_end) >= 0:
            dead_letter(self.shelf, facts)

    def _ask_producer(self, facts: Facts) -> None:
        name = facts.command.get("pulsar.producer.initial_subscription_name", "")
        if name:
            self._initial[facts.frame.number] = name

    def _producer(self, facts: Facts) -> None:
        peer = facts.peer
        if isinstance(peer, Producer) and peer.topic:
            topic = self.shelf.topic(peer.topic)
            repeated_reconnects(topic)
            name = self._initial.pop(facts.request_number, "")
            if name:
                self.shelf.subscription(topic, name).opened = True

    def _close_producer(self, facts: Facts) -> None:
        frame, peer = facts.frame, facts.peer
        if not frame.from_client and isinstance(peer, Producer) and peer.topic:
            closed_by_broker(self.shelf.topic(peer.topic), "", frame.time_ns, frame.number)
