"""Whole batches come again although a part of them was done, for want of batch index acknowledgements.

## What it means

Brokers store and acknowledge entries; a batch is one. Without batch index acknowledgements the client keeps to itself
which messages of a batch are done, and sends the ACK when all are. If one message of the batch is rejected, or the
consumer leaves, the whole batch comes again, also to another consumer, which knows nothing of what was done.

## On the wire

MESSAGE with a batch, no ACK for it or one without an `ack_set`, REDELIVER or a new consumer, MESSAGE with the same
batch and without an `ack_set`. With batch index acknowledgements the ACK carries a bit set, and so does the second
MESSAGE.

## What speaks for the opposite

A second MESSAGE with an `ack_set`: then only the rest is given to the application. Or an application that has done none
of the batch: then it has to come again in full.

## What to do

Switch it on at both ends: `acknowledgmentAtBatchIndexLevelEnabled=true` in the broker, `enableBatchIndexAcknowledgment`
in the consumer (on by default since 4.1, at both ends). Or smaller batches; or an application that bears it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    about_consumer,
    certainty,
    consumer_subject,
    count_of,
    first_of,
    frames_text,
    why_unsure,
)
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

__all__ = ["RULE"]


def look(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Batches that came again in full."""
    seen = consumer.whole_batches_again
    if not seen.count:
        return
    doubts = consumer.doubts - EDGES
    yield Finding(
        "whole-batches-again",
        "note",
        "application",
        certainty(doubts, "likely"),
        consumer_subject(consumer),
        f"Batches of {about_consumer(consumer)} came again in full, in "
        f"{count_of(seen.count, 'delivery', 'deliveries')}{first_of(seen)} ({frames_text(seen.frames)}): "
        "without batch index acknowledgements nobody knows what of them was done.",
        seen.first_ns,
        seen.frames,
        "An ack_set in the ACK or in the second MESSAGE: there is none." + why_unsure(doubts),
        "Switch batch index acknowledgements on, in the broker and in the consumer.",
    )


RULE = Rule(
    name="whole-batches-again",
    group="consumer",
    facts=("whole_batches_again",),
    title="whole batches that come again for want of batch index acknowledgements",
    issue="apache/pulsar#5969",
    look=look,
)
