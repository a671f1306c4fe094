"""The backlog of a subscription (`msgBacklog`), and why it may be unknown."""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import next_deliverable, receivers
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState

NO_CURSOR: Final = "no frame shows the cursor position"

_UNRELIABLE: Final = ("gap", "cut", "unread", "one_way", "weak_sync", "evicted", "start")
"""Doubts that make a count unreliable."""


def backlog_of(subscription: SubscriptionState, now_ns: int) -> tuple[int | None, str]:
    """Return the number of entries that a subscription has not acknowledged, or None and the reason."""
    topic, mark = subscription.topic, subscription.mark_delete
    doubt = doubt_of(subscription.record.doubts | topic.record.doubts) or shared_with_unidentified(subscription)
    if doubt:
        return None, doubt
    if not topic.record.persistent:
        return 0, ""
    if topic.last[0] < 0 or subscription.starts_at_next:
        return 0, ""
    if mark is None:
        least = entries_after_cursor(subscription)
        return None, f"{NO_CURSOR}{f'; the backlog is at least {least}' if least else ''}"
    early = [ledger for ledger in topic.ledgers if mark[0] <= ledger and ledger not in topic.written]
    if any(ledger >= subscription.read_position[0] for ledger in early) and not _drained(subscription, now_ns):
        return None, "the number of entries in the topic is unknown"
    return entries_after_cursor(subscription), ""


def entries_after_cursor(subscription: SubscriptionState) -> int:
    """Return the number of entries after `SubscriptionState.after` that are not acknowledged."""
    topic, after = subscription.topic, subscription.after
    return 0 if after is None else topic.count(after, topic.last) - sum(at > after for at in subscription.acked)


def shared_with_unidentified(subscription: SubscriptionState) -> str:
    """Return why a consumer outside the capture may affect a subscription's counts; empty if none can."""
    if subscription.unidentified:
        return ""
    others = (one for one in subscription.topic.subscriptions.values() if one.unidentified and one.record.entries_out)
    if subscription.record.type == "Exclusive":  # another consumer can only have left before
        others = (one for one in others if not one.attached and _left_ns(one) <= subscription.since_ns)
    if next(iter(others), None) is None:
        return ""
    return "a consumer whose SUBSCRIBE is not in the capture receives messages of this topic"


def _left_ns(subscription: SubscriptionState) -> int:
    """Return the time in ns at which the last consumer of a subscription left."""
    sessions = (one.session for one in subscription.record.consumers.values())
    return max((one.ended_ns for one in sessions if one is not None), default=-1)


def _drained(subscription: SubscriptionState, now_ns: int) -> bool:
    """Return whether a consumer has permits but no entry is left for it."""
    return bool(receivers(subscription)) and next_deliverable(subscription, now_ns) is None


def doubt_of(doubts: set[str]) -> str:
    """Return the first reason why counts cannot be trusted; empty if there is none."""
    return next((DOUBTS[word] for word in _UNRELIABLE if word in doubts), "")
