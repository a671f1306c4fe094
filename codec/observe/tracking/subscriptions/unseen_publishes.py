"""The life of a message that was not seen on its way to the broker: it begins with its first delivery.

Rules of this file
1. What its metadata says is all that is known; a frame cut before it leaves the life with the doubt "cut".
2. The chunks of one message come one by one, and are one life.
3. Messages of non-persistent topics have no id (0:0): producer name and sequence id tell them apart.
"""

from __future__ import annotations

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.entry_metadata import FIELD, Fields, fields_of, key_of, number_of, text_of
from pcli.codec.observe.tracking.records.lifecycle import MOST_CHUNKS, Lifecycle
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import LINGER, OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState

__all__ = ["linger", "loose", "new_life"]


def loose(topic: TopicState, facts: Facts) -> Lifecycle | None:
    """The life of a message of a non-persistent topic: all of them have the id 0:0."""
    fields = fields_of(facts.frame)
    return topic.loose.get((text_of(fields, FIELD["producer_name"]), number_of(fields, FIELD["sequence_id"], -1)))


def new_life(shelf: OpenLifecycles, topic: TopicState, at: Position, partition: int, facts: Facts) -> Lifecycle:
    """Begin a life with a delivery, or find the chunked message to which this one belongs."""
    fields = fields_of(facts.frame)
    uuid = text_of(fields, FIELD["uuid"]) if FIELD["chunk_id"] in fields else ""
    life = topic.loose.get(uuid) if uuid else None
    if life is None:
        life = Lifecycle(topic.record if topic.record.name else None, None, text_of(fields, FIELD["producer_name"]))
        _describe(life, fields, facts)
        if not facts.frame.parts.metadata_start >= 0:
            life.doubts.add("cut")
    if uuid:
        life.uuid, life.num_chunks = uuid, number_of(fields, FIELD["num_chunks_from_msg"])
        if len(life.chunks) < MOST_CHUNKS:
            life.chunks.append((number_of(fields, FIELD["chunk_id"]), 0, *at))
        topic.loose[uuid] = life
    life.partition = partition
    if not topic.record.persistent:
        topic.loose[life.producer_name, life.sequence_id] = life
        shelf.add(topic, life)
        linger(shelf, topic)
        return life
    life.ledger, life.entry = at
    topic.grow(at, written=False)
    shelf.put(topic, at, life)
    return life


def linger(shelf: OpenLifecycles, topic: TopicState) -> None:
    """Let the oldest life of a non-persistent topic go when there are too many."""
    if len(topic.loose) > LINGER:
        shelf.leave(topic, next(iter(topic.loose.values())))


def _describe(life: Lifecycle, fields: Fields, facts: Facts) -> None:
    life.sequence_id = number_of(fields, FIELD["sequence_id"], -1)
    life.highest_sequence_id = number_of(fields, FIELD["highest_sequence_id"], -1)
    life.messages = max(1, number_of(fields, FIELD["num_messages_in_batch"], 1))
    life.batch = FIELD["num_messages_in_batch"] in fields
    life.key = key_of(fields)
    life.publish_ms = number_of(fields, FIELD["publish_time"])
    life.deliver_at_ms = number_of(fields, FIELD["deliver_at_time"])
    life.size = facts.frame.parts.payload_end - facts.frame.parts.payload_start
    if FIELD["txnid_most_bits"] in fields:
        life.txn = (number_of(fields, FIELD["txnid_most_bits"]), number_of(fields, FIELD["txnid_least_bits"]))
