"""The versions of Pulsar that the broker reproduces, and everything that differs between them.

Rules of this file
1. A version is a column. Each row has one value for each version, in the order of `NAMES`.
2. The rows of `Version` are behaviours. The broker reads them as ``broker.version.<name>``. No other module compares
   versions.
3. The rows of `_SETTINGS` are settings whose default, existence or kind differs. A setting that another version has is
   accepted and has no effect, as on a real broker.
4. A row begins with the first version in which the values differ. Its source is a transcript in tests/conform, a REST
   response in tests/minibroker/admin, or the runtime configuration of real brokers.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Final, Generic, TypeVar, overload

from pcli.codec.errors import LocalError

NAMES: Final = ("4.2.4", "5.0.1")
"""The versions, in the order of the columns."""

WITH_REPLICATOR: Final = "is_allow_auto_update_schema_with_replicator"
"""The field in the policies of a namespace."""

_SETTINGS: Final = """
authenticateOriginalAuthData                                       false        true
bookkeeperClientSeparatedIoThreadsEnabled                          false        true
brokerClientJcaProvider                                            -            ""
brokerClientJsseProvider                                           -            ""
brokerClientSslFactoryPlugin                                       o.a.p.common.util.DefaultPulsarSslFactory -
brokerClientSslFactoryPluginParams                                 ""           -
brokerClientTlsFactoryClassName                                    -            ""
brokerClientTlsFactoryConfig                                       -            ""
brokerCloseInactiveTopicsEnabled                                   -            false*
defaultNumberOfNamespaceBundles                                    4*           32*
defaultNumberOfSystemNamespaceBundles                              -            64
dispatcherDispatchMessagesInSubscriptionThread                     true*        false*
dispatcherMaxReadBatchSize                                         100*         500*
enableShadowTopics                                                 -            false
exposeConsumerLevelMetricsInPrometheus                             false        false*
exposeManagedCursorMetricsInPrometheus                             false        false*
exposeManagedLedgerMetricsInPrometheus                             true         true*
exposePreciseBacklogInPrometheus                                   false        false*
exposeProducerLevelMetricsInPrometheus                             false        false*
exposeSubscriptionBacklogAgeInPrometheus                           -            false
exposeSubscriptionBacklogSizeInPrometheus                          false        false*
exposeTopicLevelMetricsInPrometheus                                true         true*
httpMaxResponseHeaderSize                                          -            8192
internalListenerName                                               ""           internal
jcaProvider                                                        -            ""
jsseProvider                                                       -            ""
keySharedLookAheadMsgInReplayThresholdPerConsumer                  2000*        4000*
keySharedLookAheadMsgInReplayThresholdPerSubscription              20000*       40000*
loadBalancerDistributeBundlesEvenlyEnabled                         true*        false*
loadBalancerLoadPlacementStrategy
    o.a.p.broker.loadbalance.impl.LeastLongTermMessageRate
    o.a.p.broker.loadbalance.impl.AvgShedder
loadBalancerLoadSheddingStrategy
    o.a.p.broker.loadbalance.impl.ThresholdShedder*
    o.a.p.broker.loadbalance.impl.AvgShedder*
