"""The permission that a request requires (PulsarWebResource).

Rules of this file
1. A superuser may send every request, and an administrator of a tenant most requests about the tenant. Permissions of
   namespaces and topics permit the operations that `AuthorizationService` lists. The error contains the operation.
2. If a tenant does not exist, most requests of roles other than superusers are a 404.
3. If a proxy forwards a client, both roles need the permission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.endpoint import Call, Endpoint, RestError, unexpected
from pcli.minibroker.admin.operations import Operation, operations
from pcli.minibroker.errors import Refused
from pcli.minibroker.transactions.metadata_store_service import ASSIGN

if TYPE_CHECKING:
    from pcli.minibroker.security.authorization import AuthorizationService

UNAUTHENTICATED: Final = frozenset(("/metrics", "/status.html"))
"""Paths that require no authentication (authenticateMetricsEndpoint is false)."""


def check_permission(call: Call, endpoint: Endpoint, roles: tuple[str, ...]) -> None:
    """Raise 401, 403 or 404 if roles may not send a request.

    ``roles`` is the client's role, preceded by the original principal if a proxy forwards the client.
    """
    authorization = call.broker.authorization
    if authorization is not None and roles:
        for operation in operations(endpoint.method, endpoint.path, call.path.get("domain", "")):
            _CHECKS[operation.level](_Check(call, authorization, roles, operation))


class _Check(NamedTuple):
    """The check of one operation."""

    call: Call
    authorization: AuthorizationService
    roles: tuple[str, ...]
    operation: Operation

    @property
    def tenant(self) -> str:
        """The tenant of the request. Raises 404 if it does not exist, unless all roles are superusers."""
        body = self.call.body
        if "tenant" in self.call.path:
            tenant = self.call.path_text("tenant")
        else:
            tenant = TopicName.parse(body[0]["topic"]).tenant if body and body[0] and body[0].get("topic") else ""
        if tenant not in self.call.broker.policies.tenants and not self.superusers:
            raise RestError(404, "Tenant does not exist")
        return tenant

    @property
    def superusers(self) -> bool:
        """Whether all roles are superusers."""
        return all(self.authorization.is_superuser(role) for role in self.roles)

    @property
    def principals(self) -> str:
        """The roles in an error."""
        original = self.roles[0] if len(self.roles) > 1 else "null"
        return f"originalPrincipal [{original}] and clientAppId [{self.roles[-1]}]"

    @property
    def topic(self) -> TopicName:
        """The topic in the path, which is scalable for some levels of operations."""
        if not self.operation.level.startswith("scalable"):
            return self.call.topic_name
        tenant, namespace = self.call.namespace_name.split("/")
        return TopicName("topic", tenant, namespace, self.call.path_text("topic"))

    def is_administrator(self, tenant: str) -> bool:
        """Return whether all roles are administrators of a tenant."""
        return all(self.authorization.is_administrator(role, tenant) for role in self.roles)

    def refuse(self, status: int, method: str, place: str) -> RestError:
        """Return the error of a method of AuthorizationService. ``place`` is the end of its text."""
        what = f"Unauthorized to {method} for operation [{self.operation.name}] on {place}"
        return RestError(status, what)

    def refuse_principals(self, method: str, place: str) -> RestError:
        """Return the error of a method of AuthorizationService whose text contains the roles."""
        what = f"about operation [{self.operation.name}] {place}"
        return RestError(401, f"Unauthorized to {method} for {self.principals} {what}")


def _public(check: _Check) -> None:
    """Permit the request."""


def _superuser(check: _Check) -> None:
    if check.superusers:
        return
    if len(check.roles) == 1:
        raise RestError(401, "This operation requires super-user access")
    original, role = check.roles
    if not check.authorization.is_superuser(role):
        raise RestError(401, f"Proxy not authorized for super-user operation (proxy:{role})")
    raise RestError(401, f"Original principal not authorized for super-user operation (original:{original})")


def _admin(check: _Check) -> None:
    """Check the administrator of a tenant. For a proxy, the proxy's own role is sufficient, as on the real broker."""
    if check.superusers or check.authorization.is_administrator(check.roles[-1], check.tenant):
        return
    if len(check.roles) == 1:
        raise RestError(401, "Don't have permission to administrate resources on this tenant")
    original, role = check.roles
    raise RestError(401, f"Proxy not authorized to access resource (proxy:{role},original:{original})")


