"""Slots of a STICKY Key_Shared subscription that no attached consumer has: their messages are not delivered.

## What it means

In STICKY mode each consumer requests hash slots between 0 and 65535. The broker refuses overlapping ranges but
accepts incomplete ranges. Messages whose keys hash to an unassigned slot are delivered to no consumer, even if
consumers are idle. These messages stay in the backlog until a consumer requests the slot. The consumer that had the
slot may have left.

## On the wire

SUBSCRIBEs with `keySharedMeta` STICKY and `hashRanges` that together do not cover all slots; SENDs whose keys hash to
the unassigned slots; no MESSAGE with those keys, although every consumer has permits.

## What would disprove it

If a consumer with these slots exists on a connection that was not captured, the backlog shrinks. If the other consumers
have no permits, the waiting messages may belong to their slots.

## What to do

Assign the slots to a consumer. Compute the ranges from the number of consumers in one place, or use AUTO_SPLIT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import STOP_NS, held, seen_until
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_subscription, count_of, span, subscription_subject
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

_RANGES: Final = Cause(
    "application",
    "likely",
    ("a consumer with these slots on a connection that was not captured",),
    "`topics stats`: it lists the ranges of all consumers.",
)

_LAST_SLOT = 65_535


@rule(
    "subscription",
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
    title="slots of a STICKY subscription that no attached consumer has",
    issue="apache/pulsar#15898",
)
def evaluate(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if the last ranges leave slots unassigned while entries wait and all consumers have permits."""
    there = _there(subscription, moment)
    if subscription.key_shared_mode != "STICKY" or not there or not subscription.backlog:
        return
    since = max(subscription.topic.last_in_ns, *(one.session.ready_ns for one in there if one.session is not None))
    lasted = min(seen_until(one, moment) for one in there) - since
    unassigned = list(_unassigned_ranges(one.key_ranges for one in there))
    waiting = subscription.backlog - sum(map(held, there))
    if not unassigned or waiting <= 0 or lasted < STOP_NS or any(one.permits.balance <= 0 for one in there):
        return
    slots = ", ".join(f"{first} to {last}" for first, last in unassigned)
    yield Finding(
        "error",
        "likely",
        _RANGES,
        subscription_subject(subscription),
        f"{count_of(waiting, 'entry', 'entries')} of {about_subscription(subscription)} waited for {span(lasted)} "
        "while "
        f"{count_of(len(there), 'consumer')} had permits: no attached consumer has the slots {slots}.",
        since,
        [one.session.number for one in there if one.session is not None],
        "A MESSAGE with a key in these slots would disprove the finding; there is none.",
        "Assign the slots to a consumer, or use AUTO_SPLIT.",
        count=waiting,
        doubts=subscription.doubts - {"end"},
    )


def _there(subscription: SubscriptionRecord, moment: Moment) -> list[ConsumerRecord]:
    """Return the consumers that were open at the end or, if none was, when the last consumer left."""
    opened = [one for one in subscription.consumers.values() if one.session is not None and one.session.ready_ns >= 0]
    last = max((seen_until(one, moment) for one in opened), default=0)
    return [one for one in opened if last - seen_until(one, moment) < STOP_NS]


def _unassigned_ranges(ranges: Iterable[tuple[tuple[int, int], ...]]) -> Iterator[tuple[int, int]]:
    """Yield the first and last slot of each unassigned range."""
    slot = 0
    for first, last in sorted(one for some in ranges for one in some):
        if first > slot:
            yield slot, first - 1
        slot = max(slot, last + 1)
    if slot <= _LAST_SLOT:
        yield slot, _LAST_SLOT
