"""Messages that were delivered but never acknowledged, and the consumers that hold them.

## What it means

The messages stay in the subscription's backlog, and later data cannot be deleted. On Shared subscriptions they count
towards the limit on unacknowledged messages. When the consumer leaves or the topic is unloaded, they are redelivered.
Usual causes are an exception between `receive` and `acknowledge`, a code path without an acknowledgement, an
application that is still processing the messages, and a client that was stopped before it sent its grouped
acknowledgements.

## On the wire

MESSAGE with the id, and no ACK that covers it: no individual ACK, no cumulative ACK of the same or a later id on the
same consumer, and no ack set that clears the index of the message. The whole entry of a batch counts as held until the
last message in the batch is acknowledged, unless batch index acknowledgements are enabled.

## What would disprove it

An ACK after the end of the capture or in a gap. The finding is therefore never certain while the consumer is connected.
Messages that were delivered a moment ago are not reported while the consumer is attached. The finding is a warning if
messages are held longer than this consumer ever took to acknowledge a message. It is a note if the subscription was
removed (UNSUBSCRIBE), if the consumer has requested the messages before and the next request is not due yet, and if the
messages were younger than a second when the consumer ended. In the last case the application may have acknowledged
them: clients collect acknowledgements for 100 ms, and a process that ends without close() loses them.

## What to do

`pcli trace --unacked` shows the lifecycle of each message. Check the application's log at the time of the oldest
message. If messages cannot be processed, reject them (negative acknowledgement, dead letter policy). If an
acknowledgement timeout is set, messages that the application never acknowledges are redelivered.

docs/clients.md lists how each client groups acknowledgements, and which ones it loses at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import FACTS, attached, doubts_of, left, seen_until, waiting
from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, Threshold, certainty, rule, why_unsure
from pcli.codec.observe.rules.finding_text import about_consumer, at, consumer_subject, count_of, span, when
from pcli.codec.observe.rules.network_losses import ADVICE, connection_at, loss_of, silence_of
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_AGE: Final = Threshold("never-acked.age", 1_000_000_000, "minimum age of the oldest unacknowledged message")
"""Messages that are held for a shorter time may still be in processing."""

_NOT_ACKNOWLEDGED: Final = Cause(
    "application",
    "likely",
    (
        "a client library that did not send the acknowledgements",
        "acknowledgements that were lost between the client and the point of capture",
    ),
    "The application's log, or a capture on the client's host.",
)
_FLUSH_NS: Final = 50_000_000
"""Maximum time from the last ACKs, which close() sends, to CLOSE_CONSUMER."""

_NOT_SENT: Final = Cause(
    "application",
    "possible",
    (
        "a process that ended without close(): its client discards the acknowledgements that it has not sent yet",
        "a normal end: the messages are delivered to the next consumer",
    ),
    "The application's log: whether it processed the messages.",
)


@rule(
    "consumer",
    facts=(
        "never_acked_oldest_ns",
        "ack_age_max_ns",
        "never_acked_requested_ns",
        "last_ack_ns",
        "session",
        "connections",
        "durable",
        "subscription.consumers.last_message_ns",
        "subscription.gone",
        "subscription.topic.persistent",
        *FACTS,
    ),
    title="messages that were delivered but not acknowledged, and the consumers that hold them",
    issue="apache/pulsar#7683",
    because_of=("paused-client",),
    thresholds=(_AGE,),
    effect=("message was not acknowledged", "messages were not acknowledged"),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for messages that are held for a long time and have not been delivered to another consumer."""
    kept = consumer.never_acked
    if not kept.count or consumer.session is None or _needs_no_ack(consumer):
        return
    until, here = seen_until(consumer, moment), attached(consumer)
    age = until - consumer.never_acked_oldest_ns
    young = age < moment.value(_AGE)
    if young and (here or age >= _AGE.default or _flushed(consumer, until)):
        return
    if not here and _was_redelivered(consumer, until):
        return
    if not here and consumer.subscription is not None and consumer.subscription.gone:
        yield _unsubscribed(consumer)
        return
    doubts = doubts_of(consumer)
    rejected = age < consumer.never_acked_requested_ns
    slowest = consumer.ack_age_max_ns
    compared = "the consumer has acknowledged no message"
    if consumer.ack_ages.count:
        compared = f"the slowest acknowledgement of the consumer took {span(slowest)}"
    elif consumer.last_ack_frame:
        compared = f"the last ACK of the consumer is {at(consumer.last_ack_frame)}"
    lost = kept.frames[0] if kept.frames else 0
    loss = loss_of(moment, connection_at(consumer, lost), lost, from_client=False)
    if loss is None:
        sent_ns = consumer.never_acked_oldest_ns + slowest
        other = "an application that does not acknowledge the messages"
        loss = silence_of(moment, consumer, sent_ns, (lost, 0), other)
    cause, delivered = loss or (_NOT_SENT if young else _NOT_ACKNOWLEDGED, "")
    if rejected:
        delivered += (
            f" The consumer had requested {'it' if kept.count == 1 else 'them'} again "
            f"{span(consumer.never_acked_requested_ns)} after the delivery before."
        )
    oldest = f" ({printable(kept.sample)})" if kept.sample else ""
    since = when(moment, consumer.never_acked_oldest_ns) if here else f"{span(age)} before {left(consumer)}"
    yield Finding(
        "note" if young or rejected or age <= slowest + (moment.value(_AGE) if here else 0) else "warning",
        certainty(doubts - EDGES if loss else doubts),
        cause,
        consumer_subject(consumer),
        f"{about_consumer(consumer)} {'holds' if here else 'left'} {count_of(kept.count, 'unacknowledged message')}; "
        f"the oldest{oldest} was delivered {since}; {compared}.{delivered}",
        consumer.never_acked_oldest_ns,
        [*kept.frames, consumer.last_ack_frame],
        f"An ACK after their last delivery would disprove the finding; there is none in the observed {span(age)}."
        + why_unsure(doubts),
        ADVICE
        if loss
        else "`pcli trace --unacked` shows the lifecycle of each message. Check the application's log at the time of "
        "the oldest message.",
        count=kept.count,
    )


