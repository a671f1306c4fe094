"""Late responses from a broker that loads topics, waits for its storage, is overloaded, or throttles clients.

## What it means

Clients wait 30 seconds by default for a response (operationTimeoutMs, sendTimeoutMs). If a response takes 30 s or more,
the client has given up, and the finding is an error. From 10 s to 30 s the finding is a warning; below 10 s it is a
note. A response is slow if it takes 1 s or more. The limit is 5 s for requests for which the broker may first have to
load a topic or start up (CONNECT, LOOKUP, PRODUCER, SUBSCRIBE and similar).

## On the wire

The request, other traffic, and much later the response with the same request id; for SEND the receipt with its sequence
id. The second PRODUCER_SUCCESS of a producer that waits for exclusive access (WaitForExclusive) is not a late response
but a notification.

## What would disprove it

- A publish rate limit delays receipts on purpose: the broker stops reading from the connection and later responds at
  intervals, so all requests on the connection have similar delays.
- The first request for a topic after a start or an unload waits until the broker has loaded the topic.
- If the capture has gaps, a response may belong to another request.

## What to do

Check what slowed the broker down at the time of the finding: garbage collection, the latency of its bookies, the
loading of topics, `topics stats` and the publish rate of the namespace. If all connections are slow at once, the broker
is the cause; if only one connection is slow, the topic is the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import exchange_subject
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule, why_unsure
from pcli.codec.observe.rules.finding_text import count_of, span
from pcli.codec.observe.tracking.connections.exchanges import slow_bound
from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord
from pcli.codec.wire.commands import BY_NAME

_SUSPENDED: Final = Cause(
    "application",
    "likely",
    ("a network that delayed the packets",),
    "The log of the client at that time, and a capture on its host.",
)
"""The cause of a slow PONG of a client: usually its process was suspended."""

_SLOW: Final = Cause(
    "broker",
    "likely",
    ("a network that delayed the packets",),
    "A capture on the broker's host, and the broker's log at that time.",
)
_REASONS: Final = {"SEND": "a publish rate limit"} | dict.fromkeys(
    ("LOOKUP", "PARTITIONED_METADATA", "PRODUCER", "SUBSCRIBE"), "a topic that was being loaded"
)
"""A further cause of slow responses, by request."""

TIMEOUT_NS: Final = 30_000_000_000
"""Default timeout of clients."""

_WARNING_NS: Final = 10_000_000_000

_THROTTLED: Final = (
    "A publish rate limit delays all receipts of a connection on purpose, by similar times: compare with the publish "
    "rate of the namespace."
)
_TOPIC_LOADING: Final = (
    "The first request for a topic waits until the broker has loaded it; later requests do not wait."
)
_OTHERS: Final = "Fast responses of the broker to other clients at that time would point to the network."


_ANY_FRAME: Final = "Another frame of the client after the PING would disprove the finding: any frame answers a PING."

_BROKER_ADVICE: Final = "Check the broker at that time: garbage collection, storage latency, rate limits."
_CLIENT_ADVICE: Final = (
    "Check the client's process at that time: garbage collection, a suspended process or container, CPU limits."
)


def _opposite(exchange: ExchangeRecord) -> str:
    if exchange.slowest_by_client:
        return _ANY_FRAME
    return _THROTTLED if exchange.type == "SEND" else _TOPIC_LOADING if exchange.type in _REASONS else _OTHERS


def _cause(exchange: ExchangeRecord) -> Cause:
    if exchange.slowest_by_client:
        return _SUSPENDED
    more = _REASONS.get(exchange.type)
    return _SLOW if more is None else _SLOW._replace(alternatives=(more, *_SLOW.alternatives))


@rule(
    "exchange",
    facts=("slow", "slowest", "slowest_ns", "slowest_by_client", "answered", "doubts"),
    title="slow responses, compared with the timeout of clients",
    issue="apache/pulsar#9484",
    because_of=("broker-unavailable", "keep-alive-missed"),
    effect=("response was slow", "responses were slow"),
)
def evaluate(exchange: ExchangeRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding for each type of request on a connection."""
    slow = exchange.slow
    if not slow.count:
        return
    longest = exchange.slowest_ns
    severity = "error" if longest >= TIMEOUT_NS else "warning" if longest >= _WARNING_NS else "note"
    bound = span(slow_bound(BY_NAME[exchange.type].number))
    yield Finding(
        severity,
        "likely" if exchange.doubts - {"start", "end"} else "certain",
        _cause(exchange),
        exchange_subject(exchange),
        f"{slow.count} of {count_of(exchange.answered, 'response')} to {exchange.type} on connection {exchange.stream} "
        f"took longer than {bound}; the slowest response took {span(longest)}.",
        slow.first_ns,
        [*exchange.slowest, *slow.frames],
        _opposite(exchange) + why_unsure(exchange.doubts),
        _CLIENT_ADVICE if exchange.slowest_by_client else _BROKER_ADVICE,
        count=slow.count,
        until_ns=slow.last_ns,
    )
