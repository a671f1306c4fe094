"""Tenants (TenantsBase)."""

from __future__ import annotations

import re
from typing import Any, Final

from pcli.minibroker.admin.body_types import TENANT
from pcli.minibroker.admin.endpoint import Call, Endpoint, RestError, unexpected
from pcli.minibroker.admin.namespaces import delete_namespace
from pcli.minibroker.policies.policy_store import Tenant

_NAMED: Final = re.compile(r"[-=:.\w]+", re.ASCII)
_TENANT: Final = "/admin/v2/tenants/{tenant}"


def _tenant(call: Call) -> Tenant:
    tenant = call.broker.policies.tenants.get(call.path_text("tenant"))
    if tenant is None:
        raise RestError(404, "Tenant does not exist")
    return tenant


def _get(call: Call) -> Any:
    tenant = _tenant(call)
    roles = {} if tenant.roles is None else {"adminRoles": tenant.roles}
    return {**roles, "allowedClusters": tenant.clusters}


def _read(call: Call) -> Tenant:
    """Return the tenant in the body. Raises 412 if the body lists no cluster or an unknown cluster."""
    if call.body is None:
        raise RestError(412, "TenantInfo is null")
    clusters, roles = call.body.get("allowedClusters"), call.body.get("adminRoles")
    if clusters is None:
        raise RestError(412, "Clusters cannot be null")
    if not clusters or not all((cluster or "").strip() for cluster in clusters):
        raise RestError(412, "Clusters cannot be empty or blank")
    if not set(clusters) <= set(call.broker.policies.clusters):
        raise RestError(412, "Clusters do not exist")
    for role in roles or ():
        if role is None:
            trim = '"org.apache.commons.lang3.StringUtils.trim(String)"'
            raise unexpected(f'Cannot invoke "String.equals(Object)" because the return value of {trim} is null')
        if role != role.strip():
            raise RestError(412, "AdminRoles contains whitespace in the beginning or end.")
    return Tenant(roles, clusters)


def _create(call: Call) -> None:
    policies, name = call.broker.policies, call.path_text("tenant")
    if not _NAMED.fullmatch(name):
        raise RestError(412, "Tenant name is not valid")
    tenant = _read(call)
    if name in policies.tenants:
        raise RestError(409, "Tenant already exist")
    limit = policies.settings.maxTenants
    if 0 < limit <= len(policies.tenants):
        raise RestError(412, "Exceed the maximum number of tenants")
    policies.tenants[name] = tenant


def _update(call: Call) -> None:
    tenant, name = _read(call), call.path_text("tenant")
    if name not in call.broker.policies.tenants:
        raise RestError(404, f"Tenant {name} not found")
    call.broker.policies.tenants[name] = tenant


def _delete(call: Call) -> None:
    policies, name = call.broker.policies, call.path_text("tenant")
    if call.flag("force") and not policies.settings.forceDeleteTenantAllowed:
        raise RestError(405, "Broker doesn't allow forced deletion of tenants")
    if name not in policies.tenants:
        raise RestError(404, "Tenant doesn't exist")
    inside = [namespace for namespace in policies.namespaces if namespace.startswith(f"{name}/")]
    if inside and not call.flag("force"):
        raise RestError(409, "The tenant still has active namespaces")
    for namespace in inside:
        delete_namespace(call.broker, namespace)
    del policies.tenants[name]


ENDPOINTS: Final = (
    Endpoint("GET", "/admin/v2/tenants", lambda call: sorted(call.broker.policies.tenants), "names of the tenants"),
    Endpoint("GET", _TENANT, _get, "the configuration of a tenant"),
    Endpoint("PUT", _TENANT, _create, "create a tenant", TENANT),
    Endpoint("POST", _TENANT, _update, "change a tenant", TENANT),
    Endpoint("DELETE", _TENANT, _delete, "delete a tenant"),
)
