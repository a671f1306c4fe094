"""The operation that each request performs (TopicOperation, NamespaceOperation, PolicyName and others of 4.2.4).

The operation selects the permission that the request requires, and the error without it (`permissions.py`). A request
that is not listed requires a superuser.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

__all__ = ["Operation", "operations"]

_LOOKUP: Final = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
_SPACE: Final = "/admin/v2/{domain}/{tenant}/{namespace}"
_TOPIC: Final = f"{_SPACE}/{{topic}}"
_SUBSCRIPTION: Final = f"{_TOPIC}/subscription/{{subscription}}"
_SCHEMA: Final = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
_TENANT: Final = "/admin/v2/namespaces/{tenant}"
_NAMESPACE: Final = f"{_TENANT}/{{namespace}}"
_BUNDLE: Final = f"{_NAMESPACE}/{{bundle}}"
_TENANTS: Final = "/admin/v2/tenants"
_CLUSTERS: Final = "/admin/v2/clusters"
_CLUSTER: Final = f"{_CLUSTERS}/{{cluster}}"
_BROKERS: Final = "/admin/v2/brokers"
_PACKAGES: Final = "/admin/v3/packages"
_TRANSACTIONS: Final = "/admin/v3/transactions"


class Operation(NamedTuple):
    """An operation."""

    level: str
    """The class of the operation without the word operation, such as ``topic`` or ``namespace policy``."""
    name: str = ""
    policy: str = ""


_PUBLIC: Final = Operation("public")
"""A request that every authenticated role may send."""
_SUPERUSER: Final = Operation("superuser")
"""A request of superusers."""
_ADMIN: Final = Operation("admin")
"""A request of superusers and of the tenant's administrators."""

