"""ACKs of one message of a batch that acknowledge the whole batch.

Rules of this file
1. The broker ignores the batch index of an id. An ACK of a part of a batch needs an ack set; without one it
   acknowledges the entry (verified on 4.2.4). The Rust client sends the index without an ack set, the Node client
   (pulsar-flex) sends one ACK for each message without an index.
2. If the application acknowledges all messages of the batch, on any connection, nothing is lost. The other messages,
   and those that it requests again, are never delivered again, except after a SEEK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, IndexAcks

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
    from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer
    from pcli.codec.observe.tracking.subscriptions.topic_state import Position

ONE_ACK_PER_MESSAGE: Final = "Pulsar-Flex"
"""Start of client_version of clients that send one ACK for each message of a batch, without its index."""

_MAX_BATCHES: Final = 10_000


def note_index_ack(consumer: AttachedConsumer, at: Position, index: int, time_ns: int, frame: int) -> None:
    """Process an id without an ack set in an individual ACK.

    ``index`` is its batch index, or -1 for a client that sends one ACK for each message without an index.
    """
    lifecycle, batches = _lifecycle(consumer, at), consumer.record.index_acks
    if lifecycle is None or lifecycle.messages < 2:
        return
    acks = batches.setdefault(at, IndexAcks((1 << lifecycle.messages) - 1, time_ns, frame))
    acks.left &= ~(1 << index) if index >= 0 else acks.left - 1
    if len(batches) > _MAX_BATCHES:
        del batches[next(iter(batches))]


def note_index_request(consumer: AttachedConsumer, at: Position, time_ns: int, frame: int) -> None:
    """Process a request for redelivery of an entry."""
    acks = consumer.record.index_acks.get(at)
    if acks is not None:
        acks.request = frame
        lifecycle = _lifecycle(consumer, at)
        past = lifecycle.deliveries.get(consumer.subscription.record.name) if lifecycle is not None else None
        if past:
            past[-1].again = frame, time_ns


def _lifecycle(consumer: AttachedConsumer, at: Position) -> Lifecycle | None:
    topic = consumer.subscription.topic
    return topic.lifecycles.get(at) or topic.complete.get(at)


def count_unprocessed(record: ConsumerRecord) -> None:
    """Count the messages that a consumer has lost because an ACK covered their batch.

    While the consumer is attached, only messages of batches whose redelivery it has requested are lost.
    """
    open_ = record.session is not None and not record.session.end
    for at, acks in list(record.index_acks.items()):
        if acks.left and (acks.request or not open_):
            sample = f"{at[0]}:{at[1]}"
            frames = (acks.frame, acks.request)
            record.acked_with_batch.add(acks.time_ns, *frames, sample=sample, count=acks.left.bit_count())
            if acks.request:
                record.asked_with_batch.add(acks.time_ns, acks.request, sample=sample)
    record.index_acks.clear()
