"""Clusters (ClustersBase). The broker belongs to one cluster. Other clusters are only stored and returned."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from pcli.minibroker.admin.body_types import CLUSTER, CLUSTER_NAMES, CLUSTER_URLS, FAILURE_DOMAIN, ISOLATION_POLICY
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError, unexpected
from pcli.minibroker.policies.policy_store import Cluster

_NAMED: Final = re.compile(r"[-=:.\w]+", re.ASCII)
_CLUSTER: Final = "/admin/v2/clusters/{cluster}"
_DOMAINS: Final = f"{_CLUSTER}/failureDomains"
_POLICIES: Final = f"{_CLUSTER}/namespaceIsolationPolicies"
_PROXIES: Final = "pulsar+ssl://ats-proxy.example.com:4443 or pulsar://ats-proxy.example.com:4080"
_URLS: Final = {
    "serviceUrl": ("http", "service", "http://pulsar.example.com:8080"),
    "serviceUrlTls": ("https", "service tls", "https://pulsar.example.com:8443"),
    "brokerServiceUrl": ("pulsar", "broker service", "pulsar://pulsar.example.com:6650"),
    "brokerServiceUrlTls": (r"pulsar\+ssl", "broker service tls", "pulsar+ssl://pulsar.example.com:6651"),
    "proxyServiceUrl": (r"pulsar(\+ssl)?", "proxy service", _PROXIES),
}
"""For each URL of a cluster: a pattern of its scheme, and its name and an example, which error texts contain."""


_CLIENT_TLS: Final = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
}
"""Values of the broker's own cluster before it is changed (ClusterDataImpl)."""


def _cluster(call: Call, status: int = 404, reason: str = "Cluster does not exist") -> Cluster:
    cluster = call.broker.policies.clusters.get(call.path_text("cluster"))
    if cluster is None:
        raise RestError(status, reason.format(call.path_text("cluster")))
    return cluster


def _data(call: Call) -> Any:
    cluster = _cluster(call)
    if call.path_text("cluster") != call.broker.settings.clusterName:
        return cluster.data
    broker = call.broker
    urls = {
        "serviceUrl": broker.http_url,
        "serviceUrlTls": broker.http_url_tls,
        "brokerServiceUrl": broker.service_url,
        "brokerServiceUrlTls": broker.service_url_tls,
    }
    return {
        **{key: url for key, url in urls.items() if url},
        **(cluster.data or _CLIENT_TLS | broker.version.cluster_fields),
    }


def _check_urls(cluster: dict[str, Any]) -> None:
    """Raise 400 if a URL has the wrong scheme or is not a URL (ClusterDataImpl.checkPropertiesIfPresent)."""
    for name, (scheme, what, example) in _URLS.items():
        url = cluster.get(name)
        if url and not re.fullmatch(rf"{scheme}://\S+", url):
            raise RestError(400, f"Illegal {what} url, example: {example}")


def _add(call: Call) -> Reply:
    name = call.path_text("cluster")
    if call.body is None:
        raise RestError(400, "cluster data is required")
    if not _NAMED.fullmatch(name):
        raise RestError(412, "Cluster name is not valid")
    _check_urls(call.body)
    if name in call.broker.policies.clusters:
        raise RestError(409, "Cluster already exists")
    call.broker.policies.clusters[name] = Cluster(call.body)
    return Reply(200)


def _update(call: Call) -> Reply:
    if call.body is None:
        method = "org.apache.pulsar.common.policies.data.ClusterDataImpl.checkPropertiesIfPresent()"
        raise unexpected(f'Cannot invoke "{method}" because "clusterData" is null')
    _check_urls(call.body)
    _cluster(call).data = call.body
    return Reply(200)


def _delete(call: Call) -> None:
    _cluster(call)
    if call.path_text("cluster") == call.broker.settings.clusterName:
        raise RestError(412, "Cluster not empty")
    del call.broker.policies.clusters[call.path_text("cluster")]


def _peers(call: Call) -> Reply:
    return Reply(200, _cluster(call).data.get("peerClusterNames"))


