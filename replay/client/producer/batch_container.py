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

Rules of a container with one batch for each key (BatchMessageKeyBasedContainer, 4.2.4)
1. Each ordering key, or else each key, has its own batch. Messages without a key share one batch. An ordering key is
   compared with the other keys in base64.
2. The limits apply to all batches together. When they are reached, every batch is sent as an entry.
3. Batches are sent in the order of their last sequence ids, and both sequence ids of an entry are set to its last
   sequence id. The ids of different batches interleave, so a broker that deduplicates by the first id would drop later
   batches.

Rules of the timer that sends batches that are not full (ProducerImpl.batchFlushTask, maybeScheduleBatchFlushTask,
scheduleBatchFlushTask; 4.2.4)
1. A message that does not fill a batch sets the timer to one publish delay, unless the timer is set or the producer is
   not ready. After the timer has sent a batch, it is set again even if no message waits; it then runs once without
   effect.
2. If the timer expires less than a publish delay after the last batch was sent for any reason, the timer is set to the
   rest of the delay. After a batch was sent because it was full, the next batch therefore has the whole delay.
3. The first timer is set without a delay when the producer is ready. It only starts the delay in rule 2.
4. While the producer is not ready, no batch is sent and the timer is not set. It is set again at the next registration.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pcli.codec.wire.constants import DEFAULT_MAX_MESSAGE_SIZE
from pcli.codec.wire.message_id import MessageId
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext

Done = Callable[[MessageId | ClientFailure], None]
"""Callback for the result of a message. It is called once."""


@dataclass(slots=True, eq=False, repr=False)
class Batch:
    """Messages that are sent as one entry."""

    time: int
    """Time of the first message."""
    schema_version: bytes
    messages: list[OutgoingMessage] = field(default_factory=list)
    sequence_ids: list[int] = field(default_factory=list)
    dones: list[Done | None] = field(default_factory=list)
    size: int = 0
    """Total size of the payloads in bytes, set when the batch is taken from the container."""
    lowest: int | None = None
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


class KeyBasedBatchContainer(BatchContainer):
    """A container with one batch for each key, or for each value of ``group``."""

    def __init__(self, most: int, most_bytes: int, group: Callable[[OutgoingMessage], Hashable] | None = None) -> None:
        super().__init__(most, most_bytes)
        self._group = group or _key
        self._batches: dict[Hashable, Batch] = {}

    def has_same_schema(self, message: OutgoingMessage, version: bytes) -> bool:
        """Return whether the batch of the message's group has this schema version."""
        batch = self._batches.get(self._group(message))
        return batch is None or batch.schema_version == version

    def add(self, message: OutgoingMessage, sequence_id: int, done: Done | None, now: int, version: bytes) -> bool:
        """Add a message. Return whether the container is full now."""
        # The base class adds to the batch of this group.
        key = self._group(message)
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


class BatchTimer:
    """The timer of a producer. ``delay`` is in ms. ``flush`` sends the batch, or returns False if it is empty."""

    def __init__(
        self, engine: ClientContext, delay: int, *, ready: Callable[[], bool], flush: Callable[[], bool]
    ) -> None:
        self._engine = engine
        self._delay = delay
        self._ready = ready
        self._flush = flush
        self._sent: int | None = None
        self.timer: Timer | None = None
        """The scheduled timer; None if it is not set."""

    def sent(self) -> None:
        """Record that a batch is being sent."""
        self._sent = self._engine.now

    def message_waits(self) -> None:
        """Set the timer for a waiting message, unless it is set."""
        if self.timer is None and self._ready():
            self.set(self._delay)

    def set(self, delay: int) -> None:
        """Set the timer to a delay in milliseconds."""
        self.timer = self._engine.call_at(self._engine.now + delay, self._run)

    def _run(self) -> None:
        self.timer = None
        if not self._ready():
            return
        now = self._engine.now
        if self._sent is None:
            self._sent = now
        since = now - self._sent
        if since < self._delay:
            self.set(self._delay - since)
        elif self._flush():
            self.message_waits()
