"""The settings of the client, and of its producers, consumers and readers.

Names and defaults are those of the Java client 4.2.4: ClientConfigurationData, ProducerConfigurationData,
ConsumerConfigurationData, ReaderConfigurationData and MultiplierRedeliveryBackoff.

Two settings of producers are absent. ``blockIfQueueFull`` is not needed, because `Producer.send` returns False if the
queue is full, and the caller then waits or gives up. ``cryptoFailureAction`` is not needed, because public keys are
passed as PEM and checked when the producer is created. The Java client, in contrast, also calls its key reader later.

"""

# ruff: noqa: N815 -- the fields have the names of the Java client

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pcli.codec.payload.encryption import PrivateKeys
from pcli.codec.proto import pb
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.service_url import Security


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of one client (ClientConfigurationData). Times are in milliseconds."""

    operationTimeoutMs: int = 30_000
    """Timeout of a request."""
    lookupTimeoutMs: int = 30_000
    """Maximum time during which a lookup is retried."""
    connectionTimeoutMs: int = 10_000
    """Timeout of a TCP connection attempt."""
    connectionsPerBroker: int = 1
    """Maximum number of connections to one broker."""
    maxLookupRedirects: int = 20
    """Maximum number of redirects of a lookup."""
    keepAliveIntervalSeconds: int = 30
    """Interval between PINGs."""
    initialBackoffIntervalMs: int = 100
    """Delay before the first retry."""
    maxBackoffIntervalMs: int = 60_000
    """Maximum delay before a retry."""
    listenerName: str = ""
    """The advertised listener that lookups request; empty for the default listener."""
    memoryLimitBytes: int = 64 << 20
    """Maximum bytes of messages that producers hold, or 0 for no limit."""
    security: Security = field(default_factory=Security)
    """Credentials and TLS settings."""


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


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """Delays from ``minDelayMs`` to ``maxDelayMs`` that grow by the factor ``multiplier`` with each redelivery."""

    minDelayMs: int = 1000
    maxDelayMs: int = 600_000
    multiplier: float = 2.0

    def next(self, redelivery_count: int) -> int:
        """Return the delay in milliseconds for a message with this redelivery count."""
        if redelivery_count <= 0 or self.minDelayMs <= 0:
            return self.minDelayMs
        try:
            return int(min(self.minDelayMs * self.multiplier**redelivery_count, self.maxDelayMs))
        except OverflowError:
            return self.maxDelayMs


CryptoFailureAction = Literal["FAIL", "DISCARD", "CONSUME"]
"""The action for an undecryptable entry: leave it to the ack timeout, acknowledge it or deliver it encrypted."""


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """The policy for messages that were redelivered too often or that are retried later."""

    maxRedeliverCount: int = 16
    """Maximum number of redeliveries before a message is sent to the dead letter topic."""
    deadLetterTopic: str = ""
    """Dead letter topic; if empty, the topic is ``<topic>-<subscription>-DLQ``."""
    retryLetterTopic: str = ""
    """Retry letter topic; if empty, the topic is ``<topic>-<subscription>-RETRY``."""
    initialSubscriptionName: str = ""
    """A subscription that is created with the dead letter topic, or empty."""


@dataclass(frozen=True, slots=True)
class KeySharedPolicy:
    """The key distribution of a Key_Shared subscription."""

    ranges: tuple[tuple[int, int], ...] = ()
    """First and last slot of each range of this consumer (STICKY). If empty, the broker assigns ranges (AUTO_SPLIT)."""
    allowOutOfOrderDelivery: bool = False
    """Whether messages of a key may be delivered out of order."""
    entryBucketDispatch: bool = False
    """Whether the ranges are the entry buckets of a segment, which the broker distributes."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Settings of one consumer."""

    topicNames: tuple[str, ...] = ()
    topicsPattern: str = ""
    """A regular expression for full topic names of one namespace, instead of ``topicNames``."""
    subscriptionName: str = ""
    subscriptionType: Literal["Exclusive", "Shared", "Failover", "Key_Shared"] = "Exclusive"
    scalableType: Literal["stream", "queue", "checkpoint"] = "stream"
    """The kind of the consumer of a scalable topic (``topic://``), which replaces ``subscriptionType``."""
    subscriptionMode: Literal["Durable", "NonDurable"] = "Durable"
    """Durable or NonDurable. A NonDurable subscription ends with its last consumer."""
    subscriptionInitialPosition: Literal["Latest", "Earliest"] = "Latest"
    consumerName: str = ""
    """Consumer name; if empty, the name consists of five random letters and digits."""
    priorityLevel: int = 0
    """Priority of the consumer; 0 is the highest."""
    properties: Mapping[str, str] = field(default_factory=dict)
    subscriptionProperties: Mapping[str, str] = field(default_factory=dict)
    keySharedPolicy: KeySharedPolicy | None = None
    replicateSubscriptionState: bool | None = None
    """Whether the subscription is replicated; if None, the field is not sent."""
    readCompacted: bool = False
    schema: pb.Schema | None = None
    """The schema; None means bytes. AutoConsume is replaced by the topic's schema, which is requested before
    SUBSCRIBE."""

    receiverQueueSize: int = 1000
    """Number of messages prefetched for the application. If 0, each receive requests one message."""
    maxTotalReceiverQueueSizeAcrossPartitions: int = 50_000
    """Limit on the total ``receiverQueueSize`` of all partitions of a topic. It is divided among the partitions."""
    startPaused: bool = False

    acknowledgementsGroupTimeMicros: int = 100_000
    """Time for which acks are grouped; if 0, acks are sent immediately."""
    maxAcknowledgmentGroupSize: int = 1000
    """Maximum number of entries in a group of acks."""
    batchIndexAckEnabled: bool = True
    """Whether single messages of a batch are acknowledged at the broker."""
    ackReceiptEnabled: bool = False
    """Whether the broker sends ACK_RESPONSE."""
    ackTimeoutMillis: int = 0
    """Time after which the redelivery of an unacknowledged message is requested; 0 means never."""
    tickDurationMillis: int = 1000
    """Resolution of ``ackTimeoutMillis``."""
    ackTimeoutRedeliveryBackoff: RedeliveryBackoff | None = None
    """Additional delay by redelivery count."""
    negativeAckRedeliveryDelayMicros: int = 60_000_000
    """Time after which the redelivery of a negatively acknowledged message is requested."""
    negativeAckPrecisionBitCnt: int = 8
    """Number of low bits that are cleared in the due time of a negative ack, in milliseconds."""
    negativeAckRedeliveryBackoff: RedeliveryBackoff | None = None
    """Delay by redelivery count, instead of ``negativeAckRedeliveryDelayMicros``."""
    deadLetterPolicy: DeadLetterPolicy | None = None
    retryEnable: bool = False
    """Whether messages may be sent to the retry letter topic, which the consumer also consumes."""

    maxPendingChunkedMessage: int = 10
    """Maximum number of incomplete chunked messages; 0 means no limit."""
    autoAckOldestChunkedMessageOnQueueFull: bool = False
    """Whether the oldest incomplete chunked message is acknowledged at that limit. Otherwise the ack timeout
    applies."""
    expireTimeOfIncompleteChunkedMessageMillis: int = 60_000
    """Time for which incomplete chunked messages are kept; 0 means no limit."""
    cryptoKeys: PrivateKeys | None = None
    cryptoFailureAction: CryptoFailureAction = "FAIL"

    autoUpdatePartitions: bool = True
    """Whether the number of partitions is polled."""
    autoUpdatePartitionsIntervalSeconds: int = 60
    patternAutoDiscoveryPeriod: int = 60
    """Seconds between polls for topics that match the pattern."""
    regexSubscriptionMode: Literal["PersistentOnly", "NonPersistentOnly", "AllTopics"] = "PersistentOnly"

    startMessageId: ClientMessageId | None = None
    """The message id after which a NonDurable subscription starts."""
    resetIncludeHead: bool = False
    """Whether the start includes ``startMessageId`` itself."""
    startMessageRollbackDurationSec: int = 0
    """Number of seconds before now at which a NonDurable subscription starts."""
    wholeEntryPermits: bool = False
    """Whether an unreadable entry returns the permits of all its messages (PIP-491). Java 4.2.4 returns one permit."""


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Settings of one reader."""

    topicName: str = ""
    startMessageId: ClientMessageId | None = None
    """The message id after which the reader starts. EARLIEST and LATEST of message_ids are also valid."""
    resetIncludeHead: bool = False
    """Whether the start includes ``startMessageId`` itself."""
    startMessageFromRollbackDurationInSec: int = 0
    """Number of seconds before now at which the reader starts, instead of an id."""
    readerName: str = ""
    subscriptionName: str = ""
    """Subscription name; if empty, the name consists of ``reader-`` and ten random hexadecimal digits."""
    subscriptionRolePrefix: str = ""
    """Prefix of the generated subscription name, followed by ``-``."""
    keyHashRanges: tuple[tuple[int, int], ...] = ()
    """First and last slot of each range of keys to read; empty for all keys."""
    receiverQueueSize: int = 1000
    readCompacted: bool = False
    schema: pb.Schema | None = None
    maxPendingChunkedMessage: int = 10
    autoAckOldestChunkedMessageOnQueueFull: bool = False
    expireTimeOfIncompleteChunkedMessageMillis: int = 60_000
    cryptoKeys: PrivateKeys | None = None
    cryptoFailureAction: CryptoFailureAction = "FAIL"
    autoUpdatePartitions: bool = True
    autoUpdatePartitionsIntervalSeconds: int = 60
