"""Resource groups and resource quotas. Only the publish rates of resource groups have an effect."""

from __future__ import annotations

from typing import Any, Final

from pcli.minibroker.admin.body_types import RESOURCE_GROUP, RESOURCE_QUOTA
from pcli.minibroker.admin.endpoint import Call, Endpoint, RestError, unexpected
from pcli.minibroker.admin.namespace_bundles import existing_bundle

_GROUPS: Final = "/admin/v2/resourcegroups"
_QUOTAS: Final = "/admin/v2/resource-quotas"
_BUNDLE: Final = f"{_QUOTAS}/{{tenant}}/{{namespace}}/{{bundle}}"
_DEFAULT: Final = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100000.0,
    "bandwidthOut": 300000.0,
    "memory": 80.0,
    "dynamic": True,
}
"""The quota of bundles without their own one."""


def _group(call: Call) -> Any:
    found = call.broker.policies.resource_groups.get(call.path_text("resourcegroup"))
    if found is None:
        raise RestError(404, "ResourceGroup does not exist")
    return found


def _set_group(call: Call) -> None:
    """Create a group, or change the given values of a group."""
    if call.body is None:
        raise unexpected("null")
    groups, name = call.broker.policies.resource_groups, call.path_text("resourcegroup")
    groups[name] = {**groups.get(name, {}), **call.body}
    for space in call.broker.policies.namespaces.values():
        if space.resource_group == name:
            call.broker.policies.on_change(space.name)


def _remove_group(call: Call) -> None:
    groups, name = call.broker.policies.resource_groups, call.path_text("resourcegroup")
    if name not in groups:
        exception = "org.apache.pulsar.metadata.api.MetadataStoreException$NotFoundException"
        raise unexpected(f"path /admin/resourcegroups/{name} not found.", exception)
    if any(space.resource_group == name for space in call.broker.policies.namespaces.values()):
        raise RestError(412, "ResourceGroup is in use")
    del groups[name]


def _quota(call: Call) -> Any:
    quotas = call.broker.policies.resource_quotas
    return quotas.get(_key(call)) or quotas.get("") or _DEFAULT


def _set_quota(call: Call) -> None:
    call.broker.policies.resource_quotas[_key(call)] = call.body or _DEFAULT


def _remove_quota(call: Call) -> None:
    key = _key(call)
    if call.broker.policies.resource_quotas.pop(key, None) is None:
        raise RestError(404, f"path /loadbalance/resource-quota/{key} not found.")


def _key(call: Call) -> str:
    """Return the name of the bundle in the path, or an empty text for the default.

    Raises 412 if the bundle does not exist. A namespace that does not exist has one bundle.
    """
    if "bundle" not in call.path:
        return ""
    space = call.broker.policies.namespaces.get(call.namespace_name)
    bundle = existing_bundle(call, ["0x00000000", "0xffffffff"] if space is None else space.boundaries)
    return f"{call.namespace_name}/{bundle}"


ENDPOINTS: Final = (
    Endpoint("GET", _GROUPS, lambda call: sorted(call.broker.policies.resource_groups), "names of the resource groups"),
    Endpoint("GET", f"{_GROUPS}/{{resourcegroup}}", _group, "a resource group"),
    Endpoint("PUT", f"{_GROUPS}/{{resourcegroup}}", _set_group, "create or change a resource group", RESOURCE_GROUP),
    Endpoint("DELETE", f"{_GROUPS}/{{resourcegroup}}", _remove_group, "remove a resource group"),
    Endpoint("GET", _QUOTAS, _quota, "the default resource quota (stored only)"),
    Endpoint("POST", _QUOTAS, _set_quota, "set the default resource quota", RESOURCE_QUOTA),
    Endpoint("GET", _BUNDLE, _quota, "the resource quota of a bundle (stored only)"),
    Endpoint("POST", _BUNDLE, _set_quota, "set the resource quota of a bundle", RESOURCE_QUOTA),
    Endpoint("DELETE", _BUNDLE, _remove_quota, "remove the resource quota of a bundle"),
)
