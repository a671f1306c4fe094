"""Slots of a STICKY Key_Shared subscription that no consumer has asked for: their messages wait for nobody.

## What it means

With sticky ranges each consumer names the hash slots that it wants, of 0 to 65535. The broker refuses ranges that
overlap, but not ones that leave a hole. Messages whose keys fall into a hole are delivered to nobody, however idle the
consumers are, and stay in the backlog until one comes for them.

## On the wire

SUBSCRIBE with `keySharedMeta` STICKY and `hashRanges` that do not cover all slots between them; SENDs whose keys hash
into the hole; no MESSAGE for them, although every consumer has permits.

## What speaks for the opposite

A consumer on a connection that was not captured has those slots: then the backlog shrinks. When the other consumers
have no permits the messages may be theirs.

## What to do

Give the hole to a consumer. Compute the ranges from the number of consumers in one place, or use AUTO_SPLIT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pcli.codec.observe.rules.consumption import STOP_NS, held, seen_until
from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    about_subscription,
    certainty,
    count_of,
    span,
    subscription_subject,
    why_unsure,
)
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

__all__ = ["RULE"]

_LAST_SLOT = 65_535


def look(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """A hole in the ranges of those that were there last, while something waits and all of them have permits."""
    there = _there(subscription, moment)
    if subscription.key_shared_mode != "STICKY" or not there or not subscription.backlog:
        return
    since = max(subscription.topic.last_in_ns, *(one.session.ready_ns for one in there if one.session is not None))
    lasted = min(seen_until(one, moment) for one in there) - since
    holes = list(_holes(one.key_ranges for one in there))
    waiting = subscription.backlog - sum(map(held, there))
    if not holes or waiting <= 0 or lasted < STOP_NS or any(one.permits.balance <= 0 for one in there):
        return
    slots = ", ".join(f"{first} to {last}" for first, last in holes)
    doubts = subscription.doubts - {"end"}
    yield Finding(
        "slots-unowned",
        "error",
        "application",
        certainty(doubts, "likely"),
        subscription_subject(subscription),
        f"{count_of(waiting, 'entry', 'entries')} of {about_subscription(subscription)} waited for {span(lasted)}, "
        f"while {count_of(len(there), 'consumer')} had permits: nobody has asked for the slots {slots}.",
        since,
        [one.session.number for one in there if one.session is not None],
        "A consumer with these slots on a connection that was not captured." + why_unsure(doubts),
        "Give the hole to a consumer, or use AUTO_SPLIT.",
    )


def _there(subscription: SubscriptionRecord, moment: Moment) -> list[ConsumerRecord]:
    """The consumers that were open at the moment at which the last of them was."""
    opened = [one for one in subscription.consumers.values() if one.session is not None and one.session.ready_ns >= 0]
    last = max((seen_until(one, moment) for one in opened), default=0)
    return [one for one in opened if last - seen_until(one, moment) < STOP_NS]


def _holes(ranges: Iterable[tuple[tuple[int, int], ...]]) -> Iterator[tuple[int, int]]:
    """What is left of all slots, first and last of each piece."""
    slot = 0
    for first, last in sorted(one for some in ranges for one in some):
        if first > slot:
            yield slot, first - 1
        slot = max(slot, last + 1)
    if slot <= _LAST_SLOT:
        yield slot, _LAST_SLOT


RULE = Rule(
    name="slots-unowned",
    group="subscription",
    facts=(
        "key_shared_mode",
        "backlog",
        "topic.last_in_ns",
        "consumers.key_ranges",
        "consumers.session",
        "consumers.unacked",
        "consumers.never_acked",
        "consumers.permits.balance",
    ),
    title="slots of a STICKY subscription that no consumer has asked for",
    issue="apache/pulsar#15898",
    look=look,
)
