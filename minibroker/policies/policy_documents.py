"""The documents of all values that the REST API can set.

Rules of this file
1. Each cluster, tenant, namespace and topic has a document. A topic's document contains its policies and other values,
   and the number of its partitions. The remaining values of the broker are in one document.
2. REST endpoints change objects of `Policies` directly. After each request, `changed_by_request` records the namespace
   and the topic in its path, so that endpoints need not do this. A document is written only if its value has changed.
3. Each field is stored; a test compares the documents with the fields of the classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import decoding
from pcli.minibroker.policies.policy_store import Cluster, Namespace, Policies, Tenant, TopicValues
from pcli.minibroker.topic_names import document_path, topic_of_path

ADMIN: Final = "/admin/"
"""Start of the paths of all these documents."""
_CLUSTERS: Final = f"{ADMIN}clusters/"
_POLICIES: Final = f"{ADMIN}policies/"
_TOPICS: Final = f"{ADMIN}topics/"
_CONFIGURATION: Final = f"{ADMIN}configuration"

_Json = dict[str, Any]


class PolicyDocuments:
    """The documents of all policies (class Documented)."""

    def __init__(self, policies: Policies, record: Callable[[], None]) -> None:
        """``record`` records that documents of this object have changed."""
        self._policies = policies
        self._record = record
        self._topics: set[str] = set()
        """Full names of topics whose values can have changed."""
        self._spaces: set[str] = set()
        """Namespaces whose values can have changed."""
        self._by_request = False
        """Whether tenants, clusters and other values can have changed."""
        self._written: dict[str, str] = {}
        """The stored documents by path, except those of topics, as JSON text."""
        self._stored_topics: set[str] = set()
        """Full names of the topics with a stored document."""

    # -- changes -------------------------------------------------------------------------------------------------------

    def changed(self, name: str) -> None:
        """Record that values of a namespace (``tenant/namespace``) or a topic (full name) have changed."""
        (self._topics if "://" in name else self._spaces).add(name)
        self._record()

    def changed_by_request(self, space: str, topic: TopicName | None) -> None:
        """Record that a request can have changed a namespace, a topic, and all values that belong to neither.

        ``space`` is empty and ``topic`` is None if the request has none.
        """
        self._by_request = True
        self._spaces.add(space)
        if topic is not None:
            count = self._policies.partitioned.get(str(topic), 0)
            names = [topic, topic.base, *map(topic.with_partition, range(count))]
            self._topics.update(str(name) for name in names if name.domain in ("persistent", "non-persistent"))
        self._record()

    # -- documents -----------------------------------------------------------------------------------------------------

    def changed_documents(self) -> Iterator[tuple[str, Any]]:
        """Return the documents that have changed, as defined in Documented."""
        topics, self._topics = self._topics, set()
        spaces, self._spaces = self._spaces, set()
        by_request, self._by_request = self._by_request, False
        for name in sorted(topics):
            yield from self._topic(name)
        if spaces or by_request:
            yield from self._others(spaces)

    def _topic(self, name: str) -> Iterator[tuple[str, Any]]:
        value, path = encode_topic(self._policies, name), _TOPICS + document_path(TopicName.parse(name))
        if value:
            self._stored_topics.add(name)
            yield path, value
        elif name in self._stored_topics:
            self._stored_topics.discard(name)
            yield path, None

    def _others(self, spaces: set[str]) -> Iterator[tuple[str, Any]]:
        """Return the documents that differ from the stored ones. Of the namespaces, only the given ones are encoded."""
        policies = self._policies
        values: dict[str, Callable[[], _Json]] = {_CONFIGURATION: partial(encode_configuration, policies)}
        for name, cluster in policies.clusters.items():
            values[_CLUSTERS + quote(name, safe="")] = partial(encode_cluster, cluster)
        for name, tenant in policies.tenants.items():
            values[_POLICIES + name] = partial(encode_tenant, tenant)
        for name, space in policies.namespaces.items():
            if name in spaces or _POLICIES + name not in self._written:
                values[_POLICIES + name] = partial(encode_namespace, space)
        for path in list(self._written):
            if path not in values and path.removeprefix(_POLICIES) not in policies.namespaces:
                del self._written[path]
                yield path, None
        for path, encode in values.items():
            value = encode()
            text = json.dumps(value)
            if self._written.get(path) != text:
                self._written[path] = text
                yield path, value

    # -- restoration ---------------------------------------------------------------------------------------------------

    def restore(self, documents: Iterable[tuple[str, Any]]) -> None:
        """Replace all values by those in the stored documents. If there are none, store the values of a new broker."""
        policies, found = self._policies, list(documents)
        if not found:
            self._topics.update(policies.partitioned)
            self._by_request = True
            self._record()
            return
        policies.clusters = {policies.settings.clusterName: Cluster()}
        policies.tenants, policies.namespaces = {}, {}
        for path, value in found:
            with decoding(path):
                self._restore(path, value)

    def _restore(self, path: str, value: _Json) -> None:
        policies = self._policies
        if path.startswith(_TOPICS):
            name = str(topic_of_path(path.removeprefix(_TOPICS)))
            restore_topic(policies, name, value)
            self._stored_topics.add(name)
            return
        self._written[path] = json.dumps(value)
        if path == _CONFIGURATION:
            restore_configuration(policies, value)
        elif path.startswith(_CLUSTERS):
            policies.clusters[unquote(path.removeprefix(_CLUSTERS))] = Cluster(**value)
        elif "/" in path.removeprefix(_POLICIES):
            restore_namespace(policies, path.removeprefix(_POLICIES), value)
        else:
            policies.tenants[path.removeprefix(_POLICIES)] = Tenant(**value)


# -- values ------------------------------------------------------------------------------------------------------------


def encode_cluster(cluster: Cluster) -> _Json:
    """Return the document of a cluster."""
    return {"data": cluster.data, "domains": cluster.domains, "isolation": cluster.isolation}


def encode_tenant(tenant: Tenant) -> _Json:
    """Return the document of a tenant."""
    return {"roles": tenant.roles, "clusters": tenant.clusters}


_SPACE: Final = (
    "edges",
    "clusters",
    "allowed_clusters",
    "policies",
    "quotas",
    "permissions",
    "subscription_permissions",
    "properties",
    "anti_affinity",
    "resource_group",
    "stored",
)


def encode_namespace(space: Namespace) -> _Json:
    """Return the document of a namespace."""
    return {name: getattr(space, name) for name in _SPACE}


def restore_namespace(policies: Policies, name: str, value: _Json) -> None:
    """Add a namespace."""
    space = policies.namespaces[name] = Namespace(name)
    for key in _SPACE:
        setattr(space, key, value[key])


_CONFIGURATIONS: Final = ("migrations", "bookie_racks", "resource_groups", "resource_quotas", "dynamic")


def encode_configuration(policies: Policies) -> _Json:
    """Return the document of the values that belong to no cluster, tenant, namespace or topic."""
    return {name: getattr(policies, name) for name in _CONFIGURATIONS}


def restore_configuration(policies: Policies, value: _Json) -> None:
    """Restore the values that belong to no cluster, tenant, namespace or topic."""
    for name in _CONFIGURATIONS:
        setattr(policies, name, value[name])


_TOPIC: Final = ("partitioned", "topics", "quotas", "properties", "topic_permissions")
"""The fields of `Policies` that contain values by full topic name."""
_VALUES: Final = ("clusters", "dispatch_rates", "offload", "offload_requested", "shadow_topics")


def encode_topic(policies: Policies, name: str) -> _Json:
    """Return the document of a topic (full name); it is empty if the topic has no values."""
    value = {key: getattr(policies, key)[name] for key in _TOPIC if name in getattr(policies, key)}
    values = policies.topic_values.get(name)
    if values is not None and values != TopicValues():
        value["values"] = {key: getattr(values, key) for key in _VALUES}
    return value


def restore_topic(policies: Policies, name: str, value: _Json) -> None:
    """Restore the values of a topic (full name)."""
    for key in _TOPIC:
        if key in value:
            getattr(policies, key)[name] = value[key]
    if "values" in value:
        policies.topic_values[name] = TopicValues(**value["values"])
