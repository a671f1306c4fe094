"""A producer whose schema is incompatible with the topic.

## What it means

The broker compares the schema in PRODUCER (or in GET_OR_CREATE_SCHEMA, for a message with a new schema) with the
schemas of the topic, according to the namespace's compatibility strategy. The default is FULL: readers with the old
schema and readers with the new schema must be able to read all data. The broker refused the schema. Usual reasons are
that a field was added without a default value, a type was changed, the schema type differs (JSON instead of Avro), or a
producer without a schema was created on a topic that requires a schema (`schemaValidationEnforced`).

## On the wire

PRODUCER with `schema`, ERROR IncompatibleSchema with its request id. `pcli dissect -V` shows the schema. The topic's
schema is in the PRODUCER or SUBSCRIBE that succeeded before.

## What would disprove it

If a later PRODUCER with the same name succeeds, the finding is a note.

## What to do

`pulsar-admin schemas get` and `schemas compatibility` show what is compatible. Give new fields a default value. Do not
loosen the strategy before you know all readers.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.error_causes import succeeded_later
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Rule
from pcli.codec.observe.rules.finding_text import error_message, frames_text, times
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE"]


def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for IncompatibleSchema in response to a PRODUCER or a SEND."""
    for cause, answers in (("producer", producer.refused), ("send", producer.send_errors)):
        seen = answers.get("IncompatibleSchema")
        if seen is None:
            continue
        later = succeeded_later(producer, seen)
        yield Finding(
            "schema-refused",
            "note" if later else "error",
            "certain",
            Cause("application"),
            producer_subject(producer),
            f"{about_producer(producer)} was refused {times(seen.count)} because its schema is incompatible with the "
            f"topic's ({frames_text(seen.frames)}): {error_message(seen.sample)}",
            seen.first_ns,
            seen.frames,
            later or "A PRODUCER that succeeds later would resolve this; there is none.",
            "`pulsar-admin schemas get` and `schemas compatibility` show what is compatible. Give new fields a "
            "default.",
            cause,
            count=seen.count,
        )


RULE = Rule(
    name="schema-refused",
    group="producer",
    facts=("refused", "send_errors", "session.ready_ns"),
    title="a producer that was refused because of its schema",
    issue="apache/pulsar#5003",
    evaluate=evaluate,
)
