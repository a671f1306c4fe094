"""A message that comes again and again: nobody can work on it.

## What it means

It was delivered five times or more because it was rejected or timed out, or a client has given up on it and moved it to
the dead letter topic, or has thrown it away unread because it could not decrypt it or its checksum was wrong. On Shared
subscriptions such messages cost time; on ordered ones they hold up everything behind them.

## On the wire

MESSAGE with one id and a redelivery count that grows. With a dead letter policy the client then sends a copy to
`TOPIC-SUBSCRIPTION-DLQ` (properties REAL_TOPIC and ORIGIN_MESSAGE_ID) and acknowledges the original. A message thrown
away is acknowledged with a `validation_error`.

## What speaks for the opposite

Repetitions by seeks and reconnects are counted as deliveries too, but only those that were asked for make a finding.
An ACK behind the last delivery shows that it succeeded in the end.

## What to do

Look at the message: `pcli trace --message-id ID`, `pcli dissect --payload`. Set a dead letter policy if there is none.
For those in the dead letter topic: mend the cause, then send them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    about_consumer,
    about_subscription,
    at,
    certainty,
    consumer_subject,
    count_of,
    first_of,
    subscription_subject,
    why_unsure,
)
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

__all__ = ["RULE"]

_DELIVERIES: Final = 5
"""So often a message fails only if it will fail always: temporary troubles are over by then, or need a back-off."""

_ASKED: Final = ("nack", "ack_timeout", "rewind")
"""Only repetitions that were asked for tell of the message; others tell of the connection."""

_THROWN: Final = {
    "DecryptionError": ("application", "Give the consumer the private key, or see who encrypts with another one."),
    "ChecksumMismatch": ("network", "See wrong-crc: who damages the frames?"),
    "UncompressedSizeCorruption": ("client", "The producer's library wrote a wrong size: report it, with its version."),
}
"""Whose doing it is that a client throws messages away, and what to do, by its validation_error."""


def look(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """Those that come again and again, those that were put away, those that were thrown away."""
    yield from _again(subscription)
    seen = subscription.dead_lettered
    if seen.count:
        yield Finding(
            "poison-message",
            "note",
            "application",
            "certain",
            subscription_subject(subscription),
            f"{count_of(seen.count, 'message')} of {about_subscription(subscription)} went to the dead letter topic"
            f"{first_of(seen)}.",
            seen.first_ns,
            seen.frames,
            "Nothing: the copies are in the capture.",
            "Look at them there, mend the cause, and send them again.",
            "dead-lettered",
        )
    for consumer in subscription.consumers.values():
        for error, thrown in consumer.validation.items():
            yield Finding(
                "poison-message",
                "warning",
                _THROWN.get(error, ("client", ""))[0],
                "certain",
                consumer_subject(consumer),
                f"{about_consumer(consumer)} threw {count_of(thrown.count, 'message')} away unread: {error}.",
                thrown.first_ns,
                thrown.frames,
                "Nothing: its acknowledgements say so.",
                _THROWN.get(error, ("", "Look at the message with another client; report it to the library."))[1],
                error,
            )


def _again(subscription: SubscriptionRecord) -> Iterator[Finding]:
    asked = sum(subscription.again[name].count for name in _ASKED if name in subscription.again)
    often = [row for row in subscription.most_redelivered if row[0] >= _DELIVERIES]
    if not often or asked < _DELIVERIES - 1:
        return
    doubts = subscription.doubts - EDGES
    # Which of them this one owes to whom is not kept: reconnects may have brought it as well.
    only_asked = all(name in _ASKED for name, seen in subscription.again.items() if seen.count)
    deliveries, message, first, last = max(often)
    more = f"; {len(often) - 1} more came {_DELIVERIES} times or more" if len(often) > 1 else ""
    yield Finding(
        "poison-message",
        "warning",
        "application",
        certainty(doubts, "likely" if only_asked else "possible"),
        subscription_subject(subscription),
        f"Message {printable(message)} of {about_subscription(subscription)} came {deliveries} times, from {at(first)} "
        f"to {at(last)}{more}.",
        0,
        [frame for row in often for frame in row[2:]],
        f"An ACK behind {at(last)} would show that it succeeded in the end."
        + ("" if only_asked else " Entries of the subscription came again for other causes, too.")
        + why_unsure(doubts),
        "Look at the message (`pcli trace --message-id`), and set a dead letter policy if there is none.",
        "again-and-again",
    )


RULE = Rule(
    name="poison-message",
    group="subscription",
    facts=("most_redelivered", "again", "dead_lettered", "consumers.validation"),
    title="messages that nobody can work on: delivered again and again, dead-lettered, thrown away",
    issue="apache/pulsar#6960",
    look=look,
)
