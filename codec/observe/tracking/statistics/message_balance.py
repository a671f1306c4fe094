"""The message balance of topics and subscriptions: what became of every message, according to the capture.

Rules of this file
1. All values are messages. A value equals what the broker counted, or it is None and `Balance.reasons` contains the
   reason.
2. Topic: sent + copies = stored + refused + deduplicated + unknown. The copies are the messages that a resend stored a
   second time. ``stored_twice`` contains the copies, and the messages that a restarted producer sent again.
3. Subscription: stored = acknowledged + dropped + skipped + removed + remaining. ``delivered`` are the messages that
   were delivered at least once: the acknowledged messages, and a part of ``removed`` and ``remaining``. ``skipped`` is
   computed from the other values: the messages that were never delivered and that the cursor has passed.
4. What an administrator does by REST (skip, clear, expire, reset) and what the broker expires is not on the wire. If
   consumers with permits receive nothing, the remaining messages are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord
from pcli.codec.observe.tracking.statistics.broker_statistics import unseen_text
from pcli.codec.observe.tracking.subscriptions.backlog import NO_CURSOR, doubt_of, shared_with_unidentified
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import QUIET_NS, next_deliverable, receivers
from pcli.codec.observe.tracking.subscriptions.remaining_messages import Remaining, remaining_of
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker
from pcli.codec.observe.tracking.subscriptions.topic_state import TopicState

TOPIC_VALUES: Final = ("sent", "refused", "deduplicated", "stored", "stored_twice", "aborted", "unknown")
"""Values of a topic."""

SUBSCRIPTION_VALUES: Final = (
    "stored", "delivered", "redelivered", "acknowledged", "dropped", "skipped", "removed", "remaining", "unknown",
)  # fmt: skip
"""Values of a subscription."""

_SILENT: Final = (
    "consumers with permits receive none of the remaining messages, which may have been skipped, cleared or expired"
)
_NO_ACKS: Final = "acknowledgements of a non-persistent topic are not sent to the broker"


@dataclass(slots=True)
class Balance:
    """The balance of a topic, or of a subscription."""

    topic: str
    subscription: str
    """Empty for the balance of the topic."""
    values: dict[str, int | None]
    """The values of TOPIC_VALUES or SUBSCRIPTION_VALUES."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The reason for each value that is None."""


def balances(tracker: SubscriptionTracker, now_ns: int, *, system: bool = False) -> list[Balance]:
    """Return the balance of each topic, followed by those of its subscriptions, at a time in ns since 1970.

    ``system`` includes the broker's own topics.
    """
    found: list[Balance] = []
    for name, topic in sorted(tracker.topics_at(now_ns).items()):
        if name and (system or not topic.record.system):
            found += topic_balances(topic, now_ns)
    return found


def balance_objects(found: Sequence[Balance]) -> dict[str, dict[str, Any]]:
    """Return balances as JSON objects by topic; each contains its subscriptions by name.

    A value that is not known is None; "reasons" contains the reason.
    """
    topics: dict[str, dict[str, Any]] = {}
    for one in found:
        values: dict[str, Any] = {**one.values, **({"reasons": one.reasons} if one.reasons else {})}
        if one.subscription:
            topics[one.topic]["subscriptions"][one.subscription] = values
        else:
            topics[one.topic] = {**values, "subscriptions": {}}
    return topics


def topic_balances(topic: TopicState, now_ns: int) -> Iterator[Balance]:
    """Yield the balance of a topic and of its subscriptions."""
    counts, doubt = topic.record.messages, _doubt(topic)
    values = {
        "sent": counts.sent,
        "refused": counts.refused,
        "deduplicated": counts.deduplicated,
        "stored": counts.stored + counts.stored_twice + counts.unreceipted,
        "stored_twice": counts.stored_twice + counts.unreceipted + counts.sent_again,
        "aborted": counts.aborted,
        "unknown": counts.unknown,
    }
    balance = unknown_balance(Balance(topic.record.name, "", dict(values)), doubt)
    others = _unseen(topic)
    if others and not doubt:
        _forget(balance, others, "stored")
    yield balance
    for name, record in sorted(topic.record.subscriptions.items()):
        state = topic.subscriptions.get(name)
        if state is None:
            yield unknown_balance(_removed(record), doubt or doubt_of(record.doubts))
        elif state.opened and not state.unidentified:
            reason = doubt or doubt_of(record.doubts) or shared_with_unidentified(state)
            yield unknown_balance(_subscription(state, now_ns), reason)


