"""Tenants and clusters. The broker belongs to one cluster. Other clusters are only stored and returned."""

from __future__ import annotations

import re
from typing import Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError
from pcli.minibroker.admin.namespaces import delete_namespace
from pcli.minibroker.policies.policy_store import Tenant

__all__ = ["ENDPOINTS"]

_NAMED: Final = re.compile(r"[-=:.\w]+", re.ASCII)
_TENANT: Final = "/admin/v2/tenants/{tenant}"
_CLUSTER: Final = "/admin/v2/clusters/{cluster}"
_URLS: Final = {
    "serviceUrl": ("http", "service", "http://pulsar.example.com:8080"),
    "serviceUrlTls": ("https", "service tls", "https://pulsar.example.com:8443"),
    "brokerServiceUrl": ("pulsar", "broker service", "pulsar://pulsar.example.com:6650"),
    "brokerServiceUrlTls": ("pulsar+ssl", "broker service tls", "pulsar+ssl://pulsar.example.com:6651"),
}
"""For each URL of a cluster: its scheme, and its name and an example, which the real broker's error contains."""

_DEFAULTS: Final = dict.fromkeys(
    ("brokerClientTlsEnabled", "tlsAllowInsecureConnection", "brokerClientTlsEnabledWithKeyStore"), False
)
"""Default values of fields that every cluster has."""


def _tenants(call: Call) -> Any:
    return sorted(call.broker.policies.tenants)


def _tenant(call: Call) -> Tenant:
    tenant = call.broker.policies.tenants.get(call.path_text("tenant"))
    if tenant is None:
        raise RestError(404, "Tenant does not exist")
    return tenant


def _get(call: Call) -> Any:
    tenant = _tenant(call)
    return {"adminRoles": tenant.roles, "allowedClusters": tenant.clusters}


def _read(call: Call) -> Tenant:
    """Return the tenant in the body. Raises 412 if the body lists no cluster or an unknown cluster."""
    if not isinstance(call.body, dict):
        raise RestError(412, "TenantInfo is null")
    clusters = call.body.get("allowedClusters") or []
    if not clusters:
        raise RestError(412, "Clusters cannot be empty or blank")
    if not set(clusters) <= set(call.broker.policies.clusters):
        raise RestError(412, "Clusters do not exist")
    return Tenant(list(call.body.get("adminRoles") or []), list(clusters))


def _create(call: Call) -> None:
    policies, name = call.broker.policies, call.path_text("tenant")
    if not _NAMED.fullmatch(name):
        raise RestError(412, "Tenant name is not valid")
    tenant = _read(call)
    if name in policies.tenants:
        raise RestError(409, "Tenant already exist")
    limit = policies.settings.maxTenants
    if 0 < limit <= len(policies.tenants):
        raise RestError(412, "Exceed the maximum number of tenants")
    policies.tenants[name] = tenant


def _update(call: Call) -> None:
    tenant, name = _read(call), call.path_text("tenant")
    if name not in call.broker.policies.tenants:
        raise RestError(404, f"Tenant {name} not found")
    call.broker.policies.tenants[name] = tenant


def _delete(call: Call) -> None:
    policies, name = call.broker.policies, call.path_text("tenant")
    if name not in policies.tenants:
        raise RestError(404, "Tenant doesn't exist")
    if call.flag("force") and not policies.settings.forceDeleteTenantAllowed:
        raise RestError(405, "Broker doesn't allow forced deletion of tenants")
    inside = [namespace for namespace in policies.namespaces if namespace.startswith(f"{name}/")]
    if inside and not call.flag("force"):
        raise RestError(409, "The tenant still has active namespaces")
    for namespace in inside:
        delete_namespace(call.broker, namespace)
    del policies.tenants[name]


def _clusters(call: Call) -> Any:
    return sorted(call.broker.policies.clusters)


def _cluster(call: Call) -> dict[str, Any]:
    name = call.path_text("cluster")
    cluster = call.broker.policies.clusters.get(name)
    if cluster is None:
        raise RestError(404, "Cluster does not exist")
    if name == call.broker.settings.clusterName:
        broker = call.broker
        urls = {
            "serviceUrl": broker.http_url,
            "serviceUrlTls": broker.http_url_tls,
            "brokerServiceUrl": broker.service_url,
            "brokerServiceUrlTls": broker.service_url_tls,
        }
        return {**{key: url for key, url in urls.items() if url}, **cluster}
    return {**_DEFAULTS, **cluster}


def _add_cluster(call: Call) -> Reply:
    name = call.path_text("cluster")
    if not _NAMED.fullmatch(name) or not isinstance(call.body, dict):
        raise RestError(412, "Cluster name or data is not valid")
    if name in call.broker.policies.clusters:
        raise RestError(409, "Cluster already exists")
    _check_urls(call.body)
    call.broker.policies.clusters[name] = call.body
    return Reply(200)


def _check_urls(cluster: dict[str, Any]) -> None:
    """Raise 400 if a URL has the wrong scheme or is not a URL (ClusterDataImpl.checkPropertiesIfPresent)."""
    for name, (scheme, what, example) in _URLS.items():
        url = cluster.get(name)
        if url and not re.fullmatch(rf"{re.escape(scheme)}://\S+", str(url)):
            raise RestError(400, f"Illegal {what} url, example: {example}")


def _update_cluster(call: Call) -> Reply:
    _cluster(call)
    if not isinstance(call.body, dict):
        raise RestError(412, "Cluster data is not valid")
    _check_urls(call.body)
    call.broker.policies.clusters[call.path_text("cluster")] = call.body
    return Reply(200)


def _delete_cluster(call: Call) -> None:
    _cluster(call)
    if call.path_text("cluster") == call.broker.settings.clusterName:
        raise RestError(412, "Cluster not empty")
    del call.broker.policies.clusters[call.path_text("cluster")]


ENDPOINTS: Final = (
    Endpoint("GET", "/admin/v2/tenants", _tenants, "names of the tenants"),
    Endpoint("GET", _TENANT, _get, "the configuration of a tenant"),
    Endpoint("PUT", _TENANT, _create, "create a tenant"),
    Endpoint("POST", _TENANT, _update, "change a tenant"),
    Endpoint("DELETE", _TENANT, _delete, "delete a tenant"),
    Endpoint("GET", "/admin/v2/clusters", _clusters, "names of the clusters"),
    Endpoint("GET", _CLUSTER, _cluster, "the configuration of a cluster"),
    Endpoint("PUT", _CLUSTER, _add_cluster, "store a cluster"),
    Endpoint("POST", _CLUSTER, _update_cluster, "change a stored cluster"),
    Endpoint("DELETE", _CLUSTER, _delete_cluster, "remove a stored cluster"),
)
