"""Namespaces: create, delete, show and unload them, and list their topics."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.endpoint import NAMED, Call, Endpoint, PageError, RestError, unexpected
from pcli.minibroker.admin.namespace_bundles import check_deletable
from pcli.minibroker.admin.namespace_settings import check_tenant
from pcli.minibroker.admin.topics.topics import delete_policies_and_schemas, delete_topic
from pcli.minibroker.policies import policy_types as types
from pcli.minibroker.policies.backlog_quotas import read_quota
from pcli.minibroker.policies.java_types import (
    BOOLEAN,
    BOOLEAN_OBJECT,
    INT,
    INTEGER,
    LONG,
    LONG_OBJECT,
    STRING_LIST,
    STRING_MAP,
    STRING_SET,
    Bean,
    JavaType,
    Map,
)
from pcli.minibroker.policies.policy_store import Namespace
from pcli.minibroker.policies.policy_table import POLICIES, Policy
from pcli.minibroker.topic_names import is_system, namespace_of
from pcli.minibroker.transactions.metadata_store_service import assign_topic
from pcli.minibroker.versions import WITH_REPLICATOR

if TYPE_CHECKING:
    from pcli.minibroker.broker import Broker

_TENANT: Final = "/admin/v2/namespaces/{tenant}"
_SPACE: Final = f"{_TENANT}/{{namespace}}"

_BY_JSON: Final = {policy.json: policy for policy in POLICIES if policy.name and policy.json}


def _policy_type(policy: Policy) -> JavaType:
    """Return the type of a policy in the policies of a namespace, where numbers can be null."""
    if policy.by_cluster and policy.kind is not None:
        return Map(policy.kind)
    if policy.kind is types.SUBSCRIPTION_TYPES:
        return STRING_SET
    return {"int": INTEGER, "long": LONG_OBJECT}.get(policy.kind.name, policy.kind) if policy.kind else BOOLEAN_OBJECT


_STORED: Final[dict[str, tuple[JavaType, Any]]] = {
    "deleted": (BOOLEAN, None),
    "migrated": (BOOLEAN, None),
    "offload_threshold": (LONG, None),
    "offload_threshold_in_seconds": (LONG, None),
    "offload_deletion_lag_ms": (LONG_OBJECT, None),
}
"""Fields of the policies that are only stored."""

_BODY: Final = Bean(
    "org.apache.pulsar.common.policies.data.Policies",
    {
        "replication_clusters": (STRING_SET, []),
        "allowed_clusters": (STRING_SET, []),
        "bundles": (
            Bean(
                "org.apache.pulsar.common.policies.data.impl.BundlesDataImpl",
                {"boundaries": (STRING_LIST, None), "numBundles": (INT, 0)},
            ),
            None,
        ),
        "backlog_quota_map": (Map(types.BACKLOG_QUOTA), None),
        "properties": (STRING_MAP, None),
        **_STORED,
        WITH_REPLICATOR: (BOOLEAN_OBJECT, None),
        **{name: (_policy_type(policy), None) for name, policy in _BY_JSON.items()},
    },
)

_EMPTY: Final = {
    "clusterDispatchRate": {},
    "topicDispatchRate": {},
    "subscriptionDispatchRate": {},
    "replicatorDispatchRate": {},
    "clusterSubscribeRate": {},
    "publishMaxMessageRate": {},
    "latency_stats_sample_rate": {},
    "deleted": False,
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
    "migrated": False,
}
"""Fields in the policies of every namespace."""


# -- as JSON -----------------------------------------------------------------------------------------------------------


def _policies(call: Call) -> Any:
    """Return all policies of a namespace (class Policies)."""
    space = call.namespace()
    found: dict[str, Any] = {
        "auth_policies": {
            "namespace_auth": space.permissions,
            "destination_auth": {},
            "subscription_auth_roles": space.subscription_permissions,
        },
        "replication_clusters": space.clusters,
        "allowed_clusters": space.allowed_clusters,
        "bundles": _bundles(call),
        "backlog_quota_map": space.quotas,
        **_EMPTY,
        **dict.fromkeys(call.broker.version.namespace_fields, True),
        **space.stored,
        "properties": space.properties,
    }
    for policy in POLICIES:
        value = space.policies.get(policy.name)
        if value is not None and policy.by_cluster:
            value = {call.broker.settings.clusterName: value}
        if policy.name and policy.json and (value is not None or policy.listed):
            found[policy.json] = policy.unset if value is None else value
    return found


def _apply_policies(call: Call, space: Namespace, body: dict[str, Any]) -> None:
    """Apply the policies in a request that creates a namespace. They are not checked, as on the real broker."""
    for name, value in body.items():
        policy = _BY_JSON.get(name)
        if policy is None or (policy.setting and not getattr(call.broker.settings, policy.setting)):
            continue
        if policy.by_cluster:
            value = next(iter(value.values()), None)
        if value is not None:
            space.policies[policy.name] = value
    count = (body.get("bundles") or {}).get("numBundles", 0)
    if 0 < count <= 1 << 16:
        space.divide(count)
    quotas = body.get("backlog_quota_map") or {}
    space.quotas = {kind: read_quota(value, space.name) for kind, value in quotas.items() if value is not None}
    space.allowed_clusters = body["allowed_clusters"]
    space.properties = body.get("properties") or {}
    known = {*_STORED, *call.broker.version.namespace_fields}
    space.stored = {name: value for name, value in body.items() if name in known}
    if body.get("message_ttl_in_seconds", 0) < 0:
        raise RestError(412, "Invalid value for message TTL")


# -- namespaces --------------------------------------------------------------------------------------------------------


def _names(call: Call) -> Any:
    tenant = call.path_text("tenant")
    if not NAMED.fullmatch(tenant):
        raise RestError(412, "Tenant name is not valid")
    if tenant not in call.broker.policies.tenants:
        raise RestError(404, "Tenant not found")
    return sorted(name for name in call.broker.policies.namespaces if name.startswith(f"{tenant}/"))


def _create(call: Call) -> None:
    name, policies = call.namespace_name, call.broker.policies
    tenant = policies.tenants.get(call.path_text("tenant"))
    if tenant is None:
        raise RestError(404, "Tenant does not exist")
    if name in policies.namespaces:
        raise RestError(409, "Namespace already exists")
    limit = policies.settings.maxNamespacesPerTenant
    if 0 < limit <= len(_names(call)):
        raise RestError(412, "Exceed the maximum number of namespace in tenant")
    body = {"replication_clusters": [], "allowed_clusters": []} if call.body is None else call.body
    for owner, key in (("nsPolicies", "replication_clusters"), ("this", "allowed_clusters")):
        if key not in body:
            raise unexpected(f'Cannot invoke "java.util.Set.isEmpty()" because "{owner}.{key}" is null')
    clusters, allowed = body["replication_clusters"] or [policies.settings.clusterName], body["allowed_clusters"]
    if allowed and not set(clusters) <= set(allowed):
        shown = f"Repl clusters: [{', '.join(sorted(clusters))}], allowed clusters: [{', '.join(sorted(allowed))}]"
        raise RestError(400, f"[{name}] All replication clusters should be included in allowed clusters. {shown}")
    for cluster in [*clusters, *allowed]:
        check_tenant(call, cluster)
    space = Namespace(name, max(1, policies.settings.defaultNumberOfNamespaceBundles), list(clusters))
    _apply_policies(call, space, body)
    policies.namespaces[name] = space
    policies.on_change(name)


def _delete(call: Call) -> None:
    name, broker, force = call.namespace_name, call.broker, call.flag("force")
    if force and not broker.settings.forceDeleteNamespaceAllowed:
        raise RestError(405, "Broker doesn't allow forced deletion of namespaces")
    space = call.namespace(f"Namespace {name} does not exist.")
    check_deletable(call, space, " or replication clusters is empty")
    listed = broker.topic_registry.names
    topics = [*listed(name), *listed(name, persistent=False)]
    topics += broker.scalable_topics.names(name)
    if not force and (topics or not all(map(is_system, _partitioned(broker, name)))):
        raise RestError(409, "Cannot delete non empty namespace")
    delete_namespace(broker, name)


def delete_namespace(broker: Broker, name: str) -> None:
    """Delete a namespace and all of its topics, even if clients are connected. System topics are deleted last."""
    registry = broker.topic_registry
    for scalable in broker.scalable_topics.names(name):
        broker.scalable_topics.delete(scalable, force=True)
    for system in (False, True):
        for topic in registry.names(name, system=system):
            delete_topic(broker, TopicName.parse(topic))
    for loaded in registry.loaded_in_namespace(name):
        delete_topic(broker, loaded.name)
    for partitioned in _partitioned(broker, name):
        broker.policies.set_partitions(str(partitioned), 0)
        delete_policies_and_schemas(broker, partitioned)
    registry.forget_namespace(name)
    del broker.policies.namespaces[name]


def _partitioned(broker: Broker, name: str) -> list[TopicName]:
    return [topic for topic in map(TopicName.parse, broker.policies.partitioned) if namespace_of(topic) == name]


def _topics(call: Call) -> Any:
    name, mode = call.namespace().name, call.query.get("mode") or "PERSISTENT"
    if mode not in ("PERSISTENT", "NON_PERSISTENT", "ALL"):
        raise PageError(404)
    names = call.broker.topic_registry.names(name, system=call.flag("includeSystemTopic"))
    found = names if mode != "NON_PERSISTENT" else []
    return found + (call.loaded_non_persistent_topics() if mode != "PERSISTENT" else [])


def _bundles(call: Call) -> Any:
    space = call.namespace()
    return {"boundaries": space.boundaries, "numBundles": len(space.edges) - 1}


def _unload(call: Call) -> None:
    for topic in call.loaded_topics():
        call.broker.unload(topic)
    _close_coordinators(call.broker, call.namespace(), None)


def _close_coordinators(broker: Broker, space: Namespace, bundle: str | None) -> None:
    """Close the transaction coordinators of an unloaded bundle, or of an unloaded namespace if ``bundle`` is None."""
    names = {number: assign_topic(number) for number in broker.transactions.stores}
    inside = [number for number, name in names.items() if namespace_of(name) == space.name]
    broker.transactions.close(one for one in inside if bundle is None or space.bundle(str(names[one])) == bundle)


def _unload_bundle(call: Call) -> None:
    space, bundle = call.owned_namespace(), call.path_text("bundle")
    edges = space.boundaries
    if bundle not in [f"{low}_{high}" for low, high in pairwise(edges)]:
        raise RestError(412, f"Invalid bundle range: {bundle}")
    for topic in call.loaded_topics():
        if space.bundle(topic.full_name) == bundle:
            call.broker.unload(topic)
    _close_coordinators(call.broker, space, bundle)


def _clear(call: Call) -> None:
    """Acknowledge all entries of all subscriptions, or of the subscriptions with a given name."""
    wanted = call.path.get("subscription")
    for topic in call.loaded_topics():
        for subscription in list(topic.subscriptions.values()):
            if wanted is None or subscription.name == call.path_text("subscription"):
                subscription.skip_all()


ENDPOINTS: Final = (
    Endpoint("GET", _TENANT, _names, "names of the namespaces of a tenant"),
    Endpoint("GET", _SPACE, _policies, "all policies of a namespace"),
    Endpoint("PUT", _SPACE, _create, "create a namespace, with policies", _BODY),
    Endpoint("DELETE", _SPACE, _delete, "delete a namespace"),
    Endpoint("GET", f"{_SPACE}/topics", _topics, "names of the topics of a namespace"),
    Endpoint("GET", f"{_SPACE}/bundles", _bundles, "the bundles of a namespace"),
    Endpoint("PUT", f"{_SPACE}/unload", _unload, "unload all topics of a namespace"),
    Endpoint("PUT", f"{_SPACE}/{{bundle}}/unload", _unload_bundle, "unload the topics of a bundle"),
    Endpoint("POST", f"{_SPACE}/clearBacklog", _clear, "acknowledge all messages in a namespace"),
    Endpoint(
        "POST",
        f"{_SPACE}/clearBacklog/{{subscription}}",
        _clear,
        "acknowledge all messages on the subscriptions with this name",
    ),
)
