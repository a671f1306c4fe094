"""A batch container with one batch for each key.

Rules of this file (BatchMessageKeyBasedContainer, 4.2.4)
1. Each ordering key, or else each key, has its own batch. Messages without a key share one batch. An ordering key is
   compared with the other keys in base64.
2. The limits apply to all batches together. When they are reached, every batch is sent as an entry.
3. Batches are sent in the order of their last sequence ids, and both sequence ids of an entry are set to its last
   sequence id. The ids of different batches interleave, so a broker that deduplicates by the first id would drop later
   batches.
"""

from __future__ import annotations

from base64 import b64encode

from pcli.replay.client.producer.batch_container import Batch, BatchContainer, Done
from pcli.replay.client.producer.outgoing_message import OutgoingMessage

__all__ = ["KeyBasedBatchContainer"]


class KeyBasedBatchContainer(BatchContainer):
    """A container with one batch for each key."""

    __slots__ = ("_batches",)

    def __init__(self, most: int, most_bytes: int) -> None:
        super().__init__(most, most_bytes)
        self._batches: dict[str | None, Batch] = {}

    def has_same_schema(self, message: OutgoingMessage, version: bytes) -> bool:
        """Return whether the batch of the message's key has this schema version."""
        batch = self._batches.get(_key(message))
        return batch is None or batch.schema_version == version

    def add(self, message: OutgoingMessage, sequence_id: int, done: Done | None, now: int, version: bytes) -> bool:
        """Add a message. Return whether the container is full now."""
        # The base class adds to the batch of this key.
        key = _key(message)
        first, self._batch = self.time if self.count else now, self._batches.get(key)
        full = super().add(message, sequence_id, done, now, version)
        assert self._batch is not None
        self._batches[key] = self._batch
        self.time = first
        return full

    def take(self) -> list[Batch]:
        """Remove all messages and return the batches in the order of their last sequence ids."""
        batches = sorted(self._batches.values(), key=lambda batch: batch.sequence_ids[-1])
        for batch in batches:
            batch.lowest = batch.sequence_ids[-1]
            batch.size = sum(len(message.payload) for message in batch.messages)
        self._batches = {}
        self.count = self.size = 0
        return batches


def _key(message: OutgoingMessage) -> str | None:
    if message.ordering_key is not None:
        return b64encode(message.ordering_key).decode()
    return message.key
