"""Construction of redelivery rules from tables of causes.

Rules of this file
1. Redelivery is normal in Pulsar, so a finding is a note. It becomes a warning if consumers request redeliveries so
   often that they are at least half of all deliveries.
2. The tracker determines the cause (AGAIN). A gap in the capture, or the time before it, may hide another cause.
3. The culprit of a broken connection is inferred from how the sessions of the subscription's consumers ended. The
   finding then has at most the certainty ``likely``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.finding_text import (
    about_subscription,
    certainty,
    count_of,
    first_of,
    frames_text,
    subscription_subject,
    why_unsure,
)
from pcli.codec.observe.rules.reconnect_causes import culprit_of_ends
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

__all__ = ["Cause", "redelivery_rule"]

_MIN_FOR_WARNING: Final = 20
"""Minimum number of redelivered entries for a warning."""


class Cause(NamedTuple):
    """A cause of redeliveries, and the wording of its finding."""

    culprit: str
    """The culprit; if empty, the side that broke the connection."""
    because: str
    """The text after "were redelivered": ``after the topic was unloaded``."""
    opposite: str
    advice: str
    sure: str = "certain"
    """The highest certainty."""
    severity: str = "note"
    """The severity; if empty, a note, or a warning if at least half of all deliveries are redeliveries."""


def redelivery_rule(name: str, title: str, issue: str, causes: Mapping[str, Cause]) -> Rule:
    """Return a rule that reports each of these causes, which are keys of AGAIN."""

    def evaluate(subscription: SubscriptionRecord, _moment: Moment) -> Iterator[Finding]:
        yield from _again(name, subscription, causes)

    rows = causes.values()
    facts = ["again", *(["entries_out"] if any(not row.severity for row in rows) else ())]
    facts += ["consumers.ends"] if any(not row.culprit for row in rows) else ()
    return Rule(name, "subscription", tuple(facts), title, issue, evaluate)


def _again(rule: str, subscription: SubscriptionRecord, causes: Mapping[str, Cause]) -> Iterator[Finding]:
    doubts = subscription.doubts - {"end"}
    for name, cause in causes.items():
        seen = subscription.again.get(name)
        if seen is None or not seen.count:
            continue
        yield Finding(
            rule,
            cause.severity or _severity(subscription, seen),
            cause.culprit or _who_broke(subscription),
            certainty(doubts, cause.sure),
            subscription_subject(subscription),
            f"Entries of {about_subscription(subscription)} were redelivered {cause.because}: "
            f"{count_of(seen.count, 'delivery', 'deliveries')}{first_of(seen)} ({frames_text(seen.frames)}).",
            seen.first_ns,
            seen.frames,
            cause.opposite + why_unsure(doubts),
            cause.advice,
            name,
        )


def _who_broke(subscription: SubscriptionRecord) -> str:
    culprit = culprit_of_ends([end for one in subscription.consumers.values() for end in one.ends if end != "broker"])
    return "application" if culprit == "client" else culprit  # a client's connection usually ends with its process


def _severity(subscription: SubscriptionRecord, seen: Occurrences) -> str:
    return "warning" if seen.count >= _MIN_FOR_WARNING and seen.count * 2 >= subscription.entries_out else "note"
