"""Registration of consumers: their record, their session on a connection, and their settings in SUBSCRIBE.

Rules of this file
1. A consumer with the same name on the same subscription is the same consumer, unless the older consumer is still
   attached. A consumer without a name is identified by connection and id.
2. A consumer whose SUBSCRIBE is not in the capture has a separate subscription, whose topic has the empty name.
"""

from __future__ import annotations

from pcli.codec.observe.observer_state import Consumer, Facts
from pcli.codec.observe.tracking.records.client_records import MAX_SESSIONS, ConsumerRecord, Session
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.lifecycle import Delivery
from pcli.codec.observe.tracking.subscriptions import permit_ledger
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.redelivery import REQUESTS
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position
from pcli.codec.proto import pb
from pcli.codec.wire.message_id import position


def register(subscription: SubscriptionState, facts: Facts, peer: Consumer, stream: int) -> ConsumerRecord:
    """Return the record of a consumer that subscribes, with the settings in its SUBSCRIBE."""
    record = _record(subscription, peer, f"{stream}#{peer.id}")
    _read_settings(record, facts.frame.command.subscribe)
    record.system = facts.system
    record.first_ns = record.first_ns or facts.frame.time_ns
    return record


def register_unidentified(lifecycles: OpenLifecycles, facts: Facts, stream: int, consumer_id: int) -> AttachedConsumer:
    """Register a consumer whose SUBSCRIBE is not in the capture."""
    name = f"{stream}#{consumer_id}"
    subscription = lifecycles.subscription(lifecycles.topic(""), name)
    subscription.unidentified = True
    record = ConsumerRecord("", "", name, "", None, system=facts.system, first_ns=facts.frame.time_ns)
    record.doubts.add("start")
    subscription.record.consumers[name] = record
    return begin_session(record, subscription, (stream, consumer_id), facts.frame.time_ns, 0)


def begin_session(
    record: ConsumerRecord, subscription: SubscriptionState, key: tuple[int, int], time_ns: int, frame: int
) -> AttachedConsumer:
    """Begin a session; ``frame`` is its SUBSCRIBE, or 0 if not captured."""
    record.session = Session(key[0], key[1], frame, time_ns)
    record.sessions += 1
    record.connections.append((frame, key[0]))
    del record.connections[:-MAX_SESSIONS]
    record.permits = permit_ledger.begin(time_ns, frame, known=frame > 0)
    record.unacked = record.received = record.received_entries = record.bytes_out = 0
    record.active = None
    return AttachedConsumer(record, subscription, *key)


def _record(subscription: SubscriptionState, peer: Consumer, place: str) -> ConsumerRecord:
    name = peer.name or place
    known = subscription.record.consumers.get(name)
    if known is not None and any(consumer.record is known for consumer in subscription.attached):
        name = f"{name} {place}"
        known = subscription.record.consumers.get(name)
    if known is None:
        topic = subscription.topic.record.name
        known = ConsumerRecord(topic, subscription.record.name, peer.name, peer.type, subscription.record)
        subscription.record.consumers[name] = known
    known.type = peer.type
    return known


def count_held(consumer: AttachedConsumer) -> None:
    """Record the messages that are unacknowledged when a consumer ends."""
    record = consumer.record
    held = [(one, at) for at, one in consumer.subscription.pending_acks.items() if one.held and one.consumer is record]
    held.sort(key=lambda pair: pair[0].frame)
    record.never_acked = Occurrences()
    for one, at in held:
        record.never_acked.add(one.time_ns, one.frame, sample=f"{at[0]}:{at[1]}", count=one.held)
    record.never_acked_oldest_ns = held[0][0].time_ns if held else 0
    record.never_acked_requested_ns = min((_requested_ns(one, at, consumer) for one, at in held), default=0)


def _requested_ns(delivery: Delivery, at: Position, consumer: AttachedConsumer) -> int:
    """Return the age of the last delivery of an entry when the consumer requested its redelivery; 0 if it did not."""
    lifecycle = consumer.subscription.topic.lifecycles.get(at)
    past = lifecycle.deliveries.get(consumer.subscription.record.name, ()) if lifecycle is not None else ()
    before = next((one for one in reversed(past) if one.frame < delivery.frame), None)
    if before is None or before.consumer is not consumer.record or delivery.why not in REQUESTS:
        return 0
    return delivery.time_ns - before.time_ns


def _read_settings(record: ConsumerRecord, subscribe: pb.CommandSubscribe) -> None:
    record.priority = subscribe.priority_level
    record.durable = subscribe.durable
    record.read_compacted = subscribe.read_compacted
    record.allow_out_of_order = subscribe.keySharedMeta.allowOutOfOrderDelivery
    record.key_ranges = tuple((one.start, one.end) for one in subscribe.keySharedMeta.hashRanges)
    record.initial_position = subscribe.InitialPosition.Name(subscribe.initialPosition)
    record.rollback_seconds = subscribe.start_message_rollback_duration_sec
    record.start_id = None
    if subscribe.start_message_id.HasField("ledgerId"):
        record.start_id = position(subscribe.start_message_id)
