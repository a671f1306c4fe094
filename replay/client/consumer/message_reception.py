"""The processing of a MESSAGE before the application receives its messages.

Rules of this file (ConsumerImpl.messageReceived and the methods it calls; 4.2.4)
1. The order is: checksum and metadata, duplicates of waiting acks, decryption, decompression, chunks, start id, batch,
   dead letters, consumer epoch.
2. An unreadable entry is acknowledged immediately with its ``validation_error`` and returns one permit; a batch that
   could not be decrypted returns all its permits. If ``wholeEntryPermits`` is set (PIP-491), an unreadable entry always
   returns the permits that the broker counted: one for each bit of its ack set or, if there is no ack set and the
   number of messages is known, one for each message.
3. If a key is missing or wrong, ``cryptoFailureAction`` determines the effect: the entry is left to the ack timeout
   and returns no permit, or it is acknowledged, or it is delivered as one encrypted message.
4. Skipped messages return their permits: duplicates, messages removed by compaction, messages before the start in the
   start's batch, dead letters, and all chunks except the last. Messages that the ack set excludes have no permits. An
   entry before the start that is not a batch returns no permits, which is also the behaviour of Java 4.2.4.
5. Messages of an older consumer epoch are dropped if the subscription type has one active consumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcli.codec.payload.compression import MAX_UNCOMPRESSED, compression_kind, decompress
from pcli.codec.proto import pb
from pcli.codec.wire.bits import set_of
from pcli.codec.wire.message_id import MessageId
from pcli.codec.wire.problems import Problem
from pcli.replay.client.consumer.chunked_message_buffer import ChunkedMessageBuffer
from pcli.replay.client.consumer.incoming_entry import IncomingEntry, IncomingMessage, Piece, cut
from pcli.replay.client.message_ids import AckSet, ClientMessageId

if TYPE_CHECKING:
    from pcli.codec.session import Event
    from pcli.codec.wire.frame import Frame
    from pcli.replay.client.connection.client_connection import ClientConnection
    from pcli.replay.client.consumer.consumer import Consumer

_GROWTH = 64
"""Maximum factor by which decompression may expand a payload. It is needed because chunked messages have no size
limit."""


class MessageReception:
    """A processor of one consumer's received entries that adds their messages to the consumer's queue."""

    def __init__(self, consumer: Consumer) -> None:
        self.chunks = ChunkedMessageBuffer(
            consumer.engine,
            consumer.settings,
            acknowledge=lambda id_: consumer.acks.add(id_),
            track=lambda id_: consumer.track(id_, 0),
        )
        self._consumer = consumer

    def take(self, event: Event, connection: ClientConnection) -> None:
        """Process a MESSAGE from a connection."""
        consumer, body, frame = self._consumer, event.body, event.frame
        place = MessageId.of(body.message_id)
        id_ = ClientMessageId(place.ledger, place.entry, consumer.partition, topic=consumer.topic)
        metadata = _metadata(frame)
        if metadata is None:
            self._refuse(id_, pb.CommandAck.ChecksumMismatch, set_of(body.ack_set).bit_count())
            return
        batch = metadata.HasField("num_messages_in_batch")
        if not batch and not consumer.acks.idle and consumer.acks.duplicate(id_):
            consumer.queue.increase()
            return
        payload = frame.payload
        arrival = IncomingEntry(id_, metadata, b"" if payload is None else payload, connection)
        arrival.redelivery_count = body.redelivery_count
        if body.HasField("consumer_epoch"):
            arrival.epoch = body.consumer_epoch
        if metadata.encryption_keys and not self._decrypt(arrival, body):
            return
        chunked = metadata.num_chunks_from_msg > 1
        if not arrival.encrypted and not chunked and not self._decompress(arrival, body):
            return
        if batch and not arrival.encrypted:
            self._take_batch(arrival, body)
        else:
            self._take_single(arrival, body, chunked=chunked)

    # -- single messages ---------------------------------------------------------------------------------------------

    def _take_single(self, arrival: IncomingEntry, body: pb.CommandMessage, *, chunked: bool) -> None:
        consumer = self._consumer
        if chunked and not arrival.encrypted and not self._join(arrival, body):
            return
        start = consumer.start_id
        exclusive = start is not None and consumer.persistent and not consumer.settings.resetIncludeHead
        if exclusive and start is not None and _same_entry(arrival.id, start):
            return
        message = IncomingMessage.single(arrival)
        dead = consumer.dead
        if dead is not None and arrival.redelivery_count >= dead.most:
            dead.possible[arrival.id] = [message]
            if arrival.redelivery_count > dead.most:
                consumer.redeliver({arrival.id})
                consumer.queue.increase()
                return
        self._enqueue(arrival, [message])

    def _join(self, arrival: IncomingEntry, body: pb.CommandMessage) -> bool:
        """Add a chunk. Return whether it completes its message."""
        metadata, consumer = arrival.metadata, self._consumer
        if metadata.chunk_id != metadata.num_chunks_from_msg - 1:
            consumer.queue.increase()
        whole = self.chunks.add(metadata, arrival.data, arrival.id)
        if whole is None:
            return False
        arrival.data, ids = whole
        last = arrival.id
        if not self._decompress(arrival, body, bounded=False):
            return False
        arrival.id = ClientMessageId(last.ledger, last.entry, last.partition, topic=last.topic, first=ids[0])
        consumer.acks.chunks[arrival.id] = ids
        return True

    # -- batches -----------------------------------------------------------------------------------------------------

    def _take_batch(self, arrival: IncomingEntry, body: pb.CommandMessage) -> None:
        consumer = self._consumer
        if not consumer.takes_batches:
            consumer.reject_batch(arrival.id)
            return
        pieces, good = cut(arrival.data, arrival.metadata.num_messages_in_batch)
        messages, skipped = self._messages(arrival, body, pieces)
        dead, times = consumer.dead, arrival.redelivery_count
        if dead is not None and times >= dead.most:
            dead.possible[arrival.id] = list(messages)
            if times > dead.most:
                skipped += len(messages)
                messages.clear()
        if messages and not consumer.acks.idle:
            fresh = [message for message in messages if not consumer.acks.duplicate(message.id)]
            skipped += len(messages) - len(fresh)
            messages = fresh
        self._enqueue(arrival, messages)
        if not good:
            left = _cost(arrival.metadata, body) - skipped - len(messages)
            self._refuse(arrival.id, pb.CommandAck.BatchDeSerializeError, left)
        if dead is not None and times > dead.most:
            consumer.redeliver({arrival.id})
        if skipped:
            consumer.queue.increase(skipped)

    def _messages(
        self, arrival: IncomingEntry, body: pb.CommandMessage, pieces: list[Piece]
    ) -> tuple[list[IncomingMessage], int]:
        """Return the messages of a batch to deliver, and the number of skipped messages that the broker counted."""
        arrival.count = len(pieces)
        everything = (1 << len(pieces)) - 1
        wanted = set_of(body.ack_set) & everything if body.ack_set else everything
        arrival.acks = AckSet(wanted)
        first = self._first_index(arrival.id)
        if wanted == everything and not first and all(stop >= 0 for _, stop, _ in pieces):
            return [IncomingMessage(arrival, index, *piece) for index, piece in enumerate(pieces)], 0
        messages = []
        for index, piece in enumerate(pieces):
            if wanted >> index & 1 and index >= first and piece[1] >= 0:
                messages.append(IncomingMessage(arrival, index, *piece))
        return messages, wanted.bit_count() - len(messages)

    def _first_index(self, id_: ClientMessageId) -> int:
        """Return the first index that is not before the start."""
        start = self._consumer.start_id
        if start is None or not self._consumer.persistent or not _same_entry(id_, start):
            return 0
        return start.batch_index if self._consumer.settings.resetIncludeHead else start.batch_index + 1

    def _enqueue(self, arrival: IncomingEntry, messages: list[IncomingMessage]) -> None:
        consumer = self._consumer
        if not consumer.individual and -1 < arrival.epoch < consumer.consumer_epoch:
            for _ in messages:
                consumer.queue.increase()
        elif messages:
            consumer.enqueue(messages)

    # -- decryption and decompression --------------------------------------------------------------------------------

    def _decrypt(self, arrival: IncomingEntry, body: pb.CommandMessage) -> bool:
        """Decrypt an entry. Return whether to process it further, either decrypted or (CONSUME) encrypted."""
        consumer = self._consumer
        keys, action = consumer.settings.cryptoKeys, consumer.settings.cryptoFailureAction
        opened = None if keys is None else keys.open(arrival.metadata, arrival.data)
        if isinstance(opened, bytes):
            arrival.data = opened
        elif action == "CONSUME":
            arrival.encrypted = True
        elif action == "DISCARD":
            consumer.acks.refuse(arrival.id, pb.CommandAck.DecryptionError)
            consumer.queue.increase(max(arrival.metadata.num_messages_in_batch, 1))
        else:
            consumer.unacked.add(arrival.id, body.redelivery_count)
        return isinstance(opened, bytes) or arrival.encrypted

    def _decompress(self, arrival: IncomingEntry, body: pb.CommandMessage, *, bounded: bool = True) -> bool:
        metadata, data = arrival.metadata, arrival.data
        connection = arrival.connection
        if bounded and connection is not None and len(data) > connection.max_message_size:
            self._refuse(arrival.id, pb.CommandAck.UncompressedSizeCorruption, _cost(metadata, body))
            return False
        kind = compression_kind(metadata)
        if kind == pb.NONE:
            return True
        limit = max(MAX_UNCOMPRESSED, _GROWTH * len(data))
        opened = decompress(kind, data, metadata.uncompressed_size, limit)
        if isinstance(opened, Problem):
            self._refuse(arrival.id, pb.CommandAck.DecompressionError, _cost(metadata, body))
            return False
        arrival.data = opened
        return True

    def _refuse(self, id_: ClientMessageId, error: Any, cost: int) -> None:
        """Acknowledge an unreadable entry. ``cost`` is the number of permits that it used, or 0 if unknown."""
        consumer = self._consumer
        consumer.acks.refuse(id_, error)
        consumer.queue.increase(max(cost, 1) if consumer.settings.wholeEntryPermits else 1)


def _cost(metadata: pb.MessageMetadata, body: pb.CommandMessage) -> int:
    """Return the permits that an entry uses: one for each bit of its ack set, or else one for each message."""
    return set_of(body.ack_set).bit_count() if body.ack_set else metadata.num_messages_in_batch


def _metadata(frame: Frame) -> pb.MessageMetadata | None:
    """Return the metadata, or None if it is malformed or the checksum is wrong. Both errors have the same code."""
    metadata = frame.metadata
    if metadata is None or frame.parts.problems or not metadata.IsInitialized() or frame.checksum == "bad":
        return None
    return metadata


def _same_entry(id_: ClientMessageId, start: ClientMessageId) -> bool:
    return id_.ledger == start.ledger and id_.entry == start.entry
