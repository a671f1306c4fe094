"""Messages that wait to be sent together.

Rules of this file (AbstractBatchMessageContainer, BatchMessageContainerImpl, 4.2.4)
1. There is space for a message when its payload and those that wait have at most ``batchingMaxBytes`` together, and
   fewer than ``batchingMaxMessages`` wait. So a batch may hold one message that is larger, when it is the first.
2. It is full at exactly those numbers. Only payloads count, not what a batch adds to them. Where there is no limit of
   bytes, it is the largest message that the broker takes.
3. The first message says which schema version, key and publish time the batch has (`outgoing.batch_metadata`). Another
   schema version does not go into it (hasSameSchema).
4. A batch of one is no batch: it travels as a plain message (createOpSendMsg).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pcli.codec.wire.constants import DEFAULT_MAX_MESSAGE_SIZE
from pcli.codec.wire.message_id import MessageId
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage

__all__ = ["Batch", "BatchContainer", "Container", "Done"]

Done = Callable[[MessageId | ClientFailure], None]
"""Told once what became of a message."""


class Batch:
    """Messages that will be one entry."""

    __slots__ = ("dones", "lowest", "messages", "schema_version", "sequence_ids", "size", "time")

    def __init__(self, time: int, schema_version: bytes) -> None:
        self.time = time
        """When the first message came."""
        self.schema_version = schema_version
        self.messages: list[OutgoingMessage] = []
        self.sequence_ids: list[int] = []
        self.dones: list[Done | None] = []
        self.size = 0
        """Bytes of the payloads, once it is taken out."""
        self.lowest: int | None = None
        """The sequence id of the entry where it is not that of the first message."""


class Container(Protocol):
    """What a producer asks of the two kinds of container."""

    count: int
    """Messages that wait."""
    size: int
    """Bytes of their payloads."""
    most: int
    """Messages that fill it."""
    most_bytes: int
    """Bytes that fill it."""
    time: int
    """When the first of them came."""

    def may_hold(self, largest: int) -> None:
        """The broker takes messages of so many bytes."""
        ...

    def has_same_schema(self, message: OutgoingMessage, version: bytes) -> bool:
        """Whether the batch that it would join has this schema version."""
        ...

    def add(self, message: OutgoingMessage, sequence_id: int, done: Done | None, now: int, version: bytes) -> bool:
        """Take a message; True: it is full now."""
        ...

    def take(self) -> list[Batch]:
        """Empty it, as batches in the order in which they are to be sent."""
        ...


class BatchContainer:
    """One batch at a time. ``most``: ``batchingMaxMessages``, ``most_bytes``: ``batchingMaxBytes``; 0: no such limit.

    Whether there is space the producer sees for itself, of `count` and `size`: a call for each message is too much.
    """

    __slots__ = ("_batch", "_most_bytes", "count", "most", "most_bytes", "size", "time")

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most = most if most > 0 else 1 << 62
        self._most_bytes = most_bytes
        self._batch: Batch | None = None
        self.count = self.size = self.time = 0
        self.may_hold(DEFAULT_MAX_MESSAGE_SIZE)

    def may_hold(self, largest: int) -> None:
        """The broker takes messages of so many bytes."""
        self.most_bytes = self._most_bytes if self._most_bytes > 0 else largest

    def has_same_schema(self, message: OutgoingMessage, version: bytes) -> bool:
        """Whether what waits has this schema version."""
        return self._batch is None or self._batch.schema_version == version

    def add(self, message: OutgoingMessage, sequence_id: int, done: Done | None, now: int, version: bytes) -> bool:
        """Take a message; True: it is full now."""
        batch = self._batch
        if batch is None:
            self._batch = batch = Batch(now, version)
            self.time = now
        batch.messages.append(message)
        batch.sequence_ids.append(sequence_id)
        batch.dones.append(done)
        self.count = count = self.count + 1
        self.size = size = self.size + len(message.payload)
        return count >= self.most or size >= self.most_bytes

    def take(self) -> list[Batch]:
        """Empty it: one batch, or none."""
        batch, self._batch = self._batch, None
        size, self.count, self.size = self.size, 0, 0
        if batch is None:
            return []
        batch.size = size
        return [batch]
