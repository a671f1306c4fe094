"""The operation of each request (TopicOperation, NamespaceOperation, PolicyName and others of 4.2.4 and 5.0.1).

The operation selects the permission that the request requires, and the error without it (`permissions.py`). A request
that is not listed requires a superuser.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple


class Operation(NamedTuple):
    """An operation."""

    level: str
    """The class of the operation without the word operation, such as ``topic`` or ``namespace policy``."""
    name: str = ""
    policy: str = ""


_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_STARTS: Final = {
    "brokers": "/admin/v2/brokers",
    "bundle": f"{_NAMESPACE}/{{bundle}}",
    "cluster": "/admin/v2/clusters/{cluster}",
    "clusters": "/admin/v2/clusters",
    "isolation": "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies",
    "lookup": "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}",
    "namespace": _NAMESPACE,
    "namespaces": "/admin/v2/namespaces",
    "non-persistent": "/admin/v2/non-persistent",
    "packages": "/admin/v3/packages/{kind}/{tenant}/{namespace}",
    "scalable": "/admin/v2/scalable/{tenant}/{namespace}/{topic}",
    "scalable-lookup": "/lookup/v2/topic/{scalable_domain}/{tenant}/{namespace}/{topic}",
    "scalables": "/admin/v2/scalable/{tenant}/{namespace}",
    "schema": "/admin/v2/schemas/{tenant}/{namespace}/{topic}",
    "subscription": f"{_TOPIC}/subscription/{{subscription}}",
    "tenant": "/admin/v2/namespaces/{tenant}",
    "tenants": "/admin/v2/tenants",
    "topic": _TOPIC,
    "topics": "/admin/v2/{domain}/{tenant}/{namespace}",
    "transactions": "/admin/v3/transactions",
}
"""The starts of paths by their names in the tables."""

_OPERATIONS: Final = """
topic LOOKUP: GET topic/partitions, POST topic/createMissedPartitions
topic PRODUCE: POST schema/schema
topic CONSUME: GET subscription/properties, POST subscription/analyzeBacklog
topic COMPACT: GET topic/compaction, PUT topic/compaction
topic DELETE_METADATA: DELETE topic/properties
topic EXPIRE_MESSAGES: POST subscription/expireMessages, POST subscription/expireMessages/{seconds},
    POST topic/all_subscription/expireMessages/{seconds}
topic GET_BACKLOG_SIZE: PUT topic/backlogSize, GET topic/backlog
topic GET_METADATA: GET topic/properties, GET schema/metadata, GET schema/schema, GET schema/schema/{version},
    GET schema/schemas, POST schema/version
topic GET_REPLICATED_SUBSCRIPTION_STATUS: GET subscription/replicatedSubscriptionStatus
topic GET_STATS: GET topic/stats, GET topic/partitioned-stats, GET topic/internalStats,
    GET topic/partitioned-internalStats, GET topic/internal-info
topic GET_SUBSCRIPTIONS: GET topic/subscriptions
topic OFFLOAD: GET topic/offload, PUT topic/offload
topic PEEK_MESSAGES: GET topic/examinemessage, GET topic/lastMessageId, GET topic/ledger/{ledger}/entry/{entry},
    GET topic/messageid/{timestamp}, GET subscription/position/{count}
topic RESET_CURSOR: POST subscription/resetcursor, POST subscription/resetcursor/{timestamp}
topic SET_REPLICATED_SUBSCRIPTION_STATUS: POST subscription/replicatedSubscriptionStatus
topic SKIP: POST subscription/skip/{count}, POST subscription/skip_all
topic SUBSCRIBE: PUT subscription, PUT subscription/properties
topic TERMINATE: POST topic/terminate, POST topic/terminate/partitions
topic TRIM_TOPIC: POST topic/trim
topic UNLOAD: PUT topic/unload
topic UNSUBSCRIBE: DELETE subscription
namespace CLEAR_BACKLOG: POST namespace/clearBacklog, POST namespace/clearBacklog/{subscription},
    POST bundle/clearBacklog, POST bundle/clearBacklog/{subscription},
    POST bundle/clearSubscriptionBacklog/{subscription}
