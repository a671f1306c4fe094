"""Messages that were delivered and never acknowledged, and who holds them.

## What it means

They stay in the subscription's backlog, and nothing behind them can be cleaned up. On Shared subscriptions they count
against the limit of unacknowledged messages; when the consumer leaves, or the topic is unloaded, they come again. The
usual causes: an exception between `receive` and `acknowledge`, a branch that forgets it, an application that is busy
with them still, a client that groups acknowledgements and was stopped before it sent them.

## On the wire

MESSAGE with the id, and no ACK that covers it: no individual one, no cumulative one of that or a later id on the same
consumer, no bit set that takes its index out. With batches the whole entry counts as held until its last message is
acknowledged, unless batch index acknowledgements are on.

## What speaks for the opposite

An ACK later than the end of the capture, or in one of its holes: so this is never certain while the consumer lives.
Messages that were delivered only a moment ago are not told at all. It is a warning when they are held much longer than
this consumer ever took to acknowledge one.

## What to do

`pcli trace --unacked` shows the life of each. Look in the application's log at the time of the oldest one. If messages
cannot be worked on, reject them (negative acknowledgement, dead letter policy); an acknowledgement time-out brings
forgotten ones back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumption import FACTS, attached, doubts_of, left, seen_until, waiting
from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    about_consumer,
    at,
    certainty,
    consumer_subject,
    count_of,
    span,
    when,
    why_unsure,
)
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]

_LEAST_NS: Final = 1_000_000_000
"""Messages held for a shorter time may be on their way through the application."""

_LONG: Final = 3
"""How many times longer than its slowest acknowledgement makes it a warning."""


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """What is held, if it is held for long and nobody else has had it since."""
    kept = consumer.never_acked
    if not kept.count or consumer.session is None or _need_not(consumer):
        return
    until, here = seen_until(consumer, moment), attached(consumer)
    age = until - consumer.never_acked_oldest_ns
    if age < _LEAST_NS or (not here and _passed_on(consumer, until)):
        return
    doubts = doubts_of(consumer)
    slowest = consumer.ack_age_max_ns
    compared = "it has acknowledged nothing"
    if consumer.ack_ages.count:
        compared = f"its slowest acknowledgement took {span(slowest)}"
    elif consumer.last_ack_frame:
        compared = f"its last ACK is {at(consumer.last_ack_frame)}"
    oldest = f" ({printable(kept.sample)})" if kept.sample else ""
    since = when(moment, consumer.never_acked_oldest_ns) if here else f"{span(age)} before {left(consumer)}"
    yield Finding(
        "never-acked",
        "warning" if age > _LEAST_NS + _LONG * slowest else "note",
        "application",
        certainty(doubts),
        consumer_subject(consumer),
        f"{about_consumer(consumer)} {'holds' if here else 'left'} {count_of(kept.count, 'message')} "
        f"unacknowledged, the oldest{oldest} delivered {since}; {compared}.",
        consumer.never_acked_oldest_ns,
        [*kept.frames, consumer.last_ack_frame],
        f"An ACK that covers them: there is none in the {span(age)} that were seen." + why_unsure(doubts),
        "`pcli trace --unacked` shows the life of each; look in the application's log at the time of the oldest.",
    )


def _need_not(consumer: ConsumerRecord) -> bool:
    """Whether it may be one that acknowledges nothing, or to nobody: a reader, or of a topic that keeps nothing."""
    subscription = consumer.subscription
    if subscription is None or not consumer.topic:
        return not consumer.ack_ages.count
    return not consumer.durable or not subscription.topic.persistent


def _passed_on(consumer: ConsumerRecord, left_ns: int) -> bool:
    """Whether others have had what it left: nothing waits, or somebody was given messages since."""
    others = consumer.subscription.consumers.values() if consumer.subscription is not None else ()
    since = any(one is not consumer and one.last_message_ns > left_ns for one in others)
    return since or waiting(consumer) == 0


RULE = Rule(
    name="never-acked",
    group="consumer",
    facts=(
        "never_acked_oldest_ns",
        "ack_age_max_ns",
        "session",
        "durable",
        "subscription.consumers.last_message_ns",
        "subscription.topic.persistent",
        *FACTS,
    ),
    title="messages that were delivered and not acknowledged, and by whom they are held",
    issue="apache/pulsar#7683",
    look=look,
)
