"""Clusters, groups and properties of a namespace: stored and returned, but without effect (NamespacesBase, 4.2.4)."""

from __future__ import annotations

from typing import Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError, unexpected
from pcli.minibroker.policies.java_types import BOOLEAN, RAW_TEXT, STRING_LIST, STRING_MAP

_SPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"


# -- clusters ----------------------------------------------------------------------------------------------------------


def _set_clusters(call: Call) -> Reply:
    if not call.body:
        raise RestError(412, "ClusterIds should not be null or empty")
    clusters = list(dict.fromkeys(call.body))
    for cluster in clusters:
        _check_peers(call, cluster, clusters)
        allowed = call.namespace().allowed_clusters
        if allowed and not set(clusters) <= set(allowed):
            text = f"is not in the list of allowed clusters list for namespace [{call.namespace_name}]"
            raise RestError(400, f"Cluster [{cluster}] {text}")
        check_tenant(call, cluster)
    call.namespace().clusters = clusters
    return Reply(200)


def _check_peers(call: Call, cluster: str, clusters: list[str]) -> None:
    """Raise 403 if a cluster does not exist, and 409 if one of its peers is in the same list."""
    found = call.broker.policies.clusters.get(cluster)
    if found is None:
        raise RestError(403, f"Invalid cluster id: {'null' if cluster is None else cluster}")
    peers = [peer for peer in found.data.get("peerClusterNames") or () if peer in clusters]
    if peers:
        listed = f"[{', '.join(sorted(clusters))}]"
        text = f"{cluster}'s peer-clusters [{', '.join(peers)}] can't be part of replication-clusters {listed}"
        raise RestError(409, text)


def check_tenant(call: Call, cluster: str) -> None:
    """Raise 403 if the tenant in the path may not use a cluster."""
    tenant = call.broker.policies.tenants.get(call.path_text("tenant"))
    if tenant is None or cluster not in tenant.clusters:
        what = f"Cluster [{'null' if cluster is None else cluster}] is not in the list of allowed clusters list"
        raise RestError(403, f"{what} for tenant [{call.path_text('tenant')}]")


def _allowed_clusters(call: Call) -> Any:
    return call.namespace().allowed_clusters


def _set_allowed_clusters(call: Call) -> Reply:
    if call.body is None:
        raise unexpected('Cannot invoke "java.util.List.stream()" because "clusterIds" is null')
    for cluster in call.body:
        check_tenant(call, cluster)
    space = call.namespace()
    missing = [cluster for cluster in space.clusters if cluster not in call.body]
    if missing:
        text = "Please remove the replication cluster if the cluster is not allowed for this namespace"
        raise RestError(400, f"Allowed clusters do not contain the replication cluster [{missing[0]}]. {text}")
    for cluster in call.body:
        _check_peers(call, cluster, call.body)
    space.allowed_clusters = list(dict.fromkeys(call.body))
    return Reply(200)


def _migrate(call: Call) -> None:
    space = call.broker.policies.namespaces.get(call.namespace_name)
    if space is not None:
        space.stored["migrated"] = call.body


# -- groups ------------------------------------------------------------------------------------------------------------


def _anti_affinity(call: Call) -> Reply:
    space = call.broker.policies.namespaces.get(call.namespace_name)
    return Reply(200, (space.anti_affinity if space is not None else "").encode() or None)


def _set_anti_affinity(call: Call) -> None:
    if not call.body.strip():
        raise RestError(412, "Anti-affinity group can't be empty")
    space = call.broker.policies.namespaces.get(call.namespace_name)
    if space is not None:
        space.anti_affinity = call.body


def _unset_anti_affinity(call: Call) -> None:
    call.namespace("").anti_affinity = ""


def _anti_affinity_members(call: Call) -> Any:
    tenant = call.query.get("tenant")
    if not tenant:
        raise RestError(400, "Tenant should not be null")
    spaces, group = call.broker.policies.namespaces, call.path_text("namespace")
    return [name for name in sorted(spaces) if spaces[name].anti_affinity == group]


def _resource_group(call: Call) -> Reply:
    return Reply(200, call.namespace().resource_group.encode() or None)


def _set_resource_group(call: Call) -> None:
    group = call.path_text("resourcegroup")
    if group not in call.broker.policies.resource_groups:
        raise RestError(412, "ResourceGroup does not exist")
    _put_resource_group(call, group)


def _unset_resource_group(call: Call) -> None:
    _put_resource_group(call, "")


def _put_resource_group(call: Call, group: str) -> None:
    space = call.namespace("Namespace policies does not exist")
    space.resource_group = group
    call.broker.policies.on_change(space.name)


# -- properties --------------------------------------------------------------------------------------------------------


def _set_properties(call: Call) -> None:
    call.namespace().properties.update(call.body or {})


def _unset_properties(call: Call) -> None:
    call.namespace().properties.clear()


def _property(call: Call) -> Reply:
    value = call.namespace().properties.get(call.path_text("key"))
    return Reply(200, None if value is None else value.encode())


def _set_property(call: Call) -> None:
    call.namespace().properties[call.path_text("key")] = call.path_text("value")


def _remove_property(call: Call) -> Reply:
    value = call.namespace().properties.pop(call.path_text("key"), None)
    return Reply(200, None if value is None else value.encode())


ENDPOINTS: Final = (
    Endpoint("GET", f"{_SPACE}/replication", lambda call: call.namespace().clusters, "the clusters of a namespace"),
    Endpoint("POST", f"{_SPACE}/replication", _set_clusters, "set the namespace's clusters (stored only)", STRING_LIST),
    Endpoint("GET", f"{_SPACE}/allowedClusters", _allowed_clusters, "allowed clusters (stored only)"),
    Endpoint("POST", f"{_SPACE}/allowedClusters", _set_allowed_clusters, "set the allowed clusters", STRING_LIST),
    Endpoint("POST", f"{_SPACE}/migration", _migrate, "mark a namespace as migrated (stored only)", BOOLEAN),
    Endpoint("GET", f"{_SPACE}/antiAffinity", _anti_affinity, "the anti-affinity group (stored only)"),
    Endpoint("POST", f"{_SPACE}/antiAffinity", _set_anti_affinity, "set the anti-affinity group", RAW_TEXT),
    Endpoint("DELETE", f"{_SPACE}/antiAffinity", _unset_anti_affinity, "remove the anti-affinity group"),
    Endpoint(
        "GET",
        "/admin/v2/namespaces/{cluster}/antiAffinity/{namespace}",
        _anti_affinity_members,
        "the namespaces of an anti-affinity group",
    ),
    Endpoint("GET", f"{_SPACE}/resourcegroup", _resource_group, "the resource group"),
    Endpoint("POST", f"{_SPACE}/resourcegroup/{{resourcegroup}}", _set_resource_group, "set the resource group"),
    Endpoint("DELETE", f"{_SPACE}/resourcegroup", _unset_resource_group, "remove the resource group"),
    Endpoint("GET", f"{_SPACE}/properties", lambda call: call.namespace().properties, "properties of a namespace"),
    Endpoint("PUT", f"{_SPACE}/properties", _set_properties, "add properties to a namespace", STRING_MAP),
    Endpoint("DELETE", f"{_SPACE}/properties", _unset_properties, "remove all properties of the namespace"),
    Endpoint("GET", f"{_SPACE}/property/{{key}}", _property, "a property of a namespace"),
    Endpoint("PUT", f"{_SPACE}/property/{{key}}/{{value}}", _set_property, "set a property of a namespace"),
    Endpoint("DELETE", f"{_SPACE}/property/{{key}}", _remove_property, "remove a property of a namespace"),
)
