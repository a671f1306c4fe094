"""Incomplete chunked messages of a consumer, and the rules by which they are kept, acknowledged and dropped.

Rules of this file (ConsumerImpl.processMessageChunk, ChunkedMessageCtx; 4.2.4)
1. The chunks of a message have the same ``uuid`` and arrive in order. Chunk 0 restarts the message: earlier chunks are
   dropped. If their positions in the topic differ from the position of the new chunk (the producer resent the message),
   the earlier chunks are acknowledged, because they are no longer needed.
2. A chunk that was received before is skipped. If it is a copy at a different position, it is acknowledged. If any
   other chunk is out of order, its message is dropped. This chunk is tracked for redelivery, or it is acknowledged if
   the message is older than ``expireTimeOfIncompleteChunkedMessageMillis``.
3. At most ``maxPendingChunkedMessage`` incomplete messages are kept (0 means no limit). Above this limit, the oldest
   message is dropped. Its chunks are acknowledged if ``autoAckOldestChunkedMessageOnQueueFull`` is set, or else tracked
   for redelivery.
4. A timer with the interval ``expireTimeOfIncompleteChunkedMessageMillis`` starts at the first chunk. It drops and
   acknowledges messages that have waited longer than the interval, oldest first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.replay.client.message_ids import ClientMessageId

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.consumer.unacked_message_tracker import Clock
    from pcli.replay.client.settings import ConsumerSettings


class _Pending:
    """A message that is incomplete, because only its first chunks have arrived."""

    __slots__ = ("ids", "parts", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.ids: list[ClientMessageId] = []
        self.parts: list[bytes] = []


class ChunkedMessageBuffer:
    """The incomplete messages of one consumer."""

    def __init__(
        self,
        clock: Clock,
        settings: ConsumerSettings,
        *,
        acknowledge: Callable[[ClientMessageId], None],
        track: Callable[[ClientMessageId], None],
    ) -> None:
        self._clock = clock
        self._most = settings.maxPendingChunkedMessage
        self._auto_ack = settings.autoAckOldestChunkedMessageOnQueueFull
        self._expiry = settings.expireTimeOfIncompleteChunkedMessageMillis
        self._acknowledge = acknowledge
        self._track = track
        self._pending: dict[str, _Pending] = {}
        self._timer: Timer | None = None

    def add(
        self, metadata: pb.MessageMetadata, payload: bytes, id_: ClientMessageId
    ) -> tuple[bytes, list[ClientMessageId]] | None:
        """Add a decrypted chunk. After the last chunk, return the compressed payload and the ids of all chunks."""
        if self._timer is None and self._expiry > 0:
            self._timer = self._clock.call_at(self._clock.now + self._expiry, self._expire)
        number = metadata.chunk_id
        if number == 0:
            self._begin(metadata.uuid, id_)
        one = self._pending.get(metadata.uuid)
        if one is None or number != len(one.ids):
            self._misfit(one, metadata, id_)
            return None
        one.ids.append(id_)
        one.parts.append(payload)
        if number < metadata.num_chunks_from_msg - 1:
            return None
        del self._pending[metadata.uuid]
        return b"".join(one.parts), one.ids

    def clear(self) -> None:
        """Drop all chunks and stop the timer."""
        self._pending.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self, uuid: str, id_: ClientMessageId) -> None:
        before = self._pending.pop(uuid, None)
        if before is not None and id_ not in before.ids:
            for one in before.ids:
                self._acknowledge(one)
        self._pending[uuid] = _Pending(self._clock.now)
        if 0 < self._most < len(self._pending):
            self._give_up(next(iter(self._pending)), acknowledge=self._auto_ack)

    def _misfit(self, one: _Pending | None, metadata: pb.MessageMetadata, id_: ClientMessageId) -> None:
        if one is not None and metadata.chunk_id < len(one.ids):
            if id_ not in one.ids:
                self._acknowledge(id_)
            return
        self._pending.pop(metadata.uuid, None)
        if 0 < self._expiry < self._clock.now - metadata.publish_time:
            self._acknowledge(id_)
        else:
            self._track(id_)

    def _give_up(self, uuid: str, *, acknowledge: bool) -> None:
        for id_ in self._pending.pop(uuid).ids:
            (self._acknowledge if acknowledge else self._track)(id_)

    def _expire(self) -> None:
        now = self._clock.now
        for uuid, one in list(self._pending.items()):
            if now <= one.since + self._expiry:
                break
            self._give_up(uuid, acknowledge=True)
        self._timer = self._clock.call_at(now + self._expiry, self._expire)
