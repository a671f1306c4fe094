"""Findings about redelivered messages, by cause. The rules are in redelivery_table.py.

Rules of this file
1. Redelivery is normal in Pulsar, so a finding is a note. It becomes a warning if consumers request redeliveries so
   often that they are at least half of all deliveries.
2. The tracker determines the cause (AGAIN). A gap in the capture, or the time before it, may hide another cause.
3. The cause of a broken connection is inferred from how the sessions of the subscription's consumers ended.
4. A stream consumer closes its consumer of a segment when the controller assigns the segment to another. Then the
   application did not cause the redelivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import (
    about_subscription,
    count_of,
    first_of,
    frames_text,
    subscription_subject,
)
from pcli.codec.observe.rules.reconnect_causes import cause_of_ends
from pcli.codec.observe.rules.segment_text import is_handed_over
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

_MIN_FOR_WARNING: Final = 20
"""Minimum number of redelivered entries for a warning."""

_EFFECT: Final = ("message was redelivered", "messages were redelivered")

_PROCESS_ENDED: Final = Cause(
    "application",
    "likely",
    ("a client library that closed the connection", "a network that reset the connection"),
    "The application's log at that time.",
)
"""The cause if the client's side ended the connection: usually its process ended."""

_HANDED_OVER: Final = Cause(
    "broker",
    "likely",
    ("an application that closed its consumer",),
    "The assignments of the segment: `pcli stats segments`.",
)

_CLOSED: Final = ("left", "reopened")
"""Causes that a hand-over of a segment can have."""


def _nothing(_: SubscriptionRecord) -> str:
    return ""


class Redelivery(NamedTuple):
    """One cause of redeliveries, and the wording of its finding."""

    why: str
    """A key of AGAIN."""
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
    more: Callable[[SubscriptionRecord], str] = _nothing
    """Returns a further sentence that begins with a space, or an empty string."""


def define(
    name: str,
    title: str,
    issue: str,
    page: str,
    *rows: Redelivery,
    because_of: tuple[str, ...] = (),
    facts: tuple[str, ...] = (),
) -> None:
    """Define a rule that reports each of these redeliveries. ``facts`` are the fields that `Redelivery.more` reads."""

    def find(subscription: SubscriptionRecord, _moment: Moment) -> Iterator[Finding]:
        return _again(subscription, rows)

    read = ["again", "again_entries", *(["entries_out"] if any(not row.severity for row in rows) else ())]
    read += ["consumers.ends"] if any(row.cause is None for row in rows) else ()
    rule("subscription", (*read, *facts), title, issue, because_of, effect=_EFFECT, name=name, page=page)(find)


def _again(subscription: SubscriptionRecord, rows: Iterable[Redelivery]) -> Iterator[Finding]:
    for row in rows:
        seen = subscription.again.get(row.why)
        if seen is None or not seen.count:
            continue
        yield Finding(
            row.severity or _severity(subscription, row.why),
            row.certainty,
            _HANDED_OVER
            if row.why in _CLOSED and is_handed_over(subscription)
            else row.cause or _who_broke(subscription),
            subscription_subject(subscription),
            f"{about_subscription(subscription)} had {_redeliveries(subscription, row.why, seen)} {row.because}"
            f"{first_of(seen)} ({frames_text(seen.frames)}).{row.more(subscription)}",
            opposite=row.opposite,
            advice=row.advice,
            variant=row.why,
            seen=seen,
            until_ns=seen.last_ns,
            doubts=subscription.doubts - {"end"},
        )


def _who_broke(subscription: SubscriptionRecord) -> Cause:
    cause = cause_of_ends([end for one in subscription.consumers.values() for end in one.ends if end != "broker"])
    return _PROCESS_ENDED if cause.culprit == "client" else cause


def _redeliveries(subscription: SubscriptionRecord, cause: str, seen: Occurrences) -> str:
    """Return ``3 redeliveries``, or ``1 redelivery of 40 messages`` for batches."""
    entries = subscription.again_entries.get(cause, seen.count)
    words = count_of(entries, "redelivery", "redeliveries")
    return words if entries == seen.count else f"{words} of {count_of(seen.count, 'message')}"


def _severity(subscription: SubscriptionRecord, cause: str) -> str:
    entries = subscription.again_entries.get(cause, 0)
    return "warning" if entries >= _MIN_FOR_WARNING and entries * 2 >= subscription.entries_out else "note"
