"""Comparison of a diagnosis with the present state of the broker, as its admin API reports it.

Rules of this file
1. The broker reports its present state and settings, the capture shows the past. A note therefore names both, and a
   state that may have changed since the capture contradicts nothing.
2. CONFIRMED: the broker reports what a finding inferred. CONTRADICTED: the inference is wrong, unless the setting was
   changed. UNDECIDED: the broker's report allows both. FACT: something that the capture does not contain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.observe.rules import Finding
from pcli.codec.observe.rules.finding_text import count_of
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.subscriptions.subscription_state import INDIVIDUAL
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState

CONFIRMED: Final = "confirmed"
CONTRADICTED: Final = "contradicted"
UNDECIDED: Final = "undecided"
FACT: Final = "fact"


@dataclass(slots=True)
class BrokerTopic:
    """A topic as the admin API reports it."""

    stats: Mapping[str, Any] | None
    """The response of ``stats``; None if the topic does not exist."""
    cursors: Mapping[str, Position]
    """Mark-delete positions by subscription, from ``internalStats``."""
    policy: Callable[[str], Any]
    """Returns the value of a policy that applies to the topic, from the topic, its namespace or the broker; None if it
    is not set, or the broker does not report it."""

    capture: TopicState | None = None
    """The state of the topic at the end of the capture."""

    def subscription(self, name: str) -> Mapping[str, Any] | None:
        """Return the statistics of a subscription, or None if it does not exist."""
        found = (self.stats or {}).get("subscriptions", {}).get(name)
        return found if isinstance(found, Mapping) else None

    def consumer(self, subscription: str, name: str) -> Mapping[str, Any] | None:
        """Return the statistics of an attached consumer, or None."""
        consumers = (self.subscription(subscription) or {}).get("consumers", [])
        return next((one for one in consumers if one.get("consumerName") == name), None)

    def limit(self, name: str) -> int:
        """Return the value of a policy that is a limit; 0 if there is no limit or it is unknown."""
        value = self.policy(name)
        return value if isinstance(value, int) and value > 0 else 0


@dataclass(slots=True)
class BrokerNote:
    """What the broker reports about a finding or an object."""

    verdict: str
    """CONFIRMED, CONTRADICTED, UNDECIDED or FACT."""
    text: str
    """One or two sentences."""
    subject: dict[str, Any]
    """The object, as in findings."""
    finding: Finding | None = None
    """The finding that is confirmed, contradicted or undecided; None for a fact."""
    figures: dict[str, Any] = field(default_factory=dict)
    """The values that the broker reports, by the names of the admin API."""


_Result = tuple[str, str, dict[str, Any]]
"""Verdict, text and figures."""


def check_finding(finding: Finding, topic: BrokerTopic, others: Iterable[Finding]) -> BrokerNote | None:
    """Return what the broker reports about a finding, or None if no check exists. ``others`` are all findings."""
    check = _CHECKS.get(finding.rule)
    if check is None:
        return None
    if topic.stats is None:
        text = "The topic does not exist on this broker."
        return BrokerNote(UNDECIDED, text, finding.subject, finding)
    result = check(finding, topic, others)
    if result is None:
        return None
    verdict, text, figures = result
    return BrokerNote(verdict, text, finding.subject, finding, figures)


# -- findings


def _unacked_limit(finding: Finding, topic: BrokerTopic, others: Iterable[Finding]) -> _Result | None:
    own, shared = topic.limit(_ON_CONSUMER), topic.limit(_ON_SUBSCRIPTION)
    figures = {_ON_CONSUMER: own, _ON_SUBSCRIPTION: shared}
    held = finding.count
    if own and held >= own:
        return CONFIRMED, f"{_ON_CONSUMER} of the topic is {own}, and the consumer held {held}.", figures
    together = sum(one.count for one in others if one.rule == finding.rule and _same_subscription(one, finding))
    if shared and together >= shared:
        return CONFIRMED, f"{_ON_SUBSCRIPTION} of the topic is {shared}, and its consumers held {together}.", figures
    limits = f"{_ON_CONSUMER} is {own or 'unlimited'} and {_ON_SUBSCRIPTION} is {shared or 'unlimited'}"
    if not own and not shared:
        return UNDECIDED, f"The broker reports no limit: {limits}. Its own defaults may apply.", figures
    verdict = UNDECIDED if shared and _delivered(finding, topic) >= shared else CONTRADICTED
    return verdict, f"The consumer held {held}, but {limits}. The limit may have been changed.", figures


def _never_acked(finding: Finding, topic: BrokerTopic, _: Iterable[Finding]) -> _Result | None:
    stats = topic.subscription(_subscription_of(finding))
    if stats is None:
        return UNDECIDED, "The subscription does not exist any more.", {}
    consumer = topic.consumer(_subscription_of(finding), _consumer_of(finding))
    backlog = stats.get("msgBacklog", 0)
    figures: dict[str, Any] = {"msgBacklog": backlog, "unackedMessages": stats.get("unackedMessages", 0)}
    if consumer is not None and consumer.get("unackedMessages"):
        held = consumer["unackedMessages"]
        return CONFIRMED, f"The consumer holds {count_of(held, 'unacknowledged message')} now.", figures
    if backlog:
        state = "is not attached" if consumer is None else "holds none of them"
        if consumer is not None and stats.get("type") not in INDIVIDUAL:
            state = "is attached; the broker counts unacknowledged messages only for Shared and Key_Shared"
        text = f"The backlog of the subscription is {count_of(backlog, 'entry', 'entries')} now; the consumer {state}."
        return UNDECIDED, text, figures
    return UNDECIDED, "The backlog is empty now: the messages were acknowledged, skipped or expired later.", figures


def _no_permits(finding: Finding, topic: BrokerTopic, _: Iterable[Finding]) -> _Result | None:
    consumer = topic.consumer(_subscription_of(finding), _consumer_of(finding))
    if consumer is None:
        return UNDECIDED, "The consumer is not attached now.", {}
    permits = consumer.get("availablePermits", 0)
    figures = {"availablePermits": permits}
    if permits <= 0:
        return CONFIRMED, f"The consumer has {permits} permits now.", figures
    return UNDECIDED, f"The consumer has {count_of(permits, 'permit')} now: it has requested messages since.", figures


def _silent(finding: Finding, topic: BrokerTopic, _: Iterable[Finding]) -> _Result | None:
    consumer = topic.consumer(_subscription_of(finding), _consumer_of(finding))
    if consumer is not None and consumer.get("blockedConsumerOnUnackedMsgs"):
        text = "The broker reports blockedConsumerOnUnackedMsgs: the limit on unacknowledged messages is the cause."
        return CONTRADICTED, text, {"blockedConsumerOnUnackedMsgs": True}
    rates = {name: rate for name in _DISPATCH_RATES if (rate := _rate(topic.policy(name)))}
    if rates:
        text = (
            f"A dispatch rate is set ({', '.join(f'{name}: {rate}' for name, rate in rates.items())}): it may be why."
        )
        return UNDECIDED, text, rates
    return UNDECIDED, "No dispatch rate is set for the topic: it is not the cause.", {}


def _duplicates(finding: Finding, topic: BrokerTopic, _: Iterable[Finding]) -> _Result | None:
    enabled = topic.policy(_DEDUPLICATION)
    if enabled is None:
        return UNDECIDED, "The broker does not report whether deduplication is enabled.", {}
    stored = finding.rule == "resend-stored"
    state = "enabled" if enabled else "not enabled"
    if bool(enabled) is not stored:
        what = "resent messages are stored again" if stored else "it drops messages with used sequence ids"
        return CONFIRMED, f"Deduplication is {state}: {what}.", {_DEDUPLICATION: enabled}
    what = "the broker would drop resent messages" if stored else "the broker would store these messages"
    return CONTRADICTED, f"Deduplication is {state} now: {what}.", {_DEDUPLICATION: enabled}


def _passed_over(finding: Finding, topic: BrokerTopic, _: Iterable[Finding]) -> _Result | None:
    stats = topic.subscription(_subscription_of(finding))
    if stats is None:
        return UNDECIDED, "The subscription does not exist any more.", {}
    expired, lifetime = stats.get("totalMsgExpired", 0), topic.limit("messageTTL")
    rejected = stats.get("filterRejectedMsgCount", 0)
    figures = {"totalMsgExpired": expired, "messageTTL": lifetime, "filterRejectedMsgCount": rejected}
    if expired or rejected:
        text = (
            f"The subscription reports {count_of(expired, 'expired message')} (messageTTL: {lifetime or 'none'} s) and"
        )
        return CONFIRMED, f"{text} {count_of(rejected, 'message')} rejected by a filter.", figures
    ttl = f"messageTTL is {lifetime} s, but no message expired" if lifetime else "No message TTL is set"
    return UNDECIDED, f"{ttl}, and no filter rejected a message: an administrator may have skipped them.", figures


def _producer_refused(finding: Finding, topic: BrokerTopic, _: Iterable[Finding]) -> _Result | None:
    publishers = (topic.stats or {}).get("publishers", [])
    if not publishers:
        return UNDECIDED, "No producer is attached to the topic now.", {"publishers": []}
    names = [
        f"{printable(one.get('producerName', ''))} ({one.get('accessMode', 'unknown mode')}, {one.get('address', '')})"
        for one in publishers[:_MOST_NAMED]
    ]
    return UNDECIDED, f"Attached producers now: {', '.join(names)}.", {"publishers": len(publishers)}


def _standby(finding: Finding, topic: BrokerTopic, _: Iterable[Finding]) -> _Result | None:
    active = (topic.subscription(_subscription_of(finding)) or {}).get("activeConsumerName")
    if not active:
        return None
    figures = {"activeConsumerName": active}
    if active == _consumer_of(finding):
        return UNDECIDED, "The consumer is the active consumer now.", figures
    return CONFIRMED, f"The active consumer is {printable(active)}.", figures


_ON_CONSUMER: Final = "maxUnackedMessagesOnConsumer"
_ON_SUBSCRIPTION: Final = "maxUnackedMessagesOnSubscription"
_DEDUPLICATION: Final = "deduplicationEnabled"
_DISPATCH_RATES: Final = ("dispatchRate", "subscriptionDispatchRate")
_MOST_NAMED: Final = 5

_CHECKS: Final[dict[str, Callable[[Finding, BrokerTopic, Iterable[Finding]], _Result | None]]] = {
    "stuck-unacked-limit": _unacked_limit,
    "never-acked": _never_acked,
    "stuck-no-permits": _no_permits,
    "paused-client": _no_permits,
    "dispatcher-silent": _silent,
    "resend-stored": _duplicates,
    "resend-refused": _duplicates,
    "balance-mismatch": _passed_over,
    "producer-refused": _producer_refused,
    "producer-waiting": _producer_refused,
    "standby": _standby,
}
"""The checks by rule."""


def _subscription_of(finding: Finding) -> str:
    return str(finding.subject.get("subscription", ""))


def _consumer_of(finding: Finding) -> str:
    return str(finding.subject.get("consumer", ""))


def _same_subscription(one: Finding, other: Finding) -> bool:
    return all(one.subject.get(name) == other.subject.get(name) for name in ("topic", "subscription"))


def _delivered(finding: Finding, topic: BrokerTopic) -> float:
    """Return the maximum number of messages that the consumers held; infinite if some began before the capture."""
    states = topic.capture.subscriptions if topic.capture is not None else {}
    state = states.get(_subscription_of(finding))
    if state is None or state.record.doubts or any(one.unidentified for one in states.values()):
        return math.inf
    return state.record.delivered


def _rate(policy: Any) -> str:
    """Return a dispatch rate as text; empty if there is none."""
    if not isinstance(policy, Mapping):
        return ""
    messages, size = policy.get("dispatchThrottlingRateInMsg", -1), policy.get("dispatchThrottlingRateInByte", -1)
    limits = [f"{messages} messages" if messages > 0 else "", f"{size} bytes" if size > 0 else ""]
    period = policy.get("ratePeriodInSecond", 1)
    return f"{' and '.join(filter(None, limits))} per {period} s" if any(limits) else ""


# -- topics


def check_topic(name: str, topic: BrokerTopic) -> Iterator[BrokerNote]:
    """Yield what the broker reports about a topic and its subscriptions."""
    subject, capture = {"topic": name}, topic.capture
    if topic.stats is None:
        yield BrokerNote(FACT, "The topic does not exist on this broker.", subject)
        return
    yield _settings(subject, topic)
    for subscription, stats in topic.stats.get("subscriptions", {}).items():
        own = subject | {"subscription": subscription}
        yield from _without_consumers(own, stats, topic.stats)
        if capture is not None and subscription in topic.cursors:
            yield from _cursor(own, capture, topic.cursors[subscription], stats)
    if capture is None:
        return
    for subscription, state in capture.subscriptions.items():
        if state.record.durable and state.opened and topic.subscription(subscription) is None:
            own = subject | {"subscription": subscription}
            yield BrokerNote(FACT, "The subscription of the capture does not exist any more.", own)


def _settings(subject: dict[str, Any], topic: BrokerTopic) -> BrokerNote:
    figures = {name: topic.policy(name) for name in (_ON_CONSUMER, _ON_SUBSCRIPTION, "retention", "messageTTL",
                                                    _DEDUPLICATION)}  # fmt: skip
    limits = ", ".join(f"{name} {topic.limit(name) or 'none'}" for name in (_ON_CONSUMER, _ON_SUBSCRIPTION))
    retention = figures["retention"]
    kept = "none"
    if isinstance(retention, Mapping) and (
        retention.get("retentionTimeInMinutes") or retention.get("retentionSizeInMB")
    ):
        kept = f"{retention.get('retentionTimeInMinutes')} min, {retention.get('retentionSizeInMB')} MB"
    lifetime = topic.limit("messageTTL")
    deduplication = "enabled" if figures[_DEDUPLICATION] else "not enabled"
    text = (
        f"Limits: {limits}. Retention: {kept}. Message TTL: {f'{lifetime} s' if lifetime else 'none'}. "
        f"Deduplication: {deduplication}."
    )
    return BrokerNote(FACT, text, subject, figures=figures)


def _without_consumers(
    subject: dict[str, Any], stats: Mapping[str, Any], topic: Mapping[str, Any]
) -> Iterator[BrokerNote]:
    """Yield a note if a durable subscription has no consumers and therefore keeps a backlog."""
    if stats.get("consumers") or not stats.get("durable", stats.get("isDurable", True)):
        return
    backlog, rate = stats.get("msgBacklog", 0), topic.get("msgRateIn", 0.0)
    if not backlog and not rate:
        return
    grows = f"; it grows by {rate:.1f} messages per second" if rate else ""
    text = f"The subscription has no consumers. Its backlog is {count_of(backlog, 'entry', 'entries')}{grows}."
    yield BrokerNote(FACT, text, subject, figures={"msgBacklog": backlog, "msgRateIn": rate})


def _cursor(
    subject: dict[str, Any], capture: TopicState, broker: Position, stats: Mapping[str, Any]
) -> Iterator[BrokerNote]:
    """Yield a note if the cursor is not where the capture ends."""
    state = capture.subscriptions.get(str(subject["subscription"]))
    if state is None or state.mark_delete is None or not state.record.durable:
        return
    mark = state.mark_delete
    expired = stats.get("totalMsgExpired", 0)
    figures = {"markDeletePosition": f"{broker[0]}:{broker[1]}", "totalMsgExpired": expired}
    place = f"the broker's mark-delete position is {broker[0]}:{broker[1]}, that of the capture is {mark[0]}:{mark[1]}"
    if broker < mark and capture.count(broker, mark):
        text = f"The cursor moved back: {place}. It was reset, or acknowledgements were lost."
        yield BrokerNote(FACT, text, subject, figures=figures)
    elif broker > mark and (passed := capture.count(mark, min(broker, capture.last)) - len(state.acked)) > 0:
        text = (
            f"The cursor moved forward by {count_of(passed, 'entry', 'entries')} that no ACK in the capture covers: "
            f"{place}. They were acknowledged later or outside the capture, skipped, or cleared"
        )
        text += f"; {count_of(expired, 'message')} expired." if expired else "; no message expired."
        yield BrokerNote(FACT, text, subject, figures=figures)
