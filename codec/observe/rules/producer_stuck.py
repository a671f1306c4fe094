"""A producer whose requests the broker does not answer.

## What it means

Every SEND is answered with SEND_RECEIPT or SEND_ERROR. Here no response arrived for ten seconds or more while the
connection was open; clients give up after 30 s by default (`sendTimeout`). There are four cases:

- *no-receipt*: SENDs are pending and nothing arrives for them. If the broker sends other frames on the connection
  meanwhile, the cause is the topic: its storage, a full or slow bookie, or a move of the topic to another broker. If
  the broker sends nothing, it hangs or has stopped reading (too many SENDs in flight, publish rate limits). If TCP
  never acknowledged the SENDs, the network lost them.
- *slow*: the same as *no-receipt*, except that the receipts arrived in the end.
- *not-opened*: PRODUCER itself is unanswered.
- *unanswered*: the connection ended before the receipts arrived, and the messages were not resent.

## On the wire

SEND, SEND, …, and no frame with the producer's id from the broker. A rate limit looks different: a few receipts arrive
each second. A producer that waits for exclusive access (WaitForExclusive, `producer_ready` false) is not stuck either.

## What would disprove it

A receipt in a gap in the capture. If the capture has gaps, the certainty of the finding is at most *possible*.

## What to do

Search the broker's log for write errors. Check `topics stats-internal` (`state`, `pendingAddEntriesCount`), the publish
rate limits of the namespace and the topic, and the bookies. If the broker sends nothing at all, a capture on the
broker's host shows whether the SENDs arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, GAPS, Cause, Finding, Moment, Threshold, certainty, rule
from pcli.codec.observe.rules.finding_text import at, count_of, span, when
from pcli.codec.observe.rules.network_losses import ADVICE, loss_of
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.rules.producer_waiting import FENCING, fenced_by
from pcli.codec.observe.rules.segment_text import sealed_segment
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

_DURATION: Final = Threshold("producer-stuck.duration", 10_000_000_000, "minimum time without a response")
"""Delays of a few seconds are normal during broker restarts and with rate limits."""

_IN_GAP: Final = Cause("capture", "possible", ("a broker that did not respond",), "A capture without gaps.")
_NO_RESPONSE: Final = Cause(
    "broker",
    "likely",
    ("a publish rate limit",),
    "The broker's log and stats-internal of the topic, and the publish rates of the namespace.",
)
_SILENT: Final = Cause(
    "broker",
    "likely",
    ("a proxy or load balancer that received the requests", "a network that loses them, if the capture is live"),
    "A capture on the broker's host: it shows whether the requests arrive there.",
)
"""TCP delivered the requests; see network_losses. It reports a loss when the connection or the capture ends."""
_SLOW: Final = Cause(
    "broker",
    "likely",
    ("a publish rate limit", "a network that delayed the packets"),
    "The broker's log at that time, and the publish rates of the namespace.",
)
_NEVER_ANSWERED: Final = Cause(
    "broker",
    "likely",
    ("a network that lost the SENDs or the responses", "a client process that ended before the response arrived"),
    "A delivery of the messages, or a capture on the broker's host.",
)


@rule(
    "producer",
    facts=(
        "no_receipt",
        "open_sends",
        "oldest_open_frame",
        "lost",
        "heard_ns",
        "session",
        "waiting",
        "topic_record.segment",
        "sent_on_child",
        "on_segment",
        "send_errors",
        *FENCING,
    ),
    title="a producer whose PRODUCER or SENDs the broker does not answer",
    issue="streamnative/pulsar-rs#400",
    because_of=("broker-unavailable", "producer-waiting"),
    thresholds=(_DURATION,),
    effect=("SEND had no response", "SENDs had no response"),
)
def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for a current or past wait, an unanswered PRODUCER, and SENDs that were never answered."""
    if producer.heard_ns < 0:
        return  # the capture does not contain the broker's direction
    yield from _waiting(producer, moment)
    yield from _not_opened(producer, moment)
    yield from _unanswered(producer, moment)


