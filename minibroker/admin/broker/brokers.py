"""The broker: health, version, settings, changes to dynamic settings, and its only bookie with its rack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from pcli.codec.errors import LocalError
from pcli.minibroker.admin.body_types import BOOKIE_INFO
from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, Reply, RestError
from pcli.minibroker.ignored_settings import IGNORED
from pcli.minibroker.settings import Settings

_BROKERS: Final = "/admin/v2/brokers"
_MIGRATION: Final = "/admin/v2/metadata/migration"
_DYNAMIC: Final = f"{_BROKERS}/configuration"
_DYNAMIC_SETTINGS: Final = """
allowAutoSubscriptionCreation allowAutoTopicCreation allowAutoTopicCreationType allowOverrideEntryFilters
autoSkipNonRecoverableData bookkeeperUseV2WireProtocol brokerClientAuthenticationParameters
brokerClientAuthenticationPlugin brokerClientTlsEnabled brokerDeleteInactivePartitionedTopicMetadataEnabled
brokerDeleteInactiveTopicsEnabled brokerDeleteInactiveTopicsFrequencySeconds
brokerDeleteInactiveTopicsMaxInactiveDurationSeconds brokerDeleteInactiveTopicsMode
brokerPublisherThrottlingMaxByteRate brokerPublisherThrottlingMaxMessageRate brokerPublisherThrottlingTickTimeMillis
brokerReplicationInactiveThresholdSeconds brokerShutdownTimeoutMs clientLibraryVersionCheckEnabled
configurationMetadataSyncEventTopic defaultNamespaceBundleSplitAlgorithm defaultNumPartitions
dispatchThrottlingOnBatchMessageEnabled dispatchThrottlingOnNonBacklogConsumerEnabled dispatchThrottlingRateInByte
dispatchThrottlingRateInMsg dispatchThrottlingRatePerReplicatorInByte dispatchThrottlingRatePerReplicatorInMsg
dispatchThrottlingRatePerSubscriptionInByte dispatchThrottlingRatePerSubscriptionInMsg
dispatchThrottlingRatePerTopicInByte dispatchThrottlingRatePerTopicInMsg dispatchThrottlingRateRelativeToPublishRate
dispatcherEntryFilterRescheduledMessageDelay dispatcherMaxReadSizeBytes dispatcherMaxRoundRobinBatchSize
dispatcherMinReadBatchSize dispatcherPauseOnAckStatePersistentEnabled dispatcherReadFailureBackoffInitialTimeInMs
dispatcherReadFailureBackoffMandatoryStopTimeInMs dispatcherReadFailureBackoffMaxTimeInMs entryFilterNames
entryFiltersDirectory exposeBundlesMetricsInPrometheus failureDomainsEnabled flowOrQpsDifferenceThresholdPercentage
forceDeleteNamespaceAllowed forceDeleteTenantAllowed httpRequestsFailOnUnknownPropertiesEnabled
isAllowAutoUpdateSchemaEnabled keySharedUnblockingIntervalMs loadBalanceSheddingDelayInSeconds
loadBalancerAutoBundleSplitEnabled loadBalancerAutoUnloadSplitBundlesEnabled
loadBalancerAverageResourceUsageDifferenceThresholdPercentage loadBalancerAvgShedderHighThreshold
loadBalancerAvgShedderHitCountHighThreshold loadBalancerAvgShedderHitCountLowThreshold
loadBalancerAvgShedderLowThreshold loadBalancerBandwidthInResourceWeight loadBalancerBandwidthOutResourceWeight
loadBalancerBandwithInResourceWeight loadBalancerBandwithOutResourceWeight loadBalancerBrokerLoadDataTTLInSeconds
loadBalancerBrokerLoadTargetStd loadBalancerBrokerMaxTopics loadBalancerBrokerOverloadedThresholdPercentage
loadBalancerBrokerThresholdShedderPercentage loadBalancerBundleUnloadMinThroughputThreshold
loadBalancerCPUResourceWeight loadBalancerDebugModeEnabled loadBalancerDirectMemoryResourceWeight
loadBalancerHistoryResourcePercentage loadBalancerHostUsageCheckIntervalMinutes
loadBalancerMaxNumberOfBrokerSheddingPerCycle loadBalancerMaxNumberOfBundlesInBundleLoadReport
loadBalancerMaxNumberOfBundlesToSplitPerCycle loadBalancerMemoryResourceWeight
loadBalancerMsgRateDifferenceShedderThreshold loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold
loadBalancerNamespaceBundleMaxBandwidthMbytes loadBalancerNamespaceBundleMaxMsgRate
loadBalancerNamespaceBundleMaxSessions loadBalancerNamespaceBundleMaxTopics
loadBalancerNamespaceBundleSplitConditionHitCountThreshold loadBalancerNamespaceMaximumBundles
loadBalancerReportUpdateMaxIntervalMinutes loadBalancerReportUpdateMinIntervalMillis
loadBalancerReportUpdateThresholdPercentage loadBalancerServiceUnitStateMaxConcurrentOverrides
loadBalancerServiceUnitTableViewSyncer loadBalancerSheddingBundlesWithPoliciesEnabled
loadBalancerSheddingConditionHitCountThreshold loadBalancerSheddingEnabled loadBalancerSheddingExcludedNamespaces
loadBalancerSheddingGracePeriodMinutes loadBalancerSheddingIntervalMinutes loadBalancerTransferEnabled
loadManagerClassName managedLedgerCacheEvictionExtendTTLOfEntriesWithRemainingExpectedReadsMaxTimes
managedLedgerCacheEvictionTimeThresholdMillis managedLedgerCacheEvictionWatermark managedLedgerCacheSizeMB
managedLedgerCursorResetLedgerCloseTimestampMaxClockSkewMillis managedLedgerForceRecovery
managedLedgerInactiveLedgerRolloverTimeSeconds managedLedgerInactiveOffloadedLedgerEvictionTimeSeconds
managedLedgerMaxBacklogBetweenCursorsForCaching managedLedgerMinimumBacklogCursorsForCaching
managedLedgerMinimumBacklogEntriesForCaching managedLedgerTraceTaskExecution maxConcurrentLookupRequest
maxConcurrentTopicLoadRequest maxMessagePublishBufferSizeInMB maxNamespacesPerTenant
maxNumPartitionsPerPartitionedTopic maxPublishRatePerTopicInBytes maxPublishRatePerTopicInMessages maxTenants
maxTopicsPerNamespace maxUnloadBundleNumPerShedding metadataSyncEventTopic minUnloadMessage minUnloadMessageThroughput
namespaceBundleUnloadingTimeoutMs preciseDispatcherFlowControl preferLaterVersions replicationProducerQueueSize
replicationStartAt resourceUsageTransportPublishIntervalInSecs schemaLedgerForceRecovery skipBrokerShutdownOnOOM
strictlyVerifySubscriptionName subscribeRatePeriodPerConsumerInSecond subscribeThrottlingRatePerConsumer
subscriptionKeySharedEnable subscriptionRedeliveryTrackerEnabled subscriptionTypesEnabled superUserRoles
supportedNamespaceBundleSplitAlgorithms topicFactoryClassName topicNameCacheMaxCapacity
topicPoliciesCacheInitTimeoutSeconds topicPublisherThrottlingTickTimeMillis transactionLogBatchedWriteEnabled
transactionPendingAckBatchedWriteEnabled unblockStuckSubscriptionEnabled
"""
"""The settings that a real broker can change at runtime (dynamic fields of ServiceConfiguration), except those in
`versions`."""

_NO_FIELDS: Final = ("basicAuthConf", "streamingDispatch", "token")
"""The first letters of settings that are not fields of ServiceConfiguration. Some of them are secrets."""
_IMPLEMENTED: Final = frozenset(row.name for row in Settings.describe())
_PORTS: Final = {
    "brokerServicePort": "service_url",
    "brokerServicePortTls": "service_url_tls",
    "webServicePort": "http_url",
    "webServicePortTls": "http_url_tls",
}
"""The attribute of the broker with the URL of each port."""
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_HIDDEN: Final = re.compile(r".*(Password|AuthenticationParameters)")


def _text(text: str) -> Reply:
    return Reply(200, text.encode())


def _brokers(call: Call) -> Any:
    return [call.broker.address]


def _ok(call: Call) -> Reply:
    return _text("ok")


def _version(call: Call) -> Reply:
    return _text(call.broker.version.name)


def _leader(call: Call) -> Any:
    return {"serviceUrl": call.broker.http_url_tls or call.broker.http_url, "brokerId": call.broker.address}


def _shut_down(call: Call) -> None:
    """Unload all topics, disconnect the clients, and close the ports."""
    call.broker.close()
    if call.broker.on_shutdown is not None:
        call.broker.on_shutdown()


def _migration(call: Call) -> Any:
    return {"phase": "NOT_STARTED"}


def _start_migration(call: Call) -> None:
    if not call.query.get("target", "").strip():
        raise RestError(400, "Target URL is required")
    text = "Please ensure you're using a supported source metadata store (e.g., ZooKeeper)."
    raise RestError(400, f"Metadata store is not configured for migration. {text}")


def _owned(call: Call) -> Any:
    """Return the bundles that this broker serves."""
    if call.path_text("broker") != call.broker.address:
        raise RestError(404, f"Broker id '{call.path_text('broker')}' not found in available brokers.")
    status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    heartbeat = f"pulsar/{call.broker.address}/0x00000000_0xffffffff"
    return dict.fromkeys((heartbeat, *call.broker.topic_registry.served_bundles), status)


def _internal(call: Call) -> Any:
    store = "memory:local"
    names = ("zookeeperServers", "configurationStoreServers", "metadataStoreUrl", "configurationMetadataStoreUrl")
    return {**dict.fromkeys(names, store), "ledgersRootPath": "/ledgers"}


def _check_backlog_quotas(call: Call) -> None:
    for topic in list(call.broker.topics.values()):
        call.broker.monitors.check_backlog_quota(topic)


def _runtime(call: Call) -> Any:
    """Return all fields of ServiceConfiguration, as Java writes their values."""
    broker, settings = call.broker, call.broker.settings
    given = {**settings.unsupported, **broker.policies.dynamic}
    defaults = {name: value for name, value in IGNORED.items() if value is not None} | broker.version.defaults
    found = {name: _written(name, value, given) for name, value in defaults.items()}
    for name in _IMPLEMENTED - broker.version.missing:
        if not name.startswith(_NO_FIELDS):
            value = getattr(settings, name)
            found[name] = f"[{', '.join(value)}]" if isinstance(value, list) else settings.text(name)
    for name, url in _PORTS.items():
        port = getattr(broker, url).rpartition(":")[2]
        found[name] = f"Optional[{port}]" if port else "Optional.empty"
    found["advertisedAddress"] = broker.host
    inactive = "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds"
    return {**found, inactive: "" if found[inactive] == "0" else found[inactive]}


def _written(name: str, default: str, given: Mapping[str, str]) -> str:
    """Return the value of a setting without effect: the given one, if its type is that of the default."""
    value = given.get(name, default)
    if default.startswith("["):
        return f"[{', '.join(filter(None, map(str.strip, value.strip('[]').split(','))))}]"
    if default in ("true", "false"):
        return str(value.lower() == "true").lower()
    wrong = _NUMBER.fullmatch(default) and not _NUMBER.fullmatch(value)
    return default if wrong or _HIDDEN.fullmatch(name) else value


def _dynamic_settings(call: Call) -> list[str]:
    return [*_DYNAMIC_SETTINGS.split(), *sorted(call.broker.version.dynamic)]


def _dynamic(call: Call, verb: str) -> str:
    name = call.path_text("name")
    if name not in _dynamic_settings(call):
        raise RestError(412, f"Can't {verb} non-dynamic configuration")
    return name


def _set(call: Call) -> Reply:
    """Change a setting. A value of the wrong type is stored, but has no effect, except that a flag becomes false."""
    name, value = _dynamic(call, "update"), call.path_text("value")
    if name == "loadManagerClassName" and not value.startswith("org.apache.pulsar.broker.loadbalance."):
        raise RestError(412, " Invalid dynamic-config value")
    if name in _IMPLEMENTED:
        is_flag = isinstance(getattr(call.broker.settings, name), bool)
        with suppress(LocalError):
            call.broker.settings.put(name, str(value.lower() == "true").lower() if is_flag else value)
    call.broker.policies.dynamic[name] = value
    call.broker.settings_changed()
    return Reply(200)


def _unset(call: Call) -> Reply:
    """Reset a setting to its default."""
    name = _dynamic(call, "delete")
    if call.broker.policies.dynamic.pop(name, None) is not None and name in _IMPLEMENTED:
        call.broker.settings.put(name, Settings.of_version(call.broker.version).text(name))
        call.broker.settings_changed()
    return Reply(200)


_OF_BROKERS: Final = (
    Endpoint("GET", _BROKERS, _brokers, "addresses of the brokers (only this broker)"),
    Endpoint("GET", f"{_BROKERS}/health", _ok, "health of the broker"),
    Endpoint("GET", f"{_BROKERS}/ready", _ok, "whether the broker accepts connections"),
    Endpoint("GET", f"{_BROKERS}/version", _version, "the version of Pulsar that the broker reproduces"),
    Endpoint("GET", f"{_BROKERS}/leaderBroker", _leader, "address of the leader (this broker)"),
    Endpoint(
        "POST",
        f"{_BROKERS}/shutdown",
        _shut_down,
        "unload all topics and close the ports",
        numbers={"maxConcurrentUnloadPerSec": 32},
    ),
    Endpoint("GET", f"{_MIGRATION}/status", _migration, "the migration of the metadata store (never started)"),
    Endpoint("POST", f"{_MIGRATION}/start", _start_migration, "refused: this metadata store cannot be migrated"),
    Endpoint("GET", f"{_BROKERS}/{{cluster}}/{{broker}}/ownedNamespaces", _owned, "the bundles that a broker serves"),
    Endpoint("GET", f"{_BROKERS}/internal-configuration", _internal, "metadata stores (only the one in memory)"),
    Endpoint("GET", f"{_BROKERS}/backlog-quota-check", _check_backlog_quotas, "check all backlog quotas now"),
    Endpoint("GET", f"{_DYNAMIC}/runtime", _runtime, "the effective settings"),
    Endpoint("GET", f"{_DYNAMIC}/values", lambda call: call.broker.policies.dynamic, "the settings changed at runtime"),
    Endpoint("GET", _DYNAMIC, _dynamic_settings, "the settings that can be changed at runtime"),
    Endpoint("POST", f"{_DYNAMIC}/{{name}}/{{value}}", _set, "change a setting"),
    Endpoint("DELETE", f"{_DYNAMIC}/{{name}}", _unset, "reset a setting to its default"),
    Endpoint("GET", f"{_BROKERS}/{{cluster}}", _brokers, "addresses of the brokers of a cluster (only this broker)"),
    Endpoint("GET", "/status.html", _ok, "health of the broker"),
)


_BOOKIES: Final = "/admin/v2/bookies"
_RACKS: Final = f"{_BOOKIES}/racks-info"
_PORT: Final = 3181
"""The default port of a bookie."""


def _bookies(call: Call) -> Any:
    return {"bookies": [{"bookieId": f"{call.broker.host}:{_PORT}"}]}


def _racks(call: Call) -> Any:
    return call.broker.policies.bookie_racks


def _missing_rack(name: str) -> RestError:
    return RestError(404, f"Bookie rack placement configuration not found: {name}")


def _rack(call: Call) -> Any:
    name = call.path_text("bookie")
    for bookies in call.broker.policies.bookie_racks.values():
        if name in bookies:
            return bookies[name]
    raise _missing_rack(name)


def _set_rack(call: Call) -> None:
    """Store the rack of a bookie in a group, and remove the bookie from the other groups."""
    name, group = call.path_text("bookie"), call.query.get("group")
    if not group:
        raise RestError(412, "Bookie 'group' parameters is missing")
    if call.body is None:
        raise PageError(500)
    _remove_rack(call, name)
    call.broker.policies.bookie_racks.setdefault(group, {})[name] = call.body


def _delete_rack(call: Call) -> None:
    name = call.path_text("bookie")
    if not _remove_rack(call, name):
        raise _missing_rack(name)


def _remove_rack(call: Call, name: str) -> bool:
    """Remove a bookie from its group. Return whether it had one."""
    groups = call.broker.policies.bookie_racks
    for group, bookies in groups.items():
        if bookies.pop(name, None) is not None:
            if not bookies:
                del groups[group]
            return True
    return False


_OF_BOOKIES: Final = (
    Endpoint("GET", f"{_BOOKIES}/all", _bookies, "the bookies (one that does not exist)"),
    Endpoint("GET", _RACKS, _racks, "racks of the bookies by group (stored only)"),
    Endpoint("GET", f"{_RACKS}/{{bookie}}", _rack, "rack of a bookie (stored only)"),
    Endpoint("POST", f"{_RACKS}/{{bookie}}", _set_rack, "set the rack of a bookie", BOOKIE_INFO),
    Endpoint("DELETE", f"{_RACKS}/{{bookie}}", _delete_rack, "remove the rack of a bookie"),
)

ENDPOINTS: Final = (*_OF_BROKERS, *_OF_BOOKIES)
