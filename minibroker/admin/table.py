"""All endpoints, in the order in which they are tried.

What clients ask for often comes first. Within a module a literal word stands before a name in its place.
"""

from __future__ import annotations

from typing import Final

from pcli.minibroker.admin import (
    brokers,
    kept,
    lookup,
    messages,
    metrics,
    namespaces,
    partitions,
    policies,
    schemas,
    subscriptions,
    tenants,
    topics,
)
from pcli.minibroker.admin.call import Endpoint

__all__ = ["ENDPOINTS"]

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *lookup.ENDPOINTS,
    *partitions.ENDPOINTS,
    *topics.ENDPOINTS,
    *messages.ENDPOINTS,
    *subscriptions.ENDPOINTS,
    *schemas.ENDPOINTS,
    *tenants.ENDPOINTS,
    *brokers.ENDPOINTS,
    *kept.ENDPOINTS,
    *namespaces.ENDPOINTS,
    *policies.ENDPOINTS,
    *metrics.ENDPOINTS,
)