def _tenant(check: _Check) -> None:
    if not check.is_administrator(check.tenant):
        raise check.refuse_principals("validateTenantOperation", f"on tenant [{check.tenant}]")


def _tenants(check: _Check) -> None:
    tenant = check.call.path_text("tenant") if "tenant" in check.call.path else ""
    if not check.is_administrator(tenant):
        raise check.refuse_principals("validateBothTenantOperationAndSuperUser", "")


def _cluster(check: _Check) -> None:
    if not check.superusers:
        kind = "ClusterPolicy" if check.operation.level == "cluster policy" else "Cluster"
        place = f"on cluster [{check.call.path_text('cluster')}]"
        raise check.refuse_principals(f"validateBothSuperuserAnd{kind}Operation", place)


def _broker(check: _Check) -> None:
    if not check.superusers:
        place = f"on broker [{check.call.broker.address}]"
        raise check.refuse_principals("validateBothSuperuserAndBrokerOperation", place)


def _namespace(check: _Check) -> None:
    name, operation = check.call.namespace_name, check.operation.name
    if check.is_administrator(check.tenant):
        return
    if not all(check.authorization.allow_namespace_operation(role, name, operation) for role in check.roles):
        if operation == "PACKAGES":
            text = "has not the 'package' permission to do the packages operations."
            raise RestError(401, f"Role {check.roles[-1]} {text}")
        raise check.refuse(403, "validateNamespaceOperation", f"namespace [{name}]")


def _namespace_policy(check: _Check) -> None:
    if not check.is_administrator(check.tenant):
        place = f"namespace [{check.call.namespace_name}] on policy [{check.operation.policy}]"
        raise check.refuse(403, "validateNamespacePolicyOperation", place)


def _topic(check: _Check) -> None:
    subscription = check.call.path_text("subscription") if "subscription" in check.call.path else ""
    _topic_operation(check, check.topic, check.tenant, subscription)


def _coordinators(check: _Check) -> None:
    name = TopicName.parse(ASSIGN)
    _topic_operation(check, name, name.tenant)


def _topic_operation(check: _Check, name: TopicName, tenant: str, subscription: str = "") -> None:
    if check.is_administrator(tenant):
        return
    try:
        permitted = all(
            check.authorization.allow_topic_operation(role, name, check.operation.name, subscription)
            for role in check.roles
        )
    except Refused as refused:
        exception, _, text = refused.text.partition(": ")
        raise unexpected(text, exception) from None
    if not permitted:
        raise check.refuse(401, "validateTopicOperation", f"topic [{name}]")


def _index(check: _Check) -> None:
    """Check a search by index. Without indexes, the request fails before its permission is checked."""
    if check.call.broker.settings.brokerEntryMetadataInterceptors:
        _topic(check)


def _lookup(check: _Check) -> None:
    check.call.namespace("Namespace not found")
    _topic(check)


def _topic_policy(check: _Check) -> None:
    if not check.is_administrator(check.tenant):
        place = f"topic [{check.topic}] on policy [{check.operation.policy}]"
        raise check.refuse(403, "validateTopicPolicyOperation", place)


_CHECKS: Final[Mapping[str, Callable[[_Check], None]]] = {
    "public": _public,
    "superuser": _superuser,
    "admin": _admin,
    "tenant": _tenant,
    "tenants": _tenants,
    "cluster": _cluster,
    "cluster policy": _cluster,
    "broker": _broker,
    "namespace": _namespace,
    "namespace policy": _namespace_policy,
    "topic": _topic,
    "topic policy": _topic_policy,
    "scalable": _topic,
    "scalable policy": _topic_policy,
    "lookup": _lookup,
    "index": _index,
    "coordinators": _coordinators,
}
"""The check of each level of operations."""