_TOPIC_OPERATIONS: Final = {
    "LOOKUP": (
        f"GET {_TOPIC}/partitions",
        f"POST {_TOPIC}/createMissedPartitions",
    ),
    "PRODUCE": (f"POST {_SCHEMA}/schema",),
    "CONSUME": (f"GET {_SUBSCRIPTION}/properties", f"POST {_SUBSCRIPTION}/analyzeBacklog"),
    "COMPACT": (f"GET {_TOPIC}/compaction", f"PUT {_TOPIC}/compaction"),
    "DELETE_METADATA": (f"DELETE {_TOPIC}/properties",),
    "EXPIRE_MESSAGES": (
        f"POST {_SUBSCRIPTION}/expireMessages",
        f"POST {_SUBSCRIPTION}/expireMessages/{{seconds}}",
        f"POST {_TOPIC}/all_subscription/expireMessages/{{seconds}}",
    ),
    "GET_BACKLOG_SIZE": (f"PUT {_TOPIC}/backlogSize", f"GET {_TOPIC}/backlog"),
    "GET_METADATA": (
        f"GET {_TOPIC}/properties",
        f"GET {_SCHEMA}/metadata",
        f"GET {_SCHEMA}/schema",
        f"GET {_SCHEMA}/schema/{{version}}",
        f"GET {_SCHEMA}/schemas",
        f"POST {_SCHEMA}/version",
    ),
    "GET_REPLICATED_SUBSCRIPTION_STATUS": (f"GET {_SUBSCRIPTION}/replicatedSubscriptionStatus",),
    "GET_STATS": (
        f"GET {_TOPIC}/stats",
        f"GET {_TOPIC}/partitioned-stats",
        f"GET {_TOPIC}/internalStats",
        f"GET {_TOPIC}/partitioned-internalStats",
        f"GET {_TOPIC}/internal-info",
    ),
    "GET_SUBSCRIPTIONS": (f"GET {_TOPIC}/subscriptions",),
    "OFFLOAD": (f"GET {_TOPIC}/offload", f"PUT {_TOPIC}/offload"),
    "PEEK_MESSAGES": (
        f"GET {_TOPIC}/examinemessage",
        f"GET {_TOPIC}/lastMessageId",
        f"GET {_TOPIC}/ledger/{{ledger}}/entry/{{entry}}",
        f"GET {_TOPIC}/messageid/{{timestamp}}",
        f"GET {_SUBSCRIPTION}/position/{{count}}",
    ),
    "RESET_CURSOR": (f"POST {_SUBSCRIPTION}/resetcursor", f"POST {_SUBSCRIPTION}/resetcursor/{{timestamp}}"),
    "SET_REPLICATED_SUBSCRIPTION_STATUS": (f"POST {_SUBSCRIPTION}/replicatedSubscriptionStatus",),
    "SKIP": (f"POST {_SUBSCRIPTION}/skip/{{count}}", f"POST {_SUBSCRIPTION}/skip_all"),
    "SUBSCRIBE": (f"PUT {_SUBSCRIPTION}", f"PUT {_SUBSCRIPTION}/properties"),
    "TERMINATE": (f"POST {_TOPIC}/terminate", f"POST {_TOPIC}/terminate/partitions"),
    "TRIM_TOPIC": (f"POST {_TOPIC}/trim",),
    "UNLOAD": (f"PUT {_TOPIC}/unload",),
    "UNSUBSCRIBE": (f"DELETE {_SUBSCRIPTION}",),
}
_NAMESPACE_OPERATIONS: Final = {
    "CLEAR_BACKLOG": (
        f"POST {_NAMESPACE}/clearBacklog",
        f"POST {_NAMESPACE}/clearBacklog/{{subscription}}",
        f"POST {_BUNDLE}/clearBacklog",
        f"POST {_BUNDLE}/clearBacklog/{{subscription}}",
    ),
    "CREATE_TOPIC": (f"PUT {_TOPIC}",),
    "DELETE_BUNDLE": (f"DELETE {_BUNDLE}",),
    "DELETE_TOPIC": (f"DELETE {_TOPIC}", f"DELETE {_TOPIC}/partitions"),
    "GET_BUNDLE": (
        f"GET {_LOOKUP}/bundle",
        f"GET {_NAMESPACE}/bundles",
        "GET /admin/v2/non-persistent/{tenant}/{namespace}/{bundle}",
    ),
    "GET_PERMISSION": (f"GET {_NAMESPACE}/permissions", f"GET {_NAMESPACE}/permissions/subscription"),
    "GET_TOPICS": (f"GET {_NAMESPACE}/topics", f"GET {_SPACE}", f"GET {_SPACE}/partitioned"),
    "GRANT_PERMISSION": (
        f"POST {_NAMESPACE}/permissions/{{role}}",
        f"POST {_NAMESPACE}/permissions/subscription/{{subscription}}",
    ),
    "PACKAGES": tuple(
        f"{method} {_PACKAGES}/{{kind}}/{{tenant}}/{{namespace}}{rest}"
        for method, rest in (
            ("GET", ""),
            ("GET", "/{package}"),
            ("GET", "/{package}/{version}"),
            ("POST", "/{package}/{version}"),
            ("DELETE", "/{package}/{version}"),
            ("GET", "/{package}/{version}/metadata"),
            ("PUT", "/{package}/{version}/metadata"),
        )
    ),
    "REVOKE_PERMISSION": (
        f"DELETE {_NAMESPACE}/permissions/{{role}}",
        f"DELETE {_NAMESPACE}/permissions/{{subscription}}/{{role}}",
    ),
    "UNSUBSCRIBE": (f"POST {_NAMESPACE}/unsubscribe/{{subscription}}", f"POST {_BUNDLE}/unsubscribe/{{subscription}}"),
}
_POLICIES: Final = {
    "ALLOW_CLUSTERS": ("allowedClusters",),
    "ALLOW_CUSTOM_METRIC_LABELS": ("allowedTopicPropertyKeysForMetrics",),
    "ANTI_AFFINITY": ("antiAffinity",),
    "AUTO_SUBSCRIPTION_CREATION": ("autoSubscriptionCreation",),
    "AUTO_TOPIC_CREATION": ("autoTopicCreation",),
    "BACKLOG": ("backlogQuota", "backlogQuotaMap"),
    "COMPACTION": ("compactionThreshold",),
    "DEDUPLICATION": ("deduplication", "deduplicationEnabled"),
    "DEDUPLICATION_SNAPSHOT": ("deduplicationSnapshotInterval",),
    "DELAYED_DELIVERY": ("delayedDelivery",),
    "DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT": ("dispatcherPauseOnAckStatePersistent",),
    "ENCRYPTION": ("encryptionRequired",),
    "ENTRY_FILTERS": ("entryFilters",),
    "INACTIVE_TOPIC": ("inactiveTopicPolicies",),
    "MAX_CONSUMERS": ("maxConsumers", "maxConsumersPerSubscription", "maxConsumersPerTopic"),
    "MAX_PRODUCERS": ("maxProducers", "maxProducersPerTopic", "policies"),
    "MAX_SUBSCRIPTIONS": ("maxSubscriptionsPerTopic",),
    "MAX_TOPICS": ("maxTopicsPerNamespace",),
    "MAX_UNACKED": (
        "maxUnackedMessagesOnConsumer",
        "maxUnackedMessagesOnSubscription",
        "maxUnackedMessagesPerConsumer",
        "maxUnackedMessagesPerSubscription",
    ),
    "OFFLOAD": (
        "offloadDeletionLagMs",
        "offloadPolicies",
        "offloadThreshold",
        "offloadThresholdInSeconds",
        "removeOffloadPolicies",
    ),
    "PARTITION": ("partitions",),
    "PERSISTENCE": ("persistence", "{bundle}/topicHashPositions"),
    "RATE": (
        "dispatchRate",
        "publishRate",
        "subscribeRate",
        "subscriptionDispatchRate",
        "{subscription}/dispatchRate",
    ),
    "REPLICATION": ("replication",),
    "REPLICATION_RATE": ("replicatorDispatchRate",),
    "RESOURCEGROUP": ("resourcegroup", "resourcegroup/{resourcegroup}"),
    "RETENTION": ("retention",),
    "SCHEMA_COMPATIBILITY_STRATEGY": (
        "isAllowAutoUpdateSchema",
        "schemaAutoUpdateCompatibilityStrategy",
        "schemaCompatibilityStrategy",
        "schemaValidationEnforced",
    ),
    "SHADOW_TOPIC": ("shadowTopics",),
    "SUBSCRIPTION_AUTH_MODE": ("subscriptionAuthMode", "subscriptionTypesEnabled"),
    "SUBSCRIPTION_EXPIRATION_TIME": ("subscriptionExpirationTime",),
    "TTL": ("messageTTL",),
}
"""The policies by the end of the path, after the namespace or topic. GET reads a policy, other methods write it."""
_TENANT_OPERATIONS: Final = {
    "CREATE_NAMESPACE": (f"PUT {_NAMESPACE}",),
    "DELETE_NAMESPACE": (f"DELETE {_NAMESPACE}",),
    "LIST_NAMESPACES": (f"GET {_TENANT}",),
}
_TENANTS_OPERATIONS: Final = {
    "CREATE_TENANT": (f"PUT {_TENANTS}/{{tenant}}",),
    "DELETE_TENANT": (f"DELETE {_TENANTS}/{{tenant}}",),
    "GET_TENANT": (f"GET {_TENANTS}/{{tenant}}",),
    "LIST_TENANTS": (f"GET {_TENANTS}",),
    "UPDATE_TENANT": (f"POST {_TENANTS}/{{tenant}}",),
}
_CLUSTER_OPERATIONS: Final = {
    "CREATE_CLUSTER": (f"PUT {_CLUSTER}",),
    "DELETE_CLUSTER": (f"DELETE {_CLUSTER}",),
    "DELETE_FAILURE_DOMAIN": (f"DELETE {_CLUSTER}/failureDomains/{{domain_name}}",),
    "GET_CLUSTER": (f"GET {_CLUSTER}",),
    "GET_FAILURE_DOMAIN": (f"GET {_CLUSTER}/failureDomains", f"GET {_CLUSTER}/failureDomains/{{domain_name}}"),
    "GET_PEER_CLUSTER": (f"GET {_CLUSTER}/peers",),
    "UPDATE_CLUSTER": (f"POST {_CLUSTER}",),
    "UPDATE_FAILURE_DOMAIN": (f"POST {_CLUSTER}/failureDomains/{{domain_name}}",),
    "UPDATE_PEER_CLUSTER": (f"POST {_CLUSTER}/peers",),
}
_ISOLATION: Final = f"{_CLUSTER}/namespaceIsolationPolicies"
_CLUSTER_POLICY_OPERATIONS: Final = {
    "READ": (
        f"GET {_CLUSTER}/migrate",
        f"GET {_ISOLATION}",
        f"GET {_ISOLATION}/brokers",
        f"GET {_ISOLATION}/brokers/{{broker}}",
        f"GET {_ISOLATION}/{{policy}}",
    ),
    "WRITE": (f"POST {_CLUSTER}/migrate", f"POST {_ISOLATION}/{{policy}}", f"DELETE {_ISOLATION}/{{policy}}"),
}
_BROKER_OPERATIONS: Final = {
    "CHECK_BACKLOG_QUOTA": (f"GET {_BROKERS}/backlog-quota-check",),
    "DELETE_DYNAMIC_CONFIGURATION": (f"DELETE {_BROKERS}/configuration/{{name}}",),
    "GET_INTERNAL_CONFIGURATION_DATA": (f"GET {_BROKERS}/internal-configuration",),
    "GET_LEADER_BROKER": (f"GET {_BROKERS}/leaderBroker",),
    "HEALTH_CHECK": (f"GET {_BROKERS}/health",),
    "LIST_BROKERS": (f"GET {_BROKERS}", f"GET {_BROKERS}/{{cluster}}"),
    "LIST_DYNAMIC_CONFIGURATIONS": (f"GET {_BROKERS}/configuration", f"GET {_BROKERS}/configuration/values"),
    "LIST_OWNED_NAMESPACES": (f"GET {_BROKERS}/{{cluster}}/{{broker}}/ownedNamespaces",),
    "LIST_RUNTIME_CONFIGURATIONS": (f"GET {_BROKERS}/configuration/runtime",),
    "SHUTDOWN": (f"POST {_BROKERS}/shutdown",),
    "UPDATE_DYNAMIC_CONFIGURATION": (f"POST {_BROKERS}/configuration/{{name}}/{{value}}",),
}
_BY_LEVEL: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "topic": _TOPIC_OPERATIONS,
    "namespace": _NAMESPACE_OPERATIONS,
    "tenant": _TENANT_OPERATIONS,
    "tenants": _TENANTS_OPERATIONS,
    "cluster": _CLUSTER_OPERATIONS,
    "cluster policy": _CLUSTER_POLICY_OPERATIONS,
    "broker": _BROKER_OPERATIONS,
}