loadManagerMigrationEnabled                                        -            false*
managedCursorInfoCompressionType                                   NONE         LZ4
managedLedgerAddEntryHandoverMaxBatchBytesSize                     -            5242880*
managedLedgerAddEntryHandoverMaxBatchItems                         -            1024*
managedLedgerBatchReadEnabled                                      -            true*
managedLedgerCacheEvictionExtendTTLOfRecentlyAccessed              true*        false*
managedLedgerInfoCompressionType                                   NONE         LZ4
managedLedgerMaxBatchDeletedIndexToPersist                         10000        200000
managedLedgerMaxReadsInFlightSizeInMB                              0            ""
managedLedgerMaxUnackedRangesToPersist                             10000        200000
managedLedgerMaxUnackedRangesToPersistInMetadataStore              1000         200000
managedLedgerReadAheadEnabled                                      -            true
managedLedgerReadEntriesCallbackInline                             -            true
managedLedgerUnackedRangesOpenCacheSetEnabled                      true         -
maxUnloadPercentage                                                0.2*         0.5*
packagesManagementAllowLegacyJavaSerialization                     -            true
packagesManagementJsonSerializationEnabled                         -            true
replicationMaxReadProcessingStepsPerTurn                           -            64
scalableTopicAutoScaleEnabled                                      -            true*
scalableTopicAutoScaleIntervalSeconds                              -            60
scalableTopicConsumerSessionGracePeriodSeconds                     -            60
scalableTopicEntryBucketBudget                                     -            4*
scalableTopicEntryBucketMaxPerSegment                              -            1024*
scalableTopicLoadReportIntervalSeconds                             -            10
scalableTopicLoadReportRateChangeThreshold                         -            0.25*
scalableTopicMaxDagDepth                                           -            10*
scalableTopicMaxSegments                                           -            64*
scalableTopicMergeBytesRateInThreshold                             -            5000000*
scalableTopicMergeBytesRateOutThreshold                            -            25000000*
scalableTopicMergeCooldownSeconds                                  -            300*
scalableTopicMergeMsgRateInThreshold                               -            1000.0*
scalableTopicMergeMsgRateOutThreshold                              -            5000.0*
scalableTopicMergeWindowSeconds                                    -            300*
scalableTopicMinSegments                                           -            1*
scalableTopicRebucketCooldownSeconds                               -            60*
scalableTopicSplitBytesRateInThreshold                             -            50000000*
scalableTopicSplitBytesRateOutThreshold                            -            250000000*
scalableTopicSplitCooldownSeconds                                  -            60*
scalableTopicSplitMsgRateInThreshold                               -            10000.0*
scalableTopicSplitMsgRateOutThreshold                              -            50000.0*
scalableTopicSplitVsRebucketMinMsgRateInThreshold                  -            1000.0*
scalableTopicsEnabled                                              -            true
sslFactoryPlugin                                                   o.a.p.common.util.DefaultPulsarSslFactory -
sslFactoryPluginParams                                             ""           -
subscriptionKeySharedUseClassicPersistentImplementation            false*       -
subscriptionSharedUseClassicPersistentImplementation               false*       -
tlsFactoryClassName                                                -            ""
tlsFactoryConfig                                                   -            ""
tlsHostnameVerificationEnabled                                     false        true
topicLoadTimeoutSeconds                                            60           60*
transactionBufferProviderClassName
    o.a.p.broker.transaction.buffer.impl.TopicTransactionBufferProvider
    o.a.p.broker.transaction.buffer.impl.DispatchingTransactionBufferProvider
transactionCoordinatorScalableTopicsEnabled                        -            true
transactionCoordinatorScalableTopicsGcIntervalSeconds              -            300
transactionCoordinatorScalableTopicsGcRetentionSeconds             -            900
transactionCoordinatorScalableTopicsParallelism                    -            16
transactionCoordinatorScalableTopicsTimeoutSweepIntervalSeconds    -            60
transactionPendingAckStoreProviderClassName
    o.a.p.broker.transaction.pendingack.impl.MLPendingAckStoreProvider
    o.a.p.broker.transaction.pendingack.impl.DispatchingTransactionPendingAckStoreProvider
webServiceTlsProvider                                              Conscrypt    ""
"""
"""The settings that differ: name, and default in each version as the REST API prints it.

