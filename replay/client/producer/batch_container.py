"""Messages that wait to be sent as one batch.

Rules of this file (AbstractBatchMessageContainer, BatchMessageContainerImpl, 4.2.4)
1. A message fits into the batch if the batch has fewer than ``batchingMaxMessages`` messages and all payloads,
   including the new payload, total at most ``batchingMaxBytes``. The first message of a batch may be larger.
2. A batch is full at exactly these limits. Only payloads count, not the metadata in the batch. If ``batchingMaxBytes``
   is 0, the broker's maximum message size applies.
3. The first message determines the schema version, key and publish time of the batch
   (`outgoing_message.batch_metadata`). Messages with a different schema version do not fit into the batch
   (hasSameSchema).
4. A batch of one message is sent as a plain message (createOpSendMsg).
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
"""Callback for the result of a message. It is called once."""


class Batch:
    """Messages that are sent as one entry."""

    __slots__ = ("dones", "lowest", "messages", "schema_version", "sequence_ids", "size", "time")

    def __init__(self, time: int, schema_version: bytes) -> None:
        self.time = time
        """Time of the first message."""
        self.schema_version = schema_version
        self.messages: list[OutgoingMessage] = []
        self.sequence_ids: list[int] = []
        self.dones: list[Done | None] = []
        self.size = 0
        """Total size of the payloads in bytes, set when the batch is taken from the container."""
        self.lowest: int | None = None
        """The sequence id of the entry if it differs from the first message's id."""


class Container(Protocol):
    """The interface of the two kinds of batch container."""

    count: int
    """Number of waiting messages."""
    size: int
    """Payload bytes of the waiting messages."""
    most: int
    """Maximum number of messages."""
    most_bytes: int
    """Maximum bytes of payloads."""
    time: int
    """Time of the first waiting message."""

    def may_hold(self, largest: int) -> None:
        """Set the broker's maximum message size in bytes."""
        ...

    def has_same_schema(self, message: OutgoingMessage, version: bytes) -> bool:
        """Return whether the batch that would contain this message has this schema version."""
        ...

    def add(self, message: OutgoingMessage, sequence_id: int, done: Done | None, now: int, version: bytes) -> bool:
        """Add a message. Return whether the container is full now."""
        ...

    def take(self) -> list[Batch]:
        """Remove all messages and return them as batches in sending order."""
        ...


class BatchContainer:
    """A container with one batch. ``most`` is ``batchingMaxMessages`` and ``most_bytes`` is ``batchingMaxBytes``.

    A limit of 0 means no limit. The producer checks the space itself with `count` and `size`, because a call for each
    message would cost too much.
    """

    __slots__ = ("_batch", "_most_bytes", "count", "most", "most_bytes", "size", "time")

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most = most if most > 0 else 1 << 62
        self._most_bytes = most_bytes
        self._batch: Batch | None = None
        self.count = self.size = self.time = 0
        self.may_hold(DEFAULT_MAX_MESSAGE_SIZE)

    def may_hold(self, largest: int) -> None:
        """Set the broker's maximum message size in bytes."""
        self.most_bytes = self._most_bytes if self._most_bytes > 0 else largest

    def has_same_schema(self, message: OutgoingMessage, version: bytes) -> bool:
        """Return whether the waiting messages have this schema version."""
        return self._batch is None or self._batch.schema_version == version

    def add(self, message: OutgoingMessage, sequence_id: int, done: Done | None, now: int, version: bytes) -> bool:
        """Add a message. Return whether the batch is full now."""
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
        """Remove all messages and return them as one batch, or an empty list."""
        batch, self._batch = self._batch, None
        size, self.count, self.size = self.size, 0, 0
        if batch is None:
            return []
        batch.size = size
        return [batch]
