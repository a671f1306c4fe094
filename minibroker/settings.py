"""The settings of the broker, with their names in broker.conf.

Rules of this file
1. A field is a key that this broker implements. Its default is that of a real standalone 4.2.4, which differs from the
   default in the code if the standalone's start changes it. IGNORED contains all other keys of a real conf file: they
   are accepted in a file, so that a real broker's file loads; setting one explicitly is an error.
2. Values are written as in a conf file: true/false, numbers, strings, lists with commas. An empty value clears a list
   and leaves any other setting at its default (FieldParser.update).
"""
# ruff: noqa: N815 -- the fields are named as in broker.conf

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, get_args, get_type_hints

from pcli.codec.errors import LocalError
from pcli.codec.wire.near import near
from pcli.minibroker.ignored_settings import IGNORED

__all__ = ["IGNORED", "Row", "Settings"]


@dataclass(slots=True)
class Settings:
    """All implemented settings. Times end in their unit; 0 disables a limit unless stated otherwise."""

    # Addresses.
    clusterName: Annotated[str, "name of the only cluster"] = "standalone"
    bindAddress: Annotated[str, "address of both listening sockets"] = "127.0.0.1"
    advertisedAddress: Annotated[str, "host in the URLs that lookups answer; empty: that of the socket"] = ""
    brokerServicePort: Annotated[int, "port of the binary protocol; 0: any"] = 6650
    webServicePort: Annotated[int, "port of REST and metrics; 0: any"] = 8080

    # Connections.
    maxMessageSize: Annotated[int, "bytes of a message; a frame may have 10240 more"] = 5242880
    keepAliveIntervalSeconds: Annotated[int, "how often a silent peer gets a PING"] = 30
    connectionLivenessCheckTimeoutMillis: Annotated[int, "how long a holder of a name has to show that it lives"] = 5000
    brokerMaxConnections: Annotated[int, "connections in all"] = 0
    brokerMaxConnectionsPerIp: Annotated[int, "connections of one address"] = 0
    pulsarChannelWriteBufferHighWaterMark: Annotated[int, "bytes waiting to be written that make a peer slow"] = 65536
    pulsarChannelWriteBufferLowWaterMark: Annotated[int, "bytes waiting at which it is fast again"] = 32768

    # Topics: creation and limits.
    allowAutoTopicCreation: Annotated[bool, "producers and consumers bring topics to life"] = True
    allowAutoTopicCreationType: Annotated[str, "partitioned or non-partitioned"] = "non-partitioned"
    defaultNumPartitions: Annotated[int, "partitions of such a topic"] = 1
    allowAutoSubscriptionCreation: Annotated[bool, "consumers bring durable subscriptions to life"] = True
    maxTenants: Annotated[int, "tenants in all"] = 0
    maxNamespacesPerTenant: Annotated[int, "namespaces of a tenant"] = 0
    maxTopicsPerNamespace: Annotated[int, "topics of a namespace, partitions counted"] = 0
    maxNumPartitionsPerPartitionedTopic: Annotated[int, "partitions of a topic"] = 0
    maxProducersPerTopic: Annotated[int, "producers of a topic"] = 0
    maxSameAddressProducersPerTopic: Annotated[int, "producers of a topic from one address"] = 0
    maxConsumersPerTopic: Annotated[int, "consumers of a topic"] = 0
    maxSameAddressConsumersPerTopic: Annotated[int, "consumers of a topic from one address"] = 0
    maxConsumersPerSubscription: Annotated[int, "consumers of a subscription"] = 0
    maxSubscriptionsPerTopic: Annotated[int, "subscriptions of a topic"] = 0
    maxConsumerMetadataSize: Annotated[int, "characters of a consumer's metadata, names and values together"] = 1024
    defaultNumberOfNamespaceBundles: Annotated[int, "bundles of a new namespace"] = 4
    forceDeleteTenantAllowed: Annotated[bool, "REST may delete tenants with all that is in them"] = False
    forceDeleteNamespaceAllowed: Annotated[bool, "REST may delete namespaces with all that is in them"] = False
    topicLevelPoliciesEnabled: Annotated[bool, "REST may set policies of single topics"] = True

    # Producers.
    encryptionRequireOnProducer: Annotated[bool, "only encrypted messages are taken"] = False
    brokerPublisherThrottlingMaxMessageRate: Annotated[int, "messages a second into the broker"] = 0
    brokerPublisherThrottlingMaxByteRate: Annotated[int, "bytes a second into the broker"] = 0
    maxPublishRatePerTopicInMessages: Annotated[int, "messages a second into a topic"] = 0
    maxPublishRatePerTopicInBytes: Annotated[int, "bytes a second into a topic"] = 0
    brokerDeduplicationEnabled: Annotated[bool, "a sequence id that was stored is not stored again"] = False
    brokerDeduplicationProducerInactivityTimeoutMinutes: Annotated[int, "how long it is after they left"] = 360

    # Subscriptions and delivery.
    subscriptionTypesEnabled: Annotated[list[str], "types allowed"] = field(
        default_factory=lambda: ["Exclusive", "Shared", "Failover", "Key_Shared"]
    )
    subscriptionKeySharedEnable: Annotated[bool, "Key_Shared is allowed"] = True
    subscriptionRedeliveryTrackerEnabled: Annotated[bool, "messages carry how often they were redelivered"] = True
    replicatorPrefix: Annotated[str, "what names of subscriptions may not begin with"] = "pulsar.repl"
    subscribeThrottlingRatePerConsumer: Annotated[int, "SUBSCRIBEs of a consumer in a period"] = 0
    subscribeRatePeriodPerConsumerInSecond: Annotated[int, "that period"] = 30
    acknowledgmentAtBatchIndexLevelEnabled: Annotated[bool, "single messages of a batch can be acknowledged"] = True
    maxUnackedMessagesPerConsumer: Annotated[int, "messages a consumer of Shared or Key_Shared may hold"] = 50000
    maxUnackedMessagesPerSubscription: Annotated[int, "messages all of its consumers may hold"] = 200000
    activeConsumerFailoverDelayTimeMillis: Annotated[int, "how long a Failover consumer waits after an election"] = 1000
    activeConsumerFailoverConsistentHashing: Annotated[bool, "elect by a ring of names, on partitions too"] = False
    subscriptionKeySharedUseConsistentHashing: Annotated[bool, "deal by a ring, not by halved ranges"] = True
    subscriptionKeySharedConsistentHashingReplicaPoints: Annotated[int, "points of a consumer on that ring"] = 100
    subscriptionKeySharedUseClassicPersistentImplementation: Annotated[bool, "Key_Shared as before 4.0"] = False
    subscriptionSharedUseClassicPersistentImplementation: Annotated[bool, "Shared as before 4.0"] = False
    streamingDispatch: Annotated[bool, "the streaming dispatchers of 2.8 to 3.0"] = False
    keySharedLookAheadMsgInReplayThresholdPerConsumer: Annotated[int, "entries put aside, per consumer"] = 2000
    keySharedLookAheadMsgInReplayThresholdPerSubscription: Annotated[int, "entries put aside in all"] = 20000
    keySharedUnblockingIntervalMs: Annotated[int, "how soon Key_Shared looks again after a hash was drained"] = 10

    # Reading.
    dispatcherMaxReadBatchSize: Annotated[int, "entries of one read"] = 100
    dispatcherMaxReadSizeBytes: Annotated[int, "bytes of one read"] = 5242880
    dispatcherMaxRoundRobinBatchSize: Annotated[int, "messages a Shared consumer gets before the next one's turn"] = 20
    preciseDispatcherFlowControl: Annotated[bool, "read by permits and the usual size of batches"] = False
    dispatchThrottlingRateInMsg: Annotated[int, "messages a second out of the broker"] = 0
    dispatchThrottlingRateInByte: Annotated[int, "bytes a second out of the broker"] = 0
    dispatchThrottlingRatePerTopicInMsg: Annotated[int, "messages a second out of a topic"] = 0
    dispatchThrottlingRatePerTopicInByte: Annotated[int, "bytes a second out of a topic"] = 0
    dispatchThrottlingRatePerSubscriptionInMsg: Annotated[int, "messages a second out of a subscription"] = 0
    dispatchThrottlingRatePerSubscriptionInByte: Annotated[int, "bytes a second out of a subscription"] = 0
    dispatchThrottlingOnBatchMessageEnabled: Annotated[bool, "rates count entries, not messages"] = False

    # Delayed delivery.
    delayedDeliveryEnabled: Annotated[bool, "Shared and Key_Shared keep messages until they are due"] = True
    delayedDeliveryTickTimeMillis: Annotated[int, "how exact that is"] = 1000
    isDelayedDeliveryDeliverAtTimeStrict: Annotated[bool, "never early"] = False
    delayedDeliveryMaxDelayInMillis: Annotated[int, "longest delay a SEND may ask for"] = 0
    delayedDeliveryFixedDelayDetectionLookahead: Annotated[int, "delayed messages that pause reading"] = 50000

    # Ledgers and entries.
    managedLedgerMaxEntriesPerLedger: Annotated[int, "entries that fill a ledger"] = 50000
    managedLedgerMaxSizePerLedgerMbytes: Annotated[int, "size that fills a ledger"] = 2048
    managedLedgerMinLedgerRolloverTimeMinutes: Annotated[int, "how long a full ledger is kept open at least"] = 10
    managedLedgerMaxLedgerRolloverTimeMinutes: Annotated[int, "how long any ledger is kept open at most"] = 240
    brokerEntryMetadataInterceptors: Annotated[list[str], "classes that stamp entries"] = field(default_factory=list)
    exposingBrokerEntryMetadataToClientEnabled: Annotated[bool, "clients that can read it get that block"] = False

    # Schemas.
    schemaCompatibilityStrategy: Annotated[str, "what a new schema must be to those before it"] = "FULL"
    systemTopicSchemaCompatibilityStrategy: Annotated[str, "the same for the broker's own topics"] = "ALWAYS_COMPATIBLE"
    isSchemaValidationEnforced: Annotated[bool, "no producer without schema where there is one"] = False
    isAllowAutoUpdateSchemaEnabled: Annotated[bool, "producers may bring new schemas"] = True

    # Lists of topics, statistics.
    enableBrokerSideSubscriptionPatternEvaluation: Annotated[
        bool, "the broker filters lists by the client's pattern"
    ] = True
    enableBrokerTopicListWatcher: Annotated[bool, "clients may watch lists of topics"] = True
    subscriptionPatternMaxLength: Annotated[int, "characters of a pattern that the broker looks at"] = 50
    statsUpdateFrequencyInSecs: Annotated[int, "over how long rates are measured"] = 60

    @classmethod
    def from_pairs(cls, pairs: Iterable[str], base: Settings | None = None) -> Settings:
        """Return ``base`` (or the defaults) with ``name=value`` pairs applied.

        Raises LocalError for an invalid pair.
        """
        settings = cls() if base is None else dataclasses.replace(base)
        for pair in pairs:
            name, separator, value = pair.partition("=")
            name = name.strip()
            if not separator:
                raise LocalError(f"setting {pair!r}: write name=value")
            if name in IGNORED:
                raise LocalError(f"setting {name}: known to Pulsar, but the mini-broker does not obey it")
            settings.put(name, value.strip())
        return settings

    @classmethod
    def from_file(cls, text: str) -> Settings:
        """Return the settings in a conf file; keys in IGNORED are skipped."""
        settings = cls()
        for line in text.splitlines():
            words = line.strip()
            name, separator, value = words.partition("=")
            if not words or words[0] in "#!":
                continue
            if not separator:
                raise LocalError(f"line {words!r}: write name=value")
            if name.strip() not in IGNORED:
                settings.put(name.strip(), value.strip())
        return settings

    def put(self, name: str, value: str) -> None:
        """Set a value by its text. Raises LocalError for an unknown name or an invalid value."""
        if name not in _KINDS:
            raise LocalError(f"setting {name!r} is not known{near(name, _KINDS)}")
        kind = _KINDS[name]
        if value or kind == list[str]:
            setattr(self, name, _READ[kind](name, value))

    def text(self, name: str) -> str:
        """Return a value as written in a conf file."""
        value = getattr(self, name)
        if isinstance(value, bool):
            return str(value).lower()
        return ",".join(value) if isinstance(value, list) else str(value)

    @staticmethod
    def describe() -> Iterator[Row]:
        """Return all implemented settings, for the docs."""
        defaults = Settings()
        for name, hint in get_type_hints(Settings, include_extras=True).items():
            kind, text = get_args(hint)
            yield Row(name, "list" if kind == list[str] else kind.__name__, defaults.text(name), text)


@dataclass(frozen=True, slots=True)
class Row:
    """One implemented setting, for documentation."""

    name: str
    kind: str
    """bool, int, str or list."""
    default: str
    """As written in a conf file."""
    text: str


def _bool(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise LocalError(f"setting {name}={value}: true or false")
    return value.lower() == "true"


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise LocalError(f"setting {name}={value}: a whole number") from None


_KINDS: Final[dict[str, Any]] = get_type_hints(Settings)
"""The type of each field."""

_READ: Final[dict[Any, Callable[[str, str], Any]]] = {
    bool: _bool,
    int: _number,
    str: lambda _, value: value,
    list[str]: lambda _, value: [word.strip() for word in value.split(",") if word.strip()],
}
