"""The publish rate limits of resource groups (ResourceGroupPublishLimiter).

All topics of the namespaces of a group share its limit. The dispatch rate of a group has no effect on 4.2.4 either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.topics.rate_limiters import PublishThrottle

if TYPE_CHECKING:
    from pcli.minibroker.policies.policy_store import Policies
    from pcli.minibroker.scheduler import Scheduler

__all__ = ["ResourceGroupThrottles"]


class ResourceGroupThrottles:
    """The limits of all groups, by name."""

    def __init__(self, broker: Scheduler, policies: Policies) -> None:
        self._broker = broker
        self._policies = policies
        self._throttles: dict[str, PublishThrottle] = {}

    def of(self, group: str) -> PublishThrottle:
        """Return the limit of a group, which can be unlimited."""
        rates = self._policies.resource_groups.get(group, {})
        throttle = self._throttles.setdefault(group, PublishThrottle(self._broker))
        throttle.update(rates.get("publishRateInMsgs", -1), rates.get("publishRateInBytes", -1))
        return throttle
