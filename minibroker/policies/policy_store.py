"""Policies: tenants, namespaces, partitioned topics, and the policies of namespaces and topics.

Rules of this file
1. The effective value for a topic is its own policy, or else the namespace's policy, or else the setting (`effective`).
   Partitions have the policies of their topic.
2. A namespace is divided into bundles by the CRC32 of the full topic name. Only lookups use bundles.
3. A standalone broker starts with its cluster, the tenants public and pulsar, and the namespaces public/default and
   pulsar/system.

An invalid value of a policy raises LocalError. The caller must check that names exist.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import Refused
from pcli.minibroker.policies.backlog_quotas import default_quota
from pcli.minibroker.policies.policy_table import BY_SETTING, NAMESPACE, TOPIC, Policy
from pcli.minibroker.settings import Settings

_HASHES: Final = 1 << 32
_SUBSTITUTES: Final = {
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": "brokerDeleteInactiveTopicsFrequencySeconds"
}
"""The setting that applies if another one is 0."""
_STRATEGIES: Final[dict[str | None, str]] = {
    "AutoUpdateDisabled": "ALWAYS_INCOMPATIBLE",
    "Backward": "BACKWARD",
    "Forward": "FORWARD",
    "Full": "FULL",
    "AlwaysCompatible": "ALWAYS_COMPATIBLE",
    "BackwardTransitive": "BACKWARD_TRANSITIVE",
    "ForwardTransitive": "FORWARD_TRANSITIVE",
    "FullTransitive": "FULL_TRANSITIVE",
}
"""The strategy of schemas for a value of the older policy schemaAutoUpdateCompatibilityStrategy."""
_RATE_PERIOD: Final = {"ratePeriodInSecond": 1}
"""The period of a rate that comes from the settings."""


@dataclass(slots=True)
class Tenant:
    """A tenant: the roles of its administrators and the clusters that it may use."""

    roles: list[str] | None = field(default_factory=list)
    """The administrators; None if the tenant was created without a list."""
    clusters: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Cluster:
    """A cluster. A lookup of a namespace that only a peer cluster serves is redirected to this cluster."""

    data: dict[str, Any] = field(default_factory=dict)
    """The configuration, without null values."""
    domains: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Failure domains."""
    isolation: dict[str, dict[str, Any]] | None = None
    """Isolation policies; None if none was ever set."""


