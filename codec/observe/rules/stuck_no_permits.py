"""A consumer that gets nothing because the broker may not send: it never asked, or its client keeps the permits.

## What it means

A broker sends only as many messages as a consumer has asked for. FLOW asks; every message delivered takes one permit
away. At zero the broker waits, however large the backlog is. Here the consumer stands at zero, or below, and stays
there, and it is not because the application is slow:

- *never asked*: SUBSCRIBE succeeded and not one FLOW followed. That is what a receiver queue of 0 does when nobody
  calls `receive`, and what a listener does that starts paused.
- *not returned*: the client was seen to return too few permits (permits-leaked, permits-wrong-count), until none were
  left. That is a fault of the client library.

## On the wire

SUBSCRIBE, SUCCESS, and then no FLOW for this consumer id. Or FLOW, MESSAGE, MESSAGE, …, ACK, ACK, …, and silence. In
the broker's statistics: `availablePermits` 0 (or negative after a batch), `unackedMessages` small, a backlog.

## What speaks for the opposite

A FLOW of this consumer behind the frames that are named. When part of the conversation is missing in the capture, that
FLOW may be in the hole; the finding is then only a possible one. A consumer that does hold its messages is another
case, and so is one whose FLOWs stop all at once: see paused-client.

## What to do

Never asked: call `receive`, resume the listener, or give it a receiver queue. Not returned: note the client's name and
version and report it with this capture. Closing and opening the consumer helps for the moment:
permits begin anew with SUBSCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.consumption import (
    FACTS,
    STOP_NS,
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


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Both causes; they exclude each other."""
    session, permits = consumer.session, consumer.permits
    if session is None or not permits.known or session.ready_ns < 0:
        return
    doubts = doubts_of(consumer)
    until = seen_until(consumer, moment)
    if not permits.flows:
        if until - session.ready_ns >= STOP_NS:
            yield _never(consumer, session.ready_ns, session.ready_frame, until, doubts)
        return
    stop = stop_of(permits.exhausted, consumer, moment)
    if stop is not None and stop.lasted_ns >= STOP_NS and not stop.over_frame and leaks(consumer):
        yield Finding(
            "stuck-no-permits",
            "error",
            "client",
            certainty(doubts, "likely"),
            consumer_subject(consumer),
            f"{about_consumer(consumer)} {'has' if attached(consumer) else 'had'} no permits "
            f"{how_long(stop, consumer, moment)}. It was sent "
            f"{count_of(permits.delivered, 'message')}, holds {held(consumer)} of them, and its client has asked "
            f"for {permits.flowed} in all with a queue of {permits.queue}: it returned too few.",
            stop.since_ns,
            [
                stop.frame,
                permits.last_flow_frame,
                *permits.short.frames,
                consumer.last_message_frame,
                consumer.last_ack_frame,
            ],
            f"A FLOW behind {at(permits.last_flow_frame)} would show that permits do return: there is none."
            + why_unsure(doubts),
            "Report it to the client library, with its version. Open the consumer anew to get going again.",
            "not-returned",
        )


def _never(consumer: ConsumerRecord, since_ns: int, frame: int, until: int, doubts: set[str]) -> Finding:
    backlog = waiting(consumer)
    waits = {None: "how much waits for it is not known", 0: "nothing waits for it"}.get(
        backlog, f"{count_of(backlog or 0, 'entry', 'entries')} wait for it"
    )
    return Finding(
        "stuck-no-permits",
        "note" if backlog == 0 else "error",
        "application",
        certainty(doubts),
        consumer_subject(consumer),
        f"{about_consumer(consumer)} has not asked for a single message since it was opened {span(until - since_ns)} "
        f"earlier in {at(frame)}; {waits}.",
        since_ns,
        [frame],
        "One FLOW of this consumer would show that it does ask: there is none." + why_unsure(doubts),
        "With a receiver queue of 0 a client asks only while the application waits in receive(); a paused listener "
        "asks for nothing. Call receive, resume it, or give it a receiver queue.",
        "never-asked",
    )


RULE = Rule(
    name="stuck-no-permits",
    group="consumer",
    facts=("permits", "session", *FACTS),
    title="a consumer without permits, which never asked or whose client does not return them",
    issue="apache/pulsar#380",
    look=look,
)