namespace CREATE_TOPIC: PUT topic, PUT scalable
namespace DELETE_BUNDLE: DELETE bundle
namespace DELETE_TOPIC: DELETE topic, DELETE topic/partitions, DELETE scalable
namespace GET_BUNDLE: GET lookup/bundle, GET scalable-lookup/bundle, GET namespace/bundles,
    GET non-persistent/{tenant}/{namespace}/{bundle}
namespace GET_PERMISSION: GET namespace/permissions, GET namespace/permissions/subscription
namespace GET_TOPICS: GET namespace/topics, GET topics, GET topics/partitioned, GET scalables
namespace GRANT_PERMISSION: POST namespace/permissions/{role}, POST namespace/permissions/subscription/{subscription}
namespace PACKAGES: GET packages, GET packages/{package}, GET packages/{package}/{version},
    POST packages/{package}/{version}, DELETE packages/{package}/{version}, GET packages/{package}/{version}/metadata,
    PUT packages/{package}/{version}/metadata
namespace REVOKE_PERMISSION: DELETE namespace/permissions/{role}, DELETE namespace/permissions/{subscription}/{role}
namespace UNSUBSCRIBE: POST namespace/unsubscribe/{subscription}, POST bundle/unsubscribe/{subscription}
scalable GET_METADATA: GET scalable
scalable GET_STATS: GET scalable/stats, GET scalable/segments/{segment}/stats
scalable RESET_CURSOR: POST scalable/subscriptions/{subscription}/seek
scalable SKIP: POST scalable/subscriptions/{subscription}/skip-all
scalable SUBSCRIBE: PUT scalable/subscriptions/{subscription}
scalable UNSUBSCRIBE: DELETE scalable/subscriptions/{subscription}
topic MIGRATE_TO_SCALABLE: POST scalable/migrate
tenant CREATE_NAMESPACE: PUT namespace
tenant DELETE_NAMESPACE: DELETE namespace
tenant LIST_NAMESPACES: GET tenant
tenants CREATE_TENANT: PUT tenants/{tenant}
tenants DELETE_TENANT: DELETE tenants/{tenant}
tenants GET_TENANT: GET tenants/{tenant}
tenants LIST_TENANTS: GET tenants
tenants UPDATE_TENANT: POST tenants/{tenant}
cluster CREATE_CLUSTER: PUT cluster
cluster DELETE_CLUSTER: DELETE cluster
cluster DELETE_FAILURE_DOMAIN: DELETE cluster/failureDomains/{domain_name}
cluster GET_CLUSTER: GET cluster
cluster GET_FAILURE_DOMAIN: GET cluster/failureDomains, GET cluster/failureDomains/{domain_name}
cluster GET_PEER_CLUSTER: GET cluster/peers
cluster UPDATE_CLUSTER: POST cluster
cluster UPDATE_FAILURE_DOMAIN: POST cluster/failureDomains/{domain_name}
cluster UPDATE_PEER_CLUSTER: POST cluster/peers
cluster policy READ: GET cluster/migrate, GET isolation, GET isolation/brokers, GET isolation/brokers/{broker},
    GET isolation/{policy}
cluster policy WRITE: POST cluster/migrate, POST isolation/{policy}, DELETE isolation/{policy}
broker CHECK_BACKLOG_QUOTA: GET brokers/backlog-quota-check
broker DELETE_DYNAMIC_CONFIGURATION: DELETE brokers/configuration/{name}
broker GET_INTERNAL_CONFIGURATION_DATA: GET brokers/internal-configuration
broker GET_LEADER_BROKER: GET brokers/leaderBroker
broker HEALTH_CHECK: GET brokers/health
broker LIST_BROKERS: GET brokers, GET brokers/{cluster}
broker LIST_DYNAMIC_CONFIGURATIONS: GET brokers/configuration, GET brokers/configuration/values
broker LIST_OWNED_NAMESPACES: GET brokers/{cluster}/{broker}/ownedNamespaces
broker LIST_RUNTIME_CONFIGURATIONS: GET brokers/configuration/runtime
broker SHUTDOWN: POST brokers/shutdown
broker UPDATE_DYNAMIC_CONFIGURATION: POST brokers/configuration/{name}/{value}
lookup LOOKUP: GET lookup, GET scalable-lookup
coordinators LOOKUP: GET transactions/coordinatorStats, GET transactions/slowTransactions/{timeout}
index PEEK_MESSAGES: GET topic/getMessageIdByIndex
admin: GET namespace/properties, PUT namespace/properties, DELETE namespace/properties, GET namespace/property/{key},
    PUT namespace/property/{key}/{value}, DELETE namespace/property/{key}, POST namespaces/grantPermissionsOnTopics,
    POST namespaces/revokePermissionsOnTopics, GET topic/maxMessageSize, POST topic/maxMessageSize,
    DELETE topic/maxMessageSize, GET topic/permissions, POST topic/permissions/{role}, DELETE topic/permissions/{role},
    POST schema/compatibility, DELETE schema/schema, GET scalable/permissions, POST scalable/permissions/{role},
    DELETE scalable/permissions/{role}
