"""The publish rate limits of resource groups (ResourceGroupPublishLimiter).

All topics of the namespaces of a group share its limit. The dispatch rate of a group has no effect on 4.2.4 either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.topics.rate_limiters import PublishThrottle, RateLimiter

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

    def of(self, group: str) -> PublishThrottle | None:
        """Return the limit of a group, or None. A limit that has not changed is the same object."""
        rates = self._policies.resource_groups.get(group, {})
        messages, size = rates.get("publishRateInMsgs", -1), rates.get("publishRateInBytes", -1)
        limiter = RateLimiter(messages, size, self._broker.now)
        before = self._throttles.get(group)
        if before is not None and before.limiter.terms == limiter.terms:
            return before
        if before is not None:
            before.release()
            del self._throttles[group]
        if not limiter.limits:
            return None
        throttle = self._throttles[group] = PublishThrottle(self._broker, limiter)
        return throttle
