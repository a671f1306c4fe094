"""A consumer with permits, not blocked, entries wait for it, and the broker sends nothing.

## What it means

Everything that a consumer must do is done, and nothing comes. This is what reports call a stuck dispatcher: reads from
storage that fail or hang, a lost wake-up after an unload or a change of the active consumer, an aggregate of permits
that has gone wrong.

## On the wire

SUBSCRIBE, FLOW, receipts for messages that are published, and no MESSAGE for seconds. The last FLOW is before the
silence, the balance above zero, the number of unacknowledged messages far from any limit.

## What speaks for the opposite

A dispatch rate limit (messages come in steps of a second), delayed messages whose time has not come, a subscription
that begins behind what is published, an entry filter, messages of a transaction that is open. None of these but the
delay is on the wire, so the finding is never a certain one.

## What to do

`topics stats` and `stats-internal` at such a moment: is `waitingReadOp` true, `availablePermits` above 0,
`blockedSubscriptionOnUnackedMsgs` false? Look for errors of reads in the broker's log. Unloading the topic sets the
dispatcher up anew, and loses the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumption import FACTS, attached, doubts_of, how_long, stop_of, waiting
from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    about_consumer,
    at,
    certainty,
    consumer_subject,
    count_of,
    span,
    why_unsure,
)
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]

_SILENT_NS: Final = 5_000_000_000
"""Rate limits make steps of a second, a change of the active consumer and read retries take some."""


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """The silence that lasts, or the longest."""
    stop = stop_of(consumer.silent, consumer, moment)
    if stop is None or stop.lasted_ns < _SILENT_NS or consumer.active is False:
        return
    doubts = doubts_of(consumer)
    permits = count_of(consumer.permits.balance, "permit")
    left = waiting(consumer)
    backlog = count_of(left, "entry", "entries") + " at least" if left else "entries"
    what = (
        f"{about_consumer(consumer)} got nothing during {span(stop.lasted_ns)}, from {at(stop.frame)} to "
        f"{at(stop.over_frame)}, although it had permits and entries waited for it."
        if stop.over_frame
        else f"{about_consumer(consumer)} {'gets' if attached(consumer) else 'got'} nothing "
        f"{how_long(stop, consumer, moment)}, although it had {permits}, was not blocked, and {backlog} waited for it."
    )
    yield Finding(
        "dispatcher-silent",
        "warning" if stop.over_frame else "error",
        "broker",
        certainty(doubts, "likely"),
        consumer_subject(consumer),
        what,
        stop.since_ns,
        [stop.frame, stop.over_frame, consumer.permits.last_flow_frame, consumer.last_message_frame],
        "A dispatch rate limit, a delay, an open transaction or an entry filter would explain it; they are not on the "
        "wire, or not seen here." + why_unsure(doubts),
        "Take `topics stats` and `stats-internal` at such a moment and look for failed reads in the broker's log, "
        "before you unload the topic.",
    )


RULE = Rule(
    name="dispatcher-silent",
    group="consumer",
    facts=("silent", "active", "permits.balance", "session", *FACTS),
    title="a consumer with permits and a backlog to which the broker sends nothing",
    issue="apache/pulsar#26164",
    look=look,
)
