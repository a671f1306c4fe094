"""Whole batches that were redelivered although parts of them were processed: batch index acknowledgements are disabled.

## What it means

Brokers store and acknowledge entries; a batch is one entry. If batch index acknowledgements are disabled, only the
client tracks the processed messages of a batch, and it sends the ACK when all messages are processed. If one message in
the batch is rejected, or the consumer leaves, the whole batch is redelivered, possibly to another consumer, which
cannot identify the processed messages.

## On the wire

MESSAGE with a batch; no ACK of the batch, or an ACK without an `ack_set`; REDELIVER_UNACKNOWLEDGED_MESSAGES or a new
consumer; MESSAGE with the same batch and without an `ack_set`. If batch index acknowledgements are enabled, both the
ACK and the second MESSAGE contain an `ack_set`.

## What would disprove it

If the second MESSAGE has an `ack_set`, the application receives only the remaining messages. If the application
processed no message in the batch, the whole batch must be redelivered.

## What to do

Enable batch index acknowledgements on both sides: `acknowledgmentAtBatchIndexLevelEnabled=true` in the broker and
`enableBatchIndexAcknowledgment` in the consumer (both enabled by default since 4.1). Alternatively, use smaller
batches, or make the application tolerate duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_consumer, consumer_subject, count_of, first_of, frames_text
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_NO_INDEX: Final = Cause(
    "application",
    "likely",
    ("a broker on which batch index acknowledgements are disabled",),
    "The setting acknowledgmentAtBatchIndexLevelEnabled of the broker, and the configuration of the consumer.",
)


@rule(
    "consumer",
    facts=("whole_batches_again", "ack_sets"),
    title="whole batches redelivered because batch index acknowledgements are disabled",
    issue="apache/pulsar#5969",
    because_of=("broker-unavailable",),
    effect=("batch was redelivered", "batches were redelivered"),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if whole batches were redelivered."""
    seen = consumer.whole_batches_again
    if not seen.count or consumer.ack_sets:
        return
    yield Finding(
        "note",
        "certain",
        _NO_INDEX,
        consumer_subject(consumer),
        f"Whole batches of {about_consumer(consumer)} were redelivered: "
        f"{count_of(seen.count, 'delivery', 'deliveries')}{first_of(seen)} ({frames_text(seen.frames)}). If batch "
        "index acknowledgements are disabled, the broker cannot skip the processed messages.",
        opposite="An ack_set in an ACK or MESSAGE of the consumer would disprove the finding; there is none.",
        advice="Enable batch index acknowledgements in the broker and in the consumer.",
        seen=seen,
        doubts=consumer.doubts - EDGES,
    )