``-`` is a version without the setting, ``""`` an empty value. A star marks a setting that can be changed at runtime.
``o.a.p.`` is ``org.apache.pulsar.``.
"""

_T = TypeVar("_T")


class Behaviour(Generic[_T]):
    """A row of the table: a behaviour with its value in each version."""

    def __init__(self, text: str, values: tuple[_T, ...]) -> None:
        """``text`` describes the behaviour and its source. Raises ValueError if a version has no value."""
        if len(values) != len(NAMES):
            raise ValueError(f"{text}: {len(values)} values for {len(NAMES)} versions")
        self.text, self.values = text, values

    @overload
    def __get__(self, version: None, owner: type[Version]) -> Behaviour[_T]: ...

    @overload
    def __get__(self, version: Version, owner: type[Version]) -> _T: ...

    def __get__(self, version: Version | None, owner: type[Version]) -> Behaviour[_T] | _T:
        return self if version is None else self.values[version.column]


class Version:
    """One version of Pulsar: a column of the tables."""

    def __init__(self, column: int) -> None:
        self.column = column
        self.name = NAMES[column]

    @cached_property
    def _cells(self) -> dict[str, str]:
        """The version's column of the table. It is read on first use: the CLI needs only the names of the versions."""
        return {row[0]: row[1 + self.column] for row in _rows()}

    @cached_property
    def missing(self) -> frozenset[str]:
        """The settings of other versions that this one does not have."""
        return frozenset(name for name, cell in self._cells.items() if cell == "-")

    @cached_property
    def dynamic(self) -> frozenset[str]:
        """The settings of the table that can be changed at runtime."""
        return frozenset(name for name, cell in self._cells.items() if cell.endswith("*"))

    @cached_property
    def defaults(self) -> dict[str, str]:
        """The defaults of the settings of the table."""
        return {name: _default(cell) for name, cell in self._cells.items() if name not in self.missing}

    acks_out_of_range_fail = Behaviour(
        "The response to an ACK after the last entry, or to a cumulative ACK before the mark-delete position, has an "
        "error. The pending acks of whole entries in the ACK remain (`ack.beyond_the_end`, "
        "`ack.cumulative_backwards`).",
        (False, True),
    )
    partial_acks_unblock = Behaviour(
        "A consumer that is blocked by its unacknowledged messages is unblocked when it acknowledges single messages "
        "of a batch; otherwise only when it acknowledges whole entries (`batches.limit_and_acknowledged_messages`).",
        (False, True),
    )
    unacked_can_be_negative = Behaviour(
        "If messages of a batch are acknowledged again in a transaction, they are subtracted again from the "
        "unacknowledged messages, even below 0 (`transactions.ack_batch_index_twice`).",
        (True, False),
    )
    keeps_ack_sets = Behaviour(
        "The acknowledged messages of batches survive the unload of a topic (a script on both brokers).", (False, True)
    )
    tracks_first_delayed = Behaviour(
        "The first message with a delivery time that a dispatcher reads is dispatched after the other messages of this "
        "read, even if it is due (`transactions.delayed`).",
        (False, True),
    )
    delayed_index_bytes = Behaviour(
        "Size in bytes of a bitmap without its values, in `delayedMessageIndexSizeInBytes` (`restart/topics.delayed`).",
        (58, 8),
    )
    notifies_non_persistent_failover = Behaviour(
        "On a Failover subscription of a non-persistent topic, all consumers receive ACTIVE_CONSUMER_CHANGE when the "
        "active consumer changes; otherwise only a new consumer that is not active (`failover.non_persistent`).",
        (False, True),
    )
    subscription_stats = Behaviour[dict[str, Any]](
        "A field in the statistics of a subscription, with its only value.",
        ({"consumersAfterMarkDeletePosition": {}}, {"oldestBacklogMessageAgeSeconds": -1}),
    )
    names_broker_in_lookup = Behaviour(
        "The response to a lookup over REST, and the load report, contain the `brokerId`.", (False, True)
    )
    cluster_fields = Behaviour[dict[str, Any]](
        "A field in the data of the broker's own cluster.",
        (
            {"brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory"},
            {"peerClusterNames": []},
        ),
    )
    clears_subscription_backlog = Behaviour(
        "The path `{bundle}/clearSubscriptionBacklog/{subscription}` of a namespace exists.", (False, True)
    )
    message_id_fields = Behaviour(
        "Order of the last fields of a message id over REST.",
        (("batchIndex", "batchSize"), ("batchSize", "batchIndex")),
    )
    jetty = Behaviour("Version of Jetty in error pages.", ("12.1.11", "12.1.13"))
    shows_url_in_error_page = Behaviour(
        "An error page of Jetty contains the whole URL of the request; otherwise its path and the name of the servlet.",
        (False, True),
    )
    namespace_fields = Behaviour[tuple[str, ...]](
        "Fields in the policies of a namespace that are True by default. The query parameter "
        "`allowAutoUpdateSchemaWithReplicator` of `isAllowAutoUpdateSchema` sets the first one (stored only).",
        ((), (WITH_REPLICATOR,)),
    )
    refuses_schema_of_bad_name = Behaviour(
        "GET_OR_CREATE_SCHEMA with an invalid topic name is refused; otherwise it closes the connection "
        "(`schemas.bad_name`).",
        (False, True),
    )
    permissions_require_topic = Behaviour(
        "Requests about the permissions of a missing topic fail (`rest5.permissions`).", (False, True)
    )
    rest_lookup_of_missing_topic = Behaviour(
        "The reason of a REST lookup of a missing topic that may not be created (`rest5.lookup_by_rest`).",
        ("Topic {} not found", "Topic not found {}"),
    )
    rest_lookup_checks_non_persistent = Behaviour(
        "A REST lookup of a missing non-persistent topic that may not be created fails.", (True, False)
    )


def _rows() -> list[list[str]]:
    words = _SETTINGS.split()
    width = 1 + len(NAMES)
    return [words[start : start + width] for start in range(0, len(words), width)]


def _default(cell: str) -> str:
    return "" if cell == '""' else cell.removesuffix("*").replace("o.a.p.", "org.apache.pulsar.")


BEHAVIOURS: Final = [row for row in vars(Version).values() if isinstance(row, Behaviour)]
"""The behaviours that differ."""

VERSIONS: Final = {name: Version(column) for column, name in enumerate(NAMES)}
"""The versions by name."""

DEFAULT: Final = VERSIONS["4.2.4"]
"""The version that most users run."""


def version_of(name: str) -> Version:
    """Return the version of this name. Raises LocalError if it is unknown."""
    if name not in VERSIONS:
        raise LocalError(f"version {name!r}: must be {' or '.join(NAMES)}")
    return VERSIONS[name]


def nearest_version(name: str) -> Version:
    """Return the last version that is not later than this one, or else the first one; the default for an empty name."""
    if not name:
        return DEFAULT
    earlier = [version for known, version in VERSIONS.items() if _numbers(known)[:2] <= _numbers(name)[:2]]
    return earlier[-1] if earlier else VERSIONS[NAMES[0]]


def _numbers(name: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", name)]