def _waiting(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    wait, session = producer.no_receipt, producer.session
    doubts = producer.doubts - EDGES
    if wait.since_ns >= 0 and session is not None and not session.ended_frame:
        lasted = moment.now_ns - wait.since_ns
        if lasted < moment.value(_DURATION):
            return
        broker_sent = producer.heard_ns > wait.since_ns
        loss = loss_of(moment, session.stream, producer.oldest_open_frame)
        cause, delivered = loss or (_cause(doubts, broker_sent=broker_sent), "")
        activity = f"last sent data in {at(producer.heard_frame)}" if broker_sent else "sent nothing else"
        yield Finding(
            "error",
            "certain",
            cause,
            producer_subject(producer),
            f"{about_producer(producer)} has {count_of(producer.open_sends, 'SEND')} without a response, the oldest in "
            f"{at(producer.oldest_open_frame)}. No response has arrived since {at(wait.since_frame)}, "
            f"{when(moment, wait.since_ns)}. The broker {activity}.{delivered}",
            wait.since_ns,
            [producer.oldest_open_frame, wait.since_frame, producer.heard_frame],
            f"A SEND_RECEIPT or SEND_ERROR after {at(wait.since_frame)} would disprove the finding; there is none.",
            ADVICE
            if loss
            else "Search the broker's log for write errors. Check stats-internal of the topic and the publish rates."
            if broker_sent
            else "Capture on the broker's host: if the SENDs arrive there, the broker has stopped reading or hangs.",
            "no-receipt",
            count=producer.open_sends,
            doubts=doubts,
        )
    elif wait.count and wait.longest_ns >= moment.value(_DURATION) and not doubts & GAPS:
        first, last = wait.longest_frames
        if session is not None and 0 < session.ended_frame <= last:
            return  # no response ended the wait: see _unanswered
        yield Finding(
            "warning",
            certainty(doubts),
            _SLOW,
            producer_subject(producer),
            f"{about_producer(producer)} waited {span(wait.longest_ns)} for a response to its SENDs, from {at(first)} "
            f"to {at(last)}.",
            wait.longest_from_ns,
            [first, last],
            "A response in that time would disprove the finding; there is none.",
            "Check the broker's log and the bookies at that time, and the publish rate limits.",
            "slow",
        )


def _cause(doubts: set[str], *, broker_sent: bool) -> Cause:
    if GAPS & doubts:
        return _IN_GAP
    return _NO_RESPONSE if broker_sent else _SILENT


def _not_opened(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    session, doubts = producer.session, producer.doubts - EDGES
    if session is None or not session.number or session.ready_ns >= 0 or producer.waiting.count or session.end:
        return
    if moment.now_ns - session.began_ns < moment.value(_DURATION):
        return
    loss = loss_of(moment, session.stream, session.number)
    cause, delivered = loss or (_cause(doubts, broker_sent=producer.heard_ns > session.began_ns), "")
    yield Finding(
        "error",
        "certain",
        cause,
        producer_subject(producer),
        f"{about_producer(producer)} has not received a response to its PRODUCER ({at(session.number)}, "
        f"{when(moment, session.began_ns)}).{delivered}",
        session.began_ns,
        [session.number, producer.heard_frame],
        "A PRODUCER_SUCCESS or an ERROR would disprove the finding; there is none.",
        ADVICE if loss else "The broker is loading the topic, or hangs while loading it: check its log for this topic.",
        "not-opened",
        doubts=doubts,
    )


def _unanswered(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    lost, session = producer.lost, producer.session
    if not lost.count or session is None or not session.end or producer.doubts & GAPS or moment.capture.cut:
        return
    if fenced_by(producer, lost.first_ns) is not None:
        return  # the broker stores no message of a fenced producer: see producer-waiting
    loss = loss_of(moment, session.stream, lost.frames[0] if lost.frames else 0)
    cause, delivered = loss or (_NEVER_ANSWERED, "")
    if producer.on_segment and "TopicTerminatedError" in producer.send_errors:
        return  # a segment whose PRODUCER is not in the capture was sealed
    if producer.sent_on_child.count >= lost.count and sealed_segment(producer, session.ended_ns) is not None:
        return  # the messages were sent again to other segments: see producer-refused
    # The client may be about to reconnect when the capture ends.
    settled = moment.now_ns - session.ended_ns >= moment.value(_DURATION) or session.end == "closed"
    yield Finding(
        "warning",
        "likely" if settled else "possible",
        cause,
        producer_subject(producer),
        f"{about_producer(producer)} received no response to {count_of(lost.count, 'SEND')} before its session ended, "
        "and "
        f"has not resent {'it' if lost.count == 1 else 'them'}. "
        + (delivered.lstrip() or "Whether they were stored is unknown."),
        lost.first_ns,
        [*lost.frames, session.ended_frame],
        "A resend of the same message on another connection, or a delivery of the message, would show whether it was "
        "stored: search for its sequence id.",
        "Find out why the connection ended. The application received a timeout, or no error at all.",
        "unanswered",
        count=lost.count,
    )
