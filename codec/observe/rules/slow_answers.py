"""Answers that came late: a broker that loads topics, waits for its storage, is out of breath, or throttles.

## What it means

Clients wait 30 seconds by default for an answer (operationTimeoutMs, sendTimeoutMs), and that is the measure: from 30 s
on the client has given up, from 10 s on it is a warning, below a note. An answer is slow from 1 s on; from 5 s on where
the broker may have to load a topic, or itself to come up: CONNECT, LOOKUP, PRODUCER, SUBSCRIBE and the like.

## On the wire

The request, other traffic, and much later the answer with the same request id; for SEND the receipt with its sequence
id. The second PRODUCER_SUCCESS of a producer that waits for its turn (WaitForExclusive) is not late: it is news.

## What speaks for the opposite

- A publish rate limit makes receipts late on purpose: the broker stops reading the connection, so that all of its
  requests wait alike, and then answers in steps.
- The first request for a topic after a start or an unload waits until the broker has loaded it.
- With holes in the capture an answer may belong to another request.

## What to do

Look at the broker at that time: garbage collection, latency of its bookies, topics being loaded, `topics stats` and the
publish rate of the namespace. If all connections are slow at once it is the broker; if one is, it is that topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import exchange_subject
from pcli.codec.observe.rules.wording import count_of, span, why_unsure
from pcli.codec.observe.tracking.connections.exchanges import slow_bound
from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord
from pcli.codec.wire.commands import BY_NAME

__all__ = ["RULE", "TIMEOUT_NS", "look"]

TIMEOUT_NS: Final = 30_000_000_000
"""How long clients wait by default."""

_WARNING_NS: Final = 10_000_000_000

_THROTTLED: Final = (
    "A publish rate limit makes receipts late on purpose, and those of one connection all alike: "
    "compare with the publish rate of the namespace."
)
_LOADED: Final = "The first request for a topic waits until the broker has loaded it; later ones do not."


def look(exchange: ExchangeRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding for each type of request on a connection."""
    slow = exchange.slow
    if not slow.count:
        return
    longest = exchange.slowest_ns
    severity = "error" if longest >= TIMEOUT_NS else "warning" if longest >= _WARNING_NS else "note"
    bound = span(slow_bound(BY_NAME[exchange.type].number))
    yield Finding(
        "slow-answers",
        severity,
        "broker",
        "likely" if exchange.doubts - {"start", "end"} else "certain",
        exchange_subject(exchange),
        f"{count_of(slow.count, 'answer')} to {exchange.type} on connection {exchange.stream} took longer than "
        f"{bound}, of {exchange.answered}; the slowest {span(longest)}.",
        slow.first_ns,
        [*exchange.slowest, *slow.frames],
        (_THROTTLED if exchange.type == "SEND" else _LOADED) + why_unsure(exchange.doubts),
        "Look at the broker at that time: garbage collection, storage latency, a topic that was being loaded, limits.",
    )


RULE = Rule(
    name="slow-answers",
    group="exchange",
    facts=("slow", "slowest", "slowest_ns", "answered", "doubts"),
    title="answers that took long, measured by the time after which clients give up",
    issue="apache/pulsar#9484",
    look=look,
)
