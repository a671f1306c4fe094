"""A consumer that receives nothing because it has no permits: it sent no FLOW, or its client does not return permits.

## What it means

A broker sends only as many messages as a consumer has requested. FLOW grants permits; each delivered message uses one
permit. At zero the broker waits, however large the backlog is. Here the consumer remains at zero or below, and the
reason is not a slow application:

- *never asked*: SUBSCRIBE succeeded and no FLOW followed. This happens with a receiver queue of 0 if the application
  does not call `receive`, and with a listener that starts paused.
- *not returned*: the client returned too few permits (permits-leaked, permits-wrong-count) until none were left. This
  is a fault of the client library.

## On the wire

SUBSCRIBE, SUCCESS, and then no FLOW for this consumer id. Or FLOW, MESSAGE, MESSAGE, …, ACK, ACK, …, and silence. In
the broker's statistics `availablePermits` is 0 (or negative after a batch), `unackedMessages` is small, and there is a
backlog.

## What would disprove it

A FLOW from this consumer after the listed frames. If the capture has a gap, the FLOW may be in it, and the certainty of
the finding is at most *possible*. Consumers that hold unacknowledged messages, and consumers whose FLOWs stop suddenly,
are reported by paused-client.

## What to do

For *never asked*, call `receive`, resume the listener, or configure a receiver queue. For *not returned*, report the
problem to the developers of the client library. State its version and attach this capture. Reopening the consumer helps
temporarily, because permits are reset by SUBSCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import (
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
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import about_consumer, at, consumer_subject, count_of, span
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_DURATION: Final = Threshold("stuck-no-permits.duration", STOP_NS, "minimum time without permits")

_NOT_RETURNED: Final = Cause(
    "client",
    "likely",
    ("an application that has stopped receiving messages",),
    "The client's statistics: the number of messages in its receiver queue.",
)
_NEVER_REQUESTED: Final = Cause(
    "application",
    "likely",
    ("a client library that lost its first FLOW",),
    "A thread dump of the application: it shows whether a thread waits in receive().",
)


@rule(
    "consumer",
    facts=("permits", "session", *FACTS),
    title="a consumer without permits, because it sent no FLOW or its client does not return permits",
    issue="apache/pulsar#380",
    because_of=("permits-leaked", "permits-wrong-count"),
    thresholds=(_DURATION,),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for one of the two causes, which exclude each other."""
    session, permits = consumer.session, consumer.permits
    if session is None or not permits.known or session.ready_ns < 0:
        return
    doubts = doubts_of(consumer)
    until = seen_until(consumer, moment)
    if not permits.flows:
        if until - session.ready_ns >= moment.value(_DURATION):
            yield _never_requested(consumer, session.ready_ns, session.ready_frame, until, doubts)
        return
    stop = stop_of(permits.exhausted, consumer, moment)
    if stop is not None and stop.lasted_ns >= moment.value(_DURATION) and not stop.over_frame and leaks(consumer):
        yield Finding(
            "error",
            "certain",
            _NOT_RETURNED,
            consumer_subject(consumer),
            f"{about_consumer(consumer)} {'has had' if attached(consumer) else 'had'} no permits "
            f"{how_long(stop, consumer, moment)}. It received {count_of(permits.delivered, 'message')} and holds "
            f"{held(consumer)} of them, and its client requested only {permits.flowed} messages in total with a queue "
            f"of {permits.queue}.",
            stop.since_ns,
            [
                stop.frame,
                permits.last_flow_frame,
                *permits.short.frames,
                consumer.last_message_frame,
                consumer.last_ack_frame,
            ],
            f"A FLOW after {at(permits.last_flow_frame)} would show that permits are returned; there is none.",
            "Report the problem and the version of the client library to its developers. Reopen the consumer to "
            "resume delivery.",
            "not-returned",
            count=held(consumer),
            doubts=doubts,
        )


def _never_requested(consumer: ConsumerRecord, since_ns: int, frame: int, until: int, doubts: set[str]) -> Finding:
    backlog = waiting(consumer)
    exact = consumer.subscription is not None and consumer.subscription.backlog is not None
    waits = {None: "The backlog is unknown", 0: "There is no backlog"}.get(
        backlog, f"The backlog is {'' if exact else 'at least '}{count_of(backlog or 0, 'entry', 'entries')}"
    )
    return Finding(
        "note" if backlog == 0 else "error",
        "certain",
        _NEVER_REQUESTED,
        consumer_subject(consumer),
        f"{about_consumer(consumer)} has sent no FLOW in the {span(until - since_ns)} since it subscribed in "
        f"{at(frame)}. {waits}.",
        since_ns,
        [frame],
        "A FLOW from this consumer would disprove the finding; there is none.",
        "If the receiver queue is 0, a client sends a FLOW only while the application waits in receive(); a paused "
        "listener sends none. Call receive, resume the listener, or configure a receiver queue.",
        "never-asked",
        doubts=doubts,
    )
