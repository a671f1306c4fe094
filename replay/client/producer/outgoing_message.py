"""An application's message on its way out, and the metadata that the Java client writes for it.

Rules of this file (TypedMessageBuilderImpl, ProducerImpl.updateMessageMetadata and Commands, 4.2.4; held against
captures)
1. A message that travels by itself has its own metadata, with ``uncompressed_size`` always, also when it is 0 or
   nothing is compressed. ``partition_key_b64_encoded`` stands beside every key, also when it is false.
2. A batch takes over from its first message: publish time, key, ordering key, clusters, schema version
   (Commands.initBatchMessageMetadata). ``uncompressed_size`` stands there only when it is compressed.
3. Inside a batch a message keeps key, ordering key, properties, event time, sequence id and the marks of null; its
   other fields are the batch's. A message that has none of them but its sequence id is written by hand: it is the hot
   path, and a protobuf object for each would cost more than all the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from pcli.codec.payload.batch import join_batch
from pcli.codec.proto import pb
from pcli.codec.wire.hot import push_varint

__all__ = ["OutgoingMessage", "batch_metadata", "join_singles", "message_metadata"]

_u32: Final = Struct(">I").pack


class OutgoingMessage:
    """A message as the application gives it. Plain and slotted: millions are made."""

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
        """As it travels: text, or base64 when ``key_is_bytes``."""
        self.key_is_bytes = key_is_bytes
        self.ordering_key = ordering_key
        self.properties = properties
        self.event_time = event_time
        """Milliseconds since 1970, as the application has it."""
        self.sequence_id = sequence_id
        """None: the next one of the producer."""
        self.deliver_at = deliver_at
        """Milliseconds since 1970; such a message goes into no batch."""
        self.replicate_to = replicate_to
        """Clusters; ``("__local__",)``: none but this one."""
        self.null_value = null_value
        """There is no value: a tombstone."""
        self.null_key = null_key
        """The key was given as null, which is not the same as having none."""
        self.schema = schema
        """None: the producer's."""
        self.bare = (
            key is None
            and ordering_key is None
            and properties is None
            and event_time is None
            and not null_value
            and not null_key
        )
        """Inside a batch it has nothing but payload and sequence id."""


def message_metadata(
    message: OutgoingMessage, sequence_id: int, producer: str, now: int, schema_version: bytes
) -> pb.MessageMetadata:
    """The metadata of a message that travels by itself."""
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
    """What a batch has of its first message. ``now`` is when that came."""
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
    """The payload of a batch of these messages."""
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
