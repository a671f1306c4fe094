"""Why a message comes again: who asked, who left, what was set back; and how often all that happens.

Rules of this file
1. The cause is noted on a delivery when the broker takes it back (`Delivery.taken`), and told when the entry is
   delivered again.
2. A negative acknowledgement and an ack time-out are the same frame, REDELIVER with ids. It is called a time-out when
   its ids are as old as the client library lets a time-out be (LEAST), all ids of all such requests of the consumer had
   the same age, within a TICK, and the consumer holds no older message that was not asked for: a time-out would have
   taken that, too. What was refused once is refused again. An application that refuses everything at once, always
   after the same long delay, looks just so.
3. On Exclusive and Failover subscriptions ids are ignored: everything comes again (PersistentDispatcherSingleActive).
"""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position

__all__ = [
    "LEAST",
    "MAX_AGES",
    "TICK_NS",
    "record_redelivery",
    "record_redelivery_after_reset",
    "redeliver",
    "release",
    "take_back",
]

TICK_NS: Final = 1_000_000_000
"""ackTimeoutTickTime: a message may be held so much longer than the time-out."""

LEAST: Final = {"Pulsar-CPP": 10_000_000_000, "Pulsar-Go": 1 << 62}
"""The least ack time-out, ns, by the beginning of client_version; Go has none. Others: a TICK, as Java's
(ConsumerBuilder.ackTimeout)."""

MAX_AGES: Final = 64
"""Ages that are kept of the messages that a consumer asked for."""

_WORST: Final = 8
_IDS: Final = "pulsar.redeliverUnacknowledgedMessages.message_ids"


def release(subscription: SubscriptionState, delivery: Delivery) -> None:
    """The messages of a delivery are with its consumer no more, whatever became of them."""
    held, delivery.held = delivery.held, 0
    if held and subscription.individual:
        delivery.consumer.unacked -= held
        subscription.record.unacked -= held


def take_back(
    subscription: SubscriptionState, at: Position, delivery: Delivery, why: str, time_ns: int, frame: int
) -> None:
    """The broker takes an unacknowledged delivery back; ``why`` is a key of topics.AGAIN."""
    if delivery.held:
        release(subscription, delivery)
        subscription.returned_ns = time_ns
        delivery.taken = (why, frame)
        if subscription.keys is not None:
            subscription.keys.released(subscription.topic.lifecycles.get(at), delivery)


def redeliver(consumer: AttachedConsumer, facts: Facts) -> None:
    """A REDELIVER_UNACKNOWLEDGED_MESSAGES."""
    record, subscription, frame = consumer.record, consumer.subscription, facts.frame
    ids: list[dict[str, Any]] = facts.command.get(_IDS, [])
    (record.asked_again if ids else record.asked_all).add(frame.time_ns, frame.number, count=max(1, len(ids)))
    record.blocked.end(frame.time_ns, frame.number)
    wanted = [(one.get("ledgerId", -1), one.get("entryId", -1)) for one in ids]
    if ids and (subscription.individual or subscription.unidentified):
        _redeliver_ids(consumer, wanted, frame)
        return
    if not subscription.individual and record.active is False:
        return  # only the active consumer sets the cursor back (PersistentDispatcherSingleActiveConsumer)
    consumer.unacked_offset = 0
    for at in wanted:
        if at in subscription.pending_acks:
            subscription.pending_acks[at].again = (frame.number, frame.time_ns)
    for at, delivery in list(subscription.pending_acks.items()):
        if delivery.consumer is record or not subscription.individual:
            take_back(subscription, at, delivery, "rewind", frame.time_ns, frame.number)
    if not subscription.individual and subscription.mark_delete is not None:
        subscription.read_position = subscription.mark_delete


