"""Causes and counts of redeliveries.

Rules of this file
1. The cause is stored in `Delivery.taken` when the broker takes a delivery back. It is counted when the entry is
   delivered again. If the entry was acknowledged before, the ACK was lost, and the redelivery is counted in
   `ConsumerRecord.acked_but_back`.
2. A negative acknowledgement and an ack timeout send the same frame, REDELIVER with ids. It may be an ack timeout if
   the messages are at least as old as the client library's minimum timeout (MIN_TIMEOUTS), if the ages of messages with
   the same redelivery count differ by at most TICK_NS in all such requests of the consumer (a backoff depends on the
   count), and if the consumer holds no message that was delivered before one in the request and is not in the request.
   The timer of a client starts when the application takes the message from the receiver queue. An application that
   processes one message after the other takes it when it has acknowledged the message before; the ages are therefore
   also compared from that time on, unless the application has acknowledged a later message.
   A message that was negatively acknowledged before is assumed to be negatively acknowledged again. Ages at the default
   delay of negative acknowledgements indicate these, the more so if a message of the same age is not in the request.
   All other requests are negative acknowledgements.
   An application that negatively acknowledges all messages at once, with a delay (60 s by default) or a back-off, sends
   the same frames as an ack timeout. The cause of such a request is "requested". It is "ack_timeout" if the consumer
   acknowledged both deliveries of an entry: an application does not acknowledge a delivery that it has rejected.
3. On Exclusive and Failover subscriptions ids are ignored and all messages are redelivered
   (PersistentDispatcherSingleActiveConsumer).
4. After an abort the broker redelivers before the coordinator responds to the client. It aborts a transaction after its
   timeout without a request. If nothing else explains the redelivery of an entry with an ACK in an open
   transaction, the transaction was aborted.
5. If a second request for a message arrives before its redelivery, the broker may redeliver the message twice, because
   it may have read the message for the first request.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle
from pcli.codec.observe.tracking.subscriptions.index_acks import note_index_request
from pcli.codec.observe.tracking.subscriptions.message_counting import messages_in
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position
from pcli.codec.wire.message_id import position

TICK_NS: Final = 1_000_000_000
"""ackTimeoutTickTime in ns: the maximum time by which a message exceeds the timeout."""

_NEVER_NS: Final = 1 << 62

_NACK_DELAY_NS: Final = 60_000_000_000
"""Default delay of negative acknowledgements (negativeAckRedeliveryDelay) in Java, C++, Python and Go."""

_GROUPED_NS: Final = 200_000_000
"""Maximum time from a negative acknowledgement to grouped ACKs of messages that the application took before."""

_NACK_TIMER_NS: Final = 400_000_000
"""Maximum time from the end of this delay to the request if its timer is exact."""

_NACK_TICK_NS: Final = 21_000_000_000
"""Maximum time from the end of this delay to the request if the client checks at intervals of a third of the delay."""

MIN_TIMEOUTS: Final = {"Pulsar-CPP": 10_000_000_000, "Pulsar-Go": _NEVER_NS, "Pulsar Go": _NEVER_NS}
"""Minimum ack timeout in ns by prefix of client_version; Go has no ack timeout. For other libraries it is TICK_NS, the
same as in Java (ConsumerBuilder.ackTimeout).
"""

UNSTORED_NS: Final = 10_000_000_000
"""Maximum time in ns from an ACK to an unload that loses the ACK. Brokers store a cursor at least once per second
(managedLedgerDefaultMarkDeleteRateLimit) and at the end of an unload."""

MAX_IDS: Final = 1_000
"""Number of ids after which a client splits a request for redelivery (ConsumerImpl.MAX_REDELIVER_UNACKNOWLEDGED)."""

MAX_AGES: Final = 64
"""Maximum number of ages that are kept per consumer."""

REQUESTS: Final = frozenset({"nack", "ack_timeout", "requested", "rewind"})
"""Causes that are requests of the consumer."""

ABORTED: Final = frozenset({"aborted", "expired"})
"""Causes that are the end of a transaction."""

_REVISABLE: Final = frozenset({"twice", "requested"})
"""Causes that a later frame can replace."""

_WORST: Final = 8
_IDS: Final = "pulsar.redeliverUnacknowledgedMessages.message_ids"


def release(subscription: SubscriptionState, delivery: Delivery) -> None:
    """Subtract the held messages of a delivery from the number of unacknowledged messages."""
    release_messages(subscription, delivery, delivery.held)


def release_messages(subscription: SubscriptionState, delivery: Delivery, messages: int) -> None:
    """Subtract some messages of a delivery from the number of unacknowledged messages."""
    delivery.held -= messages
    if messages and subscription.individual:
        delivery.consumer.unacked -= messages
        subscription.record.unacked -= messages


def remove_pending_ack(
    subscription: SubscriptionState, at: Position, delivery: Delivery, time_ns: int, frame: int
) -> None:
    """Remove the pending ack of a batch. Its messages that were not subtracted remain counted."""
    subscription.pending_sets.pop(at, None)
    delivery.held = 0
    if subscription.keys is not None:
        subscription.keys.released(subscription.topic.lifecycles.get(at), delivery, time_ns, frame)


def take_back(
    subscription: SubscriptionState, at: Position, delivery: Delivery, why: str, time_ns: int, frame: int
) -> None:
    """Take an unacknowledged delivery back; ``why`` is a key of topic_records.AGAIN."""
    subscription.pending_sets.pop(at, None)
    if delivery.taken[0] and why in REQUESTS:
        delivery.further_request = (why, frame)
    if delivery.held:
        release(subscription, delivery)
        subscription.returned_ns = time_ns
        delivery.taken = (why, frame)
        if subscription.keys is not None:
            subscription.keys.released(subscription.topic.lifecycles.get(at), delivery)


def redeliver(consumer: AttachedConsumer, facts: Facts) -> None:
    """Process REDELIVER_UNACKNOWLEDGED_MESSAGES."""
    record, subscription, frame = consumer.record, consumer.subscription, facts.frame
    request = frame.command.redeliverUnacknowledgedMessages
    ids = request.message_ids
    (record.asked_again if ids else record.asked_all).add(frame.time_ns, frame.number, count=max(1, len(ids)))
    record.blocked.end(frame.time_ns, frame.number)
    if not ids:
        _note_age(record, subscription, frame.time_ns)
    wanted = [position(one) for one in ids]
    if ids and (subscription.individual or subscription.unidentified):
        _redeliver_ids(consumer, wanted, frame)
        return
    if not subscription.individual and record.active is False:
        return  # only the active consumer resets the cursor (PersistentDispatcherSingleActiveConsumer)
    for at in wanted:
        if at in subscription.pending_acks:
            subscription.pending_acks[at].again = (frame.number, frame.time_ns)
    if not subscription.individual:
        if request.HasField("consumer_epoch"):
            consumer.epoch = max(consumer.epoch, (request.consumer_epoch, frame.number))
        take_all_back(subscription, "rewind", frame.time_ns, frame.number)
        return
    for at, delivery in subscription.pending_acks.items():
        if delivery.consumer is record:
            take_back(subscription, at, delivery, "rewind", frame.time_ns, frame.number)


def _note_age(record: ConsumerRecord, subscription: SubscriptionState, now_ns: int) -> None:
    """Record the age of the youngest message that a consumer holds when it requests all messages."""
    held = [one.time_ns for one in subscription.pending_acks.values() if one.held and one.consumer is record]
    if held and len(record.asked_all_ages) < MAX_AGES:
        record.asked_all_ages.append(now_ns - max(held))


def take_all_back(subscription: SubscriptionState, why: str, time_ns: int, frame: int) -> None:
    """Take all unacknowledged deliveries back and restart at the mark-delete position (Exclusive, Failover)."""
    for at, delivery in subscription.pending_acks.items():
        take_back(subscription, at, delivery, why, time_ns, frame)
    if subscription.mark_delete is not None:
        subscription.read_position = subscription.mark_delete


def abort_acks(subscription: SubscriptionState, txn: tuple[int, int], time_ns: int, frame: int) -> None:
    """Take back the deliveries that an aborted transaction acknowledged. ``frame`` is the END_TXN, or 0 if none.

    After the abort of individual acknowledgements, an Exclusive or Failover subscription redelivers all unacknowledged
    messages (PersistentDispatcherSingleActiveConsumer.redeliverUnacknowledgedMessages). After the abort of a cumulative
    acknowledgement, nothing is redelivered (verified on 4.2.4). The messages of a batch that the transaction did not
    acknowledge remain counted as unacknowledged, and count again when the entry is redelivered (verified on 4.2.4).
    """
    acks = subscription.transaction_acks.pop(txn, ())
    subscription.aborting.pop(txn, None)
    why = "aborted" if frame else "expired"
    if not subscription.individual:
        if not all(one.cumulative for one in acks):
            take_all_back(subscription, why, time_ns, frame)
        return
    for one in acks:
        delivery = subscription.pending_acks.get(one.at)
        if delivery is not None and not delivery.taken[0]:
            delivery.taken = (why, frame)
            subscription.returned_ns = time_ns
            if subscription.keys is not None and delivery.held:
                subscription.keys.released(subscription.topic.lifecycles.get(one.at), delivery)


def _abort_by_redelivery(subscription: SubscriptionState, at: Position, time_ns: int) -> None:
    """Abort the transaction that explains the redelivery of an entry (rule 4), if there is one."""
    for txn, acks in subscription.transaction_acks.items():
        stopped = not subscription.individual and txn in subscription.aborting
        if stopped or any(one.at == at and not one.cumulative for one in acks):
            abort_acks(subscription, txn, time_ns, subscription.aborting.get(txn, 0))
            return


def _redeliver_ids(consumer: AttachedConsumer, wanted: list[Position], frame: Any) -> None:
    record, subscription = consumer.record, consumer.subscription
    for at in wanted if record.index_acks else ():
        note_index_request(consumer, at, frame.time_ns, frame.number)
    pending = {at: subscription.pending_acks[at] for at in wanted if at in subscription.pending_acks}
    pending = {at: one for at, one in pending.items() if one.consumer is record}
    held = {at: one for at, one in pending.items() if one.held}
    why = "requested" if held and _may_be_timeout(consumer, held, frame.time_ns) else "nack"
    for delivery in held.values():
        if not delivery.why and why == "requested" and len(record.hold_ages) < MAX_AGES:
            record.hold_ages.append(frame.time_ns - delivery.time_ns)
        delivery.again = (frame.number, frame.time_ns)
    # A negative acknowledgement of the oldest message looks like an ack timeout until the next request.
    if why == "nack":
        for delivery in consumer.expired:
            if delivery.taken[0] == "requested":
                delivery.taken = ("nack", delivery.taken[1])
    consumer.expired = list(held.values()) if why == "requested" else []
    for at, delivery in pending.items():
        take_back(subscription, at, delivery, why, frame.time_ns, frame.number)


def _may_be_timeout(consumer: AttachedConsumer, requested: dict[Position, Delivery], now_ns: int) -> bool:
    """Return whether a REDELIVER of these deliveries may have been sent because the ack timeout expired (rule 2)."""
    ages = [now_ns - one.time_ns for one in requested.values()]
    if min(ages) < consumer.least_timeout or any(one.why == "nack" for one in requested.values()):
        return False
    since_taken = [_age_since_taken(consumer, one, now_ns) for one in requested.values()]
    counts = [one.redelivery_count for one in requested.values()]
    similar = [
        _are_similar(ranges, counts, some)
        for ranges, some in ((consumer.timeouts, ages), (consumer.timeouts_since_taken, since_taken))
    ]
    if not any(similar):
        return False
    latest = max(requested.values(), key=lambda one: one.frame)
    others = [
        one
        for at, one in consumer.subscription.pending_acks.items()
        if one.held and one.consumer is consumer.record and at not in requested
    ]
    together = any(one.time_ns <= latest.time_ns + TICK_NS for one in others)
    taken_before = min(since_taken) >= _NACK_DELAY_NS - _GROUPED_NS
    if (
        taken_before
        and min(ages) >= _NACK_DELAY_NS
        and max(ages) <= _NACK_DELAY_NS + (_NACK_TICK_NS if together else _NACK_TIMER_NS)
    ):
        return False
    return len(requested) >= MAX_IDS or not any(one.frame < latest.frame for one in others)


def _age_since_taken(consumer: AttachedConsumer, delivery: Delivery, now_ns: int) -> int:
    """Return the time for which a sequential application has had a message, as far as the acknowledgements show."""
    if consumer.acked_frame > delivery.frame:
        return now_ns - delivery.time_ns
    return now_ns - max(delivery.time_ns, consumer.record.last_ack_ns)


def _are_similar(ranges: dict[int, tuple[int, int]], counts: list[int], ages: list[int]) -> bool:
    """Add ages of messages with these redelivery counts to their ranges; return whether no range exceeds TICK_NS."""
    for count, age in zip(counts, ages, strict=True):
        young, old = ranges.get(count, (age, age))
        ranges[count] = min(young, age), max(old, age)
    return all(ranges[count][1] - ranges[count][0] <= TICK_NS for count in counts)


def record_redelivery(
    subscription: SubscriptionState, at: Position, lifecycle: Lifecycle, past: list[Delivery], delivery: Delivery
) -> None:
    """Record the redelivery of an entry to a subscription."""
    last = past[-1]
    waits = last.held or (subscription.individual and not last.taken[0])
    if subscription.transaction_acks and waits and subscription.reset[0] <= last.frame:
        _abort_by_redelivery(subscription, at, delivery.time_ns)
    why, cause = last.taken
    if subscription.reset[0] > last.frame:
        if subscription.reset[1] == "unload" and _acked(last, subscription.topic.closed_ns - UNSTORED_NS):
            subscription.reset = (subscription.reset[0], "reset", subscription.reset[2])
        _, why, cause = subscription.reset
    elif why:
        delivery.further_request = last.further_request
    else:
        why, cause = last.further_request if last.further_request[0] else _end_of_session(subscription, last)
    if why in ("left", "lost") and cause and _alone(subscription, delivery, cause):
        why = "reopened" if why == "left" else why
    record = subscription.record
    name = f"{at[0]}:{at[1]}"
    if why == "requested" and last.consumer.acked_twice.count:
        why = "ack_timeout"
    delivery.why, delivery.why_frame = why or "twice", cause
    if last.taken[0] or why in ("seek", "reset") or not _acked(last):
        messages = messages_in(lifecycle, delivery)
        _count_cause(subscription, name, delivery, messages)
        if delivery.why in _REVISABLE:
            subscription.revisable.append((last.consumer, name, delivery, messages))
    if lifecycle.batch and lifecycle.messages > 1 and delivery.messages == lifecycle.messages and last.again[0]:
        delivery.consumer.whole_batches_again.add(delivery.time_ns, delivery.frame, sample=name)
    worst = record.most_redelivered
    if len(worst) < _WORST or len(past) >= worst[-1][0]:
        kept = [one for one in worst if one[1] != name]
        kept.append((len(past) + 1, name, past[0].frame, delivery.frame, past[0].time_ns))
        kept.sort(key=lambda one: -one[0])
        worst[:] = kept[:_WORST]


def explain_by_end(subscription: SubscriptionState, left: AttachedConsumer, why: str, time_ns: int, frame: int) -> None:
    """Correct the cause of redeliveries after a consumer's connection ended at this time.

    The capture reader reports the end after the FINs of both sides, and the broker redelivers before its own FIN.
    """
    _recount(subscription, "twice", why, left.record, time_ns, frame)


def explain_by_acks(subscription: SubscriptionState, consumer: ConsumerRecord) -> None:
    """Correct the cause of the redeliveries that a consumer requested: it acknowledged both deliveries of an entry."""
    _recount(subscription, "requested", "ack_timeout", consumer)


def _recount(
    subscription: SubscriptionState, old: str, why: str, holder: ConsumerRecord, since_ns: int = 0, frame: int = 0
) -> None:
    """Replace the cause ``old`` of redeliveries since a time of entries that ``holder`` held.

    A frame of 0 does not change the frame of the cause.
    """
    listed = [one for one in subscription.revisable if one[2].why == old]
    if not any(one[0] is holder and one[2].time_ns >= since_ns for one in listed):
        return
    again = subscription.record.again
    if sum(messages for *_, messages in listed) < again[old].count:
        return  # earlier redeliveries are no longer listed
    del again[old]
    entries = subscription.record.again_entries
    del entries[old]
    for held_by, name, delivery, messages in listed:
        if held_by is holder and delivery.time_ns >= since_ns:
            delivery.why, delivery.why_frame = why, frame or delivery.why_frame
        again.setdefault(delivery.why, Occurrences()).add(
            delivery.time_ns, delivery.frame, delivery.why_frame, sample=name, count=messages
        )
        entries[delivery.why] = entries.get(delivery.why, 0) + 1


def _acked(last: Delivery, before_ns: int = 1 << 63) -> bool:
    """Return whether a delivery was acknowledged as a whole, before a time in ns."""
    return any(ack.effective and not ack.left and ack.time_ns < before_ns for ack in last.acks)


def _end_of_session(subscription: SubscriptionState, last: Delivery) -> tuple[str, int]:
    """Return why and in which frame the session of an acknowledged delivery ended; empty and 0 if it has not ended."""
    found = "", 0
    for record, why, frame in reversed(subscription.session_ends):
        if frame < last.frame:
            break
        if record is last.consumer:
            found = why, frame
    return found


def record_redelivery_after_reset(
    subscription: SubscriptionState, at: Position, lifecycle: Lifecycle, delivery: Delivery
) -> None:
    """Record the redelivery, after a cursor reset, of an entry whose lifecycle has left memory."""
    _, delivery.why, delivery.why_frame = subscription.reset
    _count_cause(subscription, f"{at[0]}:{at[1]}", delivery, messages_in(lifecycle, delivery))


def _count_cause(subscription: SubscriptionState, name: str, delivery: Delivery, messages: int) -> None:
    """Count redelivered messages with their cause."""
    again = subscription.record.again.setdefault(delivery.why, Occurrences())
    again.add(delivery.time_ns, delivery.frame, delivery.why_frame, sample=name, count=messages)
    entries = subscription.record.again_entries
    entries[delivery.why] = entries.get(delivery.why, 0) + 1
    _count_second(subscription, delivery.time_ns)


def _alone(subscription: SubscriptionState, delivery: Delivery, left: int) -> bool:
    """Return whether all consumers of the subscription attached after that frame.

    The consumer that receives the entry may have sent its CLOSE_CONSUMER already.
    """
    records = chain((delivery.consumer,), (consumer.record for consumer in subscription.attached))
    return all(one.session is not None and one.session.ready_frame > left for one in records)


def _count_second(subscription: SubscriptionState, time_ns: int) -> None:
    second, count = subscription.current_second
    now = time_ns // 1_000_000_000
    count = count + 1 if now == second else 1
    subscription.current_second = (now, count)
    if count > subscription.record.redelivered_per_second:
        subscription.record.redelivered_per_second = count
        subscription.record.redelivered_peak_ns = now * 1_000_000_000
