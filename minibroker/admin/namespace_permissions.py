"""Permissions, properties and clusters of a namespace. Properties and clusters are stored, but have no effect."""

from __future__ import annotations

from typing import Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError

__all__ = ["ENDPOINTS"]

_SPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"


def _permissions(call: Call) -> Any:
    return {role: sorted(actions) for role, actions in call.namespace().permissions.items()}


def _grant(call: Call) -> None:
    if not isinstance(call.body, list):
        raise RestError(400, "The body must be a list of actions")
    call.namespace("Namespace policies does not exist").permissions[call.path_text("role")] = [
        str(one) for one in call.body
    ]


def _revoke(call: Call) -> None:
    call.namespace().permissions.pop(call.path_text("role"), None)


def _properties(call: Call) -> Any:
    return call.namespace().properties


def _set_properties(call: Call) -> None:
    if not isinstance(call.body, dict):
        raise RestError(400, "Properties must be an object")
    call.namespace().properties.update({str(key): str(value) for key, value in call.body.items()})


def _unset_properties(call: Call) -> None:
    call.namespace().properties.clear()


def _clusters(call: Call) -> Any:
    return call.namespace().clusters


def _set_clusters(call: Call) -> Reply:
    space = call.namespace()
    if not isinstance(call.body, list) or not set(call.body) <= set(call.broker.policies.clusters):
        raise RestError(403, "Invalid cluster id")
    space.clusters = [str(one) for one in call.body]
    return Reply(200)


ENDPOINTS: Final = (
    Endpoint("GET", f"{_SPACE}/permissions", _permissions, "permissions by role"),
    Endpoint("POST", f"{_SPACE}/permissions/{{role}}", _grant, "set the permissions of a role"),
    Endpoint("DELETE", f"{_SPACE}/permissions/{{role}}", _revoke, "remove a role's permissions"),
    Endpoint("GET", f"{_SPACE}/properties", _properties, "properties of a namespace"),
    Endpoint("PUT", f"{_SPACE}/properties", _set_properties, "add properties to a namespace"),
    Endpoint("DELETE", f"{_SPACE}/properties", _unset_properties, "remove all properties of the namespace"),
    Endpoint("GET", f"{_SPACE}/replication", _clusters, "the clusters of a namespace"),
    Endpoint("POST", f"{_SPACE}/replication", _set_clusters, "set the namespace's clusters (stored only)"),
)
