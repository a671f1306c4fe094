"""All endpoints in matching order.

Frequently used endpoints come first. Within a module, a literal path precedes a path with a parameter in the same
position.
"""

from __future__ import annotations

from typing import Final

from pcli.minibroker.admin import (
    backlog_quotas,
    brokers,
    clusters,
    lookup,
    messages,
    metrics,
    namespace_permissions,
    namespaces,
    partitioned_topics,
    permissions,
    policies,
    schemas,
    subscriptions,
    tenants,
    topics,
    transactions,
)
from pcli.minibroker.admin.endpoint import Endpoint

__all__ = ["ENDPOINTS"]

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *lookup.ENDPOINTS,
    *partitioned_topics.ENDPOINTS,
    *topics.ENDPOINTS,
    *messages.ENDPOINTS,
    *subscriptions.ENDPOINTS,
    *schemas.ENDPOINTS,
    *tenants.ENDPOINTS,
    *clusters.ENDPOINTS,
    *brokers.ENDPOINTS,
    *namespace_permissions.ENDPOINTS,
    *permissions.ENDPOINTS,
    *backlog_quotas.ENDPOINTS,
    *namespaces.ENDPOINTS,
    *policies.ENDPOINTS,
    *metrics.ENDPOINTS,
    *transactions.ENDPOINTS,
)
