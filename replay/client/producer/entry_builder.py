"""The construction of entries from messages: compression, encryption and framing.

Rules of this file (BatchMessageContainerImpl.createOpSendMsg, ProducerImpl.serializeAndSendMessage; 4.2.4)
1. The payload of a message, or of a whole batch, is compressed if it is larger than ``compressMinMsgBodySize``.
2. The payload is then encrypted for all keys of the producer.
3. The size of an entry is limited to the broker's maximum message size. For a batch, only the payload counts; for a
   single message, the metadata also counts. Chunks are not checked, because their size was chosen to fit.
4. Only the SEND and the metadata of a batch contain ``num_messages`` and ``highest_sequence_id``; a batch of one
   message does not contain them.
5. If protobuf cannot encode a value (a time before 1970, a key that is not UTF-8), the whole batch fails, because
   checking each message when it is added would cost too much.
6. If a message's schema is not registered yet, Java compresses the message but omits the compression type, and the
   message is unreadable. This client writes the type.

Rules of the chunks of messages that are too large for one entry (ProducerImpl.sendAsync, serializeAndSendMessage;
4.2.4)
1. Only messages that are not batched are chunked, and only on persistent topics. The message is compressed as a whole;
   each chunk is encrypted separately.
2. A chunk has at most the broker's maximum message size minus the metadata without chunk fields, and at most
   ``chunkMaxMessageSize``. The chunk fields are not counted, because brokers accept a few bytes above their limit.
3. All chunks have the same sequence id, the uuid ``<producer name>-<sequence id>`` and the size of the compressed
   message. A message that fits into one entry is not chunked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pcli.codec.payload.compression import compress
from pcli.codec.payload.encryption_writing import PublicKeys
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.hot import push_send
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.batch_container import Batch, Done
from pcli.replay.client.producer.outgoing_message import OutgoingMessage, batch_metadata, join_singles, message_metadata
from pcli.replay.client.producer.pending_sends import OpSendMsg
from pcli.replay.client.settings import ProducerSettings

_UNKNOWN: Final = -1


class EntryBuilder:
    """A builder of the entries of one producer. ``number`` is the producer id."""

    def __init__(self, number: int, settings: ProducerSettings, *, chunks: bool) -> None:
        self.number = number
        self.name = settings.producerName
        """Name of the producer, assigned by the broker."""
        self.largest = _UNKNOWN
        """The broker's maximum message size in bytes."""
        self.chunks = chunks
        """Whether messages that are too large are sent in chunks."""
        self.keys = PublicKeys(settings.encryptionKeys) if settings.encryptionKeys else None
        self.hashed = False
        """Whether entries contain the hashes of their keys, as entries of segments do."""
        self._settings = settings
        self._kind: int = pb.CompressionType.Value(settings.compressionType)

    def batch(self, batch: Batch, now: int) -> OpSendMsg | ClientFailure:
        """Return the entry of a batch."""
        try:
            return self._batch(batch, now)
        except ValueError as fault:
            return _unfit(fault)

    def _batch(self, batch: Batch, now: int) -> OpSendMsg | ClientFailure:
        messages, ids, first = batch.messages, batch.sequence_ids, batch.messages[0]
        count = len(messages)
        if count == 1:
            metadata = message_metadata(first, ids[0], self.name, batch.time, batch.schema_version)
            self._add_hashes(metadata, messages)
            return self._single(first, metadata, batch.dones[0], now)
        lowest = ids[0] if batch.lowest is None else batch.lowest
        metadata = batch_metadata(first, lowest, self.name, batch.time, batch.schema_version)
        metadata.num_messages_in_batch = count
        metadata.highest_sequence_id = ids[-1]
        self._add_hashes(metadata, messages)
        payload = self._encrypt(metadata, self._compress(metadata, join_singles(messages, ids)))
        if len(payload) > self.largest:
            return self._too_large(len(payload))
        op = OpSendMsg(lowest, ids[-1], batch.dones, batch.size, now)
        op.frame = push_send(self.number, lowest, count, ids[-1], metadata.SerializeToString(), payload)
        return op

    def message(
        self, message: OutgoingMessage, sequence_id: int, schema_version: bytes, done: Done | None, now: int
    ) -> list[OpSendMsg] | ClientFailure:
        """Return the entry of a message that is not batched, or the entries of its chunks."""
        try:
            return self._message(message, sequence_id, schema_version, done, now)
        except ValueError as fault:
            return _unfit(fault)

    def _message(
        self, message: OutgoingMessage, sequence_id: int, schema_version: bytes, done: Done | None, now: int
    ) -> list[OpSendMsg] | ClientFailure:
        metadata = message_metadata(message, message.sequence_id or 0, self.name, now, schema_version)
        self._add_hashes(metadata, (message,))
        if not self.chunks:
            metadata.sequence_id = sequence_id
            op = self._single(message, metadata, done, now)
            return op if isinstance(op, ClientFailure) else [op]
        payload = self._compress(metadata, message.payload)
        size = chunk_size(self.largest, metadata, self._settings.chunkMaxMessageSize)
        if size <= 0:
            return self._too_large(metadata.ByteSize())
        metadata.sequence_id = sequence_id
        return self._chunks(metadata, payload, size, OpSendMsg(sequence_id, -1, (done,), len(message.payload), now))

    def _chunks(self, metadata: pb.MessageMetadata, payload: bytes, size: int, last: OpSendMsg) -> list[OpSendMsg]:
        frames = [self._frame(metadata, self._encrypt(metadata, piece)) for piece in cut(metadata, payload, size)]
        last.frame = frames[-1]
        ops = [OpSendMsg(last.sequence_id, -1, (), 0, last.time, last=False) for _ in frames[:-1]]
        for op, frame in zip(ops, frames, strict=False):
            op.frame = frame
        return [*ops, last]

    def _single(
        self, message: OutgoingMessage, metadata: pb.MessageMetadata, done: Done | None, now: int
    ) -> OpSendMsg | ClientFailure:
        payload = self._encrypt(metadata, self._compress(metadata, message.payload))
        size = metadata.ByteSize() + len(payload)
        if size > self.largest:
            return self._too_large(size)
        op = OpSendMsg(metadata.sequence_id, -1, (done,), len(message.payload), now)
        op.frame = self._frame(metadata, payload)
        return op

    def _add_hashes(self, metadata: pb.MessageMetadata, messages: Sequence[OutgoingMessage]) -> None:
        if self.hashed:
            hashes = [message.hashes[1] for message in messages]
            metadata.entry_hash_min, metadata.entry_hash_max = min(hashes), max(hashes)

    def _frame(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
        if not metadata.HasField("chunk_id"):
            return push_send(self.number, metadata.sequence_id, 1, 0, metadata.SerializeToString(), payload)
        body = pb.CommandSend(producer_id=self.number, sequence_id=metadata.sequence_id, is_chunk=True)
        return push_frame(body, push_entry(metadata, payload))

    def _compress(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
        if self._kind == pb.NONE or len(payload) <= self._settings.compressMinMsgBodySize:
            return payload
        metadata.compression = self._kind  # type: ignore[assignment]  # it came of the enum's own table
        metadata.uncompressed_size = len(payload)
        return compress(self._kind, payload)

    def _encrypt(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
        return payload if self.keys is None else self.keys.close(metadata, payload)

    def _too_large(self, size: int) -> ClientFailure:
        return ClientFailure("InvalidMessage", f"{size} bytes exceed the broker's maximum of {self.largest}")


def _unfit(fault: ValueError) -> ClientFailure:
    text = f"{fault.object!a} is not UTF-8" if isinstance(fault, UnicodeEncodeError) else str(fault).lower()
    return ClientFailure("InvalidMessage", f"the metadata cannot be encoded: {text}")


def chunk_size(largest: int, metadata: pb.MessageMetadata, chunk_max_message_size: int) -> int:
    """Return the size of a chunk.

    It is 0 or less if the metadata alone exceeds ``largest``, the maximum message size.
    """
    size = largest - metadata.ByteSize()
    return min(size, chunk_max_message_size) if chunk_max_message_size > 0 else size


def cut(metadata: pb.MessageMetadata, payload: bytes, size: int) -> Iterator[bytes]:
    """Yield the chunks of a payload, or the payload itself if it fits.

    The fields of each chunk are set in ``metadata``.
    """
    count = max(1, -(-len(payload) // size))
    if count == 1:
        yield payload
        return
    metadata.uuid = f"{metadata.producer_name}-{metadata.sequence_id}"
    metadata.num_chunks_from_msg = count
    metadata.total_chunk_msg_size = len(payload)
    for index in range(count):
        metadata.chunk_id = index
        yield payload[index * size : (index + 1) * size]
