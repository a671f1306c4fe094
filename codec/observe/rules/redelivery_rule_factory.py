"""Construction of redelivery rules from tables of causes.

Rules of this file
1. Redelivery is normal in Pulsar, so a finding is a note. It becomes a warning if consumers request redeliveries so
   often that they are at least half of all deliveries.
2. The tracker determines the cause (AGAIN). A gap in the capture, or the time before it, may hide another cause.
3. The cause of a broken connection is inferred from how the sessions of the subscription's consumers ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Rule
from pcli.codec.observe.rules.finding_text import (
    about_subscription,
    certainty,
    count_of,
    first_of,
    frames_text,
    subscription_subject,
    why_unsure,
)
from pcli.codec.observe.rules.reconnect_causes import cause_of_ends
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

__all__ = ["Redelivery", "redelivery_rule"]

_MIN_FOR_WARNING: Final = 20
"""Minimum number of redelivered messages for a warning."""

_EFFECT: Final = ("redelivery occurred", "redeliveries occurred")

_PROCESS_ENDED: Final = Cause(
    "application",
    "likely",
    ("a client library that closed the connection", "a network that reset the connection"),
    "The application's log at that time.",
)
"""The cause if the client's side ended the connection: usually its process ended."""


class Redelivery(NamedTuple):
    """One cause of redeliveries, and the wording of its finding."""

    cause: Cause | None
    """None: the side that broke the connection."""
    because: str
    """The text after "were redelivered 2 times": ``after the topic was unloaded``."""
    opposite: str
    advice: str
    certainty: str = "certain"
    """The highest certainty of the fact."""
    severity: str = "note"
    """The severity; if empty, a note, or a warning if at least half of all deliveries are redeliveries."""


def redelivery_rule(
    name: str, title: str, issue: str, redeliveries: Mapping[str, Redelivery], because_of: tuple[str, ...] = ()
) -> Rule:
    """Return a rule that reports each of these redeliveries; the keys are those of AGAIN."""

    def evaluate(subscription: SubscriptionRecord, _moment: Moment) -> Iterator[Finding]:
        yield from _again(name, subscription, redeliveries)

    rows = redeliveries.values()
    facts = ["again", *(["delivered"] if any(not row.severity for row in rows) else ())]
    facts += ["consumers.ends"] if any(row.cause is None for row in rows) else ()
    return Rule(name, "subscription", tuple(facts), title, issue, evaluate, because_of, effect=_EFFECT)


def _again(rule: str, subscription: SubscriptionRecord, redeliveries: Mapping[str, Redelivery]) -> Iterator[Finding]:
    doubts = subscription.doubts - {"end"}
    for name, row in redeliveries.items():
        seen = subscription.again.get(name)
        if seen is None or not seen.count:
            continue
        yield Finding(
            rule,
            row.severity or _severity(subscription, seen),
            certainty(doubts, row.certainty),
            row.cause or _who_broke(subscription),
            subscription_subject(subscription),
            f"{'A message' if seen.count == 1 else 'Messages'} of {about_subscription(subscription)} "
            f"{'was' if seen.count == 1 else 'were'} redelivered {count_of(seen.count, 'time')} {row.because}"
            f"{first_of(seen)} "
            f"({frames_text(seen.frames)}).",
            seen.first_ns,
            seen.frames,
            row.opposite + why_unsure(doubts),
            row.advice,
            name,
            count=seen.count,
            until_ns=seen.last_ns,
        )


def _who_broke(subscription: SubscriptionRecord) -> Cause:
    cause = cause_of_ends([end for one in subscription.consumers.values() for end in one.ends if end != "broker"])
    return _PROCESS_ENDED if cause.culprit == "client" else cause


def _severity(subscription: SubscriptionRecord, seen: Occurrences) -> str:
    return "warning" if seen.count >= _MIN_FOR_WARNING and seen.count * 2 >= subscription.delivered else "note"
