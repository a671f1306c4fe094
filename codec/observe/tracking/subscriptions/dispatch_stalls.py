"""Dispatch stalls: consumers with permits that receive none of the available entries.

Rules of this file
1. A stall is detected when the next MESSAGE ends it, or when the records are requested. Other frames need no work. The
   minimum is SILENCE_NS, which is longer than the interval of a rate limiter (one second).
2. An entry is available from the latest of these times: the time at which it was stored, its delivery time (delayed
   messages on Shared and Key_Shared), the time at which the consumer got permits, and the time of the subscription's
   last delivery. Messages of open transactions, and later messages, are not available.
3. No frame reports that a consumer is blocked. It is inferred if the consumer holds unacknowledged messages and
   receives none, and does not wait for a key that another consumer holds. A Key_Shared message counts only for the
   consumer that last received its key or owns its slot; a chunk counts for no consumer. The number of unacknowledged
   messages at the start of the stall is the assumed limit. A Shared consumer with permits is also blocked if other
   consumers receive all entries for several rounds. Before its FLOW reaches the broker, they can receive as many
   entries as they have permits. If a stall shows the limit of one consumer, other consumers may have the same limit: a
   consumer that holds as many messages is blocked after KNOWN_LIMIT_NS without a delivery. While a subscription
   delivers to no consumer, each consumer with permits and unacknowledged messages is blocked, by its own limit or by
   the limit of the subscription. If the only consumer later holds more than twice its assumed limit, there was none: a
   broker exceeds a limit by some entries only.
4. A consumer with a lower priority receives nothing while a consumer with a higher priority has permits. An inactive
   consumer receives nothing.
5. If the first available entries follow a message of an open transaction, the consumers wait for its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.counters import StateDuration
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.subscriptions.key_order import slot_of_key
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position

SILENCE_NS: Final = 3_000_000_000
"""Minimum duration in ns of a stall."""

QUIET_NS: Final = 1_500_000_000
"""Maximum time in ns until a broker delivers to a new consumer: the Failover delay of one second plus a margin of half
a second."""

KNOWN_LIMIT_NS: Final = 100_000_000
"""Minimum duration in ns of a stall at a number of unacknowledged messages at which another stall began."""

_SLICE: Final = 20
"""Number of entries that a consumer receives before the next one (dispatcherMaxRoundRobinBatchSize)."""

_MAX_STEPS: Final = 20_000
_END: Final = (1 << 64, 0)
"""A position after all other positions."""


def end_silence(
    subscription: SubscriptionState, record: ConsumerRecord, lifecycle: Lifecycle, now_ns: int, frame: int
) -> None:
    """End a stall with a MESSAGE; record it if the message was available earlier."""
    record.behind_transaction.end(now_ns, frame)
    if record.blocked.since_ns >= 0:
        record.blocked.end(now_ns, frame)
        return
    since = max(
        _available_since(subscription, lifecycle),
        record.permits.able_ns,
        subscription.last_ns,
        record.last_ack_ns,
        record.active_ns,
        record.behind_transaction.last_ns[1],
    )
    if lifecycle.receipt_ns < 0 or lifecycle.txn is not None or subscription.record.name in lifecycle.deliveries:
        return
    if not _is_for(subscription, record, lifecycle):
        return
    if now_ns - since > SILENCE_NS:
        record.silent.end(now_ns, frame)
        record.silent.begin(since, lifecycle.receipt_frame)
        record.silent.end(now_ns, frame)


def update_stalls(subscription: SubscriptionState, now_ns: int) -> None:
    """Update the stalls of a subscription at a time without a frame."""
    consumers = receivers(subscription)
    if not consumers:
        return
    if (
        subscription.after is None
        and not subscription.pending_acks
        and subscription.record.key_shared_mode != "STICKY"
        and len(consumers) == len(subscription.attached)
    ):
        _assume_no_backlog(subscription, consumers, now_ns)
    for consumer in consumers:
        _check_passed_over(consumer)
    found = next_deliverable(subscription, now_ns)
    if found is None:
        acknowledge_skipped(subscription)
        _wait_for_transaction(subscription, now_ns)
        return
    _, lifecycle = found
    if _wait_for_key(subscription, lifecycle):
        return
    for consumer in consumers:
        record = consumer.record
        since = max(
            _available_since(subscription, lifecycle),
            record.permits.able_ns,
            subscription.last_ns,
            record.last_ack_ns,
            record.behind_transaction.last_ns[1],
        )
        minimum = KNOWN_LIMIT_NS if _at_known_limit(consumer) else SILENCE_NS
        if _is_for(subscription, record, lifecycle) and now_ns - since > minimum:
            if subscription.individual and record.unacked > 0:
                _block(record)
            else:
                record.silent.begin(since, lifecycle.receipt_frame)


def _wait_for_transaction(subscription: SubscriptionState, now_ns: int) -> None:
    """Begin the waits of consumers with permits for the end of a transaction (rule 5)."""
    topic = subscription.topic
    barrier, after = topic.barrier, subscription.after
    if barrier is None or after is None:
        return
    waiting = _undelivered(subscription, now_ns, max(barrier, after))
    behind = next((one for _, one in waiting if one.txn not in topic.uncommitted), None)
    if behind is None:
        return
    first = topic.lifecycles.get(barrier)
    for consumer in receivers(subscription):
        record = consumer.record
        since = max(_available_since(subscription, behind), record.permits.able_ns, subscription.last_ns)
        if _is_for(subscription, record, behind) and now_ns - since > SILENCE_NS:
            record.behind_transaction.begin(since, behind.receipt_frame)
            if first is not None and first.txn is not None:
                record.transaction = f"{first.txn[0]}:{first.txn[1]}"


def end_transaction_waits(subscription: SubscriptionState, now_ns: int, frame: int) -> None:
    """End the waits of consumers because a transaction ends in this frame."""
    if next_deliverable(subscription, now_ns) is None:
        _wait_for_transaction(subscription, now_ns)
    for consumer in subscription.attached:
        consumer.record.behind_transaction.end(now_ns, frame)


def may_be_blocked(consumer: AttachedConsumer, now_ns: int) -> None:
    """Begin blocks retroactively: an ACK or REDELIVER may end the block of this consumer or of the subscription."""
    record, subscription = consumer.record, consumer.subscription
    _check_passed_over(consumer)
    if (
        now_ns - subscription.last_ns < QUIET_NS
        or not record.unacked
        or record.blocked.since_ns >= 0
        or not can_receive(consumer)
    ):
        return
    found = next_deliverable(subscription, now_ns)
    if (
        found is None
        or now_ns - _available_since(subscription, found[1]) < QUIET_NS
        or _wait_for_key(subscription, found[1])
    ):
        return
    if _is_for(subscription, record, found[1]):
        for one in receivers(subscription):
            if one.record.unacked and _is_for(subscription, one.record, found[1]):
                _block(one.record)


def _at_known_limit(consumer: AttachedConsumer) -> bool:
    """Return whether a consumer holds as many messages as a consumer of the subscription held when it was blocked."""
    subscription, unacked = consumer.subscription, consumer.record.unacked
    limits = (one.blocked_at for one in subscription.record.consumers.values())
    return subscription.individual and any(0 < limit <= unacked for limit in limits)


def _block(record: ConsumerRecord) -> None:
    record.blocked.begin(record.last_message_ns, record.last_message_frame)
    record.blocked_at = max(record.blocked_at, record.unacked)


def check_limit(subscription: SubscriptionState, record: ConsumerRecord) -> None:
    """Convert the blocks of a consumer into silence if the messages that it now holds disprove its limit."""
    if record.unacked > 2 * record.blocked_at and len(subscription.record.consumers) == 1:
        if record.blocked.longest_ns > record.silent.longest_ns:
            record.silent = record.blocked
        record.blocked, record.blocked_at = StateDuration(), 0


def _is_for(subscription: SubscriptionState, record: ConsumerRecord, lifecycle: Lifecycle) -> bool:
    """Return whether a waiting message is for this consumer, according to the capture."""
    if subscription.individual and lifecycle.uuid and len(subscription.attached) > 1:
        return False  # a chunk is for the consumer that received the first chunk, if any
    if record.type != "Key_Shared":
        return True
    keys = subscription.keys
    if record.key_ranges:
        slot = slot_of_key(lifecycle.key) if keys is None else keys.slot(lifecycle.key)
        return bool(lifecycle.key) and any(low <= slot <= high for low, high in record.key_ranges)
    owner = keys.owner(lifecycle.key) if keys is not None else None
    if len(subscription.attached) == 1:
        return True
    if owner is None:  # whichever consumer has the key could receive the message
        return all(can_receive(one) and not one.record.unacked for one in subscription.attached)
    return owner.session is record.session  # a copy of a record has the same session


def _wait_for_key(subscription: SubscriptionState, lifecycle: Lifecycle) -> bool:
    """Return whether a message waits because another consumer with permits holds earlier messages of its key."""
    holder = subscription.keys.holder(lifecycle.key) if subscription.keys is not None else None
    if holder is None or holder.permits.balance <= 0 or holder.blocked.since_ns >= 0:
        return False
    if all(consumer.record.session is holder.session for consumer in subscription.attached):
        return False
    subscription.record.hash_waits.begin(
        max(_available_since(subscription, lifecycle), subscription.last_ns), lifecycle.receipt_frame
    )
    if not subscription.record.hash_waits.longest_ns:
        subscription.record.hash_holder = f"{holder.name} holds {lifecycle.key}"
    return True


def _check_passed_over(consumer: AttachedConsumer) -> None:
    """Begin a block if a Shared consumer had permits but other consumers received all entries for several rounds."""
    record, subscription = consumer.record, consumer.subscription
    if record.type != "Shared" or not record.unacked:
        return
    passed_over = subscription.record.entries_out - consumer.able_entries_out
    if passed_over >= _SLICE * max(2, len(subscription.attached)) and can_receive(consumer):
        _block(record)


def permits_granted(consumer: AttachedConsumer) -> None:
    """Process a FLOW of a consumer that had no permits."""
    subscription = consumer.subscription
    others = (one.record.permits.balance for one in subscription.attached if one is not consumer)
    consumer.able_entries_out = subscription.record.entries_out + sum(balance for balance in others if balance > 0)


def can_receive(consumer: AttachedConsumer) -> bool:
    """Return whether a consumer can receive an entry, according to the capture."""
    record, subscription = consumer.record, consumer.subscription
    if record.permits.balance <= 0 or record.active is False:
        return False
    better = (one.record for one in subscription.attached if one.record.priority < record.priority)
    return not any(one.permits.balance > 0 for one in better)


def receivers(subscription: SubscriptionState) -> list[AttachedConsumer]:
    """Return the attached consumers that can receive an entry, according to the capture."""
    able = [one for one in subscription.attached if one.record.permits.balance > 0]
    first = min((one.record.priority for one in able), default=0)
    return [one for one in able if one.record.priority == first and one.record.active is not False]


def next_deliverable(subscription: SubscriptionState, now_ns: int) -> tuple[Position, Lifecycle] | None:
    """Return the first entry that the subscription can receive now, or None if none is known."""
    topic = subscription.topic
    for at, delivery in subscription.pending_acks.items():
        if delivery.taken[0] and at in topic.lifecycles and not subscription.is_acked(at):
            return at, topic.lifecycles[at]
    start = subscription.after
    if start is None or subscription.selective:
        return None
    if subscription.keys is None:
        start = max(
            start, subscription.read_position
        )  # Key_Shared also reads entries that wait for the holder of a key
    found, barrier = next(_undelivered(subscription, now_ns, start), None), topic.barrier
    return None if found is None or (barrier is not None and found[0] >= barrier) else found


def _undelivered(subscription: SubscriptionState, now_ns: int, after: Position) -> Iterator[tuple[Position, Lifecycle]]:
    """Yield the entries after a position that are due and neither delivered nor acknowledged."""
    topic = subscription.topic
    place = topic.following(after) if topic.last > after else None
    for _ in range(_MAX_STEPS):
        if place is None:
            return
        lifecycle = topic.lifecycles.get(place) or topic.complete.get(place)
        if (
            lifecycle is not None
            and place not in topic.aborted
            and place not in subscription.pending_acks
            and not subscription.is_acked(place)
            and (not subscription.individual or lifecycle.deliver_at_ms * 1_000_000 <= now_ns)
        ):
            yield place, lifecycle
        place = topic.following(place)


def acknowledge_skipped(subscription: SubscriptionState) -> None:
    """Acknowledge the skipped entries when the dispatcher has read all entries."""
    topic = subscription.topic
    if subscription.mark_delete is None or topic.last <= subscription.read_position:
        return
    for at in subscription.ahead(topic.barrier or _END):
        if subscription.skips(at):
            subscription.ack(at)


def _assume_no_backlog(subscription: SubscriptionState, consumers: list[AttachedConsumer], now_ns: int) -> None:
    """Assume that a subscription has no backlog if consumers with permits hold and receive nothing.

    The caller has checked that no entry was stored since the subscription began: the broker would have delivered it.
    A Failover consumer counts only if ACTIVE_CONSUMER_CHANGE has made it active. Entries from the first message of an
    open transaction on may wait; they are in the backlog, unless the subscription began after them.
    """
    barrier = subscription.topic.barrier
    if barrier is not None and any(consumer.record.initial_position != "Earliest" for consumer in consumers):
        return
    if not any(consumer.record.type != "Failover" or consumer.record.active for consumer in consumers):
        return
    newest = subscription.topic.lifecycles.get(subscription.topic.last)
    stored = newest.receipt_ns if newest is not None else -1
    since = [max(consumer.record.permits.able_ns, subscription.last_ns, stored) for consumer in consumers]
    if subscription.topic.last[0] >= 0 and now_ns - min(since) > QUIET_NS:
        end = subscription.topic.last if barrier is None else (barrier[0], barrier[1] - 1)
        subscription.mark_delete = subscription.read_position = end
        subscription.advance()


def _available_since(subscription: SubscriptionState, lifecycle: Lifecycle) -> int:
    """Return the time in ns from which the broker can deliver the message."""
    since = max(lifecycle.receipt_ns if lifecycle.receipt_ns >= 0 else lifecycle.sent_ns, subscription.returned_ns)
    return max(since, lifecycle.deliver_at_ms * 1_000_000) if subscription.individual else since
