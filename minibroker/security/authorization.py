"""The permissions of roles (PulsarAuthorizationProvider).

Rules of this file
1. Superusers and the administrators of a tenant may do everything on the tenant's topics.
2. Any other role needs the action ``produce`` or ``consume`` on the namespace or on the topic. A permission of a
   partitioned topic applies to its partitions, and one of a scalable topic to its segments. Either action permits a
   lookup.
3. A subscription can be restricted to roles, and with the mode Prefix its name must begin with the role.
4. If a proxy forwards the principal of its client, both roles need the permission.
5. Requests over HTTP are operations. `_LOOKUPS`, `_CONSUMPTIONS` and the following tables list the operations that a
   permission permits; the other operations require an administrator of the tenant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.codec.scalable import scalable_topic
from pcli.minibroker.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.policies.policy_store import Policies

PRODUCE: Final = "produce"
CONSUME: Final = "consume"

_LOOKUPS: Final = frozenset(("LOOKUP", "GET_STATS", "GET_METADATA"))
"""Operations on topics that a permission to produce or to consume permits."""
_CONSUMPTIONS: Final = frozenset(
    (
        "CONSUME",
        "EXPIRE_MESSAGES",
        "GET_BACKLOG_SIZE",
        "GET_REPLICATED_SUBSCRIPTION_STATUS",
        "GET_SUBSCRIPTIONS",
        "PEEK_MESSAGES",
        "RESET_CURSOR",
        "SET_REPLICATED_SUBSCRIPTION_STATUS",
        "SKIP",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
    )
)
"""Operations on topics that a permission to consume permits."""
_NAMESPACE_ACTIONS: Final = {
    "CLEAR_BACKLOG": frozenset((CONSUME,)),
    "GET_BUNDLE": frozenset((CONSUME, PRODUCE)),
    "GET_TOPICS": frozenset((CONSUME, PRODUCE)),
    "PACKAGES": frozenset(("packages",)),
    "UNSUBSCRIBE": frozenset((CONSUME,)),
}
"""The actions on a namespace that permit an operation."""


def required_roles(role: str, original: str) -> tuple[str, ...]:
    """Return the roles that need a permission: the client's, and the original principal if a proxy gives one."""
    return (original, role) if original else (role,)


class AuthorizationService:
    """The permissions of all roles."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._settings = policies.settings

    def is_superuser(self, role: str) -> bool:
        """Return whether a role has all permissions."""
        return role in self._settings.superUserRoles

    def is_administrator(self, role: str, tenant: str) -> bool:
        """Return whether a role is a superuser or an administrator of a tenant."""
        entry = self._policies.tenants.get(tenant)
        return self.is_superuser(role) or (entry is not None and role in (entry.roles or ()))

    def check_original_principal(
        self, role: str, original: str, proxy_version: str = "", *, http: bool = False
    ) -> None:
        """Raise Refused if a client that is no proxy, or a proxy itself, gives an invalid original principal.

        Over HTTP, a client that is no proxy may give its own role (isValidOriginalPrincipal).
        """
        proxies = self._settings.proxyRoles
        if role in proxies:
            valid = bool(original) and original not in proxies
        else:
            valid = not original or (http and original == role)
        if not valid:
            raise Refused(pb.AuthorizationError, "Invalid roles.")
        if proxy_version and role not in proxies:
            text = "Must not set proxyVersion without connecting as a ProxyRole."
            raise Refused(pb.AuthorizationError, text)

    def may_produce(self, roles: Iterable[str], name: TopicName) -> bool:
        """Return whether all of these roles may publish to a topic."""
        return all(self.is_administrator(role, name.tenant) or self._permitted(role, name, PRODUCE) for role in roles)

    def may_consume(self, roles: Iterable[str], name: TopicName, subscription: str) -> bool:
        """Return whether all of these roles may use a subscription.

        Raises Refused if the subscription's name lacks the prefix that the namespace requires.
        """
        return all(
            self.is_administrator(role, name.tenant)
            or (self._may_use(role, name, subscription) and self._permitted(role, name, CONSUME))
            for role in roles
        )

    def may_look_up(self, roles: Iterable[str], name: TopicName) -> bool:
        """Return whether all of these roles may look up a topic."""
        return all(
            self.is_administrator(role, name.tenant)
            or self._permitted(role, name, PRODUCE)
            or self._permitted(role, name, CONSUME)
            for role in roles
        )

    def allow_topic_operation(self, role: str, name: TopicName, operation: str, subscription: str) -> bool:
        """Return whether a role may perform an operation (TopicOperation) on a topic. Raises Refused."""
        if operation in _LOOKUPS:
            return self.may_look_up((role,), name)
        if operation in ("PRODUCE", "MIGRATE_TO_SCALABLE"):
            return self.may_produce((role,), name)
        if operation in _CONSUMPTIONS:
            return self.may_consume((role,), name, subscription)
        return self.is_administrator(role, name.tenant)

    def allow_namespace_operation(self, role: str, namespace: str, operation: str) -> bool:
        """Return whether a role may perform an operation (NamespaceOperation) on a namespace."""
        if self.is_administrator(role, namespace.partition("/")[0]):
            return True
        policies = self._policies.namespaces.get(namespace)
        permitting = _NAMESPACE_ACTIONS.get(operation)
        if policies is None or permitting is None:
            return False
        return bool(permitting & self._actions(policies.permissions, role))

    def may_list_topics(self, roles: Iterable[str], namespace: str) -> bool:
        """Return whether all of these roles may list the topics of a namespace."""
        return all(self.allow_namespace_operation(role, namespace, "GET_TOPICS") for role in roles)

    def _permitted(self, role: str, name: TopicName, action: str) -> bool:
        namespace = self._policies.namespace_of(name)
        if namespace is None:
            return False
        of_topics, names = self._policies.topic_permissions, (str(name), str(name.base), scalable_topic(str(name)))
        tables = [namespace.permissions, *(of_topics.get(one, {}) for one in names)]
        return any(action in self._actions(table, role) for table in tables)

    def _actions(self, permissions: Mapping[str, list[str | None]], role: str) -> set[str | None]:
        """Return the actions of a role. A permitted role may contain a wildcard, if the setting allows it."""
        found = set(permissions.get(role, ()))
        if self._settings.authorizationAllowWildcardsMatching:
            for pattern, actions in permissions.items():
                if (pattern.endswith("*") and role.startswith(pattern[:-1])) or (
                    pattern.startswith("*") and role.endswith(pattern[1:])
                ):
                    found |= set(actions)
        return found

    def _may_use(self, role: str, name: TopicName, subscription: str) -> bool:
        namespace = self._policies.namespace_of(name)
        if namespace is None or not subscription:
            return True
        allowed = namespace.subscription_permissions.get(subscription)
        if allowed and role not in allowed:
            return False
        if namespace.policies.get("subscriptionAuthMode") == "Prefix" and not subscription.startswith(role):
            raise Refused(
                pb.AuthorizationError,
                "org.apache.pulsar.broker.PulsarServerException: Failed to create consumer - The subscription name "
                f"needs to be prefixed by the authentication role, like {role}-xxxx for topic: {name}",
            )
        return True
