"""Cursor positions: at the start of a subscription, after a SEEK, and after a reload of the topic.

Rules of this file
1. No frame contains the cursor of a durable subscription, or shows whether the subscription is new. Entries are read in
   order from the oldest unacknowledged entry, so the cursor is inferred from the first delivery, from the response to
   GET_LAST_MESSAGE_ID, or from silence (if a consumer with permits holds and receives nothing for QUIET_NS, and no
   entry was stored since it subscribed, there is no backlog).
2. A non-durable subscription begins at the position in its SUBSCRIBE, or at the initial position if there is none or
   if it is after the last entry (NonDurableCursorImpl).
3. When a topic is unloaded or deleted, or its broker restarts, the broker closes all producers and consumers of the
   topic. Its statistics counters restart, and the ack sets of batches are lost. A reset through the admin API closes
   the consumers of one subscription only. An unload is inferred if two subscriptions, or a subscription and a producer,
   are closed within CLOSING_NS, or if a new ledger follows. A reset is inferred if a producer or another subscription
   stays open, or if entries are redelivered that were acknowledged UNSTORED_NS before. Otherwise an unload is assumed.
4. A broker that is killed closes nothing. Its restart is inferred if the broker's side ended all connections of the
   topic and a new ledger follows: a broker opens a ledger when it loads a topic.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.observer_state import ObservedFrame
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, Session
from pcli.codec.observe.tracking.subscriptions.ack_effects import NO_BITS
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.redelivery import take_back
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import BrokerLost, Position, TopicState

CLOSING_NS: Final = 1_000_000_000
"""Maximum time in ns that a broker takes to close all producers and consumers of a topic."""

PROMPT_NS: Final = 200_000_000
"""Maximum delay in ns of a close that belongs to the same event."""

MAX_RESETS: Final = 1_000
"""Maximum number of resets by an administrator that are kept per subscription."""

LATEST: Final = 1 << 62
"""Ledger ids from this value on mean "latest": clients send the highest number of their integer type."""


def open_cursor(subscription: SubscriptionState, record: ConsumerRecord) -> None:
    """Set the read position when the first consumer attaches."""
    if record.rollback_seconds:
        subscription.reset_to(None, subscription.known_ns)
    elif subscription.mark_delete is None and not record.durable and not subscription.starts_at_next:
        _begin(subscription, record)
    elif subscription.mark_delete is None and subscription.selective and record.initial_position == "Earliest":
        subscription.mark_delete = earliest(subscription.topic)
    if subscription.mark_delete is not None:
        subscription.read_position = subscription.mark_delete
    subscription.rewound = True


def _begin(subscription: SubscriptionState, record: ConsumerRecord) -> None:
    """Set the position of a new non-durable subscription."""
    topic, start = subscription.topic, record.start_id
    latest = start is None or start[0] >= LATEST or (topic.last[0] >= 0 and start > topic.last)
    if start is not None and not latest:
        if start[0] >= 0:
            subscription.mark_delete = (start[0], start[1] - 1 if start[1] > 0 else -1)
        elif subscription.selective:
            subscription.mark_delete = earliest(topic)
    elif record.initial_position == "Earliest":
        subscription.mark_delete = earliest(topic)
    elif topic.last[0] >= 0:
        subscription.mark_delete = topic.last
    else:
        subscription.starts_at_next = True


def earliest(topic: TopicState) -> Position | None:
    """Return the position before the first entry, or None if unknown: no frame reports deleted ledgers."""
    first = topic.first
    return (first[0], -1) if first is not None and first[1] == 0 and len(topic.ledgers) == 1 else None


def seek(
    lifecycles: OpenLifecycles,
    subscription: SubscriptionState,
    target: tuple[Position, int] | None,
    seek_frame: int,
    frame: ObservedFrame,
) -> None:
    """Apply a SEEK that succeeded."""
    topic = subscription.topic
    if not topic.record.persistent:
        return
    subscription.highest = max(subscription.highest, subscription.read_position)
    for at, delivery in subscription.pending_acks.items():
        take_back(subscription, at, delivery, "seek", frame.time_ns, seek_frame)
    subscription.pending_acks.clear()
    subscription.sorted = subscription.sought = True
    subscription.reset = (frame.number, "seek", seek_frame)
    mark: Position | None = None
    if target is not None:
        at, bits = target
        if at[0] >= LATEST or at > topic.last:
            mark = topic.last if topic.last[0] >= 0 else None
            subscription.starts_at_next = mark is None
        elif at[0] >= 0:
            mark = (at[0], at[1] - 1 if at[1] > 0 else -1)
        else:
            mark = earliest(topic)
        subscription.reset_to(mark, frame.time_ns)
        if bits != NO_BITS:
            subscription.ack_sets[at] = bits
    else:
        subscription.reset_to(None, frame.time_ns)
    subscription.last_ns = frame.time_ns
    lifecycles.remove_acknowledged(topic)


def closed_by_broker(topic: TopicState, name: str, time_ns: int, frame: int, began_ns: int = -1) -> None:
    """Record that the broker has closed a consumer of a subscription, or a producer (empty name), without a request.

    ``began_ns`` is the time at which it was opened, or -1 if unknown. If it was opened after the first close, this
    close is a new event.
    """
    if topic.closed_ns < 0 or time_ns - topic.closed_ns > CLOSING_NS or began_ns > topic.closed_ns:
        topic.closed_ns = time_ns
        topic.closers = set()
        topic.restarted = False
        for subscription in topic.subscriptions.values():
            subscription.snapshot = subscription.record.delivered
        topic.record.unloads.add(time_ns, frame)
    before = len(topic.closers)
    topic.closers.add(name)
    if name in topic.subscriptions:
        subscription = topic.subscriptions[name]
        subscription.reset = (frame, "unload", frame)
        subscription.highest = max(subscription.highest, subscription.read_position)
    if before == 1 and len(topic.closers) == 2:
        _reload(topic)


def connections_lost(topic: TopicState) -> None:
    """Record that the broker's side has ended a connection of the topic: if it was the last one, it may restart."""
    sessions = (one.session for one in topic.record.producers.values())
    if topic.broker_lost is not None or any(one is not None and not one.end for one in sessions):
        return
    subscriptions = topic.subscriptions
    if not any(subscription.attached for subscription in subscriptions.values()):
        delivered = {name: subscription.record.delivered for name, subscription in subscriptions.items()}
        topic.broker_lost = BrokerLost(topic.record.messages_in, topic.record.entries_in, delivered)


