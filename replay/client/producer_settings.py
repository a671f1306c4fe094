"""Settings of one producer, with the names and defaults of the Java client (ProducerConfigurationData, 4.2.4).

Two settings are absent. ``blockIfQueueFull`` is not needed, because `Producer.send` returns False if the queue is full,
and the caller then waits or gives up. ``cryptoFailureAction`` is not needed, because public keys are passed as PEM and
checked when the producer is created. The Java client, in contrast, also calls its key reader later.
"""

# ruff: noqa: N815 -- the fields have the names of the Java client

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pcli.codec.proto import pb

__all__ = ["ProducerSettings"]


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Settings of one producer."""

    producerName: str = ""
    """Producer name; if empty, the broker assigns a name."""
    accessMode: Literal["Shared", "Exclusive", "WaitForExclusive", "ExclusiveWithFencing"] = "Shared"
    """Whether other producers may publish to the topic at the same time."""
    initialSequenceId: int | None = None
    """The last sequence id before the first message; None means the value from the broker."""
    initialSubscriptionName: str = ""
    """A subscription that is created with the topic, or empty."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Metadata of the producer, shown in the topic's statistics."""
    schema: pb.Schema | None = None
    """Schema of messages that have no schema of their own; None for bytes."""

    sendTimeoutMs: int = 30_000
    """Timeout for a message's receipt; 0 means no timeout."""
    maxPendingMessages: int = 0
    """Maximum number of messages without a receipt; 0 means no limit."""
    maxPendingMessagesAcrossPartitions: int = 0
    """Maximum number of messages without a receipt in all partitions, divided among the partitions; 0 means no
    limit."""

    batchingEnabled: bool = True
    """Whether messages are sent in batches."""
    batcherBuilder: Literal["DEFAULT", "KEY_BASED"] = "DEFAULT"
    """Whether there is one batch at a time or one batch for each key."""
    batchingMaxMessages: int = 1000
    """Maximum number of messages in a batch; 0 means no limit."""
    batchingMaxBytes: int = 128 * 1024
    """Maximum payload bytes of a batch; 0 means the maximum message size."""
    batchingMaxPublishDelayMicros: int = 1000
    """Maximum delay before a batch is sent. The engine rounds it up to milliseconds."""
    chunkingEnabled: bool = False
    """Whether a message that is too large and not batched is sent in chunks."""
    chunkMaxMessageSize: int = -1
    """Maximum bytes of a chunk if less than the maximum message size; 0 or less means no further limit."""

    compressionType: Literal["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"] = "NONE"
    """Compression of payloads."""
    compressMinMsgBodySize: int = 4096
    """Payloads and batches up to this size are not compressed."""
    encryptionKeys: Mapping[str, bytes] = field(default_factory=dict)
    """Names and PEMs of the public keys used to encrypt payloads; empty for no encryption."""

    messageRoutingMode: Literal["RoundRobinPartition", "SinglePartition"] = "RoundRobinPartition"
    """The method by which the partition of a message without a key is chosen."""
    hashingScheme: Literal["JavaStringHash", "Murmur3_32Hash"] = "JavaStringHash"
    """The hash that maps a key to a partition."""
    batchingPartitionSwitchFrequencyByPublishDelay: int = 10
    """Number of publish delays after which round robin changes the partition if batching is enabled."""
    autoUpdatePartitions: bool = True
    """Whether the number of partitions is polled."""
    autoUpdatePartitionsIntervalSeconds: int = 60
    """Seconds between polls for the number of partitions."""
    lazyStartPartitionedProducers: bool = False
    """Whether the producer of a partition is created for its first message (access mode Shared only)."""

    @property
    def publish_delay(self) -> int:
        """``batchingMaxPublishDelayMicros`` in milliseconds, at least 1."""
        return max(1, -(-self.batchingMaxPublishDelayMicros // 1000))
