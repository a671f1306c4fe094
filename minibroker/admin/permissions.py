"""Permissions of namespaces, topics and subscriptions, and the permission that a request requires.

Rules of this file
1. With authorization, a superuser may send every request, and a tenant's administrator every request about the tenant.
2. A role that may look up a topic may also look it up over HTTP, and get its number of partitions and its schema.
3. Some requests about the broker require no permission.

A real broker permits some more requests to roles with permissions, such as statistics of topics, and names the missing
permission in the error.
"""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.body_types import GRANTED_TOPICS, REVOKED_TOPICS
from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, RestError
from pcli.minibroker.policies.java_types import STRING_SET
from pcli.minibroker.policies.policy_types import AUTH_ACTIONS

__all__ = ["ENDPOINTS", "UNAUTHENTICATED", "check_permission"]

_NAMESPACES: Final = "/admin/v2/namespaces"
_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}/permissions"
_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/permissions"

UNAUTHENTICATED: Final = frozenset(("/metrics", "/status.html"))
"""Paths that require no authentication (authenticateMetricsEndpoint is false)."""
_PUBLIC: Final = frozenset(("/admin/v2/clusters", "/admin/v2/brokers/ready", "/admin/v2/brokers/version"))
"""Paths that require authentication, but no permission."""
_LOOKUPS: Final = ("/lookup/v2/topic/", "/admin/v2/schemas/")


def check_permission(call: Call, endpoint: Endpoint, role: str) -> None:
    """Raise 401 or 403 if a role may not send a request."""
    authorization = call.broker.authorization
    if authorization is None or endpoint.path in _PUBLIC or authorization.is_superuser(role):
        return
    tenant = call.path_text("tenant") if "tenant" in call.path else ""
    if tenant and endpoint.path != "/admin/v2/tenants/{tenant}" and authorization.is_administrator(role, tenant):
        return
    if "topic" in call.path:
        looks_up = endpoint.path.startswith(_LOOKUPS) or endpoint.path.endswith("{topic}/partitions")
        if endpoint.method == "GET" and looks_up and authorization.may_look_up((role,), call.topic_name):
            return
        raise RestError(401, f"Unauthorized to {endpoint.method} {endpoint.path} on topic [{call.topic_name}]")
    if "namespace" in call.path:
        raise RestError(403, f"Unauthorized to {endpoint.method} {endpoint.path} on namespace [{call.namespace_name}]")
    raise RestError(401, "This operation requires super-user access")


def _namespace_permissions(call: Call) -> Any:
    return call.namespace().permissions


def _grant_on_namespace(call: Call) -> None:
    if call.body is None:
        raise RestError(400, "Actions should not be null")
    call.namespace("Topic's namespace does not exist").permissions[call.path_text("role")] = call.body


def _revoke_on_namespace(call: Call) -> None:
    call.namespace().permissions.pop(call.path_text("role"), None)


def _topic_permissions(call: Call) -> Any:
    name, policies = call.topic_name, call.broker.policies
    call.namespace("Namespace not found")
    found: dict[str, list[str | None]] = {}
    for table in (policies.topic_permissions.get(str(name), {}), call.namespace().permissions):
        for role, actions in table.items():
            found[role] = list(dict.fromkeys([*found.get(role, ()), *actions]))
    return found


def _grant_on_topic(call: Call) -> None:
    name = call.topic_name
    call.namespace("Namespace not found")
    permissions = call.broker.policies.topic_permissions.setdefault(str(name), {})
    if call.body is None:
        permissions.pop(call.path_text("role"), None)
    else:
        permissions[call.path_text("role")] = call.body


def _revoke_on_topic(call: Call) -> None:
    call.broker.policies.topic_permissions.get(str(call.topic_name), {}).pop(call.path_text("role"), None)


def _subscription_permissions(call: Call) -> Any:
    return {name: sorted(roles) for name, roles in call.namespace().subscription_permissions.items()}


def _grant_on_subscription(call: Call) -> None:
    if call.body is None:
        raise RestError(400, "Roles should not be null")
    call.namespace().subscription_permissions[call.path_text("subscription")] = call.body


def _revoke_on_subscription(call: Call) -> None:
    permissions, name = call.namespace().subscription_permissions, call.path_text("subscription")
    if name not in permissions:
        raise RestError(500, "couldn't find subscription")
    permissions[name] = [role for role in permissions[name] if role != call.path_text("role")]
    if not permissions[name]:
        del permissions[name]


def _grant_on_topics(call: Call) -> None:
    for name, role, actions in _listed(call):
        call.broker.policies.topic_permissions.setdefault(str(name), {})[role] = actions


def _revoke_on_topics(call: Call) -> None:
    for name, role, _ in _listed(call):
        call.broker.policies.topic_permissions.get(str(name), {}).pop(role, None)


def _listed(call: Call) -> list[tuple[TopicName, str, list[str | None]]]:
    """Return the topics, roles and actions in the body. Raises 404 if a topic does not exist."""
    if call.body is None or any(one is None or one.get("topic") is None for one in call.body):
        raise PageError(500)
    listed = [(TopicName.parse(one["topic"]), one.get("role", ""), one.get("actions", [])) for one in call.body]
    if len({(name.tenant, name.namespace) for name, _, _ in listed}) != 1:
        raise RestError(400, "The namespace should be the same")
    for name, _, _ in listed:
        if not call.broker.topic_registry.exists(name):
            raise RestError(404, f"Topic {name} not found")
    return listed


ENDPOINTS: Final = (
    Endpoint(
        "POST", f"{_NAMESPACES}/grantPermissionsOnTopics", _grant_on_topics, "set roles of topics", GRANTED_TOPICS
    ),
    Endpoint(
        "POST", f"{_NAMESPACES}/revokePermissionsOnTopics", _revoke_on_topics, "remove roles of topics", REVOKED_TOPICS
    ),
    Endpoint("GET", _NAMESPACE, _namespace_permissions, "permissions by role"),
    Endpoint("POST", f"{_NAMESPACE}/{{role}}", _grant_on_namespace, "set the permissions of a role", AUTH_ACTIONS),
    Endpoint("DELETE", f"{_NAMESPACE}/{{role}}", _revoke_on_namespace, "remove a role's permissions"),
    Endpoint("GET", _TOPIC, _topic_permissions, "permissions by role, of the topic and its namespace"),
    Endpoint("POST", f"{_TOPIC}/{{role}}", _grant_on_topic, "set the permissions of a role on a topic", AUTH_ACTIONS),
    Endpoint("DELETE", f"{_TOPIC}/{{role}}", _revoke_on_topic, "remove the permissions of a role on a topic"),
    Endpoint(
        "GET",
        f"{_NAMESPACE}/subscription",
        _subscription_permissions,
        "the roles that may use restricted subscriptions",
    ),
    Endpoint(
        "POST",
        f"{_NAMESPACE}/subscription/{{subscription}}",
        _grant_on_subscription,
        "restrict a subscription to roles",
        STRING_SET,
    ),
    Endpoint(
        "DELETE",
        f"{_NAMESPACE}/{{subscription}}/{{role}}",
        _revoke_on_subscription,
        "remove a role from a restricted subscription",
    ),
)