def new_ledger(topic: TopicState) -> None:
    """Record the first entry in a new ledger."""
    lost = topic.broker_lost
    if lost is not None:
        for name, subscription in topic.subscriptions.items():
            subscription.base = lost.delivered.get(name, subscription.base)
        _restart_counters(topic, lost.messages_in, lost.entries_in)
        return
    if (topic.closed_ns >= 0 and len(topic.closers) == 1 and "" not in topic.closers) or topic.closers == {""}:
        _reload(topic)
        topic.closers = set()


def survived_close(topic: TopicState, session: Session) -> bool:
    """Return whether a session proves that the topic was not unloaded when the broker closed other sessions."""
    before = session.began_ns < topic.closed_ns
    return before and session.end != "broker" and (not session.end or session.ended_ns > topic.closed_ns + PROMPT_NS)


def check_close(topic: TopicState) -> None:
    """Record that the topic was not unloaded if an open session proves it."""
    if len(topic.closers) != 1:
        return
    consumers = (one.record for subscription in topic.subscriptions.values() for one in subscription.attached)
    sessions = [one.session for one in topic.record.producers.values()] + [one.session for one in consumers]
    if any(one is not None and not one.end and survived_close(topic, one) for one in sessions):
        not_unloaded(topic)


def not_unloaded(topic: TopicState) -> None:
    """Record that the topic was not unloaded when the broker closed one subscription: its cursor was reset."""
    if len(topic.closers) != 1:
        return
    [name] = topic.closers
    subscription = topic.subscriptions.get(name)
    if subscription is not None and subscription.reset[1] == "unload":
        subscription.reset = (subscription.reset[0], "reset", subscription.reset[2])
        subscription.sought = True
        _remove_ack_sets(subscription)
        if len(subscription.record.admin_resets) < MAX_RESETS:
            subscription.record.admin_resets.append(subscription.reset[0])
    topic.closers.clear()


def producer_reconnected(topic: TopicState) -> None:
    """Restart the counters when a producer reconnects: earlier counts belong to the time before the unload."""
    if topic.restarted:
        _restart_counters(topic, topic.record.messages_in, topic.record.entries_in)
        topic.restarted = False


def _reload(topic: TopicState) -> None:
    """Restart the counters of a topic that the broker has loaded again.

    A new ledger shows this only at the first publish. Acknowledgements of deliveries after the close are later.
    """
    topic.restarted = True
    _restart_counters(topic, topic.record.messages_in, topic.record.entries_in)
    for subscription in topic.subscriptions.values():
        subscription.base = subscription.snapshot
        subscription.had_consumer = any(_began_after_close(topic, one.record.session) for one in subscription.attached)
        _remove_ack_sets(subscription)


def _remove_ack_sets(subscription: SubscriptionState) -> None:
    """Remove the ack sets of batches that were delivered before the broker closed the consumers."""
    closed_ns = subscription.topic.closed_ns
    later = {at for at, one in subscription.pending_acks.items() if one.time_ns > closed_ns}
    subscription.ack_sets = {at: bits for at, bits in subscription.ack_sets.items() if at in later}
    subscription.pending_sets = {at: bits for at, bits in subscription.pending_sets.items() if at in later}


def _began_after_close(topic: TopicState, session: Session | None) -> bool:
    return session is not None and session.began_ns > topic.closed_ns


def _restart_counters(topic: TopicState, messages_in: int, entries_in: int) -> None:
    """Restart the counters of a topic's entries at these values."""
    topic.base, topic.base_entries, topic.base_ledger = messages_in, entries_in, topic.last[0]
    topic.broker_lost = None