_ADMIN_REQUESTS: Final = (
    f"GET {_NAMESPACE}/properties",
    f"PUT {_NAMESPACE}/properties",
    f"DELETE {_NAMESPACE}/properties",
    f"GET {_NAMESPACE}/property/{{key}}",
    f"PUT {_NAMESPACE}/property/{{key}}/{{value}}",
    f"DELETE {_NAMESPACE}/property/{{key}}",
    "POST /admin/v2/namespaces/grantPermissionsOnTopics",
    "POST /admin/v2/namespaces/revokePermissionsOnTopics",
    f"GET {_TOPIC}/maxMessageSize",
    f"POST {_TOPIC}/maxMessageSize",
    f"DELETE {_TOPIC}/maxMessageSize",
    f"GET {_TOPIC}/permissions",
    f"POST {_TOPIC}/permissions/{{role}}",
    f"DELETE {_TOPIC}/permissions/{{role}}",
    f"POST {_SCHEMA}/compatibility",
    f"DELETE {_SCHEMA}/schema",
)
_SUPERUSER_REQUESTS: Final = (f"POST {_NAMESPACE}/delayedDelivery", f"DELETE {_NAMESPACE}/delayedDelivery")
"""Requests of superusers that would otherwise be operations on policies."""
_PUBLIC_REQUESTS: Final = (
    f"GET {_CLUSTERS}",
    f"GET {_BROKERS}/ready",
    f"GET {_BROKERS}/version",
    f"PUT {_TOPIC}/properties",
    f"GET {_NAMESPACE}/scanOffloadedLedgers",
    "GET /admin/v2/namespaces/{cluster}/antiAffinity/{namespace}",
    f"GET {_TRANSACTIONS}/coordinators",
    f"GET {_TRANSACTIONS}/coordinatorInternalStats/{{coordinator}}",
    f"GET {_TRANSACTIONS}/transactionMetadata/{{most}}/{{least}}",
    f"GET {_TRANSACTIONS}/transactionInBufferStats/{{tenant}}/{{namespace}}/{{topic}}/{{most}}/{{least}}",
    f"GET {_TRANSACTIONS}/transactionInPendingAckStats/{{tenant}}/{{namespace}}/{{topic}}/{{subscription}}/{{most}}"
    "/{least}",
    f"GET {_TRANSACTIONS}/transactionBufferStats/{{tenant}}/{{namespace}}/{{topic}}",
    f"GET {_TRANSACTIONS}/transactionBufferInternalStats/{{tenant}}/{{namespace}}/{{topic}}",
    f"GET {_TRANSACTIONS}/pendingAckStats/{{tenant}}/{{namespace}}/{{topic}}/{{subscription}}",
    f"GET {_TRANSACTIONS}/pendingAckInternalStats/{{tenant}}/{{namespace}}/{{topic}}/{{subscription}}",
    f"GET {_TRANSACTIONS}/positionStatsInPendingAck/{{tenant}}/{{namespace}}/{{topic}}/{{subscription}}/{{ledger}}"
    "/{entry}",
)
_PUBLIC_ON_NON_PERSISTENT: Final = (
    f"GET {_TOPIC}/properties",
    f"DELETE {_TOPIC}/properties",
    f"POST {_TOPIC}/terminate",
    f"POST {_TOPIC}/trim",
    f"DELETE {_TOPIC}/truncate",
    f"PUT {_SUBSCRIPTION}",
    f"GET {_SUBSCRIPTION}/replicatedSubscriptionStatus",
    f"POST {_SUBSCRIPTION}/replicatedSubscriptionStatus",
)
"""Requests that fail on non-persistent topics before their permission is checked."""
_UNAVAILABLE: Final = (
    "/admin/v2/worker",
    "/admin/v2/functions",
    "/admin/v3/{component}",
    "/admin/v3/functions",
    "/admin/v3/sink",
    "/admin/v3/source",
)
"""Requests to function workers, also for sinks and sources, fail before their permission is checked."""
_LOOKUP_ON_NON_PERSISTENT: Final = (
    f"GET {_TOPIC}/partitioned-stats",
    f"GET {_TOPIC}/entryFilters",
    f"POST {_TOPIC}/entryFilters",
    f"DELETE {_TOPIC}/entryFilters",
)


