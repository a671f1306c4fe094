"""A consumer that gets nothing although it has permits: it holds as many unacknowledged messages as it may.

## What it means

On Shared and Key_Shared subscriptions a broker stops sending to a consumer that holds
`maxUnackedMessagesPerConsumer` messages (50,000 unless it is set lower for the namespace or topic), and to a whole
subscription at `maxUnackedMessagesPerSubscription`. It goes on when half of them are acknowledged. The usual cause: the
application does not acknowledge, or only a part (an exception before the ACK, a filter that forgets it).

## On the wire

MESSAGE after MESSAGE with few or no ACKs, then none, in spite of permits from FLOWs. In the broker's statistics
`blockedConsumerOnUnackedMsgs: true`. The limit itself is not on the wire: it is concluded from where the broker stops.

## What speaks for the opposite

An ACK or REDELIVER of this consumer behind the frame named that brings it below half, and still nothing comes: then it
is dispatcher-silent. A consumer without permits is another case too.

## What to do

Find the messages that it holds (never-acked names the oldest; `pcli trace --unacked`), and why they are not
acknowledged. Messages that cannot be worked on want a negative acknowledgement or a dead letter policy. Raising the
limit only moves the moment.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.consumption import FACTS, STOP_NS, attached, doubts_of, held, how_long, stop_of
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


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """The block that lasts, or the longest one."""
    stop = stop_of(consumer.blocked, consumer, moment)
    if stop is None or stop.lasted_ns < STOP_NS:
        return
    doubts = doubts_of(consumer)
    permits = consumer.permits.balance
    blocked_at = consumer.blocked_at or held(consumer)
    if stop.over_frame:
        what = (
            f"{about_consumer(consumer)} held {count_of(blocked_at, 'unacknowledged message')} and got "
            f"nothing during {span(stop.lasted_ns)}, from {at(stop.frame)} to {at(stop.over_frame)}: the limit of "
            "unacknowledged messages was reached."
        )
        opposite = f"It was over with {at(stop.over_frame)}."
    else:
        what = (
            f"{about_consumer(consumer)} held {count_of(blocked_at, 'unacknowledged message')} when the broker "
            f"stopped sending to it, with {count_of(permits, 'permit')}: the limit of unacknowledged messages was "
            f"reached. {'It gets' if attached(consumer) else 'It got'} nothing {how_long(stop, consumer, moment)}."
        )
        opposite = (
            f"Acknowledgements of half of them behind {at(stop.frame)} would lift it: it holds {held(consumer)} still, "
            f"and its last ACK is {at(consumer.last_ack_frame)}."
            if consumer.last_ack_ns > stop.since_ns
            else f"An ACK or REDELIVER of it behind {at(stop.frame)} would lift it: there is none."
        )
    yield Finding(
        "stuck-unacked-limit",
        "warning" if stop.over_frame else "error",
        "application",
        certainty(
            doubts, "certain" if consumer.blocked.count > 1 or _others_went_on(consumer, stop.since_ns) else "likely"
        ),
        consumer_subject(consumer),
        what,
        stop.since_ns,
        [stop.frame, stop.over_frame, consumer.last_ack_frame, *consumer.never_acked.frames],
        opposite + why_unsure(doubts),
        "Find out why it does not acknowledge: never-acked names the oldest. Reject what cannot be worked on "
        f"(negative acknowledgement, dead letter policy). {_limit(consumer)} is the limit.",
    )


def _others_went_on(consumer: ConsumerRecord, since_ns: int) -> bool:
    """Whether the subscription's other consumers were served meanwhile: the broker itself was well."""
    others = consumer.subscription.consumers.values() if consumer.subscription is not None else ()
    return any(one is not consumer and one.last_message_ns > since_ns for one in others)


def _limit(consumer: ConsumerRecord) -> str:
    """Which setting it is: one for all consumers stops each at the same number."""
    others = consumer.subscription.consumers.values() if consumer.subscription is not None else ()
    stopped = {one.blocked_at for one in others if one is not consumer and one.blocked.count}
    if not stopped:
        return "maxUnackedMessagesPerConsumer"
    one_figure = stopped == {consumer.blocked_at}
    return f"{'maxUnackedMessagesPerConsumer or ' if one_figure else ''}maxUnackedMessagesPerSubscription"


RULE = Rule(
    name="stuck-unacked-limit",
    group="consumer",
    facts=(
        "blocked",
        "blocked_at",
        "permits",
        "last_ack_ns",
        "subscription.consumers.last_message_ns",
        "subscription.consumers.blocked_at",
        "session",
        *FACTS,
    ),
    title="a consumer that is not served because it holds too many unacknowledged messages",
    issue="apache/pulsar#22657",
    look=look,
)
