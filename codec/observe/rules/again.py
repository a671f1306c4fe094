"""The rules about messages that come again are tables of causes; this makes rules of them.

Rules of this file
1. That messages come again is how Pulsar works: it is a note. When consumers ask for it again and again, so that it is
   most of what is sent, it becomes a warning.
2. The cause was found by the tracker (topics.AGAIN). A hole in the capture may hide another one, and so may what was
   before it.
3. Who broke a connection tells how the sessions of the subscription's consumers have ended: that is likely, no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.loops import whose_end
from pcli.codec.observe.rules.wording import (
    about_subscription,
    certainty,
    count_of,
    first_of,
    frames_text,
    subscription_subject,
    why_unsure,
)
from pcli.codec.observe.tracking.records.counters import Tally
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

__all__ = ["Cause", "redelivery_rule"]

_MANY: Final = 20
"""Entries that came again, from which on half of all deliveries is a warning: fewer say nothing of a habit."""


class Cause(NamedTuple):
    """Why entries came again, as a rule says it."""

    culprit: str
    """Empty: whoever broke the connection."""
    because: str
    """To follow "came again": ``after the topic was unloaded``."""
    opposite: str
    advice: str
    sure: str = "certain"
    """At best."""
    severity: str = "note"
    """Empty: a note, or a warning when it is most of what is sent."""


def redelivery_rule(name: str, title: str, issue: str, causes: Mapping[str, Cause]) -> Rule:
    """A rule that finds these causes, words of topics.AGAIN, one finding for each."""

    def look(subscription: SubscriptionRecord, _moment: Moment) -> Iterator[Finding]:
        yield from _again(name, subscription, causes)

    rows = causes.values()
    facts = ["again", *(["entries_out"] if any(not row.severity for row in rows) else ())]
    facts += ["consumers.ends"] if any(not row.culprit for row in rows) else ()
    return Rule(name, "subscription", tuple(facts), title, issue, look)


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
            f"Entries of {about_subscription(subscription)} came again, in "
            f"{count_of(seen.count, 'delivery', 'deliveries')}, {cause.because}{first_of(seen)} "
            f"({frames_text(seen.frames)}).",
            seen.first_ns,
            seen.frames,
            cause.opposite + why_unsure(doubts),
            cause.advice,
            name,
        )


def _who_broke(subscription: SubscriptionRecord) -> str:
    whose = whose_end([end for one in subscription.consumers.values() for end in one.ends if end != "broker"])
    return "application" if whose == "client" else whose  # a client's side ends mostly with its process


def _severity(subscription: SubscriptionRecord, seen: Tally) -> str:
    return "warning" if seen.count >= _MANY and seen.count * 2 >= subscription.entries_out else "note"
