"""Messages that were lost because an ACK of another message acknowledged their whole batch.

## What it means

Without an ack set, an ACK acknowledges the whole entry. The broker ignores the batch index in the id. Some clients
nevertheless acknowledge the messages of a batch one by one: the Rust client (pulsar-rs) sends the batch index without
an ack set, and the Node client pulsar-flex sends the same ACK once for each message. The first of these ACKs removes
the batch from the subscription. Messages of the batch that the application rejects, or does not process before it ends,
are never delivered again, and requests for their redelivery have no effect. The finding is a warning if there are such
requests.

## On the wire

ACK with a `batch_index` and no `ack_set`, for an entry with several messages; then REDELIVER_UNACKNOWLEDGED_MESSAGES
with the same entry and no MESSAGE, or the end of the consumer before all indices were acknowledged.

## What would disprove it

ACKs of the remaining indices, or a delivery of the batch after the ACK.

## What to do

With these clients, disable batching in the producers of the topic, or acknowledge a message only after the application
has processed all messages of its batch. See [clients](../clients.md) for the acknowledgements of other clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_consumer, consumer_subject, count_of, first_of, frames_text
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_BY_INDEX: Final = Cause(
    "client",
    "likely",
    ("an application that acknowledges a batch on purpose with the id of one message",),
    "The application's log: whether it processed all messages.",
)


@rule(
    "consumer",
    facts=("acked_with_batch", "asked_with_batch", "durable"),
    title="messages that were lost because an ACK of another message acknowledged their batch",
    issue="apache/pulsar#5969",
    effect=("message was lost", "messages were lost"),
)
def evaluate(consumer: ConsumerRecord, _moment: Moment) -> Iterator[Finding]:
    """Return a finding if a consumer ended before it had acknowledged all messages of such batches."""
    lost = consumer.acked_with_batch
    if not lost.count or not consumer.durable:
        return
    yield Finding(
        "warning" if consumer.asked_with_batch.count else "note",
        "likely",
        _BY_INDEX,
        consumer_subject(consumer),
        f"{about_consumer(consumer)} lost {count_of(lost.count, 'message')} of batches{first_of(lost)}: an ACK of "
        f"another message without an ack_set acknowledged the whole batch ({frames_text(lost.frames)}).",
        opposite="ACKs of the other messages would disprove the finding; there are none.",
        advice="Disable batching in the producers of the topic, or acknowledge a message only after all messages of "
        "its batch were processed.",
        seen=lost,
        doubts=consumer.doubts - EDGES,
    )
