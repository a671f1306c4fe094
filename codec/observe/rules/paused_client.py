"""A consumer whose receiver queue is full and whose application takes no messages from the queue.

## What it means

The client received as many messages as its queue can contain and did not request more. This happens when the
application stops taking messages: it sleeps, waits, processes one message for a long time, or has paused its listener.
Broker and client work correctly: permits are the mechanism by which the client makes the broker wait.

## On the wire

FLOW with the queue size, MESSAGEs until the permits are used up, and then neither FLOW nor ACK. In the broker's
statistics `availablePermits` is 0, and `unackedMessages` is near the size of the queue. On Shared subscriptions the
messages in that queue are not available to other consumers in the meantime. A paused listener may acknowledge all its
messages and still send no FLOW.

## What would disprove it

If an ACK or FLOW follows the last MESSAGE, the application is working, but slowly. Check the time from MESSAGE to ACK.
If earlier FLOWs granted fewer permits than the number of processed messages, the client is at fault: see
stuck-no-permits.

## What to do

Check what the application does at that moment: take a thread dump and read its log. If processing is slow by design,
use a smaller receiver queue, so that the consumer holds fewer messages that other consumers could process. If the
application is paused on purpose, nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import (
    FACTS,
    STOP_NS,
    Stop,
    attached,
    doubts_of,
    held,
    how_long,
    leaks,
    requests_single_messages,
    seen_until,
    stop_of,
    waiting,
)
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import about_consumer, at, consumer_subject, count_of, span
from pcli.codec.observe.rules.network_losses import ADVICE, silence_of
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_DURATION: Final = Threshold(
    "paused-client.duration", STOP_NS, "minimum time without a FLOW; twice this time if the pause has ended"
)
"""An application may need a moment for a batch."""

_PAUSED: Final = Cause(
    "application",
    "likely",
    ("a client library that keeps permits", "a process that is suspended (garbage collection, SIGSTOP, CPU limit)"),
    "The application's log, or a thread dump of its process, at that time.",
)
_STOPPED: Final = "an application that takes no messages"
_QUEUE_CLEARED: Final = Cause(
    "client", "likely", ("a paused listener",), "The client's statistics: the number of messages in its receiver queue."
)


@rule(
    "consumer",
    facts=("permits", "session", "connections", "durable", "asked_all", "last_message_ns", "last_ack_ns", *FACTS),
    title="a consumer that filled its receiver queue and then requested no more messages",
    issue="apache/pulsar#22069",
    thresholds=(_DURATION,),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for the current pause, or for the longest pause."""
    permits = consumer.permits
    stop = stop_of(permits.exhausted, consumer, moment)
    if stop is None or not permits.flows or not permits.known or leaks(consumer):
        return
    if not stop.over_frame:
        stop = _last_sign(stop, consumer, moment)
    if stop.lasted_ns < (2 if stop.over_frame else 1) * moment.value(_DURATION):
        return
    session = consumer.session
    if session is not None and stop.frame in (session.number, session.ready_frame):
        # A consumer also has no permits before its first FLOW, and a broker may need a long time to create the
        # consumer.
        stop = stop._replace(lasted_ns=stop.lasted_ns - max(0, session.ready_ns - stop.since_ns))
        if stop.lasted_ns < 2 * moment.value(_DURATION):
            return
    silence = silence_of(moment, consumer, stop.since_ns, (stop.frame, stop.over_frame), _STOPPED)
    likely = _QUEUE_CLEARED if _redelivery_request(consumer) and not stop.over_frame else _PAUSED
    cause, delivered = silence or (likely, "")
    yield Finding(
        "warning" if not stop.over_frame and _matters(consumer) else "note",
        "certain",
        cause,
        consumer_subject(consumer),
        _what(consumer, stop, moment) + delivered,
        stop.since_ns,
        [stop.frame, stop.over_frame, permits.last_flow_frame, consumer.last_ack_frame],
        _opposite(consumer, stop),
        ADVICE
        if silence
        else "Check what the application was doing at that time. If processing is slow by design, a smaller receiver "
        "queue leaves more messages for other consumers. If the application is paused on purpose, nothing is wrong.",
        count=held(consumer),
        until_ns=stop.until_ns,
        doubts=doubts_of(consumer),
    )


def _last_sign(stop: Stop, consumer: ConsumerRecord, moment: Moment) -> Stop:
    """Return the stop with its start moved to the last FLOW or MESSAGE. Both can arrive while there are no permits."""
    permits = consumer.permits
    signs = (
        (stop.since_ns, stop.frame),
        (permits.last_flow_ns, permits.last_flow_frame),
        (consumer.last_message_ns, consumer.last_message_frame),
    )
    since, frame = max(signs, key=lambda sign: sign[0])
    return Stop(since, seen_until(consumer, moment) - since, frame, 0)


def _matters(consumer: ConsumerRecord) -> bool:
    """Return whether entries are known to wait, including the messages held by a consumer that has left."""
    if not consumer.durable:
        return False  # the consumer is a reader that stopped reading
    left = waiting(consumer)
    return bool(left) or (held(consumer) > 0 and (left is None or not attached(consumer)))


def _redelivery_request(consumer: ConsumerRecord) -> int:
    """Return the frame of the last redelivery request for all messages if none was delivered since; otherwise 0."""
    requests = consumer.asked_all
    return (
        requests.frames[-1]
        if requests.frames and requests.last_ns > consumer.last_message_ns and not held(consumer)
        else 0
    )


def _what(consumer: ConsumerRecord, stop: Stop, moment: Moment) -> str:
    here = attached(consumer)
    about = f"{about_consumer(consumer)} {'has' if here else 'had'} used up its permits"
    about = f"{about} (queue size {consumer.permits.queue})"
    if requests_single_messages(consumer):
        about = f"{about_consumer(consumer)} requests messages one at a time"
    if stop.over_frame:
        lasted = f"{span(stop.lasted_ns)}, from {at(stop.frame)} to {at(stop.over_frame)}"
        return f"{about} and requested no message for {lasted}."
    left = waiting(consumer) if here else 0
    more = f"; {count_of(left, 'more entry waits', 'more entries wait')} in the subscription" if left else ""
    return (
        f"{about} and {'has requested' if here else 'requested'} no message {how_long(stop, consumer, moment)}. It "
        f"{'holds' if here else 'held'} {count_of(held(consumer), 'unacknowledged message')}{more}."
    )


def _opposite(consumer: ConsumerRecord, stop: Stop) -> str:
    if stop.over_frame:
        return f"The consumer resumed by itself with {at(stop.over_frame)}."
    flow = f"A FLOW after {at(stop.frame)} would show that the application takes messages; there is none"
    if rewind_frame := _redelivery_request(consumer):
        return (
            f"{flow}. The consumer requested redelivery of all messages in {at(rewind_frame)}: a client that clears "
            "its queue in this way must return the permits of the cleared messages."
        )
    if not held(consumer):
        return (
            f"{flow}. However, all delivered messages are acknowledged, and a blocked application would still hold "
            "some messages: the listener is paused, or a FLOW was lost before the point of capture."
        )
    seen = (
        f"the last ACK of the consumer is {at(consumer.last_ack_frame)}"
        if consumer.last_ack_ns > stop.since_ns
        else "there is no ACK after that frame either"
    )
    return f"{flow}, and {seen}."