def _redeliver_ids(consumer: AttachedConsumer, wanted: list[Position], frame: Any) -> None:
    record, subscription = consumer.record, consumer.subscription
    found = [(at, subscription.pending_acks[at]) for at in dict.fromkeys(wanted) if at in subscription.pending_acks]
    held = [(at, one) for at, one in found if one.held and one.consumer is record]
    if not held:
        return
    oldest = min(one.time_ns for _, one in held)
    ages = [frame.time_ns - one.time_ns for _, one in held]
    for age, (_, delivery) in zip(ages, held, strict=True):
        if not delivery.why and len(record.hold_ages) < MAX_AGES:
            record.hold_ages.append(age)
    refused = any(one.why == "nack" for _, one in held)
    why = "ack_timeout" if not refused and _is_timeout(consumer, {at for at, _ in held}, ages, oldest) else "nack"
    for at, delivery in held:
        delivery.again = (frame.number, frame.time_ns)
        take_back(subscription, at, delivery, why, frame.time_ns, frame.number)


def _is_timeout(consumer: AttachedConsumer, asked: set[Position], ages: list[int], oldest: int) -> bool:
    if min(ages) < consumer.least_timeout:
        return False
    young, old = consumer.timeouts
    consumer.timeouts = young, old = min(young or ages[0], *ages), max(old, *ages)
    if old - young > TICK_NS:
        return False
    return not any(
        one.held and one.consumer is consumer.record and one.time_ns < oldest and at not in asked
        for at, one in consumer.subscription.pending_acks.items()
    )


def record_redelivery(
    subscription: SubscriptionState, at: Position, lifecycle: Lifecycle, past: list[Delivery], delivery: Delivery
) -> None:
    """An entry is delivered to a subscription that had it before."""
    last = past[-1]
    why, cause = last.taken
    if subscription.reset[0] > last.frame:
        _, why, cause = subscription.reset
    elif why in ("left", "lost") and cause and _alone(subscription, delivery, cause):
        why = "reopened" if why == "left" else why
    record = subscription.record
    name = _record_cause(subscription, at, delivery, why or "twice", cause)
    if lifecycle.batch and lifecycle.messages > 1 and delivery.messages == lifecycle.messages and last.again[0]:
        delivery.consumer.whole_batches_again.add(delivery.time_ns, delivery.frame, sample=name)
    worst = record.most_redelivered
    if len(worst) < _WORST or len(past) >= worst[-1][0]:
        kept = [one for one in worst if one[1] != name]
        kept.append((len(past) + 1, name, past[0].frame, delivery.frame))
        kept.sort(key=lambda one: -one[0])
        worst[:] = kept[:_WORST]


def record_redelivery_after_reset(subscription: SubscriptionState, at: Position, delivery: Delivery) -> None:
    """An entry comes behind a reset whose life was over: it was delivered before, and when is forgotten."""
    _record_cause(subscription, at, delivery, *subscription.reset[1:])


def _record_cause(subscription: SubscriptionState, at: Position, delivery: Delivery, why: str, cause: int) -> str:
    """Count a delivery that is not the first; the id of the entry."""
    delivery.why, delivery.why_frame = why, cause
    name = f"{at[0]}:{at[1]}"
    subscription.record.again.setdefault(why, Occurrences()).add(delivery.time_ns, delivery.frame, cause, sample=name)
    _count(subscription, delivery.time_ns)
    return name


def _alone(subscription: SubscriptionState, delivery: Delivery, left: int) -> bool:
    """Whether all consumers of the subscription came behind that frame."""
    sessions = [consumer.record.session for consumer in subscription.attached]
    return all(one is not None and one.ready_frame > left for one in sessions)


def _count(subscription: SubscriptionState, time_ns: int) -> None:
    second, count = subscription.current_second
    now = time_ns // 1_000_000_000
    count = count + 1 if now == second else 1
    subscription.current_second = (now, count)
    if count > subscription.record.redelivered_per_second:
        subscription.record.redelivered_per_second = count
        subscription.record.redelivered_peak_ns = now * 1_000_000_000