def _unsubscribed(consumer: ConsumerRecord) -> Finding:
    """Return the finding about messages that were unacknowledged when their subscription was removed."""
    kept, session = consumer.never_acked, consumer.session
    return Finding(
        "note",
        certainty(consumer.doubts - EDGES),
        Cause("application"),
        consumer_subject(consumer),
        f"{about_consumer(consumer)} held {count_of(kept.count, 'unacknowledged message')} when the subscription was "
        "removed (UNSUBSCRIBE). They are not redelivered.",
        consumer.never_acked_oldest_ns,
        [session.ended_frame if session is not None else 0, *kept.frames],
        "Nothing: the broker confirmed the UNSUBSCRIBE.",
        "Nothing, if the subscription is no longer needed. Otherwise close the consumer without unsubscribe.",
        "unsubscribed",
        count=kept.count,
    )


def _flushed(consumer: ConsumerRecord, left_ns: int) -> bool:
    """Return whether a consumer was closed with close(), or removed: the client has sent its grouped ACKs."""
    gone = consumer.subscription is not None and consumer.subscription.gone
    return gone or left_ns - consumer.last_ack_ns < _FLUSH_NS


def _needs_no_ack(consumer: ConsumerRecord) -> bool:
    """Return whether ACKs are unnecessary because the consumer is a reader or its topic is not persistent."""
    subscription = consumer.subscription
    if subscription is None or not consumer.topic:
        return not consumer.ack_ages.count
    return not consumer.durable or not subscription.topic.persistent


def _was_redelivered(consumer: ConsumerRecord, left_ns: int) -> bool:
    """Return whether other consumers received the messages: no entry waits, or they have received messages since."""
    others = consumer.subscription.consumers.values() if consumer.subscription is not None else ()
    since = any(one is not consumer and one.last_message_ns > left_ns for one in others)
    return since or waiting(consumer) == 0
