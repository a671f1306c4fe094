"""The state of topics, subscriptions and consumers under the admin API's names, as `topics stats` has it.

Rules of this file
1. A figure is the broker's own or None; why it is None stands under "unknown", by the name of the figure.
2. Counters begin when the broker loads a topic. A topic whose first entry in the capture is not the first of its ledger
   was loaded before; so was one with deliveries of entries that nobody was seen to write.
3. msgBacklog counts entries, msgOutCounter messages (batches in full), availablePermits and unackedMessages messages
   less those that were acknowledged before a batch was sent. Counters of a consumer are those of its connection.
4. Holes in the capture, cut packets and a missing SUBSCRIBE make a figure unknown, not wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcli.codec.observe.tracking.records.client_records import PermitLedger
from pcli.codec.observe.tracking.subscriptions.backlog import backlog_of, doubt_of, shared_with_unidentified
from pcli.codec.observe.tracking.subscriptions.cursor_positions import survived_close
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import QUIET_NS
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import TopicState

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker

__all__ = ["consumer_figures", "figures", "topic_figures"]

_Figure = tuple[Any, str]
"""A value, or None with the reason."""


def figures(tracker: SubscriptionTracker, now_ns: int, *, system: bool = False) -> dict[str, Any]:
    """The state of every topic at this time, the capture's: ``{topic: {"msgInCounter": …}}``.

    ``system``: those of the broker, too. Beside the figures of `topics stats` each object has "unknown": name of a
    figure to why it is None.
    """
    tracker.update(now_ns)
    topics = tracker.lifecycles.topics
    shown = [name for name in sorted(topics) if name and (system or not topics[name].record.system)]
    return {name: topic_figures(topics[name], now_ns) for name in shown}


def topic_figures(topic: TopicState, now_ns: int) -> dict[str, Any]:
    """Those of one topic, with its subscriptions, as far as the broker knows them still."""
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
    unacked = record.unacked + sum(consumer.unacked_offset for consumer in subscription.attached)
    limit = next(filter(None, map(_blocked_why, subscription.attached)), "")
    out = _object(
        {
            "msgBacklog": backlog_of(subscription, now_ns),
            "msgOutCounter": (record.delivered - subscription.base, doubt or early),
            "unackedMessages": (unacked, doubt or _repeats(subscription)),
            "type": (record.type if subscription.had_consumer or subscription.attached else "None", ""),
            "blockedSubscriptionOnUnackedMsgs": (False, limit),
        }
    )
    out["consumers"] = [consumer_figures(consumer) for consumer in subscription.attached]
    return out


def consumer_figures(consumer: AttachedConsumer) -> dict[str, Any]:
    """Those of an attached consumer."""
    record, permits = consumer.record, consumer.record.permits
    doubt, limit = doubt_of(record.doubts), _blocked_why(consumer)
    blocked = record.blocked.since_ns >= 0
    parked = permits.unspent if blocked else 0
    return _object(
        {
            "consumerName": (record.name, ""),
            "availablePermits": (permits.balance - parked, doubt or _unasked(permits) or (limit if parked else "")),
            "unackedMessages": (record.unacked + consumer.unacked_offset, doubt or _repeats(consumer.subscription)),
            "msgOutCounter": (record.received, doubt),
            "bytesOutCounter": (record.bytes_out, doubt),
            "blockedConsumerOnUnackedMsgs": (blocked, doubt or limit),
        }
    )


def _unasked(permits: PermitLedger) -> str:
    return "" if permits.known else "it was sent messages before its first FLOW in the capture"


def _repeats(subscription: SubscriptionState) -> str:
    if subscription.ambiguous_acks:
        return "an ACK named parts of a batch more than once: what the broker takes for that is not known"
    return ""


def _blocked_why(consumer: AttachedConsumer) -> str:
    """Why the limit that stops a consumer is not known; empty: it is its own, for others go on."""
    record, others = consumer.record, [one.record for one in consumer.subscription.attached if one is not consumer]
    since = record.blocked.since_ns
    if since < 0 or not others or any(one.last_message_ns > since + QUIET_NS for one in others):
        return ""
    return "it is blocked by its own limit or by the subscription's, no frame says"


def _early(topic: TopicState) -> str:
    """Why the counters of a topic are not known; empty: they are."""
    if topic.base or topic.first is None or topic.first[1] == 0:
        if len(topic.closers) == 1 and not _lived_on(topic):
            return "the broker has closed consumers: whether it has loaded the topic anew no frame says"
        return ""
    return "the topic had entries before the capture: its counters began earlier"


def _lived_on(topic: TopicState) -> bool:
    """Whether a producer or consumer stayed when the broker closed others: then it was no unload."""
    sessions = [one.session for one in topic.record.producers.values()]
    for subscription in topic.subscriptions.values():
        sessions += [one.session for one in subscription.record.consumers.values()]
    return any(session is not None and survived_close(topic, session) for session in sessions)


def _unseen(topic: TopicState) -> str:
    """Whether somebody else has published."""
    if not topic.record.persistent:
        return ""
    written = sum(last + 1 for last in topic.ledgers.values())
    others = written - topic.record.entries_in - len(topic.markers)
    were = "1 entry was" if others == 1 else f"{others} entries were"
    return f"{were} written by somebody whom the capture does not show" if others > 0 else ""


def _object(fields: dict[str, _Figure]) -> dict[str, Any]:
    found: dict[str, Any] = {name: None if reason else value for name, (value, reason) in fields.items()}
    unknown = {name: reason for name, (_, reason) in fields.items() if reason}
    if unknown:
        found["unknown"] = unknown
    return found