def _set_peers(call: Call) -> None:
    name, clusters = call.path_text("cluster"), call.broker.policies.clusters
    for peer in call.body or ():
        if peer is None:
            raise unexpected("null")
        if peer == name:
            raise RestError(412, f"{name} itself can't be part of peer-list")
        if peer not in clusters:
            raise RestError(412, f"Peer cluster {peer} does not exist")
    cluster = _cluster(call)
    data = {key: value for key, value in cluster.data.items() if key != "peerClusterNames"}
    cluster.data = data if call.body is None else {**data, "peerClusterNames": call.body}


def _migration(call: Call) -> Any:
    found = call.broker.policies.migrations.get(call.path_text("cluster"))
    if found is None:
        raise RestError(404, "Cluster does not exist")
    return found


def _set_migration(call: Call) -> Reply:
    urls = {} if call.body is None else {"migratedClusterUrl": {**call.body, "empty": False}}
    call.broker.policies.migrations[call.path_text("cluster")] = {"migrated": call.flag("migrated"), **urls}
    return Reply(200)


# -- failure domains ---------------------------------------------------------------------------------------------------

_PRECONDITION: Final = "Cluster {} does not exist."


def _domains(call: Call) -> Any:
    cluster = call.broker.policies.clusters.get(call.path_text("cluster"))
    return cluster.domains if cluster is not None else {}


def _domain(call: Call) -> Any:
    found = _cluster(call, 412, _PRECONDITION).domains.get(call.path_text("domain_name"))
    if found is None:
        name, cluster = call.path_text("domain_name"), call.path_text("cluster")
        raise RestError(404, f"Domain {name} for cluster {cluster} does not exist")
    return found


def _set_domain(call: Call) -> None:
    domains = _cluster(call, 412, _PRECONDITION).domains
    name = call.path_text("domain_name")
    for other, domain in domains.items():
        taken = [broker for broker in (call.body or {}).get("brokers", ()) if broker in domain.get("brokers", ())]
        if other != name and taken:
            raise RestError(409, f"[{', '.join(taken)}] already exists in {other}")
    if call.body is None:
        domains.pop(name, None)
    else:
        domains[name] = call.body


def _remove_domain(call: Call) -> Reply:
    domains = _cluster(call, 412, _PRECONDITION).domains
    name = call.path_text("domain_name")
    if domains.pop(name, None) is None:
        raise RestError(404, f"Domain-name {name} or cluster {call.path_text('cluster')} does not exist")
    return Reply(200)


# -- isolation policies ------------------------------------------------------------------------------------------------


def _isolation(call: Call, status: int = 412) -> dict[str, Any]:
    """Return the isolation policies by name. Raises 404 if none was ever set."""
    found = _cluster(call, status, _PRECONDITION).isolation
    if found is None:
        raise RestError(404, f"NamespaceIsolationPolicies for cluster {call.path_text('cluster')} does not exist")
    return found


def _isolation_policy(call: Call) -> Any:
    found = _isolation(call).get(call.path_text("policy"))
    if found is None:
        name, cluster = call.path_text("policy"), call.path_text("cluster")
        raise RestError(404, f"Cannot find NamespaceIsolationPolicy {name} for cluster {cluster}")
    return found


def _set_isolation(call: Call) -> None:
    cluster, name, data = _cluster(call, 412, _PRECONDITION), call.path_text("policy"), call.body
    if data is None:
        method = "org.apache.pulsar.common.policies.data.NamespaceIsolationDataImpl.validate()"
        raise unexpected(f'Cannot invoke "{method}" because "policyData" is null')
    if not _valid_isolation(data):
        shown = json.dumps(_with_nulls(data), indent=2).replace('": ', '" : ')
        shown = re.sub(r"\[\s*([^\[\]]*?)\s*\]", lambda part: _on_one_line(part[1]), shown)
        raise RestError(400, f"Invalid format of input policy data. policy: {name}; data: {shown}")
    cluster.isolation = {**(cluster.isolation or {}), name: data}


def _with_nulls(data: dict[str, Any]) -> dict[str, Any]:
    failover = data.get("auto_failover_policy")
    if failover is not None:
        failover = {"parameters": failover.get("parameters"), "policy_type": failover.get("policy_type")}
    lists = {name: data.get(name) for name in ("namespaces", "primary", "secondary")}
    return {**lists, "auto_failover_policy": failover, "unload_scope": data.get("unload_scope")}


def _on_one_line(words: str) -> str:
    return f"[ {', '.join(words.split())} ]".replace(",,", ",") if words else "[ ]"


