"""Permissions, properties and clusters of a namespace. Properties and clusters are stored, but have no effect."""

from __future__ import annotations

from typing import Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError
from pcli.minibroker.policies.java_types import STRING_LIST, STRING_MAP
from pcli.minibroker.policies.policy_types import AUTH_ACTIONS

__all__ = ["ENDPOINTS"]

_SPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"


def _permissions(call: Call) -> Any:
    return call.namespace().permissions


def _grant(call: Call) -> None:
    if call.body is None:
        raise RestError(400, "Actions should not be null")
    call.namespace("Topic's namespace does not exist").permissions[call.path_text("role")] = call.body


def _revoke(call: Call) -> None:
    call.namespace().permissions.pop(call.path_text("role"), None)


def _properties(call: Call) -> Any:
    return call.namespace().properties


def _set_properties(call: Call) -> None:
    call.namespace().properties.update(call.body or {})


def _unset_properties(call: Call) -> None:
    call.namespace().properties.clear()


def _clusters(call: Call) -> Any:
    return call.namespace().clusters


def _set_clusters(call: Call) -> Reply:
    if not call.body:
        raise RestError(412, "ClusterIds should not be null or empty")
    for cluster in call.body:
        if cluster not in call.broker.policies.clusters:
            raise RestError(403, f"Invalid cluster id: {'null' if cluster is None else cluster}")
    call.namespace("Namespace policies does not exist").clusters = list(dict.fromkeys(call.body))
    return Reply(200)


ENDPOINTS: Final = (
    Endpoint("GET", f"{_SPACE}/permissions", _permissions, "permissions by role"),
    Endpoint("POST", f"{_SPACE}/permissions/{{role}}", _grant, "set the permissions of a role", AUTH_ACTIONS),
    Endpoint("DELETE", f"{_SPACE}/permissions/{{role}}", _revoke, "remove a role's permissions"),
    Endpoint("GET", f"{_SPACE}/properties", _properties, "properties of a namespace"),
    Endpoint("PUT", f"{_SPACE}/properties", _set_properties, "add properties to a namespace", STRING_MAP),
    Endpoint("DELETE", f"{_SPACE}/properties", _unset_properties, "remove all properties of the namespace"),
    Endpoint("GET", f"{_SPACE}/replication", _clusters, "the clusters of a namespace"),
    Endpoint("POST", f"{_SPACE}/replication", _set_clusters, "set the namespace's clusters (stored only)", STRING_LIST),
)
