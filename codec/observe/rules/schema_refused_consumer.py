"""A consumer whose schema does not fit that of the topic.

## What it means

The broker compares the schema in SUBSCRIBE with those that the topic has: the consumer must be able to read what was
written, by the compatibility strategy of the namespace. It refused. A reader or table view with a schema on a topic
that is used without one is refused too, since a consumer may not bring the first schema to a topic in use.

## On the wire

SUBSCRIBE with `schema`, ERROR IncompatibleSchema with its request id.

## What speaks for the opposite

A later SUBSCRIBE of the same consumer that succeeds: then it is only a note.

## What to do

Take the topic's own schema (AUTO_CONSUME), or bytes. `pulsar-admin schemas get` shows what is there; see also:
schema-refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.refusals import succeeded_later
from pcli.codec.observe.rules.wording import about_consumer, consumer_subject, frames_text, said, times
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """IncompatibleSchema to a SUBSCRIBE."""
    seen = consumer.refused.get("IncompatibleSchema")
    if seen is None:
        return
    later = succeeded_later(consumer, seen)
    yield Finding(
        "schema-refused-consumer",
        "note" if later else "error",
        "application",
        "certain",
        consumer_subject(consumer),
        f"{about_consumer(consumer)} was refused {times(seen.count)} since its schema does not fit the "
        f"topic's ({frames_text(seen.frames)}): {said(seen.sample)}",
        seen.first_ns,
        seen.frames,
        later or "A SUBSCRIBE of it that succeeds later: there is none.",
        "Take the topic's own schema (AUTO_CONSUME), or bytes; `pulsar-admin schemas get` shows what is there.",
    )


RULE = Rule(
    name="schema-refused-consumer",
    group="consumer",
    facts=("refused", "session.ready_ns"),
    title="a consumer that was refused because of its schema",
    issue="apache/pulsar#13419",
    look=look,
)
