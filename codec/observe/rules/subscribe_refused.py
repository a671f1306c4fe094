"""A consumer that the broker refused.

## What it means

The response to SUBSCRIBE was an error. The most frequent errors are:

- *ConsumerBusy*: an Exclusive subscription already has a consumer, the subscription has consumers of another type, or
  the maximum number of consumers is reached. After a broken connection the broker may still consider the old consumer
  alive.
- *ConsumerAssignError*: the key ranges of a STICKY Key_Shared consumer overlap with the ranges of another consumer.
- *SubscriptionNotFound*, *TopicNotFound*: the subscription or topic does not exist, and the broker may not create it
  automatically.
- *NotAllowedError*: the topic's policies forbid a type or setting, or there were too many subscribe calls.
- *ServiceNotReady*: the topic is being moved; clients retry.

Refused schemas and missing permissions have separate rules: schema-refused-consumer and auth-refused.

## On the wire

SUBSCRIBE, ERROR with its request id. The error message comes from the broker and identifies the case.

## What would disprove it

If a later SUBSCRIBE of the same consumer succeeds, the finding is a note.

## What to do

For ConsumerBusy, find the attached consumer with `topics stats`, or use another subscription name or the type Shared.
After a connection breaks, wait for the keep-alive timeout, or upgrade: since 2.10.6, 2.11.4 and 3.0.3, brokers check
whether the old consumer is alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.error_causes import cause_of_error, succeeded_later
from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.finding_text import about_consumer, consumer_subject, error_message, frames_text, times
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]

_OTHERS: Final = frozenset(("IncompatibleSchema", "AuthenticationError", "AuthorizationError"))
"""Errors that have separate rules."""

_ADVICE: Final = {
    "ConsumerBusy": "`topics stats` lists the attached consumers: close the other one, or use another subscription."
}


def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each error."""
    for error, seen in consumer.refused.items():
        if error in _OTHERS:
            continue
        later = succeeded_later(consumer, seen)
        yield Finding(
            "subscribe-refused",
            "note" if later else "error",
            "certain",
            cause_of_error(error),
            consumer_subject(consumer),
            f"{about_consumer(consumer)} was refused {times(seen.count)} with {error} "
            f"({frames_text(seen.frames)}): {error_message(seen.sample)}",
            seen.first_ns,
            seen.frames,
            later or "A SUBSCRIBE that succeeds later would resolve this; there is none.",
            _ADVICE.get(error, "The error message names the reason."),
            error,
            count=seen.count,
            until_ns=seen.last_ns,
        )


RULE = Rule(
    name="subscribe-refused",
    group="consumer",
    facts=("refused", "session.ready_ns"),
    title="a SUBSCRIBE to which the broker responded with an error",
    issue="apache/pulsar#13920",
    evaluate=evaluate,
    because_of=("broker-unavailable",),
    effect=("SUBSCRIBE was refused", "SUBSCRIBEs were refused"),
)
