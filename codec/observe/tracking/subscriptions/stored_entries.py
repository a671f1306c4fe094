"""Lifecycles of entries whose receipt contains their id: stored, or merged with the lifecycle of an earlier delivery.

Rules of this file
1. A MESSAGE may precede the receipt of its SEND. In that case a lifecycle already exists, and its deliveries are
   merged. It may already be complete.
2. The marker of a transaction's end is assumed to follow the last known entry. If another entry has that position, the
   marker is assumed to be at the next position.
3. The broker drops a message of a non-persistent topic for each subscription whose consumers have no permits
   (NonPersistentDispatcher). A MESSAGE may follow the receipt, so drops are counted when the lifecycle is complete.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.subscriptions.cursor_positions import new_ledger
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import receivers
from pcli.codec.observe.tracking.subscriptions.message_counting import known_by_receipt
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles, positions
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState
from pcli.codec.observe.tracking.subscriptions.unseen_publishes import evict_non_persistent

_MAX_UNDELIVERED: Final = 100
"""Maximum number of earlier messages that may be on their way to a consumer."""

_DISPATCH_NS: Final = 100_000_000
"""Maximum time between the receipt and the delivery of a message."""


def stored(lifecycles: OpenLifecycles, lifecycle: Lifecycle) -> None:
    """Store the lifecycle of an entry that has an id; called for each chunk of a chunked message."""
    topic = lifecycles.topic(lifecycle.topic.name if lifecycle.topic is not None else "")
    if not topic.record.persistent:
        _store_non_persistent(lifecycles, topic, lifecycle)
        return
    at = (lifecycle.ledger, lifecycle.entry)
    _grow(topic, at, lifecycle)
    topic.unreceipted.stored(lifecycle)
    known = topic.lifecycles.get(at) or lifecycles.reopen(topic, at)
    known = known or (topic.unpositioned.get(lifecycle.uuid) if lifecycle.uuid else None)
    if known is not None and known is not lifecycle:
        _merge(lifecycles, topic, known, lifecycle)
        for place in positions(known):
            topic.lifecycles[place] = lifecycle
    if lifecycle.uuid:
        topic.unpositioned[lifecycle.uuid] = lifecycle
    lifecycles.put(topic, at, lifecycle)
    if lifecycle.deliveries and lifecycle.receipt_ns >= 0:
        lifecycles.remove_if_acknowledged(topic, at)


def _grow(topic: TopicState, at: Position, lifecycle: Lifecycle) -> None:
    if at[0] not in topic.ledgers:
        new_ledger(topic)
    elif topic.broker_lost is not None and at > topic.last:
        topic.broker_lost = None  # the same broker still writes the same ledger
    if at in topic.markers:
        topic.markers.discard(at)
        marker = (at[0], topic.ledgers[at[0]] + 1)
        topic.markers.add(marker)
        topic.grow(marker, written=True)
    topic.grow(at, written=True)
    if lifecycle.txn is not None:
        topic.uncommitted.setdefault(lifecycle.txn, []).append(at)
    for subscription in topic.subscriptions.values():
        subscription.stored(at, lifecycle.sent_ns if lifecycle.sent_frame else -1)


def _store_non_persistent(lifecycles: OpenLifecycles, topic: TopicState, lifecycle: Lifecycle) -> None:
    key = lifecycle.published_as
    known = topic.unpositioned.get(key)
    if known is not None:
        _merge(lifecycles, topic, known, lifecycle)
    topic.unpositioned[key] = lifecycle
    lifecycle.without_permits = tuple(
        name
        for name, subscription in topic.subscriptions.items()
        if subscription.attached and not _has_permits(topic, subscription, lifecycle)
    )
    lifecycles.add(topic, lifecycle)
    evict_non_persistent(lifecycles, topic)


def _has_permits(topic: TopicState, subscription: SubscriptionState, lifecycle: Lifecycle) -> bool:
    """Return whether permits are left for a message of a non-persistent topic.

    A MESSAGE may follow the receipts of later messages, so earlier messages without a delivery also use permits.
    """
    permits = sum(one.record.permits.balance for one in receivers(subscription))
    name = subscription.record.name
    for earlier in islice(reversed(topic.unpositioned.values()), 1, _MAX_UNDELIVERED):
        if permits <= 0 or name in earlier.deliveries or earlier.receipt_ns < lifecycle.receipt_ns - _DISPATCH_NS:
            break
        if name not in earlier.without_permits:
            permits -= earlier.messages
    return permits > 0


def _merge(lifecycles: OpenLifecycles, topic: TopicState, known: Lifecycle, lifecycle: Lifecycle) -> None:
    """Merge the events before the receipt into a lifecycle."""
    if not known.sent_frame:
        known_by_receipt(topic, known)
    lifecycle.deliveries, lifecycle.unacked = known.deliveries, known.unacked
    lifecycles.forget(known)
    for name in lifecycle.deliveries if not known.sent_frame else ():
        lifecycles.report_dispatch(topic.record, lifecycle, name)
    lifecycle.doubts |= known.doubts - {"cut"}
    if lifecycle.partition < 0:
        lifecycle.partition = known.partition
