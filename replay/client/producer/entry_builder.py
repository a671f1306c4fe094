"""Entries out of messages: compressed, encrypted, framed.

Rules of this file (BatchMessageContainerImpl.createOpSendMsg, ProducerImpl.serializeAndSendMessage; 4.2.4)
1. What is larger than ``compressMinMsgBodySize`` is compressed: a message, or a batch as a whole.
2. Then it is encrypted, for all keys of the producer.
3. An entry may have as many bytes as the broker's largest message: of a batch the payload is counted, of a message the
   metadata too. A chunk is not counted, it was cut to size.
4. ``num_messages`` and ``highest_sequence_id`` stand in SEND and metadata of a batch only; a batch of one is none.
5. What protobuf can't hold (a time before 1970, a key that is no UTF-8) is refused, and with it its batch: checking
   each message when it is taken would cost more than that is worth.
6. Where Java compresses a message whose schema is still to be registered without saying so in its metadata, this says
   it: what nobody can read is no model.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.payload.compression import compress
from pcli.codec.payload.encryption_writing import PublicKeys
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.hot import push_send
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.batch_container import Batch, Done
from pcli.replay.client.producer.message_chunking import chunk_size, cut
from pcli.replay.client.producer.outgoing_message import OutgoingMessage, batch_metadata, join_singles, message_metadata
from pcli.replay.client.producer.pending_sends import OpSendMsg
from pcli.replay.client.producer_settings import ProducerSettings

__all__ = ["EntryBuilder"]

_UNKNOWN: Final = -1


class EntryBuilder:
    """Writes the entries of one producer. ``number``: its id on the wire."""

    def __init__(self, number: int, settings: ProducerSettings, *, chunks: bool) -> None:
        self.number = number
        self.name = settings.producerName
        """Of the producer, as the broker says it."""
        self.largest = _UNKNOWN
        """Bytes of the largest message, as the broker says it."""
        self.chunks = chunks
        """Whether messages that are too large are cut."""
        self.keys = PublicKeys(settings.encryptionKeys) if settings.encryptionKeys else None
        self._settings = settings
        self._kind: int = pb.CompressionType.Value(settings.compressionType)

    def batch(self, batch: Batch, now: int) -> OpSendMsg | ClientFailure:
        """The entry of a batch."""
        try:
            return self._batch(batch, now)
        except ValueError as fault:
            return _unfit(fault)

    def _batch(self, batch: Batch, now: int) -> OpSendMsg | ClientFailure:
        messages, ids, first = batch.messages, batch.sequence_ids, batch.messages[0]
        count = len(messages)
        if count == 1:
            metadata = message_metadata(first, ids[0], self.name, batch.time, batch.schema_version)
            return self._single(first, metadata, batch.dones[0], now)
        lowest = ids[0] if batch.lowest is None else batch.lowest
        metadata = batch_metadata(first, lowest, self.name, batch.time, batch.schema_version)
        metadata.num_messages_in_batch = count
        metadata.highest_sequence_id = ids[-1]
        payload = self._encrypt(metadata, self._compress(metadata, join_singles(messages, ids)))
        if len(payload) > self.largest:
            return self._too_large(len(payload))
        op = OpSendMsg(lowest, ids[-1], batch.dones, batch.size, now)
        op.frame = push_send(self.number, lowest, count, ids[-1], metadata.SerializeToString(), payload)
        return op

    def message(
        self, message: OutgoingMessage, sequence_id: int, schema_version: bytes, done: Done | None, now: int
    ) -> list[OpSendMsg] | ClientFailure:
        """The entry of a message that goes into no batch, or those of its chunks."""
        try:
            return self._message(message, sequence_id, schema_version, done, now)
        except ValueError as fault:
            return _unfit(fault)

    def _message(
        self, message: OutgoingMessage, sequence_id: int, schema_version: bytes, done: Done | None, now: int
    ) -> list[OpSendMsg] | ClientFailure:
        metadata = message_metadata(message, message.sequence_id or 0, self.name, now, schema_version)
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
        return ClientFailure("InvalidMessage", f"{size} bytes are more than the {self.largest} that the broker takes")


def _unfit(fault: ValueError) -> ClientFailure:
    text = f"{fault.object!a} is no UTF-8" if isinstance(fault, UnicodeEncodeError) else str(fault).lower()
    return ClientFailure("InvalidMessage", f"its metadata can't be written: {text}")
