"""Tenants, namespaces, partitioned topics and the policies of namespaces and topics.

Rules of this file
1. What holds for a topic is what its own policy says, else its namespace's, else the setting (`effective`). Partitions
   have the policies of their topic.
2. A namespace is cut into bundles by the CRC32 of the full topic name; they matter only to lookups.
3. A standalone starts with its cluster, the tenants public and pulsar, the namespaces public/default, pulsar/system.

Errors: LocalError for a policy's value; whether a name exists is the caller's to ask first.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.policies.policy_table import BY_SETTING, NAMESPACE, TOPIC, Policy
from pcli.minibroker.settings import Settings

__all__ = ["Namespace", "Policies", "Tenant"]

_HASHES: Final = 1 << 32


@dataclass(slots=True)
class Tenant:
    """A tenant. Its lists are kept and given back; who may do what is no matter here."""

    roles: list[str] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Namespace:
    """A namespace and its policies."""

    name: str
    """``tenant/namespace``."""
    bundles: int = 4
    clusters: list[str] = field(default_factory=list)
    policies: dict[str, Any] = field(default_factory=dict)
    """By the policy's name below a namespace; values as `Policy.read` gives them."""
    quotas: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Backlog quotas by type."""
    permissions: dict[str, list[str]] = field(default_factory=dict)
    """What each role may do."""
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def boundaries(self) -> list[str]:
        """Where its bundles begin, and where the last one ends."""
        size = _HASHES // self.bundles
        return [f"0x{size * index:08x}" for index in range(self.bundles)] + ["0xffffffff"]

    def bundle(self, topic: str) -> str:
        """The bundle of a topic's full name: ``0x00000000_0x40000000``."""
        edges = self.boundaries
        index = min(zlib.crc32(topic.encode()) // (_HASHES // self.bundles), self.bundles - 1)
        return f"{edges[index]}_{edges[index + 1]}"


class Policies:
    """All that REST sets but the settings themselves."""

    def __init__(self, settings: Settings, on_change: Callable[[str], None] | None = None) -> None:
        self.settings = settings
        self.on_change = on_change or (lambda _: None)
        """Told the namespace or the (base) topic whose policies have changed."""
        self.clusters: dict[str, dict[str, Any]] = {settings.clusterName: {}}
        self.tenants: dict[str, Tenant] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.partitioned: dict[str, int] = {}
        """Full name of a partitioned topic -> how many partitions."""
        self.topics: dict[str, dict[str, Any]] = {}
        """Full name without partition -> policy's name below a topic -> value."""
        self.quotas: dict[str, dict[str, dict[str, Any]]] = {}
        """The same for backlog quotas, by type."""
        self.properties: dict[str, dict[str, str]] = {}
        """Properties of topics."""
        self.dynamic: dict[str, str] = {}
        """Settings that REST has changed, as text."""
        for name in ("public/default", "pulsar/system"):
            self.add_tenant(name.partition("/")[0])
            self.add_namespace(name)

    def add_tenant(self, name: str) -> Tenant:
        """A new tenant on the cluster."""
        self.tenants[name] = Tenant(clusters=[self.settings.clusterName])
        return self.tenants[name]

    def add_namespace(self, name: str) -> Namespace:
        """A new namespace with no policies."""
        bundles = self.settings.defaultNumberOfNamespaceBundles
        self.namespaces[name] = Namespace(name, max(1, bundles), [self.settings.clusterName])
        return self.namespaces[name]

    def namespace_of(self, topic: TopicName) -> Namespace | None:
        """The namespace of a topic, None if there is none."""
        return self.namespaces.get(f"{topic.tenant}/{topic.namespace}")

    def effective(self, topic: TopicName, setting: str) -> Any:
        """The value of a setting for a topic."""
        row = BY_SETTING.get(setting)
        default = getattr(self.settings, setting)
        if row is None:
            return default
        policy, key = row
        values = [_part(value, key) for value in self._levels(topic, policy)]
        if policy.either:
            return default or any(values)
        return next((value for value in values if value is not None), default)

    def policy(self, topic: TopicName, name: str) -> Any:
        """A policy for a topic, by its name below a topic: its own, its namespace's, or what the settings amount to.

        None where no setting stands behind it.
        """
        policy = TOPIC[name]
        found = next((value for value in self._levels(topic, policy) if value is not None), None)
        if found is not None or not policy.settings:
            return found
        if not policy.settings[0][1]:
            return self.effective(topic, policy.settings[0][0])
        default = {key: getattr(self.settings, setting) for setting, key in policy.settings}
        return policy.read(name, {"ratePeriodInSecond": 1, **default})

    def _levels(self, topic: TopicName, policy: Policy) -> list[Any]:
        """The policy's value at the topic and at its namespace, None where it is not set."""
        values = []
        if policy.topic and self.topics:
            values.append(self.topics.get(str(topic.base), {}).get(policy.topic))
        namespace = self.namespace_of(topic)
        if namespace is not None and policy.name:
            value = namespace.policies.get(policy.name)
            # An empty list of types and an undefined strategy are how REST says: as the broker.
            values.append(None if value in ([], "UNDEFINED") else value)
        return values

    def set_namespace(self, name: str, policy: str, body: Any) -> None:
        """Set a policy of a namespace by its name there; LocalError (BadValueError) for a value that makes no sense."""
        self.namespaces[name].policies[policy] = NAMESPACE[policy].read(policy, body)
        self.on_change(name)

    def unset_namespace(self, name: str, policy: str) -> None:
        """Remove it."""
        self.namespaces[name].policies.pop(policy, None)
        self.on_change(name)

    def set_topic(self, topic: TopicName, policy: str, body: Any) -> None:
        """Set a policy of a topic by its name there; LocalError (BadValueError) for a value that makes no sense."""
        base = str(topic.base)
        self.topics.setdefault(base, {})[policy] = TOPIC[policy].read(policy, body)
        self.on_change(base)

    def unset_topic(self, topic: TopicName, policy: str) -> None:
        """Remove it."""
        base = str(topic.base)
        values = self.topics.get(base, {})
        values.pop(policy, None)
        if not values:
            self.topics.pop(base, None)
        self.on_change(base)

    def forget(self, topic: TopicName) -> None:
        """A topic is gone for good, or the last partition of one: its policies, properties and quotas go too."""
        base = str(topic.base)
        for table in (self.topics, self.quotas, self.properties):
            table.pop(base, None)


def _part(value: Any, key: str) -> Any:
    return value.get(key) if key and value is not None else value
