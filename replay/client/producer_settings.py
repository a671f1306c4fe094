"""Settings of one producer: the names and defaults of the Java client (ProducerConfigurationData, 4.2.4).

Two are missing. ``blockIfQueueFull``: `Producer.send` says that there is no room, and whoever asked waits or gives up.
``cryptoFailureAction``: public keys are given as they are, all of them are tried when the producer is made, and what
can close a payload then can always; the Java client asks its key reader later, too.
"""

# ruff: noqa: N815 -- the fields are named as in the Java client

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pcli.codec.proto import pb

__all__ = ["ProducerSettings"]


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Of everything that one producer does."""

    producerName: str = ""
    """Empty: the broker gives one."""
    accessMode: Literal["Shared", "Exclusive", "WaitForExclusive", "ExclusiveWithFencing"] = "Shared"
    """Whether it bears others beside it on its topic."""
    initialSequenceId: int | None = None
    """The id that counts as published before the first message; None: the broker says it."""
    initialSubscriptionName: str = ""
    """A subscription that is made with the topic; empty: none."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Metadata of the producer, which statistics show."""
    schema: pb.Schema | None = None
    """Of the messages that name none themselves; None: bytes."""

    sendTimeoutMs: int = 30_000
    """How long a message may wait for its receipt; 0: for ever."""
    maxPendingMessages: int = 0
    """Messages that may wait for their receipts; 0: as many as come."""
    maxPendingMessagesAcrossPartitions: int = 0
    """The same, divided among the partitions; 0: as many as come."""

    batchingEnabled: bool = True
    """Whether messages travel in batches."""
    batcherBuilder: Literal["DEFAULT", "KEY_BASED"] = "DEFAULT"
    """One batch at a time, or one for each key."""
    batchingMaxMessages: int = 1000
    """Messages that fill a batch; 0: no limit."""
    batchingMaxBytes: int = 128 * 1024
    """Bytes of payloads that fill a batch; 0: the largest message."""
    batchingMaxPublishDelayMicros: int = 1000
    """How long a batch may wait to be filled. The engine counts in milliseconds: what is less is rounded up."""
    chunkingEnabled: bool = False
    """Whether a message that is too large, and goes into no batch, travels in chunks."""
    chunkMaxMessageSize: int = -1
    """Bytes of a chunk, where that is less than the largest message; 0 and less: not limited further."""

    compressionType: Literal["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"] = "NONE"
    """How payloads are compressed."""
    compressMinMsgBodySize: int = 4096
    """Payloads (or batches) of this size and less are not compressed."""
    encryptionKeys: Mapping[str, bytes] = field(default_factory=dict)
    """Names and PEMs of the public keys for which payloads are closed; none: they stay open."""

    messageRoutingMode: Literal["RoundRobinPartition", "SinglePartition"] = "RoundRobinPartition"
    """The partition of a message without a key."""
    hashingScheme: Literal["JavaStringHash", "Murmur3_32Hash"] = "JavaStringHash"
    """The partition of a key."""
    batchingPartitionSwitchFrequencyByPublishDelay: int = 10
    """How many publish delays the round robin stays with one partition, when batching."""
    autoUpdatePartitions: bool = True
    """Whether new partitions are asked for."""
    autoUpdatePartitionsIntervalSeconds: int = 60
    """How often."""
    lazyStartPartitionedProducers: bool = False
    """Whether a partition gets its producer with its first message (access mode Shared only)."""

    @property
    def publish_delay(self) -> int:
        """``batchingMaxPublishDelayMicros`` in milliseconds, at least one."""
        return max(1, -(-self.batchingMaxPublishDelayMicros // 1000))
