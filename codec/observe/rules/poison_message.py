"""A message that is redelivered repeatedly because it cannot be processed.

## What it means

The message was delivered five times or more because it was rejected or timed out; or the client moved it to the dead
letter topic; or the client discarded it because decryption failed or the checksum was wrong. On Shared subscriptions
such messages cost time; on ordered subscriptions they delay all later messages.

## On the wire

MESSAGE with the same id and an increasing redelivery count. If there is a dead letter policy, the client then sends a
copy to `TOPIC-SUBSCRIPTION-DLQ` (properties REAL_TOPIC and ORIGIN_MESSAGE_ID) and acknowledges the original. A
discarded message is acknowledged with a `validation_error`.

## What would disprove it

Redeliveries after seeks and reconnects increase the number of deliveries, but only requested redeliveries cause a
finding. An ACK after the last delivery shows that processing succeeded in the end.

## What to do

Inspect the message with `pcli trace --message-id ID` and `pcli dissect --payload`. Configure a dead letter policy if
there is none. If messages are in the dead letter topic, fix the cause and then send them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import (
    about_consumer,
    about_subscription,
    at,
    consumer_subject,
    count_of,
    first_of,
    subscription_subject,
)
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

_DELIVERIES: Final = Threshold(
    "poison-message.deliveries", 5, "minimum number of deliveries of a message", is_time=False
)
"""If temporary problems last longer, the client should use a redelivery back-off."""

_REQUESTED: Final = ("nack", "ack_timeout", "requested", "rewind")
"""The causes of requested redeliveries. Only these indicate a problem with the message."""

_DECRYPTION: Final = Cause(
    "application",
    "likely",
    ("a producer that uses another key",),
    "The names of the keys in the metadata, and the keys of the consumer.",
)
_CHECKSUM: Final = Cause(
    "network", "likely", ("a client library that computes a wrong checksum",), "The finding wrong-crc, if there is one."
)
_WRONG_SIZE: Final = Cause(
    "client", "likely", ("bytes that changed in transit",), "A capture on the host of the producer."
)
_OTHER: Final = Cause("client", "likely", ("a damaged message",), "Another client that reads the message.")
_DISCARDED: Final = {
    "DecryptionError": (
        _DECRYPTION,
        "Configure the consumer's private key, or find the producer that uses another key.",
    ),
    "ChecksumMismatch": (_CHECKSUM, "See wrong-crc to find out where the frames are damaged."),
    "UncompressedSizeCorruption": (
        _WRONG_SIZE,
        "The producer's library wrote a wrong size: report the problem with the version of the library.",
    ),
}
"""Cause and advice for messages that a client discards, by validation_error."""

_UNREADABLE: Final = (
    _OTHER,
    "Read the message with another client. Report the problem to the developers of the client library.",
)
"""The same for other errors."""

_REJECTED: Final = Cause(
    "application", "likely", ("a dependency of the application that failed",), "The application's log of this message."
)
_REDELIVERED: Final = Cause(
    "application",
    "possible",
    ("redeliveries for other reasons, such as reconnects", "a dependency of the application that failed"),
    "The application's log of this message.",
)
_DEAD_LETTERED: Final = Cause(
    "application",
    "likely",
    ("a producer of messages that no consumer can process",),
    "The content of the messages in the dead letter topic.",
)


@rule(
    "subscription",
    facts=("most_redelivered", "again", "dead_lettered", "consumers.validation"),
    title="messages that cannot be processed: redelivered repeatedly, dead-lettered, or discarded",
    issue="apache/pulsar#6960",
    because_of=("wrong-crc",),
    thresholds=(_DELIVERIES,),
    effect=("message failed repeatedly", "messages failed repeatedly"),
)
def evaluate(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for repeatedly delivered, dead-lettered and discarded messages."""
    yield from _again(subscription, moment.value(_DELIVERIES))
    seen = subscription.dead_lettered
    if seen.count:
        yield Finding(
            "note",
            "certain",
            _DEAD_LETTERED,
            subscription_subject(subscription),
            f"{count_of(seen.count, 'message')} of {about_subscription(subscription)} "
            f"{'was' if seen.count == 1 else 'were'} moved to the dead letter topic{first_of(seen)}.",
            opposite="Nothing: the capture contains the copies.",
            advice="Inspect the messages in the dead letter topic, fix the cause, and send them again.",
            variant="dead-lettered",
            seen=seen,
        )
    for consumer in subscription.consumers.values():
        for error, discarded in consumer.validation.items():
            yield Finding(
                "error",
                "certain",
                _DISCARDED.get(error, _UNREADABLE)[0],
                consumer_subject(consumer),
                f"{about_consumer(consumer)} discarded {count_of(discarded.count, 'message')}: {error}.",
                opposite="Nothing: the acknowledgements contain the error.",
                advice=_DISCARDED.get(error, _UNREADABLE)[1],
                variant=error,
                seen=discarded,
            )


def _again(subscription: SubscriptionRecord, least: int) -> Iterator[Finding]:
    requested = sum(subscription.again[name].count for name in _REQUESTED if name in subscription.again)
    often = [row for row in subscription.most_redelivered if row[0] >= least]
    if not often or requested < least - 1:
        return
    # The causes of redeliveries are not stored per message; some of them may be reconnects.
    only_requested = all(name in _REQUESTED for name, seen in subscription.again.items() if seen.count)
    deliveries, message, first, last, since_ns = max(often)
    more = f"; {len(often) - 1} more {'was' if len(often) == 2 else 'were'} delivered {least} times or more"
    more = more if len(often) > 1 else ""
    yield Finding(
        "warning",
        "certain",
        _REJECTED if only_requested else _REDELIVERED,
        subscription_subject(subscription),
        f"Message {printable(message)} of {about_subscription(subscription)} was delivered {deliveries} times, from "
        f"{at(first)} to {at(last)}{more}.",
        since_ns,
        [frame for row in often for frame in row[2:4]],
        f"An ACK after {at(last)} would show that processing succeeded in the end."
        + ("" if only_requested else " Entries of the subscription were also redelivered for other reasons."),
        "Inspect the message (`pcli trace --message-id`), and configure a dead letter policy if there is none.",
        "again-and-again",
        count=len(often),
        doubts=subscription.doubts - EDGES,
    )
