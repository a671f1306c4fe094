"""Lifecycles of messages whose SEND is not in the capture: they begin with the first delivery.

Rules of this file
1. Only the metadata is known. If the frame is truncated before the metadata, the lifecycle has the doubt "cut".
2. The chunks of a message are delivered one by one and share one lifecycle.
3. Messages of non-persistent topics have the id 0:0. They are distinguished by producer name, sequence id and publish
   time.
"""

from __future__ import annotations

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.entry_metadata import FIELD, Fields, fields_of, key_of, number_of, text_of
from pcli.codec.observe.tracking.records.lifecycle import MOST_CHUNKS, Lifecycle
from pcli.codec.observe.tracking.subscriptions.cursor_positions import new_ledger
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import MAX_NON_PERSISTENT, OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState


def find_unpositioned(topic: TopicState, facts: Facts) -> Lifecycle | None:
    """Return the lifecycle of a message of a non-persistent topic, where every id is 0:0."""
    fields = fields_of(facts.frame)
    sequence_id, publish_ms = number_of(fields, FIELD["sequence_id"], -1), number_of(fields, FIELD["publish_time"])
    return topic.unpositioned.get((text_of(fields, FIELD["producer_name"]), sequence_id, publish_ms))


def new_life(lifecycles: OpenLifecycles, topic: TopicState, at: Position, partition: int, facts: Facts) -> Lifecycle:
    """Begin a lifecycle with a delivery, or return the lifecycle of the chunked message to which it belongs."""
    fields = fields_of(facts.frame)
    uuid = text_of(fields, FIELD["uuid"]) if FIELD["chunk_id"] in fields else ""
    lifecycle = topic.unpositioned.get(uuid) if uuid else None
    if lifecycle is None:
        lifecycle = Lifecycle(
            topic.record if topic.record.name else None, None, text_of(fields, FIELD["producer_name"])
        )
        _describe(lifecycle, fields, facts)
        if not facts.frame.parts.metadata_start >= 0:
            lifecycle.doubts |= {"cut"}
    if uuid:
        lifecycle.uuid, lifecycle.num_chunks = uuid, number_of(fields, FIELD["num_chunks_from_msg"])
        if len(lifecycle.chunks) < MOST_CHUNKS:
            lifecycle.chunks += ((number_of(fields, FIELD["chunk_id"]), 0, *at),)
        topic.unpositioned[uuid] = lifecycle
    lifecycle.partition = partition
    if not topic.record.persistent:
        topic.unpositioned[lifecycle.published_as] = lifecycle
        lifecycles.add(topic, lifecycle)
        evict_non_persistent(lifecycles, topic)
        return lifecycle
    lifecycle.ledger, lifecycle.entry = at
    if topic.broker_lost is not None and at[0] > topic.last[0]:
        new_ledger(topic)
    topic.grow(at, written=False)
    lifecycles.put(topic, at, lifecycle)
    if lifecycle.producer_name in topic.record.producers and not uuid:
        topic.unreceipted.delivered(lifecycle, facts.frame.time_ns, facts.frame.number)
    return lifecycle


def evict_non_persistent(lifecycles: OpenLifecycles, topic: TopicState) -> None:
    """Remove the oldest lifecycle of a non-persistent topic if there are too many."""
    if len(topic.unpositioned) > MAX_NON_PERSISTENT:
        lifecycles.remove(topic, next(iter(topic.unpositioned.values())))


def _describe(lifecycle: Lifecycle, fields: Fields, facts: Facts) -> None:
    lifecycle.sequence_id = number_of(fields, FIELD["sequence_id"], -1)
    lifecycle.highest_sequence_id = number_of(fields, FIELD["highest_sequence_id"], -1)
    lifecycle.messages = max(1, number_of(fields, FIELD["num_messages_in_batch"], 1))
    lifecycle.batch = FIELD["num_messages_in_batch"] in fields
    lifecycle.key = key_of(fields)
    lifecycle.publish_ms = number_of(fields, FIELD["publish_time"])
    lifecycle.deliver_at_ms = number_of(fields, FIELD["deliver_at_time"])
    lifecycle.size = facts.frame.parts.payload_end - facts.frame.parts.payload_start
    if facts.frame.parts.checksum is not None:
        lifecycle.checksum = facts.frame.parts.checksum
    if FIELD["txnid_most_bits"] in fields:
        lifecycle.txn = (number_of(fields, FIELD["txnid_most_bits"]), number_of(fields, FIELD["txnid_least_bits"]))