def _valid_isolation(data: dict[str, Any]) -> bool:
    """Return whether a policy is complete (NamespaceIsolationDataImpl.validate, AutoFailoverPolicyFactory)."""
    parameters = (data.get("auto_failover_policy") or {}).get("parameters") or {}
    numbers = [parameters.get(name) for name in ("min_limit", "usage_threshold")]
    return (
        all(data.get(name) for name in ("namespaces", "primary"))
        and data.get("secondary") is not None
        and (data.get("auto_failover_policy") or {}).get("policy_type") is not None
        and all(re.fullmatch(r"-?[0-9]{1,9}", number or "") for number in numbers)
    )


def _remove_isolation(call: Call) -> None:
    cluster, name = _cluster(call, 412, _PRECONDITION), call.path_text("policy")
    policies = cluster.isolation or {}
    cluster.isolation = {key: policy for key, policy in policies.items() if key != name}


def _isolated_brokers(call: Call) -> Any:
    return [_isolated_broker(call)]


def _isolated_broker(call: Call) -> Any:
    """Return the last policy that matches a broker, and the namespaces of all such policies."""
    broker = call.path_text("broker") if "broker" in call.path else call.broker.address
    found: dict[str, Any] = {"brokerName": broker, "namespaceRegex": [], "primary": False}
    for name, data in _isolation(call).items():
        primary, secondary = (any(map(_pattern(broker), data.get(key) or ())) for key in ("primary", "secondary"))
        if primary or secondary:
            namespaces = [*found["namespaceRegex"], *data["namespaces"]]
            found |= {"policyName": name, "namespaceRegex": namespaces, "primary": primary}
    return found


def _pattern(text: str) -> Callable[[str], bool]:
    """Return a function that returns whether a pattern matches a text; an invalid pattern matches nothing."""

    def matches(pattern: str) -> bool:
        try:
            return re.fullmatch(pattern, text) is not None
        except re.error:
            return False

    return matches


ENDPOINTS: Final = (
    Endpoint("GET", "/admin/v2/clusters", lambda call: sorted(call.broker.policies.clusters), "names of the clusters"),
    Endpoint("GET", _CLUSTER, _data, "the configuration of a cluster"),
    Endpoint("PUT", _CLUSTER, _add, "store a cluster", CLUSTER),
    Endpoint("POST", _CLUSTER, _update, "change a stored cluster", CLUSTER),
    Endpoint("DELETE", _CLUSTER, _delete, "remove a stored cluster"),
    Endpoint("GET", f"{_CLUSTER}/peers", _peers, "peer clusters"),
    Endpoint("POST", f"{_CLUSTER}/peers", _set_peers, "set the peer clusters", CLUSTER_NAMES),
    Endpoint("GET", f"{_CLUSTER}/migrate", _migration, "the migration of a cluster (stored only)"),
    Endpoint("POST", f"{_CLUSTER}/migrate", _set_migration, "set the migration (stored only)", CLUSTER_URLS),
    Endpoint("GET", _DOMAINS, _domains, "failure domains (stored only)"),
    Endpoint("GET", f"{_DOMAINS}/{{domain_name}}", _domain, "a failure domain (stored only)"),
    Endpoint("POST", f"{_DOMAINS}/{{domain_name}}", _set_domain, "set a failure domain", FAILURE_DOMAIN),
    Endpoint("DELETE", f"{_DOMAINS}/{{domain_name}}", _remove_domain, "remove a failure domain"),
    Endpoint("GET", _POLICIES, lambda call: _isolation(call, 404), "isolation policies (stored only)"),
    Endpoint("GET", f"{_POLICIES}/brokers", _isolated_brokers, "the brokers of the isolation policies"),
    Endpoint("GET", f"{_POLICIES}/brokers/{{broker}}", _isolated_broker, "the isolation policy of a broker"),
    Endpoint("GET", f"{_POLICIES}/{{policy}}", _isolation_policy, "an isolation policy (stored only)"),
    Endpoint("POST", f"{_POLICIES}/{{policy}}", _set_isolation, "set an isolation policy", ISOLATION_POLICY),
    Endpoint("DELETE", f"{_POLICIES}/{{policy}}", _remove_isolation, "remove an isolation policy"),
)
