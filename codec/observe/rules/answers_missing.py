"""Requests that nobody answered, and answers that nobody asked for.

## What it means

Every request has an answer in the protocol. One that waits for ten seconds and more (five when a later request of its
type was answered meanwhile) will hardly get it: the client's call hangs until its time is up, after 30 s by default.
Two answers to one request, or answers without a request, are told as notes: clients ignore them.

SEND and ACK have rules of their own, since producers and consumers know more about them, and so has PING.

## On the wire

A request id, or a place in the queue for commands without one, to which nothing comes back until the connection or the
capture ends.

## What speaks for the opposite

The answer behind the frames that are named. Where packets are missing it may be in the hole, which is then a note and
the capture's doing; with one direction only nothing is said. At the end of the capture it may still come. A request id
used twice by the client explains an answer too many.

## What to do

Search the broker's log for the request at that time: an exception that swallowed the answer, a future that never
completes, a metadata store that does not answer. The client asks anew when it gives up, or when it reconnects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import exchange_subject
from pcli.codec.observe.rules.slow_answers import TIMEOUT_NS
from pcli.codec.observe.rules.wording import HOLES, certainty, count_of, span, why_unsure
from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord

__all__ = ["RULE", "look"]

_ELSEWHERE: Final = ("SEND", "ACK", "PING")
_WAIT_NS: Final = 10_000_000_000
_OVERTAKEN_NS: Final = 5_000_000_000
"""How long one must have waited when a later request of its type was answered meanwhile."""


def look(exchange: ExchangeRecord, _moment: Moment) -> Iterator[Finding]:
    """What is missing, what came twice, and what came unasked."""
    if exchange.type in _ELSEWHERE:
        return
    bound = _OVERTAKEN_NS if exchange.overtaken else _WAIT_NS
    if exchange.unanswered.count and exchange.waited_ns >= bound and "one_way" not in exchange.doubts:
        yield _missing(exchange)
    if exchange.answered_twice.count and not HOLES.intersection(exchange.doubts):
        yield _too_many(exchange, "twice")
    if exchange.unasked.count > 0 and not exchange.doubts - {"end"}:
        yield _too_many(exchange, "unasked")


def _missing(exchange: ExchangeRecord) -> Finding:
    missing = exchange.unanswered
    later = ", though later ones were" if exchange.overtaken else ""
    given_up = exchange.waited_ns >= TIMEOUT_NS or exchange.overtaken
    in_hole = HOLES.intersection(exchange.doubts)
    return Finding(
        "answers-missing",
        "note" if in_hole else "error" if given_up else "warning",
        "capture" if in_hole else "broker",
        certainty(exchange.doubts),
        exchange_subject(exchange),
        f"{missing.count} of {count_of(exchange.asked, exchange.type)} on connection {exchange.stream} had no answer, "
        f"the oldest for {span(exchange.waited_ns)}{later}.",
        missing.first_ns,
        missing.frames,
        "An answer with the same request id behind the frames that are named: there is none."
        + why_unsure(exchange.doubts),
        "Look in the broker's log for the time of the request; a client gives up after 30 s and asks anew.",
        "missing",
    )


def _too_many(exchange: ExchangeRecord, cause: str) -> Finding:
    tally = exchange.answered_twice if cause == "twice" else exchange.unasked
    what = "answers to requests that had theirs" if cause == "twice" else "answers to which no request is known"
    return Finding(
        "answers-missing",
        "note",
        "broker",
        "likely",
        exchange_subject(exchange),
        f"Connection {exchange.stream} carries {tally.count} {what} ({exchange.type}).",
        tally.first_ns,
        tally.frames,
        "A request id that was used twice by the client would explain it.",
        "Clients log and ignore these; report it to the broker's or the client's developers with this capture.",
        cause,
    )


RULE = Rule(
    name="answers-missing",
    group="exchange",
    facts=("unanswered", "waited_ns", "overtaken", "answered_twice", "unasked", "asked", "doubts"),
    title="requests without an answer, and answers without a request",
    issue="apache/pulsar#3300",
    look=look,
)
