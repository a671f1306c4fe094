"""A producer whose schema does not fit that of the topic.

## What it means

The broker compares the schema in PRODUCER (or the one that a message brings, GET_OR_CREATE_SCHEMA) with those that the
topic has, by the compatibility strategy of the namespace: FULL unless it is set otherwise, so both old and new readers
must cope. It refused. Mostly a field was added without a default value, a type was changed, the kind of schema differs
(JSON against Avro), or a producer without any schema came to a topic that demands one (`schemaValidationEnforced`).

## On the wire

PRODUCER with `schema`, ERROR IncompatibleSchema with its request id. `pcli dissect -V` shows the schema; that of the
topic is in the PRODUCER or SUBSCRIBE that succeeded before.

## What speaks for the opposite

A later PRODUCER of the same name that succeeds: then it is only a note.

## What to do

`pulsar-admin schemas get` and `schemas compatibility` tell what fits. Give new fields a default value. Do not loosen
the strategy before you know who reads.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.production import about_producer, producer_subject
from pcli.codec.observe.rules.refusals import succeeded_later
from pcli.codec.observe.rules.wording import frames_text, said, times
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE"]


def look(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """IncompatibleSchema to a PRODUCER, or to a SEND."""
    for cause, answers in (("producer", producer.refused), ("send", producer.send_errors)):
        seen = answers.get("IncompatibleSchema")
        if seen is None:
            continue
        later = succeeded_later(producer, seen)
        yield Finding(
            "schema-refused",
            "note" if later else "error",
            "application",
            "certain",
            producer_subject(producer),
            f"{about_producer(producer)} was refused {times(seen.count)} since its schema does not fit the "
            f"topic's ({frames_text(seen.frames)}): {said(seen.sample)}",
            seen.first_ns,
            seen.frames,
            later or "A PRODUCER of it that succeeds later: there is none.",
            "`pulsar-admin schemas get` and `schemas compatibility` tell what fits. Give new fields a default.",
            cause,
        )


RULE = Rule(
    name="schema-refused",
    group="producer",
    facts=("refused", "send_errors", "session.ready_ns"),
    title="a producer that was refused because of its schema",
    issue="apache/pulsar#5003",
    look=look,
)
