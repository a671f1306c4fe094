"""A producer that sends, or wants to, and the broker does not answer.

## What it means

Every SEND is answered with SEND_RECEIPT or SEND_ERROR. Here the answers stay away for ten seconds or more while the
connection lives; clients give up after 30 s by default (`sendTimeout`). Four cases:

- *no-receipt*: SENDs wait and nothing comes for them. When the broker says other things on the connection meanwhile,
  it is the topic that hangs: storage, a full or slow bookie, a topic that is being moved. When it says nothing at all,
  it may be the network, or a broker that has stopped reading (too many SENDs in flight, publish rate limits).
- *slow*: the same, but receipts came in the end.
- *not-opened*: PRODUCER itself has no answer.
- *unanswered*: the connection ended before the receipts came, and nobody has sent those messages again.

## On the wire

SEND, SEND, …, and no frame with the producer's id from the broker. A rate limit looks different: receipts come, a few
each second. A producer that waits for its turn (WaitForExclusive, `producer_ready` false) is not stuck either.

## What speaks for the opposite

A receipt in a hole of the capture: with holes the finding is only a possible one.

## What to do

Look at the broker's log for write errors and at `topics stats-internal` (`state`, `pendingAddEntriesCount`), at the
publish rate limits of namespace and topic, and at the bookies. When the broker says nothing at all: a capture on its
host shows whether the SENDs arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.production import about_producer, producer_subject
from pcli.codec.observe.rules.wording import EDGES, HOLES, at, certainty, count_of, span, when, why_unsure
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE"]

STUCK_NS: Final = 10_000_000_000
"""From when on answers are missing: restarts of a broker and rate limits take some seconds."""


def look(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """The wait that lasts or the longest, a PRODUCER without answer, SENDs that were never answered."""
    if producer.heard_ns < 0:
        return  # that side of the connection is not in the capture
    yield from _waiting(producer, moment)
    yield from _not_opened(producer, moment)
    yield from _unanswered(producer, moment)


def _waiting(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    wait, session = producer.no_receipt, producer.session
    doubts = producer.doubts - EDGES
    if wait.since_ns >= 0 and session is not None and not session.ended_frame:
        lasted = moment.now_ns - wait.since_ns
        if lasted < STUCK_NS:
            return
        heard = producer.heard_ns > wait.since_ns
        said = f"its last is {at(producer.heard_frame)}" if heard else "it has said nothing on the connection either"
        yield Finding(
            "producer-stuck",
            "error",
            _whose(doubts, heard=heard),
            certainty(doubts, "certain" if heard else "likely"),
            producer_subject(producer),
            f"{about_producer(producer)} has {count_of(producer.open_sends, 'SEND')} without an answer, the oldest in "
            f"{at(producer.oldest_open_frame)}; nothing came for them since {at(wait.since_frame)}, "
            f"{when(moment, wait.since_ns)}. The broker: {said}.",
            wait.since_ns,
            [producer.oldest_open_frame, wait.since_frame, producer.heard_frame],
            f"A SEND_RECEIPT or SEND_ERROR behind {at(wait.since_frame)}: there is none." + why_unsure(doubts),
            "Look for write errors in the broker's log, at stats-internal of the topic, at publish rate limits."
            if heard
            else "Capture on the broker's host: do the SENDs arrive? Then it has stopped reading or hangs.",
            "no-receipt",
        )
    elif wait.count and wait.longest_ns >= STUCK_NS and not doubts & HOLES:
        first, last = wait.longest_frames
        yield Finding(
            "producer-stuck",
            "warning",
            "broker",
            "likely",
            producer_subject(producer),
            f"{about_producer(producer)} waited {span(wait.longest_ns)} for an answer to its SENDs, from {at(first)} "
            f"to {at(last)}.",
            wait.longest_from_ns,
            [first, last],
            "A publish rate limit or a broker that was restarted would explain it.",
            "Look at the broker's log and at the bookies at that time, and at publish rate limits.",
            "slow",
        )


def _whose(doubts: set[str], *, heard: bool) -> str:
    if HOLES & doubts:
        return "capture"
    return "broker" if heard else "network"


def _not_opened(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    session, doubts = producer.session, producer.doubts - EDGES
    if session is None or not session.number or session.ready_ns >= 0 or producer.waiting.count or session.end:
        return
    if moment.now_ns - session.began_ns < STUCK_NS:
        return
    heard = producer.heard_ns > session.began_ns
    yield Finding(
        "producer-stuck",
        "error",
        _whose(doubts, heard=heard),
        certainty(doubts),
        producer_subject(producer),
        f"{about_producer(producer)} has no answer to its PRODUCER ({at(session.number)}), "
        f"{when(moment, session.began_ns)}.",
        session.began_ns,
        [session.number, producer.heard_frame],
        "A PRODUCER_SUCCESS or an ERROR: there is none." + why_unsure(doubts),
        "The broker loads the topic, or hangs while it does: look at its log for this topic.",
        "not-opened",
    )


def _unanswered(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    lost, session = producer.lost, producer.session
    if not lost.count or session is None or not session.end or producer.doubts & HOLES or moment.capture.cut:
        return
    # The client may be about to come back when the capture ends.
    settled = moment.now_ns - session.ended_ns >= STUCK_NS or session.end == "closed"
    yield Finding(
        "producer-stuck",
        "warning",
        "broker",
        "likely" if settled else "possible",
        producer_subject(producer),
        f"{about_producer(producer)} got no answer to {count_of(lost.count, 'SEND')} before its session ended, and has "
        f"not sent {'it' if lost.count == 1 else 'them'} again: whether they were stored is not known.",
        lost.first_ns,
        [*lost.frames, session.ended_frame],
        "The same message, sent again on another connection, or delivered: look for its sequence id.",
        "Find out how the connection ended. The application was told of a time-out, or of nothing.",
        "unanswered",
    )


RULE = Rule(
    name="producer-stuck",
    group="producer",
    facts=("no_receipt", "open_sends", "oldest_open_frame", "lost", "heard_ns", "session", "waiting"),
    title="a producer whose SENDs, or whose PRODUCER, the broker does not answer",
    issue="streamnative/pulsar-rs#400",
    look=look,
)
