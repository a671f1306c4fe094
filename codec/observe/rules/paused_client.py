"""A consumer whose queue is full and whose application takes nothing out of it.

## What it means

The client took as many messages as its queue holds and asked for no more. It does so when the application stops taking
messages: it sleeps, waits for something else, works long on one message, or has paused its listener. Nothing is wrong
with the broker or the client: permits are how the one tells the other to wait.

## On the wire

FLOW with the queue size, MESSAGE until the permits are used up, and then neither FLOW nor ACK. In the broker's
statistics: `availablePermits` 0, `unackedMessages` about the size of the queue. On Shared subscriptions the messages in
that queue are lost to the other consumers for the time. A paused listener may acknowledge all that it had and still ask
for nothing.

## What speaks for the opposite

An ACK or FLOW behind the last MESSAGE: the application works after all, only slowly. Then look at how long it takes
from MESSAGE to ACK. When earlier FLOWs brought fewer permits than messages were done it is the client's fault: see
stuck-no-permits.

## What to do

Look at what the application does at that moment: a thread dump, a log line. If it is slow by nature give it a smaller
receiver queue, so that it holds fewer messages that others could take. If it is paused on purpose all is well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumption import (
    FACTS,
    STOP_NS,
    Stop,
    asks_singly,
    attached,
    doubts_of,
    held,
    how_long,
    leaks,
    seen_until,
    stop_of,
    waiting,
)
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

_RECOVERED_NS: Final = 2 * STOP_NS
"""A pause that ended is told from here on: an application may take a moment for a batch."""


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """The pause that lasts, or the longest one."""
    permits = consumer.permits
    stop = stop_of(permits.exhausted, consumer, moment)
    if stop is None or not permits.flows or not permits.known or leaks(consumer):
        return
    if not stop.over_frame:
        stop = _last_sign(stop, consumer, moment)
    if stop.lasted_ns < (_RECOVERED_NS if stop.over_frame else STOP_NS):
        return
    session = consumer.session
    if session is not None and stop.frame in (session.number, session.ready_frame):
        # Until its first FLOW a consumer has no permits either; a broker may be long in opening it.
        stop = stop._replace(lasted_ns=stop.lasted_ns - max(0, session.ready_ns - stop.since_ns))
        if stop.lasted_ns < _RECOVERED_NS:
            return
    doubts = doubts_of(consumer)
    yield Finding(
        "paused-client",
        "warning" if not stop.over_frame and _matters(consumer) else "note",
        "client" if _given_back(consumer) and not stop.over_frame else "application",
        certainty(doubts, "certain" if stop.over_frame or held(consumer) else "likely"),
        consumer_subject(consumer),
        _what(consumer, stop, moment),
        stop.since_ns,
        [stop.frame, stop.over_frame, permits.last_flow_frame, consumer.last_ack_frame],
        _opposite(consumer, stop) + why_unsure(doubts),
        "Look at what the application was doing at that time. If it is slow by nature, a smaller receiver queue "
        "leaves more to the others; if it is paused on purpose all is well.",
    )


def _last_sign(stop: Stop, consumer: ConsumerRecord, moment: Moment) -> Stop:
    """A stop that lasts begins with the last FLOW or MESSAGE: both may come while there are no permits."""
    permits = consumer.permits
    signs = (
        (stop.since_ns, stop.frame),
        (permits.last_flow_ns, permits.last_flow_frame),
        (consumer.last_message_ns, consumer.last_message_frame),
    )
    since, frame = max(signs, key=lambda sign: sign[0])
    return Stop(since, seen_until(consumer, moment) - since, frame, 0)


def _matters(consumer: ConsumerRecord) -> bool:
    """Whether something waits, for all that is known; what one that has left held does."""
    if not consumer.durable:
        return False  # a reader that does not go on reading
    left = waiting(consumer)
    return bool(left) or (held(consumer) > 0 and (left is None or not attached(consumer)))


def _given_back(consumer: ConsumerRecord) -> int:
    """The frame with which it asked for all again, of which nothing has come since; 0: there is none."""
    asked = consumer.asked_all
    return asked.frames[-1] if asked.frames and asked.last_ns > consumer.last_message_ns and not held(consumer) else 0


def _what(consumer: ConsumerRecord, stop: Stop, moment: Moment) -> str:
    here = attached(consumer)
    about = f"{about_consumer(consumer)} {'has' if here else 'had'} used up its permits"
    about = f"{about} (its queue is {consumer.permits.queue})"
    if asks_singly(consumer):
        about = f"{about_consumer(consumer)} asks for each message singly"
    if stop.over_frame:
        lasted = f"{span(stop.lasted_ns)}, from {at(stop.frame)} to {at(stop.over_frame)}"
        return f"{about} and asked for nothing during {lasted}."
    left = waiting(consumer) if here else 0
    more = f"; {count_of(left, 'more entry waits', 'more entries wait')} in the subscription" if left else ""
    return (
        f"{about} and {'asks' if here else 'asked'} for nothing {how_long(stop, consumer, moment)}. It "
        f"{'holds' if here else 'held'} {count_of(held(consumer), 'unacknowledged message')}{more}."
    )


def _opposite(consumer: ConsumerRecord, stop: Stop) -> str:
    if stop.over_frame:
        return f"It went on by itself with {at(stop.over_frame)}."
    flow = f"A FLOW behind {at(stop.frame)} would show that the application takes messages: there is none"
    if given_back := _given_back(consumer):
        return (
            f"{flow}. It asked for all again in {at(given_back)}: a client that empties its queue so has to return the "
            "permits of what was in it."
        )
    if not held(consumer):
        return (
            f"{flow}. But all that it was sent is acknowledged, and an application that has stopped would still hold "
            "some: its listener is paused, or a FLOW was lost before it came here."
        )
    seen = (
        f"its last ACK is {at(consumer.last_ack_frame)}"
        if consumer.last_ack_ns > stop.since_ns
        else "there is no ACK behind it either"
    )
    return f"{flow}, and {seen}."


RULE = Rule(
    name="paused-client",
    group="consumer",
    facts=("permits", "session", "durable", "asked_all", "last_message_ns", "last_ack_ns", *FACTS),
    title="a consumer that took its queue full and then asked for nothing",
    issue="apache/pulsar#22069",
    look=look,
)