@dataclass(slots=True)
class Namespace:
    """A namespace and its policies."""

    name: str
    """``tenant/namespace``."""
    bundles: InitVar[int] = 4
    """The number of equal bundles at the creation."""
    clusters: list[str] = field(default_factory=list)
    allowed_clusters: list[str] = field(default_factory=list)
    policies: dict[str, Any] = field(default_factory=dict)
    """Values returned by `Policy.read`, by the policy's name for namespaces."""
    quotas: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Backlog quotas by type."""
    permissions: dict[str, list[str | None]] = field(default_factory=dict)
    """The allowed actions by role. An unknown action is None, as on the real broker."""
    subscription_permissions: dict[str, list[str]] = field(default_factory=dict)
    """The roles that may use a subscription, by the subscription's name."""
    properties: dict[str, str] = field(default_factory=dict)
    anti_affinity: str = ""
    """The anti-affinity group."""
    resource_group: str = ""
    stored: dict[str, Any] = field(default_factory=dict)
    """Values in the policies of the namespace that have no effect and no request of their own."""
    edges: list[int] = field(init=False)
    """The first hash of each bundle, and the end of the last bundle."""

    def __post_init__(self, bundles: int) -> None:
        self.divide(bundles)

    def divide(self, bundles: int) -> None:
        """Divide the hash range into equal bundles."""
        self.edges = [_HASHES // bundles * index for index in range(bundles)] + [_HASHES - 1]

    @property
    def boundaries(self) -> list[str]:
        """The edges as text, for example ``0x40000000``."""
        return [f"0x{edge:08x}" for edge in self.edges]

    def bundle(self, topic: str) -> str:
        """Return the bundle of a topic (full name), for example ``0x00000000_0x40000000``."""
        index = min(bisect_right(self.edges, zlib.crc32(topic.encode())), len(self.edges) - 1)
        return f"0x{self.edges[index - 1]:08x}_0x{self.edges[index]:08x}"


@dataclass(slots=True)
class TopicValues:
    """Values of a topic besides its policies."""

    clusters: list[str] | None = None
    """The clusters to which the topic is replicated. They have no effect."""
    dispatch_rates: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Dispatch rates by subscription."""
    offload: dict[str, Any] | None = None
    """Offload policies. They have no effect."""
    offload_requested: bool = False
    """Whether an offload was requested, which then failed."""
    shadow_topics: list[str] | None = None
    """The shadow topics."""


class Policies:
    """All values that the REST API can set."""

    def __init__(self, settings: Settings, on_change: Callable[[str], None] | None = None) -> None:
        self.settings = settings
        self.on_change = on_change or (lambda _: None)
        """A function that is called with the name of the namespace or base topic whose policies have changed."""
        self.on_partitions_change: Callable[[str], None] = lambda _: None
        """A function that is called with the full name of a topic whose number of partitions has changed."""
        self.clusters = {settings.clusterName: Cluster()}
        self.migrations: dict[str, dict[str, Any]] = {}
        """The migrations of clusters, which can be unknown. They have no effect."""
        self.tenants: dict[str, Tenant] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.partitioned: dict[str, int] = {}
        """The number of partitions of each partitioned topic, by full topic name."""
        self.topics: dict[str, dict[str, Any]] = {}
        """The policies of each topic (values by policy name), by full topic name without partition."""
        self.quotas: dict[str, dict[str, dict[str, Any]]] = {}
        """The backlog quotas of each topic, by type."""
        self.default_quota = default_quota(settings)
        """The backlog quota of topics and namespaces without their own one."""
        self.bookie_racks: dict[str, dict[str, dict[str, Any]]] = {}
        """The racks of bookies by group and bookie. They have no effect."""
        self.topic_values: dict[str, TopicValues] = {}
        """Values of topics, by full topic name without partition."""
        self.resource_groups: dict[str, dict[str, Any]] = {}
        self.resource_quotas: dict[str, dict[str, Any]] = {}
        """Resource quotas by bundle; the name of the default is empty."""
        self.properties: dict[str, dict[str, str]] = {}
        """Properties of topics."""
        self.topic_permissions: dict[str, dict[str, list[str | None]]] = {}
        """The allowed actions on a topic or partition, by full topic name and role."""
        self.dynamic: dict[str, str] = {}
        """Settings that the REST API has changed, as text."""
        for name in ("public/default", "pulsar/system"):
            self.add_tenant(name.partition("/")[0])
            self.add_namespace(name)

    def set_partitions(self, topic: str, count: int) -> None:
        """Store the number of partitions of a topic (full name); 0 removes a partitioned topic."""
        if count:
            self.partitioned[topic] = count
        else:
            del self.partitioned[topic]
        self.on_partitions_change(topic)

    def add_tenant(self, name: str) -> Tenant:
        """Add a tenant on the cluster."""
        self.tenants[name] = Tenant(clusters=[self.settings.clusterName])
        return self.tenants[name]

    def add_namespace(self, name: str) -> Namespace:
        """Add a namespace without policies."""
        settings = self.settings
        system = name == "pulsar/system" and "defaultNumberOfSystemNamespaceBundles" in settings.version.defaults
        bundles = settings.defaultNumberOfSystemNamespaceBundles if system else settings.defaultNumberOfNamespaceBundles
        self.namespaces[name] = Namespace(name, max(1, bundles), [self.settings.clusterName])
        return self.namespaces[name]

    def namespace_of(self, topic: TopicName) -> Namespace | None:
        """Return the namespace of a topic, or None."""
        return self.namespaces.get(f"{topic.tenant}/{topic.namespace}")

    def peer_of(self, namespace: Namespace) -> Cluster | None:
        """Return None if this cluster serves a namespace, or the peer cluster that serves it.

        Raises Refused (MetadataError) if neither does (PulsarWebResource.checkLocalOrGetPeerReplicationCluster).
        """
        local, listed = self.settings.clusterName, {*namespace.clusters, *namespace.allowed_clusters}
        if local in listed:
            return None
        for peer in self.clusters[local].data.get("peerClusterNames") or ():
            if peer in listed and peer in self.clusters:
                return self.clusters[peer]
        lists = f"local_cluster={local} ns={namespace.name} clusters=[{', '.join(sorted(namespace.clusters))}]"
        raise Refused(pb.MetadataError, f"Namespace missing local cluster name in clusters list: {lists}")

    def effective(self, topic: TopicName, setting: str) -> Any:
        """Return the value of a setting for a topic."""
        row = BY_SETTING.get(setting)
        default = self._default(setting)
        if row is None:
            return default
        policy, key = row
        values = [_part(value, key) for value in self._levels(topic, policy)]
        if policy.either:
            return default or any(values)
        return next((value for value in values if value is not None), default)

    def policy(self, topic: TopicName, name: str) -> Any:
        """Return a topic policy by its name for topics, from the topic, the namespace or else the settings.

        Returns None if no setting corresponds to the policy.
        """
        policy = TOPIC[name]
        found = next((value for value in self._levels(topic, policy) if value is not None), None)
        if found is not None:
            return found
        if not policy.settings:
            return policy.default
        if not policy.settings[0][1]:
            return self.effective(topic, policy.settings[0][0])
        default = {key: self._default(setting) for setting, key in policy.settings}
        return policy.read_topic({**_RATE_PERIOD, **default}, self.settings)

    def _default(self, setting: str) -> Any:
        value = getattr(self.settings, setting)
        return getattr(self.settings, _SUBSTITUTES[setting]) if value == 0 and setting in _SUBSTITUTES else value

    def backlog_quota(self, topic: TopicName, kind: str) -> dict[str, Any]:
        """Return the backlog quota of a type for a topic, from the topic, the namespace or else the settings."""
        namespace = self.namespace_of(topic)
        own = self.quotas.get(str(topic.base), {}).get(kind) if self.quotas else None
        return own or (namespace.quotas.get(kind) if namespace is not None else None) or self.default_quota

    def _levels(self, topic: TopicName, policy: Policy) -> list[Any]:
        """Return a policy's values for the topic and for its namespace. A value is None if it is not set."""
        values = []
        if policy.topic and self.topics:
            values.append(self.topics.get(str(topic.base), {}).get(policy.topic))
        namespace = self.namespace_of(topic)
        if namespace is not None and policy.name:
            value = namespace.policies.get(policy.name)
            # In REST, an empty list of types or the strategy UNDEFINED means the broker's value.
            values.append(None if value in ([], "UNDEFINED") else value)
            if policy.name == "schemaCompatibilityStrategy":
                values.append(_STRATEGIES.get(namespace.policies.get("schemaAutoUpdateCompatibilityStrategy")))
        return values

    def set_namespace(self, name: str, policy: str, body: Any) -> None:
        """Set a policy of a namespace by its name for namespaces.

        None removes it. Raises BadValueError for an invalid value.
        """
        value = NAMESPACE[policy].read(body, self.settings)
        _store(self.namespaces[name].policies, policy, value)
        self.on_change(name)

    def unset_namespace(self, name: str, policy: str) -> None:
        """Remove a policy of a namespace."""
        _store(self.namespaces[name].policies, policy, NAMESPACE[policy].removed)
        self.on_change(name)

    def set_topic(self, topic: TopicName, policy: str, body: Any) -> None:
        """Set a policy of a topic by its name for topics. None removes it. Raises BadValueError."""
        value = TOPIC[policy].read_topic(body, self.settings)
        if value in (None, "UNDEFINED"):
            if not TOPIC[policy].null_ignored:
                self.unset_topic(topic, policy)
            return
        base = str(topic.base)
        self.topics.setdefault(base, {})[policy] = value
        self.on_change(base)

    def unset_topic(self, topic: TopicName, policy: str) -> None:
        """Remove a policy of a topic."""
        base = str(topic.base)
        self.topics.setdefault(base, {}).pop(policy, None)
        self.on_change(base)

    def unset_all_of_topic(self, topic: TopicName) -> None:
        """Remove all policies and values of a topic."""
        base = str(topic.base)
        self.topics.pop(base, None)
        self.quotas.pop(base, None)
        self.topic_values.pop(base, None)
        self.on_change(base)

    def subscription_dispatch_rate(self, topic: TopicName, subscription: str) -> dict[str, Any]:
        """Return the dispatch rate of a subscription: its own one, or else the policy subscriptionDispatchRate."""
        values = self.topic_values.get(str(topic.base)) if self.topic_values else None
        own = values.dispatch_rates.get(subscription) if values is not None else None
        found: dict[str, Any] = own or self.policy(topic, "subscriptionDispatchRate")
        return found

    def values_of(self, topic: TopicName) -> TopicValues:
        """Return the values of a topic. The caller may change them."""
        return self.topic_values.setdefault(str(topic.base), TopicValues())

    def forget(self, topic: TopicName) -> None:
        """Remove policies, properties and quotas of a deleted topic."""
        self.unset_all_of_topic(topic)
        self.properties.pop(str(topic.base), None)
        self.topic_permissions.pop(str(topic), None)


def _store(values: dict[str, Any], name: str, value: Any) -> None:
    """Store a value; None removes it."""
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def _part(value: Any, key: str) -> Any:
    return value.get(key) if key and value is not None else value
