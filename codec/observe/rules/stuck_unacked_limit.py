"""A consumer that receives nothing although it has permits, because it reached the limit on unacknowledged messages.

## What it means

On Shared and Key_Shared subscriptions, a broker stops sending to a consumer that holds `maxUnackedMessagesPerConsumer`
messages (50,000 by default; the namespace or topic can set a lower limit). It also stops sending to a whole
subscription if its consumers together hold `maxUnackedMessagesPerSubscription` messages. The broker resumes when half
of these messages are acknowledged. The usual cause is that the application acknowledges no messages or only some of
them (an exception before the ACK, a code path without an ACK).

## On the wire

Many MESSAGEs with few or no ACKs, then no MESSAGE, despite permits from FLOWs. In the broker's statistics
`blockedConsumerOnUnackedMsgs` is true. The limit itself is not on the wire: it is inferred from the point at which the
broker stops sending.

## What would disprove it

The finding is wrong if, after the listed frame, an ACK or a redelivery request from this consumer reduces the number of
unacknowledged messages below half of the limit. If the consumer still receives nothing, dispatcher-silent applies. If
the consumer has no permits, see stuck-no-permits and paused-client.

## What to do

Find the held messages (never-acked lists the oldest message, and `pcli trace --unacked` lists all messages), and the
reason why they are not acknowledged. Reject messages that cannot be processed, with a negative acknowledgement or a
dead letter policy. Raising the limit only delays the problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import FACTS, STOP_NS, attached, doubts_of, held, how_long, stop_of
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import about_consumer, at, consumer_subject, count_of, span
from pcli.codec.observe.rules.network_losses import silence_of
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_DURATION: Final = Threshold("stuck-unacked-limit.duration", STOP_NS, "minimum time without a message")

KNOWN_LIMIT_STOP_NS: Final = 100_000_000
"""Minimum duration in ns of a stop at a number of messages at which another consumer was blocked."""

_NOT_ACKNOWLEDGED: Final = Cause(
    "application",
    "likely",
    (
        "a client library that did not send the acknowledgements",
        "acknowledgements that were lost between the client and the point of capture",
    ),
    "The application's log, or a capture on the client's host.",
)


@rule(
    "consumer",
    facts=(
        "blocked",
        "blocked_at",
        "permits",
        "last_ack_ns",
        "subscription.consumers.last_message_ns",
        "subscription.consumers.priority",
        "priority",
        "subscription.consumers.blocked_at",
        "session",
        "connections",
        *FACTS,
    ),
    title="a consumer that receives nothing because it holds too many unacknowledged messages",
    issue="apache/pulsar#22657",
    because_of=("paused-client", "never-acked"),
    thresholds=(_DURATION,),
    effect=("message was held when the limit was reached", "messages were held when the limit was reached"),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for the current block, or for the longest block."""
    least_ns = KNOWN_LIMIT_STOP_NS if consumer.blocked_at in _other_limits(consumer) else moment.value(_DURATION)
    stop = stop_of(consumer.blocked, consumer, moment, least_ns)
    if stop is None or stop.lasted_ns < least_ns:
        return
    if silence_of(moment, consumer, stop.since_ns, (stop.frame, stop.over_frame), ""):
        return  # dispatcher-silent reports it
    permits = consumer.permits.balance
    blocked_at = consumer.blocked_at or held(consumer)
    if stop.over_frame:
        what = (
            f"{about_consumer(consumer)} held {count_of(blocked_at, 'unacknowledged message')} and received "
            f"nothing for {span(stop.lasted_ns)}, from {at(stop.frame)} to {at(stop.over_frame)}: it had reached the "
            "limit "
            "on unacknowledged messages."
        )
        opposite = f"The block ended with {at(stop.over_frame)}."
    else:
        more = f", although its client had requested {permits} more" if permits > 0 else ""
        what = (
            f"{about_consumer(consumer)} held {count_of(blocked_at, 'unacknowledged message')} when the broker "
            f"stopped sending to it{more}: it had reached the limit on unacknowledged messages. "
            f"It {'has received' if attached(consumer) else 'received'} nothing "
            f"{how_long(stop, consumer, moment)}."
        )
        opposite = (
            f"Acknowledgements of half of them after {at(stop.frame)} would end the block; the consumer still holds "
            f"{held(consumer)}, and its last ACK is {at(consumer.last_ack_frame)}."
            if consumer.last_ack_ns > stop.since_ns
            else f"An ACK or a redelivery request from this consumer after {at(stop.frame)} would end the block; "
            "there is none."
        )
    yield Finding(
        "warning" if stop.over_frame else "error",
        "certain" if consumer.blocked.count > 1 or _others_received(consumer, stop.since_ns) else "likely",
        _NOT_ACKNOWLEDGED,
        consumer_subject(consumer),
        what,
        stop.since_ns,
        [stop.frame, stop.over_frame, consumer.last_ack_frame, *consumer.never_acked.frames],
        opposite,
        "Find out why the application does not acknowledge messages; never-acked reports the oldest message. Reject "
        "messages that cannot be processed (negative acknowledgement, dead letter policy). The limit is set by "
        f"{_limit(consumer)}.",
        count=blocked_at,
        until_ns=stop.until_ns,
        doubts=doubts_of(consumer),
    )


def _others_received(consumer: ConsumerRecord, since_ns: int) -> bool:
    """Return whether the broker sent messages to other consumers that it could have sent to this consumer.

    On Key_Shared they may have other keys; on Shared, consumers with a lower priority level receive messages first.
    """
    subscription = consumer.subscription
    if subscription is None or consumer.type != "Shared":
        return False
    others = (one for one in subscription.consumers.values() if one is not consumer)
    return any(one.last_message_ns > since_ns and one.priority >= consumer.priority for one in others)


def _other_limits(consumer: ConsumerRecord) -> set[int]:
    """Return the numbers of unacknowledged messages at which other consumers of the subscription were blocked."""
    others = consumer.subscription.consumers.values() if consumer.subscription is not None else ()
    return {one.blocked_at for one in others if one is not consumer and one.blocked.count}


def _limit(consumer: ConsumerRecord) -> str:
    """Return the limiting setting. A limit per consumer blocks each consumer at the same number."""
    stopped = _other_limits(consumer)
    if not stopped:
        return "maxUnackedMessagesPerConsumer"
    one_figure = stopped == {consumer.blocked_at}
    return f"{'maxUnackedMessagesPerConsumer or ' if one_figure else ''}maxUnackedMessagesPerSubscription"
