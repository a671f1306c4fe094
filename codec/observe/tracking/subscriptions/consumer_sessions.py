"""Sessions of consumers across reconnects: how they attach to subscriptions and leave them.

Rules of this file
1. A consumer is attached from the response to its SUBSCRIBE, or from its first FLOW or MESSAGE if the response is
   missing. A SUBSCRIBE with the id of a consumer that is open on the connection has no effect (ServerCnx).
2. When a consumer leaves, the broker takes its messages back. If it was the last consumer, the next consumer starts at
   the oldest unacknowledged entry; a non-durable subscription is removed, unless a SEEK is in progress.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.observer_state import Consumer, Facts
from pcli.codec.observe.tracking.records.connection_records import LOST, MAX_CONNECTIONS
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.subscriptions.ack_effects import NO_BITS
from pcli.codec.observe.tracking.subscriptions.acks import Acks
from pcli.codec.observe.tracking.subscriptions.consumer_registration import (
    begin_session,
    count_held,
    register,
    register_unidentified,
)
from pcli.codec.observe.tracking.subscriptions.cursor_positions import (
    check_close,
    closed_by_broker,
    connections_lost,
    not_unloaded,
    open_cursor,
    seek,
    survived_close,
)
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import KNOWN_LIMIT_NS, update_stalls
from pcli.codec.observe.tracking.subscriptions.index_acks import ONE_ACK_PER_MESSAGE, count_unprocessed
from pcli.codec.observe.tracking.subscriptions.message_counting import begin
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.redelivery import MIN_TIMEOUTS, TICK_NS, explain_by_end, take_back
from pcli.codec.observe.tracking.subscriptions.remaining_messages import count_removed, remaining_of
from pcli.codec.observe.tracking.subscriptions.subscription_state import INDIVIDUAL, AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Removed
from pcli.codec.steps import Steps
from pcli.codec.wire.bits import set_of
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.message_id import position
from pcli.codec.wire.texts import as_text

_WHY: Final = {"closed": "left", "broker": "unload", "replaced": "left"}
"""Causes of redelivery by key of ENDS; for all other ends the cause is a lost connection."""

_SUBSCRIBE: Final = BY_NAME["SUBSCRIBE"].number


class ConsumerSessions:
    """All consumers on all connections."""

    def __init__(self, lifecycles: OpenLifecycles, acks: Acks) -> None:
        self._lifecycles = lifecycles
        self._acks = acks
        self._connections: dict[int, dict[int, AttachedConsumer]] = {}
        """Consumers by connection and id."""
        self._least: BoundedDict[int, int] = BoundedDict(MAX_CONNECTIONS)
        self._doubts: BoundedDict[int, set[str]] = BoundedDict(MAX_CONNECTIONS)
        self._acks_each: BoundedDict[int, bool] = BoundedDict(MAX_CONNECTIONS)
        """Connections whose client sends one ACK for each message of a batch."""
        self._seeks: dict[int, tuple[int, SubscriptionState]] = {}

    def consumer(self, facts: Facts) -> AttachedConsumer:
        """Return the consumer of a command, even if it is closed; register it if its SUBSCRIBE is missing."""
        peer = facts.peer
        consumer: AttachedConsumer | None = peer.record if isinstance(peer, Consumer) else None
        if consumer is None:
            stream, body = facts.frame.stream.number, facts.frame.body
            consumer_id = body.consumer_id if body.HasField("consumer_id") else -1
            consumer = self.find(stream, consumer_id)
            if consumer is None:
                consumer = register_unidentified(self._lifecycles, facts, stream, consumer_id)
                self._add(consumer)
            if isinstance(peer, Consumer):
                peer.record = consumer
        if not consumer.ready and not consumer.ended:
            self._attach(consumer, facts.frame.time_ns, facts.frame.number, answered=False)
        return consumer

    def find(self, stream: int, consumer_id: int) -> AttachedConsumer | None:
        """Return the consumer with this id on a connection, or None."""
        consumers = self._connections.get(stream)
        return None if consumers is None else consumers.get(consumer_id)

    def _add(self, consumer: AttachedConsumer) -> None:
        self._connections.setdefault(consumer.stream, {})[consumer.id] = consumer
        self._apply_connection(consumer)

    def connect(self, facts: Facts) -> None:
        """Process a CONNECT."""
        version = as_text(facts.frame.command.connect.client_version)
        least = next((least for name, least in MIN_TIMEOUTS.items() if version.startswith(name)), TICK_NS)
        self._least[facts.frame.stream.number] = least
        if version.startswith(ONE_ACK_PER_MESSAGE):
            self._acks_each[facts.frame.stream.number] = True

    def subscribe(self, facts: Facts) -> None:
        """Process a SUBSCRIBE."""
        peer, frame = facts.peer, facts.frame
        if not isinstance(peer, Consumer):
            return
        key = (frame.stream.number, peer.id)
        living = self.find(*key)
        resumed = living is not None and living.subscription.unidentified
        if living is not None and resumed:
            self._leave(living, "replaced", frame.time_ns, frame.number)
        elif living is not None and living.ready:
            living.record.double_subscribe.add(frame.time_ns, frame.number)
            peer.record = living
            return
        subscription = self._lifecycles.subscription(self._lifecycles.topic(peer.topic), peer.subscription)
        subscription.resumed = subscription.resumed or resumed
        record = register(subscription, facts, peer, key[0])
        consumer = begin_session(record, subscription, key, frame.time_ns, frame.number)
        self._add(consumer)
        peer.record = consumer

    def response(self, facts: Facts) -> None:
        """Process the SUCCESS or ERROR for a request from a consumer."""
        request, frame = facts.request, facts.frame
        peer = facts.peer
        if request is None:
            return
        error, text = facts.error
        if request.number in self._seeks:
            _, subscription = self._seeks.pop(request.number)
            target = subscription.open_seeks.pop(request.number)
            if not error:
                seek(self._lifecycles, subscription, target, request.number, frame)
            return
        consumer: AttachedConsumer | None = peer.record if isinstance(peer, Consumer) else None
        if consumer is None:
            return
        if request.type == _SUBSCRIBE:
            if not error:
                self._attach(consumer, frame.time_ns, frame.number, answered=True, request=request.number)
            elif not consumer.ready:
                consumer.record.refused.setdefault(error, Occurrences()).add(frame.time_ns, frame.number, sample=text)
                self._leave(consumer, "refused", frame.time_ns, frame.number)
        elif not error and request.type == BY_NAME["UNSUBSCRIBE"].number:
            self._leave(consumer, "closed", frame.time_ns, frame.number)
            self._unsubscribe(consumer.subscription, frame.number)

    def seek_request(self, facts: Facts) -> None:
        """Process a SEEK."""
        consumer, number = self.consumer(facts), facts.frame.number
        self._seeks[number] = consumer.stream, consumer.subscription
        target = facts.frame.command.seek.message_id
        consumer.subscription.open_seeks[number] = (
            (position(target), set_of(target.ack_set) if target.ack_set else NO_BITS)
            if target.HasField("ledgerId")
            else None
        )
        consumer.subscription.record.seeks.add(facts.frame.time_ns, number)

    def last_message_id(self, facts: Facts) -> None:
        """Process GET_LAST_MESSAGE_ID_RESPONSE: the last position of the topic and the mark-delete position."""
        peer, response = facts.peer, facts.frame.command.getLastMessageIdResponse
        consumer: AttachedConsumer | None = peer.record if isinstance(peer, Consumer) else None
        if consumer is None:
            return
        subscription = consumer.subscription
        last, mark_delete = position(response.last_message_id), position(response.consumer_mark_delete_position)
        if min(last) >= 0:
            subscription.topic.grow(last, written=True)
        if subscription.mark_delete is None and mark_delete[0] >= 0:
            subscription.mark_delete = mark_delete
            subscription.read_position = max(subscription.read_position, subscription.mark_delete)
            subscription.advance()

    def close(self, facts: Facts) -> None:
        """Process CLOSE_CONSUMER from either side."""
        frame = facts.frame
        close = frame.command.close_consumer
        consumer = self.find(frame.stream.number, close.consumer_id) if close.HasField("consumer_id") else None
        if consumer is None:
            return
        if not frame.from_client and not consumer.subscription.open_seeks:
            session = consumer.record.session
            began = -1 if session is None else session.began_ns
            closed_by_broker(
                consumer.subscription.topic, consumer.subscription.record.name, frame.time_ns, frame.number, began
            )
        self._leave(consumer, "closed" if frame.from_client else "broker", frame.time_ns, frame.number)

    def active_change(self, facts: Facts) -> None:
        """Process ACTIVE_CONSUMER_CHANGE."""
        frame, peer = facts.frame, facts.peer
        consumer: AttachedConsumer | None = peer.record if isinstance(peer, Consumer) else None
        if consumer is None:
            return
        record, now = consumer.record, frame.command.active_consumer_change.is_active
        record.active, record.active_frame, record.active_ns = now, frame.number, frame.time_ns
        subscription = consumer.subscription
        if now:
            for at, delivery in subscription.pending_acks.items():
                if delivery.consumer is not record:
                    take_back(subscription, at, delivery, "takeover", frame.time_ns, frame.number)
            others = (one.record for one in subscription.attached if one is not consumer)
            subscription.session_ends.extend((other, "takeover", frame.number) for other in others)
            if subscription.mark_delete is not None:
                subscription.read_position = subscription.mark_delete
            subscription.last_ns = frame.time_ns

    def end(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        """End the consumers of a connection that has ended."""
        self._least.pop(stream, None)
        self._doubts.pop(stream, None)
        for number in [number for number, (asker, _) in self._seeks.items() if asker == stream]:
            self._seeks.pop(number)[1].open_seeks.pop(number)
        for consumer in self._connections.pop(stream, {}).values():
            attached = consumer.ready
            self._leave(consumer, end, time_ns, frame)
            if attached and end in LOST:
                connections_lost(consumer.subscription.topic)

    def forget_ended(self, before_ns: int) -> Steps[None]:
        """Remove the consumers that ended before a time while their connection is open."""
        for consumers in list(self._connections.values()):
            yield
            for number, consumer in list(consumers.items()):
                session = consumer.record.session
                if consumer.ended and (session is None or 0 <= session.ended_ns < before_ns):
                    del consumers[number]

    def add_doubts(self, stream: int, doubts: set[str]) -> None:
        """Add the doubts of a connection to its consumers."""
        self._doubts.setdefault(stream, set()).update(doubts)
        for consumer in self._connections.get(stream, {}).values():
            self._apply_connection(consumer)

    def _apply_connection(self, consumer: AttachedConsumer) -> None:
        """Apply a connection's minimum ack timeout and doubts to its consumer."""
        consumer.acks_each_message = consumer.stream in self._acks_each
        consumer.least_timeout = self._least.get(consumer.stream, TICK_NS)
        doubts = self._doubts.get(consumer.stream)
        if doubts:
            consumer.record.doubts |= doubts
            consumer.subscription.record.doubts |= doubts

    def finish(self, now_ns: int) -> None:
        """Record the messages that consumers hold or have lost at the end of the capture."""
        for topic in self._lifecycles.topics.values():
            for record in chain.from_iterable(one.consumers.values() for one in topic.record.subscriptions.values()):
                count_unprocessed(record)
        for consumer in chain.from_iterable(one.values() for one in self._connections.values()):
            if consumer.ready:
                count_held(consumer)
                consumer.record.doubts.add("end")

    # -- attach and leave

    def _attach(
        self, consumer: AttachedConsumer, time_ns: int, frame: int, *, answered: bool, request: int = 0
    ) -> None:
        if consumer.ready:
            return
        consumer.ready = True
        old = consumer.subscription
        # the subscription may have been removed since the SUBSCRIBE, as the last consumer of a non-durable one left
        consumer.subscription = self._lifecycles.subscription(old.topic, old.record.name)
        record, subscription, session = consumer.record, consumer.subscription, consumer.record.session
        if session is not None:
            session.ready_ns, session.ready_frame = time_ns, frame if answered else 0
        subscription.record.type, subscription.record.durable = record.type, record.durable
        subscription.individual = record.type in INDIVIDUAL
        subscription.record.allow_out_of_order = record.allow_out_of_order
        if record.type == "Key_Shared":
            subscription.record.key_shared_mode = "STICKY" if record.key_ranges else "AUTO_SPLIT"
        subscription.selective = (
            subscription.unidentified
            or record.read_compacted
            or (bool(record.key_ranges) and not subscription.individual)
        )
        if not subscription.opened:
            if record.initial_position == "Latest":
                _count_skipped(subscription, time_ns, frame)
            begin(subscription, time_ns, frame)
            subscription.since_ns, subscription.possibly_evicted = time_ns, subscription.topic.last
        check_close(subscription.topic)
        if time_ns - subscription.last_ns > KNOWN_LIMIT_NS:
            update_stalls(subscription, time_ns)
        subscription.attached.append(consumer)
        subscription.had_consumer = True
        subscription.last_ns = time_ns
        if len(subscription.attached) == 1:
            subscription.attached_frame = frame
            open_cursor(subscription, record)

    def _leave(self, consumer: AttachedConsumer, end: str, time_ns: int, frame: int) -> None:
        record, subscription, session = consumer.record, consumer.subscription, consumer.record.session
        if session is None or consumer.ended:
            return
        consumer.ended = True
        session.end, session.ended_ns, session.ended_frame = end, time_ns, frame
        record.last_ns = time_ns
        record.ends.setdefault(end, Occurrences()).add(time_ns, frame)
        self._acks.consumer_left(consumer)
        if not consumer.ready:
            return
        update_stalls(subscription, time_ns)
        consumer.ready = False
        count_held(consumer)
        if end == "closed":
            count_unprocessed(record)
        why = "seek" if end == "broker" and subscription.open_seeks else _WHY.get(end, "lost")
        subscription.session_ends.append((record, why, frame))
        explain_by_end(subscription, consumer, why, time_ns, frame)
        for at, delivery in subscription.pending_acks.items():
            if delivery.consumer is record:
                take_back(subscription, at, delivery, why, time_ns, frame)
        subscription.record.unacked -= record.unacked
        record.unacked = 0
        for stretch in (record.permits.exhausted, record.blocked, record.silent, record.behind_transaction):
            stretch.end(time_ns, frame)
        subscription.attached.remove(consumer)
        if subscription.keys is not None:
            subscription.keys.left(record, time_ns)
            subscription.last_ns = time_ns  # entries that waited for the keys of others can be delivered from now on
        if survived_close(subscription.topic, session):
            not_unloaded(subscription.topic)
        if not subscription.attached:
            self._leave_empty(subscription, durable=record.durable)

    def _leave_empty(self, subscription: SubscriptionState, *, durable: bool) -> None:
        """Process the end of the last consumer of a subscription."""
        subscription.ambiguous_acks = False
        if subscription.mark_delete is not None:
            subscription.read_position = subscription.mark_delete
        if not durable and subscription.topic.record.name:
            if subscription.open_seeks:
                subscription.base = subscription.record.delivered
            else:
                self._remove_subscription(subscription)

    def _unsubscribe(self, subscription: SubscriptionState, frame: int) -> None:
        """Remove a subscription after the response to an UNSUBSCRIBE."""
        remaining, topic = remaining_of(subscription), subscription.topic
        self._remove_subscription(subscription)
        if remaining is not None and subscription.record.durable:
            messages = remaining.delivered + remaining.waiting + remaining.unseen
            topic.removed[subscription.record.name] = Removed(messages, topic.record.messages.available, frame)

    def _remove_subscription(self, subscription: SubscriptionState) -> None:
        """Remove a subscription."""
        count_removed(subscription)
        subscription.record.gone = True
        subscription.topic.subscriptions.pop(subscription.record.name, None)
        self._lifecycles.remove_acknowledged(subscription.topic)


def _count_skipped(subscription: SubscriptionState, time_ns: int, frame: int) -> None:
    """Count the messages that a subscription skips because it was removed and is created at the latest message."""
    topic = subscription.topic
    old = topic.removed.pop(subscription.record.name, None)
    if old is None:
        return
    count = old.remaining + topic.record.messages.available - old.available
    if count > 0:
        subscription.record.skipped.add(time_ns, old.frame, frame, count=count)
