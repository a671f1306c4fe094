"""A message that an application sends, and the metadata that the Java client writes for it.

Rules of this file (TypedMessageBuilderImpl, ProducerImpl.updateMessageMetadata and Commands, 4.2.4; checked against
captures)
1. A message that is not batched has its own metadata. It always contains ``uncompressed_size``, even if it is 0 or the
   payload is not compressed, and ``partition_key_b64_encoded`` with every key, even if it is false.
2. The metadata of a batch contains the publish time, key, ordering key, clusters and schema version of the first
   message (Commands.initBatchMessageMetadata), and ``uncompressed_size`` only if the batch is compressed.
3. In a batch, the metadata of each message contains the key, ordering key, properties, event time, sequence id and null
   flags; other fields are in the batch's metadata. A message with only a sequence id is encoded without protobuf: on
   this hot path, creating a protobuf object for each message would be the main cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from pcli.codec.payload.batch import join_batch
from pcli.codec.proto import pb
from pcli.codec.scalable import key_hashes
from pcli.codec.wire.hot import push_varint

_u32: Final = Struct(">I").pack


class OutgoingMessage:
    """A message of the application. It is a plain class with slots, because millions of messages are created."""

    __slots__ = (
        "bare", "deliver_at", "event_time", "key", "key_is_bytes", "null_key", "null_value", "ordering_key", "payload",
        "properties", "replicate_to", "schema", "sequence_id",
    )  # fmt: skip

    def __init__(
        self,
        payload: bytes,
        *,
        key: str | None = None,
        key_is_bytes: bool = False,
        ordering_key: bytes | None = None,
        properties: Mapping[str, str] | None = None,
        event_time: int | None = None,
        sequence_id: int | None = None,
        deliver_at: int | None = None,
        replicate_to: Sequence[str] = (),
        null_value: bool = False,
        null_key: bool = False,
        schema: pb.Schema | None = None,
    ) -> None:
        self.payload = payload
        self.key = key
        """The key as sent: text, or base64 if ``key_is_bytes``."""
        self.key_is_bytes = key_is_bytes
        self.ordering_key = ordering_key
        self.properties = properties
        self.event_time = event_time
        """The application's event time in milliseconds since 1970."""
        self.sequence_id = sequence_id
        """The sequence id. If it is None, the producer's next id is used."""
        self.deliver_at = deliver_at
        """The delivery time in milliseconds since 1970. A message with a delivery time is not batched."""
        self.replicate_to = replicate_to
        """Cluster names; ``("__local__",)`` means only the local cluster."""
        self.null_value = null_value
        """Whether the message has no value (a tombstone)."""
        self.null_key = null_key
        """Whether the key is null. A null key differs from no key."""
        self.schema = schema
        """The schema. If it is None, the producer's schema is used."""
        self.bare = (
            key is None
            and ordering_key is None
            and properties is None
            and event_time is None
            and not null_value
            and not null_key
        )
        """Whether a batch contains only the payload and the sequence id of the message."""

    @property
    def hashes(self) -> tuple[int, int]:
        """The hashes of the key that choose the segment and the entry bucket; both are 0 without a key."""
        return (0, 0) if self.key is None else key_hashes(self.key.encode(errors="replace"))


def message_metadata(
    message: OutgoingMessage, sequence_id: int, producer: str, now: int, schema_version: bytes
) -> pb.MessageMetadata:
    """Return the metadata of a message that is not batched."""
    metadata = batch_metadata(message, sequence_id, producer, now, schema_version)
    metadata.uncompressed_size = len(message.payload)
    if message.properties:
        metadata.properties.extend(_pairs(message.properties))
    if message.event_time is not None:
        metadata.event_time = message.event_time
    if message.deliver_at is not None:
        metadata.deliver_at_time = message.deliver_at
    if message.null_value:
        metadata.null_value = True
    if message.null_key:
        metadata.null_partition_key = True
    return metadata


def batch_metadata(
    first: OutgoingMessage, sequence_id: int, producer: str, now: int, schema_version: bytes
) -> pb.MessageMetadata:
    """Return the metadata of a batch from its first message. ``now`` is the time of that message."""
    metadata = pb.MessageMetadata(
        producer_name=producer, sequence_id=sequence_id, publish_time=now, replicate_to=first.replicate_to
    )
    if first.key is not None:
        metadata.partition_key = first.key
        metadata.partition_key_b64_encoded = first.key_is_bytes
    if first.ordering_key is not None:
        metadata.ordering_key = first.ordering_key
    if schema_version:
        metadata.schema_version = schema_version
    return metadata


def join_singles(messages: Sequence[OutgoingMessage], sequence_ids: Sequence[int]) -> bytes:
    """Return the payload of a batch of these messages."""
    parts: list[bytes] = []
    add = parts.extend
    size, front = -1, b""
    for message, sequence_id in zip(messages, sequence_ids, strict=True):
        if not message.bare:
            parts.append(join_batch(((_single(message, sequence_id), message.payload),)))
            continue
        payload = message.payload
        if len(payload) != size:
            size = len(payload)
            front = b"\x18" + push_varint(size) + b"\x40"
        last = push_varint(sequence_id)
        add((_u32(len(front) + len(last)), front, last, payload))
    return b"".join(parts)


def _single(message: OutgoingMessage, sequence_id: int) -> pb.SingleMessageMetadata:
    single = pb.SingleMessageMetadata(sequence_id=sequence_id, event_time=message.event_time)
    if message.key is not None:
        single.partition_key = message.key
        single.partition_key_b64_encoded = message.key_is_bytes
    if message.ordering_key is not None:
        single.ordering_key = message.ordering_key
    if message.properties:
        single.properties.extend(_pairs(message.properties))
    if message.null_value:
        single.null_value = True
    if message.null_key:
        single.null_partition_key = True
    return single


def _pairs(properties: Mapping[str, str]) -> list[pb.KeyValue]:
    return [pb.KeyValue(key=key, value=value) for key, value in properties.items()]
