"""A consumer that the broker did not take.

## What it means

SUBSCRIBE was answered with an error. The most frequent ones:

- *ConsumerBusy*: an Exclusive subscription is taken, the subscription has consumers of another type, or there are as
  many consumers as are allowed. After a broken connection the broker may still believe in the old one for a moment.
- *ConsumerAssignError*: the key ranges of a STICKY Key_Shared consumer overlap with those of another.
- *SubscriptionNotFound*, *TopicNotFound*: it is not there, and may not be made by subscribing.
- *NotAllowedError*: a type or setting that the topic's policies forbid, or too many subscribe calls.
- *ServiceNotReady*: the topic is being moved; clients try again.

Schemas and permissions have rules of their own: schema-refused-consumer, auth-refused.

## On the wire

SUBSCRIBE, ERROR with its request id. The text of the error is the broker's own and says which of the cases it is.

## What speaks for the opposite

A later SUBSCRIBE of the same consumer that succeeds: then it is only a note.

## What to do

ConsumerBusy: find the consumer that has the subscription (`topics stats`), use another name, or Shared. After a broken
connection wait for the keep-alive, or upgrade: brokers since 2.10.6, 2.11.4 and 3.0.3 check whether the old one is
alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.refusals import succeeded_later, whose_error
from pcli.codec.observe.rules.wording import about_consumer, consumer_subject, frames_text, said, times
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]

_OTHERS: Final = frozenset(("IncompatibleSchema", "AuthenticationError", "AuthorizationError"))
"""Errors that have rules of their own."""


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Each kind of error."""
    for error, seen in consumer.refused.items():
        if error in _OTHERS:
            continue
        later = succeeded_later(consumer, seen)
        yield Finding(
            "subscribe-refused",
            "note" if later else "error",
            whose_error(error),
            "certain",
            consumer_subject(consumer),
            f"{about_consumer(consumer)} was refused {times(seen.count)} with {error} "
            f"({frames_text(seen.frames)}): {said(seen.sample)}",
            seen.first_ns,
            seen.frames,
            later or "A SUBSCRIBE of it that succeeds later: there is none.",
            "The text of the error says what is in the way; `topics stats` names the consumers that are there.",
            error,
        )


RULE = Rule(
    name="subscribe-refused",
    group="consumer",
    facts=("refused", "session.ready_ns"),
    title="a SUBSCRIBE that was answered with an error",
    issue="apache/pulsar#13920",
    look=look,
)
