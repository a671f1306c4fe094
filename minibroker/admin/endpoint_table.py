"""All endpoints in matching order.

Frequently used endpoints come first. Within a module, a literal path precedes a path with a parameter in the same
position.
"""

from __future__ import annotations

from typing import Final

from pcli.minibroker.admin import (
    clusters,
    lookup,
    namespace_bundles,
    namespace_settings,
    namespaces,
    offload,
    permissions,
    policies,
    resource_groups,
    tenants,
    transactions,
    unavailable,
)
from pcli.minibroker.admin.broker import broker_stats, brokers, metrics
from pcli.minibroker.admin.endpoint import Endpoint
from pcli.minibroker.admin.scalable import scalable_topics, segments
from pcli.minibroker.admin.topics import (
    messages,
    partitioned_topics,
    schemas,
    subscriptions,
    topic_details,
    topic_values,
    topics,
)

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *lookup.ENDPOINTS,
    *partitioned_topics.ENDPOINTS,
    *topics.ENDPOINTS,
    *messages.ENDPOINTS,
    *topic_details.ENDPOINTS,
    *subscriptions.ENDPOINTS,
    *schemas.ENDPOINTS,
    *tenants.ENDPOINTS,
    *clusters.ENDPOINTS,
    *brokers.ENDPOINTS,
    *broker_stats.ENDPOINTS,
    *permissions.ENDPOINTS,
    *namespace_settings.ENDPOINTS,
    *namespaces.ENDPOINTS,
    *offload.ENDPOINTS,
    *policies.ENDPOINTS,
    *topic_values.ENDPOINTS,
    *namespace_bundles.ENDPOINTS,
    *resource_groups.ENDPOINTS,
    *unavailable.ENDPOINTS,
    *metrics.ENDPOINTS,
    *transactions.ENDPOINTS,
    *scalable_topics.ENDPOINTS,
    *segments.ENDPOINTS,
)
