"""Permissions of namespaces, topics and subscriptions."""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.body_types import GRANTED_TOPICS, REVOKED_TOPICS
from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, RestError
from pcli.minibroker.policies.java_types import STRING_SET
from pcli.minibroker.policies.policy_types import AUTH_ACTIONS
from pcli.minibroker.topic_names import namespace_of

_NAMESPACES: Final = "/admin/v2/namespaces"
_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}/permissions"
_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/permissions"


def _grant_on_namespace(call: Call) -> None:
    if call.body is None:
        raise RestError(400, "Actions should not be null")
    call.namespace("Topic's namespace does not exist").permissions[call.path_text("role")] = call.body
    _changed(call)


def _revoke_on_namespace(call: Call) -> None:
    call.namespace().permissions.pop(call.path_text("role"), None)
    _changed(call)


def _check_topic(call: Call, name: TopicName) -> None:
    """Raise 404 if a topic does not exist and the version requires it."""
    if call.broker.version.permissions_require_topic and not call.broker.topic_registry.exists(name):
        raise RestError(404, f"Topic {name} not found")


def _topic_permissions(call: Call) -> Any:
    name, policies = call.topic_name, call.broker.policies
    call.namespace("Namespace not found")
    _check_topic(call, name)
    found: dict[str, list[str | None]] = {}
    for table in (policies.topic_permissions.get(str(name), {}), call.namespace().permissions):
        for role, actions in table.items():
            found[role] = list(dict.fromkeys([*found.get(role, ()), *actions]))
    return found


def _grant_on_topic(call: Call) -> None:
    name = call.topic_name
    call.namespace("Namespace not found")
    _check_topic(call, name)
    permissions = call.broker.policies.topic_permissions.setdefault(str(name), {})
    if call.body is None:
        permissions.pop(call.path_text("role"), None)
    else:
        permissions[call.path_text("role")] = call.body
    _changed(call)


def _changed(call: Call) -> None:
    """Check the connected clients, because permissions are policies of the namespace."""
    call.broker.policies.on_change(call.namespace_name)


def _revoke_on_topic(call: Call) -> None:
    name = call.topic_name
    _check_topic(call, name)
    call.broker.policies.topic_permissions.get(str(name), {}).pop(call.path_text("role"), None)
    _changed(call)


def _subscription_permissions(call: Call) -> Any:
    return {name: sorted(roles) for name, roles in call.namespace().subscription_permissions.items()}


def _grant_on_subscription(call: Call) -> None:
    if call.body is None:
        raise RestError(400, "Roles should not be null")
    call.namespace().subscription_permissions[call.path_text("subscription")] = call.body
    _changed(call)


def _revoke_on_subscription(call: Call) -> None:
    permissions, name = call.namespace().subscription_permissions, call.path_text("subscription")
    if name not in permissions:
        raise RestError(500, "couldn't find subscription")
    permissions[name] = [role for role in permissions[name] if role != call.path_text("role")]
    if not permissions[name]:
        del permissions[name]
    _changed(call)


def _grant_on_topics(call: Call) -> None:
    policies = call.broker.policies
    for name, role, actions in _listed(call):
        policies.topic_permissions.setdefault(str(name), {})[role] = actions
        policies.on_change(namespace_of(name))


def _revoke_on_topics(call: Call) -> None:
    policies = call.broker.policies
    for name, role, _ in _listed(call):
        policies.topic_permissions.get(str(name), {}).pop(role, None)
        policies.on_change(namespace_of(name))


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
    Endpoint("GET", _NAMESPACE, lambda call: call.namespace().permissions, "permissions by role"),
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