superuser: POST namespace/delayedDelivery, DELETE namespace/delayedDelivery
public: GET clusters, GET brokers/ready, GET brokers/version, PUT topic/properties, GET namespace/scanOffloadedLedgers,
    GET namespaces/{cluster}/antiAffinity/{namespace}, GET transactions/coordinators,
    GET transactions/coordinatorInternalStats/{coordinator}, GET transactions/transactionMetadata/{most}/{least},
    GET transactions/transactionInBufferStats/{tenant}/{namespace}/{topic}/{most}/{least},
    GET transactions/transactionInPendingAckStats/{tenant}/{namespace}/{topic}/{subscription}/{most}/{least},
    GET transactions/transactionBufferStats/{tenant}/{namespace}/{topic},
    GET transactions/transactionBufferInternalStats/{tenant}/{namespace}/{topic},
    GET transactions/pendingAckStats/{tenant}/{namespace}/{topic}/{subscription},
    GET transactions/pendingAckInternalStats/{tenant}/{namespace}/{topic}/{subscription},
    GET transactions/positionStatsInPendingAck/{tenant}/{namespace}/{topic}/{subscription}/{ledger}/{entry}
"""
"""The requests of each operation, after its level and its name.

Requests of the level public are those of every authenticated role, and those of admin are requests of superusers and of
the tenant's administrators. Requests of superusers would otherwise be operations on policies.
"""

_ON_NON_PERSISTENT: Final = """
public: GET topic/properties, DELETE topic/properties, POST topic/terminate, POST topic/trim, DELETE topic/truncate,
    PUT subscription, GET subscription/replicatedSubscriptionStatus, POST subscription/replicatedSubscriptionStatus
topic LOOKUP: GET topic/partitioned-stats, GET topic/entryFilters, POST topic/entryFilters, DELETE topic/entryFilters
"""
"""Requests that fail on non-persistent topics before their permission is checked, and those that require a lookup."""

_POLICIES: Final = """
ALLOW_CLUSTERS: allowedClusters
ALLOW_CUSTOM_METRIC_LABELS: allowedTopicPropertyKeysForMetrics
ANTI_AFFINITY: antiAffinity
AUTO_SUBSCRIPTION_CREATION: autoSubscriptionCreation
AUTO_TOPIC_CREATION: autoTopicCreation
BACKLOG: backlogQuota, backlogQuotaMap
COMPACTION: compactionThreshold
DEDUPLICATION: deduplication, deduplicationEnabled
DEDUPLICATION_SNAPSHOT: deduplicationSnapshotInterval
DELAYED_DELIVERY: delayedDelivery
DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT: dispatcherPauseOnAckStatePersistent
ENCRYPTION: encryptionRequired
ENTRY_FILTERS: entryFilters
INACTIVE_TOPIC: inactiveTopicPolicies
MAX_CONSUMERS: maxConsumers, maxConsumersPerSubscription, maxConsumersPerTopic
MAX_PRODUCERS: maxProducers, maxProducersPerTopic, policies
MAX_SUBSCRIPTIONS: maxSubscriptionsPerTopic
MAX_TOPICS: maxTopicsPerNamespace
MAX_UNACKED: maxUnackedMessagesOnConsumer, maxUnackedMessagesOnSubscription, maxUnackedMessagesPerConsumer,
    maxUnackedMessagesPerSubscription
