"""The settings of the broker, with their names in broker.conf.

Rules of this file
1. A field is a key that this broker implements. Its default is the value in a real standalone of the default version,
   which can differ from the default in Pulsar's code. `versions` contains the defaults that differ in other versions.
2. IGNORED contains all other keys of a real conf file. They are accepted and have no effect, and so are the settings
   that only another version has.
3. Values are written as in a conf file: true/false, numbers, strings, lists with commas. An empty value clears a list,
   and has no effect on any other setting (FieldParser.update).
"""
# ruff: noqa: N815 -- the fields are named as in broker.conf

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, get_args, get_type_hints

from pcli.codec.errors import LocalError
from pcli.codec.wire.near import near
from pcli.minibroker.ignored_settings import IGNORED
from pcli.minibroker.setting_values import READ, first_word
from pcli.minibroker.versions import DEFAULT, VERSIONS, Version


@dataclass(slots=True)
class Settings:
    """All implemented settings. Names of durations end with the unit. 0 disables a limit unless stated otherwise."""

    # Addresses.
    clusterName: Annotated[str, "name of the cluster"] = "standalone"
    bindAddress: Annotated[str, "address of both listening sockets"] = "127.0.0.1"
    advertisedAddress: Annotated[str, "host in the URLs of lookup responses; if empty, the bind address is used"] = ""
    brokerServicePort: Annotated[int, "port of the binary protocol; 0 selects any free port"] = 6650
    webServicePort: Annotated[int, "port of REST and metrics; 0 selects any free port"] = 8080

    # TLS.
    brokerServicePortTls: Annotated[
        int, "port of the binary protocol over TLS; 0 selects any free port, -1 disables TLS"
    ] = -1
    webServicePortTls: Annotated[int, "port of REST over TLS; 0 selects any free port, -1 disables TLS"] = -1
    tlsCertificateFilePath: Annotated[str, "file of the broker's certificate chain, PEM"] = ""
    tlsKeyFilePath: Annotated[str, "file of the certificate's private key, PEM"] = ""
    tlsTrustCertsFilePath: Annotated[str, "file of trusted certificates, PEM, that verify clients"] = ""
    tlsRequireTrustedClientCertOnConnect: Annotated[bool, "clients must present a trusted certificate"] = False
    tlsCertRefreshCheckDurationSec: Annotated[
        int, "interval at which the files are checked for changes; 0 checks them for every connection"
    ] = 300

    # Authentication and authorization.
    authenticationEnabled: Annotated[bool, "clients must authenticate"] = False
    authenticationProviders: Annotated[
        list[str], "AuthenticationProviderToken, AuthenticationProviderBasic, AuthenticationProviderTls"
    ] = field(default_factory=list)
    authenticationRefreshCheckSeconds: Annotated[int, "interval at which expired credentials are detected"] = 60
    anonymousUserRole: Annotated[str, "role of clients that use no known authentication method"] = ""
    tokenSecretKey: Annotated[str, "secret key of tokens: data:;base64,TEXT or file:///PATH"] = ""
    tokenPublicKey: Annotated[str, "public key of tokens: data:;base64,TEXT or file:///PATH"] = ""
    tokenAuthClaim: Annotated[str, "claim with the role; if empty, sub"] = ""
    tokenAudienceClaim: Annotated[str, "claim with the audience, if it is checked"] = ""
    tokenAudience: Annotated[str, "required audience"] = ""
    basicAuthConf: Annotated[str, "htpasswd file: file:///PATH, or data:;base64,TEXT"] = ""
    authorizationEnabled: Annotated[bool, "roles need permissions"] = False
    superUserRoles: Annotated[list[str], "roles with all permissions"] = field(default_factory=list)
    proxyRoles: Annotated[list[str], "roles of proxies, which forward the principals of clients"] = field(
        default_factory=list
    )
    authorizationAllowWildcardsMatching: Annotated[bool, "permitted roles may begin or end with *"] = False

    # Connections.
    maxMessageSize: Annotated[int, "maximum bytes of a message; a frame may have 10240 bytes more"] = 5242880
    keepAliveIntervalSeconds: Annotated[int, "interval after which a silent client gets a PING"] = 30
    connectionLivenessCheckTimeoutMillis: Annotated[int, "time for a client to respond to a liveness check"] = 5000
    brokerMaxConnections: Annotated[int, "maximum number of connections"] = 0
    brokerMaxConnectionsPerIp: Annotated[int, "maximum number of connections from one address"] = 0
    maxHttpServerConnections: Annotated[int, "maximum number of HTTP connections"] = 2048
    httpServerIdleTimeout: Annotated[
        int, "time in milliseconds without input or output after which an HTTP connection closes"
    ] = 30000
    httpMaxRequestSize: Annotated[int, "maximum bytes of a request body; -1 means maxMessageSize"] = -1
    pulsarChannelWriteBufferHighWaterMark: Annotated[
        int, "number of bytes waiting to be written above which a connection is not writable"
    ] = 65536
    pulsarChannelWriteBufferLowWaterMark: Annotated[
        int, "number of bytes waiting to be written below which a connection is writable again"
    ] = 32768

    # Topics: creation and limits.
    allowAutoTopicCreation: Annotated[bool, "producers and consumers may create topics"] = True
    allowAutoTopicCreationType: Annotated[
        str, "type of automatically created topics: partitioned or non-partitioned"
    ] = "non-partitioned"
    defaultNumPartitions: Annotated[int, "partitions of an automatically created topic"] = 1
    allowAutoSubscriptionCreation: Annotated[bool, "consumers may create durable subscriptions"] = True
    strictlyVerifySubscriptionName: Annotated[
        bool, "names of new subscriptions contain only letters, digits, and the characters -=:._"
    ] = False
    enablePersistentTopics: Annotated[bool, "persistent topics can be loaded"] = True
    enableNonPersistentTopics: Annotated[bool, "non-persistent topics can be loaded"] = True
    clientLibraryVersionCheckEnabled: Annotated[
        bool, "clients below Pulsar-CPP-v1.21 cannot request the number of partitions over HTTP"
    ] = False
    subscriptionBacklogScanMaxEntries: Annotated[int, "maximum entries that analyzeBacklog reads"] = 10_000
    maxTenants: Annotated[int, "maximum number of tenants"] = 0
    maxNamespacesPerTenant: Annotated[int, "maximum namespaces per tenant"] = 0
    maxTopicsPerNamespace: Annotated[int, "maximum topics per namespace, including partitions"] = 0
    maxNumPartitionsPerPartitionedTopic: Annotated[int, "maximum partitions of a topic"] = 0
    maxProducersPerTopic: Annotated[int, "maximum producers per topic"] = 0
    maxSameAddressProducersPerTopic: Annotated[int, "maximum producers per topic from one address"] = 0
    maxConsumersPerTopic: Annotated[int, "maximum consumers per topic"] = 0
    maxSameAddressConsumersPerTopic: Annotated[int, "maximum consumers per topic from one address"] = 0
    maxConsumersPerSubscription: Annotated[int, "maximum consumers per subscription"] = 0
    maxSubscriptionsPerTopic: Annotated[int, "maximum subscriptions per persistent topic"] = 0
    maxConsumerMetadataSize: Annotated[
        int, "maximum characters of a consumer's metadata, names and values together"
    ] = 1024
    defaultNumberOfNamespaceBundles: Annotated[int, "bundles of a new namespace"] = 4
    defaultNumberOfSystemNamespaceBundles: Annotated[int, "bundles of the namespace pulsar/system"] = 4
    forceDeleteTenantAllowed: Annotated[bool, "REST may delete tenants with their namespaces"] = False
    forceDeleteNamespaceAllowed: Annotated[bool, "REST may delete namespaces with their topics"] = False
    topicLevelPoliciesEnabled: Annotated[bool, "REST may set policies of topics"] = True
    systemTopicEnabled: Annotated[bool, "namespaces have system topics, which policies of topics require"] = True

    # Producers.
    maxPendingPublishRequestsPerConnection: Annotated[
        int, "number of SENDs waiting for the disk at which a connection is not read, until half of them are stored"
    ] = 1000
    encryptionRequireOnProducer: Annotated[bool, "only encrypted messages are accepted"] = False
    brokerPublisherThrottlingMaxMessageRate: Annotated[
        int, "maximum publish rate of the broker, messages per second"
    ] = 0
    brokerPublisherThrottlingMaxByteRate: Annotated[int, "maximum publish rate of the broker, bytes per second"] = 0
    maxPublishRatePerTopicInMessages: Annotated[int, "maximum publish rate of a topic, messages per second"] = 0
    maxPublishRatePerTopicInBytes: Annotated[int, "maximum publish rate of a topic, bytes per second"] = 0
    brokerDeduplicationEnabled: Annotated[bool, "messages whose sequence id is already stored are dropped"] = False
    brokerDeduplicationProducerInactivityTimeoutMinutes: Annotated[
        int, "time after which an inactive producer's sequence id is removed"
    ] = 360
    maxConcurrentLookupRequest: Annotated[int, "lookups at a time; 0 refuses all lookups"] = 50000
    exposeTopicLevelMetricsInPrometheus: Annotated[
        bool, "`/metrics` contains each topic and subscription; otherwise each namespace"
    ] = True
    splitTopicAndPartitionLabelInPrometheus: Annotated[
        bool, "the label `topic` contains no partition, which has its own label"
    ] = False
    exposeCustomTopicMetricLabelsEnabled: Annotated[bool, "properties of topics are labels of their metrics"] = False
    allowedTopicPropertyKeysForMetrics: Annotated[list[str], "names of properties that are labels"] = field(
        default_factory=list
    )
    exposeConsumerLevelMetricsInPrometheus: Annotated[bool, "`/metrics` contains each consumer"] = False
    exposeProducerLevelMetricsInPrometheus: Annotated[bool, "`/metrics` contains each producer"] = False
    brokerDeduplicationEntriesInterval: Annotated[int, "entries between two snapshots of the sequence ids"] = 1000
    brokerDeduplicationSnapshotIntervalSeconds: Annotated[int, "minimum time between two such snapshots"] = 120
    brokerDeduplicationSnapshotFrequencyInSeconds: Annotated[int, "interval of the checks whether this time passed"] = (
        120
    )

    # Subscriptions and delivery.
    subscriptionTypesEnabled: Annotated[list[str], "allowed subscription types"] = field(
        default_factory=lambda: ["Failover", "Shared", "Key_Shared", "Exclusive"]
    )
    subscriptionKeySharedEnable: Annotated[bool, "Key_Shared is allowed"] = True
    subscriptionRedeliveryTrackerEnabled: Annotated[bool, "messages contain their redelivery count"] = True
    replicatorPrefix: Annotated[str, "reserved prefix of subscription and producer names"] = "pulsar.repl"
    subscribeThrottlingRatePerConsumer: Annotated[int, "maximum SUBSCRIBE commands per consumer and period"] = 0
    subscribeRatePeriodPerConsumerInSecond: Annotated[
        int, "period to which subscribeThrottlingRatePerConsumer applies"
    ] = 30
    acknowledgmentAtBatchIndexLevelEnabled: Annotated[bool, "single messages of a batch can be acknowledged"] = True
    maxUnackedMessagesPerConsumer: Annotated[
        int, "maximum unacknowledged messages per Shared or Key_Shared consumer"
    ] = 50000
    maxUnackedMessagesPerBroker: Annotated[
        int, "number of unacknowledged messages of all shared subscriptions at which large subscriptions are blocked"
    ] = 0
    maxUnackedMessagesPerSubscriptionOnBrokerBlocked: Annotated[
        float, "share of maxUnackedMessagesPerBroker above which a subscription is large"
    ] = 0.16
    maxUnackedMessagesPerSubscription: Annotated[int, "maximum unacknowledged messages per subscription"] = 200000
    activeConsumerFailoverDelayTimeMillis: Annotated[
        int, "delay before a newly elected Failover consumer is served"
    ] = 1000
    activeConsumerFailoverConsistentHashing: Annotated[
        bool, "use a hash ring of consumer names to elect active consumers of partitions"
    ] = False
    subscriptionKeySharedUseConsistentHashing: Annotated[
        bool, "Key_Shared assigns hashes with a hash ring, not by splitting ranges in half"
    ] = True
    subscriptionKeySharedConsistentHashingReplicaPoints: Annotated[
        int, "points per consumer on the hash ring of Key_Shared"
    ] = 100
    subscriptionKeySharedUseClassicPersistentImplementation: Annotated[
        bool, "use the Key_Shared dispatcher of versions before 4.0"
    ] = False
    subscriptionSharedUseClassicPersistentImplementation: Annotated[
        bool, "use the Shared dispatcher of versions before 4.0"
    ] = False
    streamingDispatch: Annotated[bool, "use the streaming dispatchers of versions 2.8 to 3.0"] = False
    keySharedLookAheadMsgInReplayThresholdPerConsumer: Annotated[
        int, "Key_Shared stops reading ahead when this many entries per consumer wait; 0 means no limit"
    ] = 2000
    keySharedLookAheadMsgInReplayThresholdPerSubscription: Annotated[
        int, "Key_Shared stops reading ahead when this many entries per subscription wait; 0 means no limit"
    ] = 20000
    keySharedUnblockingIntervalMs: Annotated[int, "delay before Key_Shared delivers again after a hash was drained"] = (
        10
    )

    # Reading.
    dispatcherPauseOnAckStatePersistentEnabled: Annotated[
        bool, "Shared and Key_Shared read no new entries while the acknowledged ranges exceed the next setting"
    ] = False
    managedLedgerMaxUnackedRangesToPersist: Annotated[
        int, "maximum ranges of acknowledged entries that a subscription stores"
    ] = 10_000
    dispatcherMaxReadBatchSize: Annotated[int, "maximum entries of one read"] = 100
    dispatcherMaxReadSizeBytes: Annotated[int, "maximum bytes of one read"] = 5242880
    dispatcherMaxRoundRobinBatchSize: Annotated[int, "messages for a Shared consumer in each turn"] = 20
    preciseDispatcherFlowControl: Annotated[bool, "limit reads by permits and average batch size"] = False
    dispatchThrottlingRateInMsg: Annotated[int, "maximum dispatch rate of the broker, messages per second"] = 0
    dispatchThrottlingRateInByte: Annotated[int, "maximum dispatch rate of the broker, bytes per second"] = 0
    dispatchThrottlingRatePerTopicInMsg: Annotated[int, "maximum dispatch rate of a topic, messages per second"] = 0
    dispatchThrottlingRatePerTopicInByte: Annotated[int, "maximum dispatch rate of a topic, bytes per second"] = 0
    dispatchThrottlingRatePerSubscriptionInMsg: Annotated[
        int, "maximum dispatch rate of a subscription, messages per second"
    ] = 0
    dispatchThrottlingRatePerSubscriptionInByte: Annotated[
        int, "maximum dispatch rate of a subscription, bytes per second"
    ] = 0
    dispatchThrottlingOnNonBacklogConsumerEnabled: Annotated[bool, "dispatch rates apply to connected consumers"] = True
    dispatchThrottlingOnBatchMessageEnabled: Annotated[bool, "dispatch rates count entries, not messages"] = False

    # Delayed delivery.
    delayedDeliveryEnabled: Annotated[bool, "Shared and Key_Shared delay messages until they are due"] = True
    delayedDeliveryTickTimeMillis: Annotated[int, "precision of the delivery time"] = 1000
    isDelayedDeliveryDeliverAtTimeStrict: Annotated[bool, "messages are never delivered early"] = False
    delayedDeliveryMaxDelayInMillis: Annotated[int, "maximum delay of a message"] = 0
    delayedDeliveryFixedDelayDetectionLookahead: Annotated[
        int, "reading pauses when this many messages with the same delay wait"
    ] = 50000

    # Transactions.
    transactionCoordinatorEnabled: Annotated[bool, "clients may use transactions"] = False
    maxActiveTransactionsPerCoordinator: Annotated[
        int, "maximum open transactions of a coordinator; NEW_TXN gets no response above it"
    ] = 0

    # Ledgers and entries.
    managedLedgerMaxEntriesPerLedger: Annotated[int, "maximum entries of a ledger"] = 50000
    managedLedgerMaxSizePerLedgerMbytes: Annotated[int, "maximum size of a ledger"] = 2048
    managedLedgerMinLedgerRolloverTimeMinutes: Annotated[int, "minimum time that a full ledger stays open"] = 10
    managedLedgerMaxLedgerRolloverTimeMinutes: Annotated[int, "maximum time that a ledger stays open"] = 240
    brokerEntryMetadataInterceptors: Annotated[list[str], "interceptor classes that add broker entry metadata"] = field(
        default_factory=list
    )
    exposingBrokerEntryMetadataToClientEnabled: Annotated[
        bool, "clients that support it receive broker entry metadata"
    ] = False

    # Retention, expiry and inactivity.
    defaultRetentionTimeInMinutes: Annotated[
        int, "time for which acknowledged messages are retained; -1 means no limit"
    ] = 0
    defaultRetentionSizeInMB: Annotated[
        int, "size of the acknowledged messages that are retained; -1 means no limit"
    ] = 0
    retentionCheckIntervalInSeconds: Annotated[int, "interval at which ledgers that are not retained are deleted"] = 120
    ttlDurationDefaultInSeconds: Annotated[int, "age at which messages are acknowledged by the broker"] = 0
    additionalSystemCursorNames: Annotated[list[str], "subscriptions whose messages do not expire"] = field(
        default_factory=list
    )
    messageExpiryCheckIntervalInMinutes: Annotated[int, "interval at which the ages of messages are checked"] = 5
    subscriptionExpirationTimeMinutes: Annotated[
        int, "time without consumers after which a subscription is deleted"
    ] = 0
    subscriptionExpiryCheckIntervalInMinutes: Annotated[int, "interval at which inactive subscriptions are deleted"] = 5
    brokerDeleteInactiveTopicsEnabled: Annotated[bool, "inactive topics are deleted"] = True
    brokerDeleteInactiveTopicsFrequencySeconds: Annotated[int, "interval at which inactive topics are deleted"] = 60
    brokerDeleteInactiveTopicsMode: Annotated[
        str, "delete_when_no_subscriptions or delete_when_subscriptions_caught_up"
    ] = "delete_when_no_subscriptions"
    brokerDeleteInactiveTopicsMaxInactiveDurationSeconds: Annotated[
        int, "inactive time after which a topic is deleted; 0 means the interval"
    ] = 0

    # Backlog quotas.
    backlogQuotaCheckEnabled: Annotated[bool, "backlog quotas are checked at an interval"] = True
    backlogQuotaCheckIntervalInSeconds: Annotated[int, "interval at which backlog quotas are checked"] = 60
    backlogQuotaDefaultLimitGB: Annotated[float, "maximum backlog of a topic; -1 means no limit"] = -1.0
    backlogQuotaDefaultLimitBytes: Annotated[
        int, "maximum backlog of a topic if there is no limit in GB; -1 means no limit"
    ] = -1
    backlogQuotaDefaultLimitSecond: Annotated[int, "maximum age of a message in the backlog; -1 means no limit"] = -1
    backlogQuotaDefaultRetentionPolicy: Annotated[
        str, "effect of an exceeded quota: producer_request_hold, producer_exception or consumer_backlog_eviction"
    ] = "producer_request_hold"
    preciseTimeBasedBacklogQuotaCheck: Annotated[
        bool, "the age is that of the oldest message, not of the ledger that contains it"
    ] = False

    # Compaction.
    brokerServiceCompactionThresholdInBytes: Annotated[
        int, "number of bytes after the last compaction at which a topic is compacted"
    ] = 0
    brokerServiceCompactionMonitorIntervalInSeconds: Annotated[
        int, "interval at which the compaction threshold is checked"
    ] = 60
    topicCompactionRetainNullKey: Annotated[bool, "compaction keeps messages without key"] = False
    compactionServiceFactoryClassName: Annotated[
        str,
        "class that selects the latest message of a key: PulsarCompactionServiceFactory (by the order of "
        "publishing) or EventTimeCompactionServiceFactory (by event time)",
    ] = "org.apache.pulsar.compaction.PulsarCompactionServiceFactory"

    # Schemas.
    schemaCompatibilityStrategy: Annotated[str, "required compatibility of new schemas"] = "FULL"
    systemTopicSchemaCompatibilityStrategy: Annotated[str, "required compatibility of new schemas on system topics"] = (
        "ALWAYS_COMPATIBLE"
    )
    isSchemaValidationEnforced: Annotated[bool, "a topic with a schema accepts only producers with a schema"] = False
    isAllowAutoUpdateSchemaEnabled: Annotated[bool, "producers may add new schemas"] = True

    # Shadow topics.
    enableShadowTopics: Annotated[bool, "topics can be shadow topics"] = True

    # Lists of topics, statistics.
    enableBrokerSideSubscriptionPatternEvaluation: Annotated[
        bool, "the broker filters topic lists by the client's pattern"
    ] = True
    enableBrokerTopicListWatcher: Annotated[bool, "clients may watch lists of topics"] = True
    subscriptionPatternMaxLength: Annotated[int, "maximum characters of a pattern that the broker evaluates"] = 50
    statsUpdateFrequencyInSecs: Annotated[int, "interval at which rates are measured"] = 60
    aggregatePublisherStatsByProducerName: Annotated[
        bool, "statistics of a partitioned topic merge producers by name, if their clients support it"
    ] = False

    # Scalable topics (5.0).
    scalableTopicsEnabled: Annotated[bool, "topics can be scalable: topic:// and segment:// names"] = False
    transactionCoordinatorScalableTopicsEnabled: Annotated[
        bool, "transactions of scalable topics have coordinators of their own"
    ] = False
    transactionCoordinatorScalableTopicsParallelism: Annotated[
        int, "number of coordinators of transactions on scalable topics"
    ] = 16
    transactionCoordinatorScalableTopicsGcIntervalSeconds: Annotated[
        int, "interval at which transactions on scalable topics that ended long ago are forgotten"
    ] = 300
    transactionCoordinatorScalableTopicsGcRetentionSeconds: Annotated[
        int, "time for which ended transactions on scalable topics are remembered"
    ] = 900
    transactionCoordinatorScalableTopicsTimeoutSweepIntervalSeconds: Annotated[
        int, "interval at which expired transactions on scalable topics are aborted"
    ] = 60
    scalableTopicEntryBucketBudget: Annotated[int, "entry buckets that the segments of a new topic share"] = 4
    scalableTopicEntryBucketMaxPerSegment: Annotated[int, "maximum entry buckets of a segment"] = 1024
    scalableTopicConsumerSessionGracePeriodSeconds: Annotated[
        int, "time for which a stream consumer without connection keeps its segments"
    ] = 60
    scalableTopicLoadReportIntervalSeconds: Annotated[int, "interval at which the rates of segments are reported"] = 10
    scalableTopicLoadReportRateChangeThreshold: Annotated[
        float, "relative change of a rate above which it is reported again"
    ] = 0.25
    scalableTopicAutoScaleEnabled: Annotated[bool, "segments are split, merged and rebucketed automatically"] = True
    scalableTopicAutoScaleIntervalSeconds: Annotated[int, "interval at which segments are split or merged"] = 60
    scalableTopicMaxSegments: Annotated[int, "number of active segments from which on none is split automatically"] = 64
    scalableTopicMinSegments: Annotated[int, "number of active segments down to which segments are merged"] = 1
    scalableTopicMaxDagDepth: Annotated[
        int, "number of merges among its ancestors from which on a segment is not merged"
    ] = 10
    scalableTopicSplitCooldownSeconds: Annotated[int, "time after a split without automatic splits"] = 60
    scalableTopicMergeCooldownSeconds: Annotated[int, "time after a merge without automatic merges"] = 300
    scalableTopicRebucketCooldownSeconds: Annotated[int, "time after a rebucket without automatic rebuckets"] = 60
    scalableTopicMergeWindowSeconds: Annotated[
        int, "time for which two segments must be below the thresholds of a merge"
    ] = 300
    scalableTopicSplitMsgRateInThreshold: Annotated[float, "published messages per second that cause a split"] = 10000.0
    scalableTopicSplitBytesRateInThreshold: Annotated[int, "published bytes per second that cause a split"] = 50_000_000
    scalableTopicSplitMsgRateOutThreshold: Annotated[float, "sent messages per second that cause a split"] = 50000.0
    scalableTopicSplitBytesRateOutThreshold: Annotated[int, "sent bytes per second that cause a split"] = 250_000_000
    scalableTopicMergeMsgRateInThreshold: Annotated[
        float, "published messages per second below which segments are merged"
    ] = 1000.0
    scalableTopicMergeBytesRateInThreshold: Annotated[
        int, "published bytes per second below which segments are merged"
    ] = 5_000_000
    scalableTopicMergeMsgRateOutThreshold: Annotated[
        float, "sent messages per second below which segments are merged"
    ] = 5000.0
    scalableTopicMergeBytesRateOutThreshold: Annotated[int, "sent bytes per second below which segments are merged"] = (
        25_000_000
    )
    scalableTopicSplitVsRebucketMinMsgRateInThreshold: Annotated[
        float, "published messages per second from which on too many stream consumers cause a split, not a rebucket"
    ] = 1000.0

    unsupported: dict[str, str] = field(default_factory=dict)
    """The given values of settings without effect."""
    version: Version = DEFAULT
    """The version of Pulsar that the broker reproduces. `of_version` sets its defaults."""

    @classmethod
    def of_version(cls, version: Version) -> Settings:
        """Return the defaults of a version."""
        settings = cls(version=version)
        for name in version.defaults.keys() & _KINDS:
            settings.put(name, version.defaults[name])
        return settings

    @classmethod
    def from_pairs(cls, pairs: Iterable[str], base: Settings | None = None) -> Settings:
        """Return ``base`` (or the defaults of the default version) with ``name=value`` pairs applied.

        Raises LocalError for an invalid pair.
        """
        settings = cls() if base is None else dataclasses.replace(base, unsupported=dict(base.unsupported))
        for pair in pairs:
            name, separator, value = pair.partition("=")
            name = name.strip()
            if not separator:
                raise LocalError(f"setting {first_word(pair)!r}: must have the form name=value")
            settings.put(name, value.strip())
        return settings

    @classmethod
    def from_file(cls, text: str, version: Version = DEFAULT) -> Settings:
        """Return the settings in a conf file of this version."""
        settings = cls.of_version(version)
        for line in text.splitlines():
            words = line.strip()
            name, separator, value = words.partition("=")
            if not words or words[0] in "#!":
                continue
            if not separator:
                raise LocalError(f"setting {first_word(words)!r}: must have the form name=value")
            settings.put(name.strip(), value.strip())
        return settings

    def put(self, name: str, value: str) -> None:
        """Set a value, given as text. Raises LocalError for an unknown name or an invalid value."""
        if name in IGNORED or name in self.version.missing:
            self.unsupported[name] = value
            return
        if name not in _KINDS:
            raise LocalError(f"unknown setting {name!r}{near(name, _KINDS)}")
        kind = _KINDS[name]
        if value or kind == list[str]:
            setattr(self, name, READ[kind](name, value))

    def note(self) -> str:
        """Return one line about the given settings that have no effect, or an empty string."""
        names = sorted(self.unsupported)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"settings without effect: {', '.join(names[:_SHOWN])}{more}" if names else ""

    def text(self, name: str) -> str:
        """Return a value as written in a conf file."""
        value = getattr(self, name)
        if isinstance(value, bool):
            return str(value).lower()
        return ",".join(value) if isinstance(value, list) else str(value)

    @staticmethod
    def describe() -> Iterator[Row]:
        """Return all implemented settings, for the docs."""
        of_versions = [(version, Settings.of_version(version)) for version in VERSIONS.values()]
        for name, hint in get_type_hints(Settings, include_extras=True).items():
            if name not in _KINDS:
                continue
            kind, text = get_args(hint)
            defaults = [None if name in one.missing else settings.text(name) for one, settings in of_versions]
            yield Row(name, "list" if kind == list[str] else kind.__name__, defaults, text)


@dataclass(frozen=True, slots=True)
class Row:
    """One implemented setting, for documentation."""

    name: str
    kind: str
    """The type: bool, int, float, str or list."""
    defaults: list[str | None]
    """The default value in each version, as written in a conf file. None if the version does not have the setting."""
    text: str


_SHOWN: Final = 5
"""The number of settings without effect that are named."""

_KINDS: Final[dict[str, Any]] = {
    one.name: list[str] if one.default is dataclasses.MISSING else type(one.default)
    for one in dataclasses.fields(Settings)
    if one.name not in ("unsupported", "version")
}
"""The type of each setting: that of its default. The evaluation of all annotations would take 10 ms at each start."""
