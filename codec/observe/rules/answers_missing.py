"""Requests without a response, and responses without a request.

## What it means

In the protocol every request has a response. If no response arrives within ten seconds (five if a later request of the
same type was answered), a response is unlikely: the client's call blocks until its timeout, 30 s by default. Two
responses to one request, and responses without a request, are reported as notes: clients ignore them.

SEND, ACK and PING are covered by other rules, which use the state of producers, consumers and connections.

## On the wire

A request id, or a position in the queue of commands without a request id, for which no response arrives before the
connection or the capture ends.

## What would disprove it

A response after the listed frames. If packets are missing, the response may be in the gap: the finding is then a note
and is attributed to the capture. If the capture has only one direction, nothing is reported. At the end of the capture
a response can still be pending. A request id that the client used twice explains an extra response.

## What to do

In the broker's log, look for errors at the time of the request. Possible causes are an exception that suppressed the
response, a future that never completes, and a metadata store that does not respond. The client sends the request again
after its timeout or after a reconnect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import exchange_subject
from pcli.codec.observe.rules.finding import EDGES, GAPS, Cause, Finding, Moment, certainty, rule, why_unsure
from pcli.codec.observe.rules.finding_text import count_of, span
from pcli.codec.observe.rules.network_losses import ADVICE, loss_of
from pcli.codec.observe.rules.slow_answers import TIMEOUT_NS
from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord
from pcli.codec.wire.commands import BY_NAME

_IN_GAP: Final = Cause("capture", "possible", ("a broker that did not respond",), "A capture without gaps.")
_NO_RESPONSE: Final = Cause(
    "broker",
    "likely",
    ("a network that lost the request or the response",),
    "A capture on the broker's host: it shows whether the request arrived there.",
)
_TOO_MANY: Final = Cause(
    "broker",
    "likely",
    ("a request id that the client used twice",),
    "The request ids of the connection (`pcli dissect`).",
)

_OTHER_RULES: Final = ("SEND", "ACK", "PING")
_WAIT_NS: Final = 10_000_000_000
_OVERTAKEN_NS: Final = 5_000_000_000
"""Minimum waiting time in nanoseconds if a later request of the same type was answered."""


@rule(
    "exchange",
    facts=("unanswered", "waited_ns", "overtaken", "answered_twice", "unasked", "asked", "doubts"),
    title="requests without a response, and responses without a request",
    issue="apache/pulsar#3300",
    because_of=("broker-unavailable", "keep-alive-missed"),
    effect=("request had no response", "requests had no response"),
)
def evaluate(exchange: ExchangeRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for missing responses, duplicate responses, and responses without a request."""
    if exchange.type in _OTHER_RULES or (exchange.type == "CONNECT" and "end" not in exchange.doubts):
        return  # broker-unavailable reports connections that ended without a response to CONNECT
    bound = _OVERTAKEN_NS if exchange.overtaken else _WAIT_NS
    if exchange.unanswered.count and exchange.waited_ns >= bound and "one_way" not in exchange.doubts:
        yield _missing(exchange, moment)
    if exchange.answered_twice.count and not GAPS.intersection(exchange.doubts):
        yield _too_many(exchange, "twice")
    if exchange.unasked.count > 0 and not exchange.doubts - {"end"}:
        yield _too_many(exchange, "unasked")


def _missing(exchange: ExchangeRecord, moment: Moment) -> Finding:
    missing = exchange.unanswered
    later = ", although later requests were answered" if exchange.overtaken else ""
    given_up = exchange.waited_ns >= TIMEOUT_NS or exchange.overtaken
    in_gap = GAPS.intersection(exchange.doubts)
    by_client = BY_NAME[exchange.type].sender != "broker"
    loss = loss_of(moment, exchange.stream, missing.frames[0] if missing.frames else 0, from_client=by_client)
    cause, delivered = loss or (_IN_GAP if in_gap else _NO_RESPONSE, "")
    return Finding(
        "note" if in_gap else "error" if given_up else "warning",
        certainty(exchange.doubts - EDGES if loss else exchange.doubts),
        cause,
        exchange_subject(exchange),
        f"{missing.count} of {count_of(exchange.asked, f'{exchange.type} request')} on connection {exchange.stream} "
        f"received no response; the oldest request has been waiting for {span(exchange.waited_ns)}{later}.{delivered}",
        opposite="A response with the same request id after these frames would disprove the finding; there is none."
        + why_unsure(exchange.doubts),
        advice=ADVICE
        if loss
        else "Search the broker's log at the time of the request. A client stops waiting after 30 s and repeats the "
        "request.",
        variant="missing",
        seen=missing,
    )


def _too_many(exchange: ExchangeRecord, cause: str) -> Finding:
    tally = exchange.answered_twice if cause == "twice" else exchange.unasked
    what = "extra responses to answered requests" if cause == "twice" else "responses without a request"
    return Finding(
        "note",
        "likely",
        _TOO_MANY,
        exchange_subject(exchange),
        f"Connection {exchange.stream} contains {tally.count} {what} ({exchange.type}).",
        opposite="A request id that the client used twice would explain this.",
        advice="Clients log and ignore such responses. Report the problem to the developers of the broker or client "
        "with this capture.",
        variant=cause,
        seen=tally,
    )