def _removed(record: SubscriptionRecord) -> Balance:
    """Return the balance of a subscription that does not exist any more."""
    return _without_acks(_balance_of(record, 0, Remaining()), record)


def _subscription(subscription: SubscriptionState, now_ns: int) -> Balance:
    topic, record = subscription.topic, subscription.record
    since_start = topic.record.messages.available - record.messages.start
    remaining = remaining_of(subscription)
    balance = _without_acks(_balance_of(record, since_start, remaining or Remaining()), record)
    if remaining is None:
        _lose(balance, NO_CURSOR)
    elif remaining.unseen:
        entries = f"{remaining.unseen} entr{'y' if remaining.unseen == 1 else 'ies'}"
        _lose(balance, f"the capture does not contain {entries} of the backlog")
    elif remaining.waiting and _is_silent(subscription, now_ns):
        _lose(balance, _SILENT, acknowledged=True)
    return balance


def _balance_of(record: SubscriptionRecord, since_start: int, remaining: Remaining) -> Balance:
    """Return a balance; ``since_start`` are the messages that were stored since the subscription began."""
    counts = record.messages
    stored = counts.removed_stored + since_start + counts.early + remaining.early
    values: dict[str, int | None] = {
        "stored": stored,
        "delivered": counts.delivered,
        "redelivered": counts.redelivered,
        "acknowledged": counts.delivered - remaining.delivered - counts.removed_delivered,
        "dropped": 0,
        "skipped": stored - counts.delivered - remaining.waiting - counts.removed_waiting,
        "removed": counts.removed_delivered + counts.removed_waiting,
        "remaining": remaining.delivered + remaining.waiting,
        "unknown": 0,
    }
    return Balance(record.topic.name, record.name, values)


def _without_acks(balance: Balance, record: SubscriptionRecord) -> Balance:
    """Return the balance; on a non-persistent topic, the messages that were not delivered were dropped."""
    if not record.topic.persistent:
        values = balance.values
        values["dropped"], values["skipped"] = values["skipped"], 0
        _forget(balance, _NO_ACKS, "acknowledged")
    return balance


def _lose(balance: Balance, reason: str, *, acknowledged: bool = False) -> None:
    """Make the values unknown that depend on the cursor. ``acknowledged`` states that its position is known."""
    values = balance.values
    values["unknown"] = (values["stored"] or 0) - (values["delivered"] or 0) - (values["removed"] or 0)
    _forget(balance, reason, "skipped", "remaining", *(() if acknowledged else ("stored", "acknowledged", "unknown")))


def _forget(balance: Balance, reason: str, *names: str) -> None:
    balance.values.update(dict.fromkeys(names))
    balance.reasons.update(dict.fromkeys(names, reason))


def unknown_balance(balance: Balance, reason: str) -> Balance:
    """Return a balance whose values are unknown for this reason; unchanged if the reason is empty."""
    if reason:
        _forget(balance, reason, *balance.values)
    return balance


def _doubt(topic: TopicState) -> str:
    """Return why the messages of a topic's producers cannot be counted; empty if they can."""
    doubts = set(topic.record.doubts)
    for producer in topic.record.producers.values():
        doubts |= producer.doubts
    return doubt_of(doubts)


def _unseen(topic: TopicState) -> str:
    """Return why the stored messages of a topic are unknown; empty if they are known."""
    if not topic.record.persistent or topic.first is None:
        return ""
    entries = topic.count((topic.first[0], topic.first[1] - 1), topic.last)
    return unseen_text(entries - topic.record.entries_in - len(topic.markers) - topic.unreceipted.count)


def _is_silent(subscription: SubscriptionState, now_ns: int) -> bool:
    """Return whether a consumer could receive an entry that waits, but the broker has not delivered it."""
    free = [one for one in receivers(subscription) if one.record.blocked.since_ns < 0]
    if not free or now_ns - subscription.last_ns < QUIET_NS:
        return False
    return next_deliverable(subscription, now_ns) is not None