OFFLOAD: offloadDeletionLagMs, offloadPolicies, offloadThreshold, offloadThresholdInSeconds, removeOffloadPolicies
PARTITION: partitions
PERSISTENCE: persistence, {bundle}/topicHashPositions
RATE: dispatchRate, publishRate, subscribeRate, subscriptionDispatchRate, {subscription}/dispatchRate
REPLICATION: replication
REPLICATION_RATE: replicatorDispatchRate
RESOURCEGROUP: resourcegroup, resourcegroup/{resourcegroup}
RETENTION: retention
SCALABLE_TOPIC_AUTO_SCALE: scalableTopicAutoScalePolicy
SCHEMA_COMPATIBILITY_STRATEGY: isAllowAutoUpdateSchema, schemaAutoUpdateCompatibilityStrategy,
    schemaCompatibilityStrategy, schemaValidationEnforced
SHADOW_TOPIC: shadowTopics
SUBSCRIPTION_AUTH_MODE: subscriptionAuthMode, subscriptionTypesEnabled
SUBSCRIPTION_EXPIRATION_TIME: subscriptionExpirationTime
TTL: messageTTL
"""
"""The policies by the end of the path, after the namespace or topic. GET reads a policy, other methods write it."""

_UNAVAILABLE: Final = (
    "/admin/v2/worker",
    "/admin/v2/functions",
    "/admin/v3/{component}",
    "/admin/v3/functions",
    "/admin/v3/sink",
    "/admin/v3/source",
)
"""Requests to function workers, also for sinks and sources, fail before their permission is checked."""


def _rows(table: str) -> Iterator[tuple[str, str]]:
    """Yield the name and each text of the rows of a table. A row continues in lines that begin with spaces."""
    for row in table.strip().replace("\n    ", " ").splitlines():
        name, _, texts = row.partition(": ")
        for text in texts.split(", "):
            yield name, text


def _requests(table: str) -> Iterator[tuple[str, tuple[Operation, ...]]]:
    """Yield the method and path of each request, and its operation."""
    for title, text in _rows(table):
        level, _, name = title.rpartition(" ")
        method, _, path = text.partition(" ")
        start, slash, end = path.partition("/")
        yield f"{method} {_STARTS[start]}{slash}{end}", (Operation(level, name) if level else Operation(name),)


def _policies() -> Iterator[tuple[str, tuple[Operation, ...]]]:
    """Yield the requests that read or write policies of namespaces and topics."""
    for policy, end in _rows(_POLICIES):
        for level, prefix in (("namespace policy", _NAMESPACE), ("topic policy", _TOPIC)):
            for method in ("GET", "PUT", "POST", "DELETE"):
                operation = Operation(level, "READ" if method == "GET" else "WRITE", policy)
                yield f"{method} {prefix}/{end}", (operation,)


_BY_REQUEST: Final = {
    **dict(_policies()),
    f"GET {_NAMESPACE}": (Operation("namespace policy", "READ", "ALL"),),
    **dict(_requests(_OPERATIONS)),
    f"DELETE {_TOPIC}/truncate": (Operation("topic", "LOOKUP"), Operation("admin")),
}
_SCALABLE_POLICIES: Final = {
    f"{method} {_STARTS['scalable']}/{end}": (Operation("scalable policy", operation, policy),)
    for method, operation, policy, end in (
        ("GET", "READ", "SCALABLE_TOPIC_AUTO_SCALE", "autoScalePolicy"),
        ("POST", "WRITE", "SCALABLE_TOPIC_AUTO_SCALE", "autoScalePolicy"),
        ("DELETE", "WRITE", "SCALABLE_TOPIC_AUTO_SCALE", "autoScalePolicy"),
        ("POST", "WRITE", "PARTITION", "split/{segment}"),
        ("POST", "WRITE", "PARTITION", "merge/{segment}/{other}"),
        ("POST", "WRITE", "PARTITION", "rebucket/{segment}"),
    )
}
_NON_PERSISTENT: Final = dict(_requests(_ON_NON_PERSISTENT))


def operations(method: str, path: str, domain: str) -> tuple[Operation, ...]:
    """Return the operations that a request performs, in the order of their checks.

    ``path`` is the path of the endpoint, with its parameters in braces.
    """
    if path.startswith(_UNAVAILABLE):
        return (Operation("public"),)
    request = f"{method} {path}"
    found = _NON_PERSISTENT.get(request) if domain == "non-persistent" else _SCALABLE_POLICIES.get(request)
    return found or _BY_REQUEST.get(request, (Operation("superuser"),))
