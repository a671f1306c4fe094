"""A consumer whose schema is incompatible with the topic.

## What it means

The broker compares the schema in SUBSCRIBE with the schemas of the topic: according to the namespace's compatibility
strategy, the consumer must be able to read the existing messages. The broker refused the schema. A broker also refuses
a reader or table view with a schema on a topic that is in use without a schema, because a consumer may not add the
first schema to such a topic.

## On the wire

SUBSCRIBE with `schema`, ERROR IncompatibleSchema with its request id.

## What would disprove it

If a later SUBSCRIBE of the same consumer succeeds, the finding is a note.

## What to do

Use the topic's own schema (AUTO_CONSUME), or bytes. `pulsar-admin schemas get` shows the stored schemas. See also
schema-refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.error_causes import succeeded_later
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Rule
from pcli.codec.observe.rules.finding_text import about_consumer, consumer_subject, error_message, frames_text, times
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]


def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for IncompatibleSchema in response to a SUBSCRIBE."""
    seen = consumer.refused.get("IncompatibleSchema")
    if seen is None:
        return
    later = succeeded_later(consumer, seen)
    yield Finding(
        "schema-refused-consumer",
        "note" if later else "error",
        "certain",
        Cause("application"),
        consumer_subject(consumer),
        f"{about_consumer(consumer)} was refused {times(seen.count)} because its schema is incompatible with the "
        f"topic's ({frames_text(seen.frames)}): {error_message(seen.sample)}",
        seen.first_ns,
        seen.frames,
        later or "A SUBSCRIBE that succeeds later would resolve this; there is none.",
        "Use the topic's own schema (AUTO_CONSUME), or bytes. `pulsar-admin schemas get` shows the stored schemas.",
        count=seen.count,
    )


RULE = Rule(
    name="schema-refused-consumer",
    group="consumer",
    facts=("refused", "session.ready_ns"),
    title="a consumer that was refused because of its schema",
    issue="apache/pulsar#13419",
    evaluate=evaluate,
)