def _rows() -> Iterator[tuple[str, tuple[Operation, ...]]]:
    for level, prefix in (("namespace policy", _NAMESPACE), ("topic policy", _TOPIC)):
        for policy, ends in _POLICIES.items():
            for end in ends:
                for method in ("GET", "PUT", "POST", "DELETE"):
                    verb = "READ" if method == "GET" else "WRITE"
                    yield f"{method} {prefix}/{end}", (Operation(level, verb, policy),)
    yield f"GET {_NAMESPACE}", (Operation("namespace policy", "READ", "ALL"),)
    for level, table in _BY_LEVEL.items():
        for name, requests in table.items():
            for request in requests:
                yield request, (Operation(level, name),)
    for operation, listed in (
        (_PUBLIC, _PUBLIC_REQUESTS),
        (_ADMIN, _ADMIN_REQUESTS),
        (_SUPERUSER, _SUPERUSER_REQUESTS),
    ):
        for request in listed:
            yield request, (operation,)
    yield f"GET {_LOOKUP}", (Operation("lookup", "LOOKUP"),)
    yield f"DELETE {_TOPIC}/truncate", (Operation("topic", "LOOKUP"), _ADMIN)
    yield f"GET {_TOPIC}/getMessageIdByIndex", (Operation("index", "PEEK_MESSAGES"),)
    for path in ("coordinatorStats", "slowTransactions/{timeout}"):
        yield f"GET {_TRANSACTIONS}/{path}", (Operation("coordinators", "LOOKUP"),)


_OPERATIONS: Final[Mapping[str, tuple[Operation, ...]]] = dict(_rows())
_NON_PERSISTENT: Final[Mapping[str, tuple[Operation, ...]]] = {
    **dict.fromkeys(_PUBLIC_ON_NON_PERSISTENT, (_PUBLIC,)),
    **dict.fromkeys(_LOOKUP_ON_NON_PERSISTENT, (Operation("topic", "LOOKUP"),)),
}


def operations(method: str, path: str, domain: str) -> tuple[Operation, ...]:
    """Return the operations that a request performs, in the order of their checks.

    ``path`` is the path of the endpoint, with its parameters in braces.
    """
    if path.startswith(_UNAVAILABLE):
        return (_PUBLIC,)
    request = f"{method} {path}"
    found = _NON_PERSISTENT.get(request) if domain == "non-persistent" else None
    return found or _OPERATIONS.get(request, (_SUPERUSER,))
