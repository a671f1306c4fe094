"""Statistics of topics, subscriptions and consumers, with the names that the admin API uses in `topics stats`.

Rules of this file
1. A value equals the broker's value or is None. If it is None, "unknown" contains the reason under the value's name.
2. Counters restart when the broker loads a topic. A topic was loaded before the capture if its first known entry is not
   the first of its ledger, or if entries were delivered whose SENDs are missing.
3. msgBacklog counts entries. msgOutCounter counts messages, including all messages in a batch. availablePermits and
   unackedMessages count messages, except messages that were acknowledged before their batch was sent. Counters of a
   consumer cover only its current session.
4. Gaps in the capture, truncated packets and a missing SUBSCRIBE make a value unknown, not wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcli.codec.observe.tracking.records.client_records import PermitLedger
from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS
from pcli.codec.observe.tracking.subscriptions.backlog import backlog_of, doubt_of, shared_with_unidentified
from pcli.codec.observe.tracking.subscriptions.cursor_positions import survived_close
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import QUIET_NS
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import TopicState

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker

_Figure = tuple[Any, str]
"""A value, or None with the reason."""


def figures(tracker: SubscriptionTracker, now_ns: int, *, system: bool = False) -> dict[str, Any]:
    """Return the statistics of all topics at a time in the capture: ``{topic: {"msgInCounter": …}}``.

    ``system`` includes the broker's own topics. The key "unknown" of each object contains the reason for each value
    that is None.
    """
    topics = tracker.topics_at(now_ns)
    shown = [name for name in sorted(topics) if name and (system or not topics[name].record.system)]
    return {name: topic_figures(topics[name], now_ns) for name in shown}


def topic_figures(topic: TopicState, now_ns: int) -> dict[str, Any]:
    """Return the statistics of a topic and of its existing subscriptions."""
    early = _early(topic)
    fields: dict[str, _Figure] = {"msgInCounter": (topic.record.messages_in - topic.base, early or _unseen(topic))}
    found = _object(fields)
    found["subscriptions"] = {
        name: _subscription(subscription, early, now_ns)
        for name, subscription in sorted(topic.subscriptions.items())
        if subscription.opened and not subscription.unidentified
    }
    return found


def _subscription(subscription: SubscriptionState, early: str, now_ns: int) -> dict[str, Any]:
    record = subscription.record
    doubt = doubt_of(record.doubts) or shared_with_unidentified(subscription)
    limit = next(filter(None, map(_blocked_why, subscription.attached)), "")
    out = _object(
        {
            "msgBacklog": backlog_of(subscription, now_ns),
            "msgOutCounter": (record.delivered - subscription.base, doubt or early or _resumed(subscription)),
            "unackedMessages": (record.unacked, doubt or _repeats(subscription)),
            "type": (record.type if subscription.had_consumer or subscription.attached else "None", ""),
            "blockedSubscriptionOnUnackedMsgs": (False, limit),
        }
    )
    out["consumers"] = [consumer_figures(consumer) for consumer in subscription.attached]
    return out


def consumer_figures(consumer: AttachedConsumer) -> dict[str, Any]:
    """Return the statistics of an attached consumer."""
    record, permits = consumer.record, consumer.record.permits
    doubt, limit = doubt_of(record.doubts), _blocked_why(consumer)
    blocked = record.blocked.since_ns >= 0
    parked = permits.unspent if blocked else 0
    return _object(
        {
            "consumerName": (record.name, ""),
            "availablePermits": (permits.balance - parked, doubt or _unasked(permits) or (limit if parked else "")),
            "unackedMessages": (record.unacked, doubt or _repeats(consumer.subscription)),
            "msgOutCounter": (record.received, doubt),
            "bytesOutCounter": (record.bytes_out, doubt),
            "blockedConsumerOnUnackedMsgs": (blocked, doubt or limit),
        }
    )


def _unasked(permits: PermitLedger) -> str:
    return "" if permits.known else "it received messages before its first FLOW in the capture"


def _resumed(subscription: SubscriptionState) -> str:
    """Return why the number of deliveries is unknown, or an empty string."""
    if subscription.resumed and not subscription.base:
        return "a consumer of the subscription had subscribed before the capture"
    return ""


def _repeats(subscription: SubscriptionState) -> str:
    if subscription.ambiguous_acks:
        return "an ACK contained a batch more than once, and the broker's count of it is unknown"
    return ""


def _blocked_why(consumer: AttachedConsumer) -> str:
    """Return why the limit that blocks a consumer is unknown.

    The text is empty if other consumers still receive messages, because the limit is then per consumer.
    """
    record, others = consumer.record, [one.record for one in consumer.subscription.attached if one is not consumer]
    since = record.blocked.since_ns
    if since < 0 or not others or any(one.last_message_ns > since + QUIET_NS for one in others):
        return ""
    return "no frame shows whether its own limit or the subscription's blocks it"


def _early(topic: TopicState) -> str:
    """Return why the counters of a topic are unknown, or an empty string."""
    if any("one_way" in producer.doubts for producer in topic.record.producers.values()):
        return DOUBTS["one_way"]
    if topic.broker_lost is not None:
        return "the broker's side ended all connections of the topic, and no frame shows whether the broker restarted"
    if topic.base or topic.first is None or topic.first[1] == 0:
        if len(topic.closers) == 1 and not _stayed_open(topic):
            return "the broker has closed consumers, and no frame shows whether it reloaded the topic"
        return ""
    return "the topic had entries before the capture: its counters began earlier"


def _stayed_open(topic: TopicState) -> bool:
    """Return whether the broker left a producer or consumer open, which rules out an unload."""
    sessions = [one.session for one in topic.record.producers.values()]
    for subscription in topic.subscriptions.values():
        sessions += [one.session for one in subscription.record.consumers.values()]
    return any(session is not None and survived_close(topic, session) for session in sessions)


def unseen_text(entries: int) -> str:
    """Return why counts lack the entries of producers outside the capture; empty if there are none."""
    were = "1 entry was" if entries == 1 else f"{entries} entries were"
    return f"{were} written by producers that the capture does not contain" if entries > 0 else ""


def _unseen(topic: TopicState) -> str:
    """Return why the counters of a topic lack entries, or an empty string."""
    if not topic.record.persistent:
        return ""
    written = sum(last + 1 for ledger, last in topic.ledgers.items() if ledger > topic.base_ledger)
    markers = sum(ledger > topic.base_ledger for ledger, _ in topic.markers)
    return unseen_text(written - (topic.record.entries_in - topic.base_entries) - markers)


def _object(fields: dict[str, _Figure]) -> dict[str, Any]:
    found: dict[str, Any] = {name: None if reason else value for name, (value, reason) in fields.items()}
    unknown = {name: reason for name, (_, reason) in fields.items() if reason}
    if unknown:
        found["unknown"] = unknown
    return found
