"""Settings of a consumer, and of a reader: the names and defaults of the Java client 4.2.4.

They are those of ConsumerConfigurationData and ReaderConfigurationData.
"""

# ruff: noqa: N815 -- the fields are named as in the Java client

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pcli.codec.payload.encryption import PrivateKeys
from pcli.codec.proto import pb
from pcli.replay.client.consumer.redelivery_backoff import RedeliveryBackoff
from pcli.replay.client.message_ids import Id

__all__ = ["ConsumerSettings", "CryptoFailureAction", "DeadLetterPolicy", "KeySharedPolicy", "ReaderSettings"]

CryptoFailureAction = Literal["FAIL", "DISCARD", "CONSUME"]
"""What becomes of an entry that can't be opened: it is left to the ack time-out, acknowledged, or delivered closed."""


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """Where messages go that came too often."""

    maxRedeliverCount: int = 16
    """Messages that came more often are dead."""
    deadLetterTopic: str = ""
    """Empty: ``<topic>-<subscription>-DLQ``."""
    retryLetterTopic: str = ""
    """Empty: ``<topic>-<subscription>-RETRY``."""
    initialSubscriptionName: str = ""
    """A subscription that is made with the dead letter topic; empty: none."""


@dataclass(frozen=True, slots=True)
class KeySharedPolicy:
    """How Key_Shared deals its keys."""

    ranges: tuple[tuple[int, int], ...] = ()
    """First and last slot of each range of this consumer (STICKY); none: the broker deals (AUTO_SPLIT)."""
    allowOutOfOrderDelivery: bool = False
    """Whether the order of a key may be given up for speed."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Of everything that one consumer does."""

    topicNames: tuple[str, ...] = ()
    topicsPattern: str = ""
    """A regular expression over full topic names of one namespace, in place of ``topicNames``."""
    subscriptionName: str = ""
    subscriptionType: Literal["Exclusive", "Shared", "Failover", "Key_Shared"] = "Exclusive"
    subscriptionMode: Literal["Durable", "NonDurable"] = "Durable"
    """NonDurable: the subscription ends with its last consumer."""
    subscriptionInitialPosition: Literal["Latest", "Earliest"] = "Latest"
    consumerName: str = ""
    """Empty: five letters and digits by chance."""
    priorityLevel: int = 0
    """0 is served first."""
    properties: Mapping[str, str] = field(default_factory=dict)
    subscriptionProperties: Mapping[str, str] = field(default_factory=dict)
    keySharedPolicy: KeySharedPolicy | None = None
    replicateSubscriptionState: bool | None = None
    """None: not said."""
    readCompacted: bool = False
    schema: pb.Schema | None = None
    """None: bytes. Its type AutoConsume is asked for before the subscription, and named instead of it."""

    receiverQueueSize: int = 1000
    """Messages that wait for the application; 0: each is asked for."""
    maxTotalReceiverQueueSizeAcrossPartitions: int = 50_000
    """The same over all partitions of a topic, divided among them."""
    startPaused: bool = False

    acknowledgementsGroupTimeMicros: int = 100_000
    """How long acks are gathered; 0: not at all."""
    maxAcknowledgmentGroupSize: int = 1000
    """Entries whose acks are gathered."""
    batchIndexAckEnabled: bool = True
    """Whether a batch is acknowledged in parts."""
    ackReceiptEnabled: bool = False
    """Whether the broker answers acks."""
    ackTimeoutMillis: int = 0
    """After which a message that is not acknowledged is asked for again; 0: never."""
    tickDurationMillis: int = 1000
    """How exactly."""
    ackTimeoutRedeliveryBackoff: RedeliveryBackoff | None = None
    """What is waited in addition, by how often a message came."""
    negativeAckRedeliveryDelayMicros: int = 60_000_000
    """After which a refused message is asked for again."""
    negativeAckPrecisionBitCnt: int = 8
    """Bits of that time (ms) that are cut off."""
    negativeAckRedeliveryBackoff: RedeliveryBackoff | None = None
    """In place of the delay."""
    deadLetterPolicy: DeadLetterPolicy | None = None
    retryEnable: bool = False
    """Whether messages may be put off to the retry letter topic, which is consumed as well."""

    maxPendingChunkedMessage: int = 10
    """Incomplete messages that are kept; 0: any number."""
    autoAckOldestChunkedMessageOnQueueFull: bool = False
    """Whether the oldest is acknowledged then, or left to the ack time-out."""
    expireTimeOfIncompleteChunkedMessageMillis: int = 60_000
    """How long they are kept; 0: for ever."""
    cryptoKeys: PrivateKeys | None = None
    cryptoFailureAction: CryptoFailureAction = "FAIL"

    autoUpdatePartitions: bool = True
    """Whether new partitions are asked for."""
    autoUpdatePartitionsIntervalSeconds: int = 60
    patternAutoDiscoveryPeriod: int = 60
    """Seconds between two looks for topics that match."""
    regexSubscriptionMode: Literal["PersistentOnly", "NonPersistentOnly", "AllTopics"] = "PersistentOnly"

    startMessageId: Id | None = None
    """Where a NonDurable subscription begins: behind this id."""
    resetIncludeHead: bool = False
    """At this id, not behind it."""
    startMessageRollbackDurationSec: int = 0
    """How far before now a NonDurable subscription begins."""
    wholeEntryPermits: bool = False
    """Whether an entry that can't be read gives back the permits of all its messages (PIP-491); 4.2.4 gives one."""


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Of everything that one reader does."""

    topicName: str = ""
    startMessageId: Id | None = None
    """Where it begins: behind this id; ids.EARLIEST and ids.LATEST are possible."""
    resetIncludeHead: bool = False
    """At this id, not behind it."""
    startMessageFromRollbackDurationInSec: int = 0
    """How far before now it begins, in place of an id."""
    readerName: str = ""
    subscriptionName: str = ""
    """Empty: ``reader-`` and ten hexadecimal digits by chance."""
    subscriptionRolePrefix: str = ""
    """Stands before such a name, with a ``-``."""
    keyHashRanges: tuple[tuple[int, int], ...] = ()
    """First and last slot of the keys that are read; none: all."""
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
