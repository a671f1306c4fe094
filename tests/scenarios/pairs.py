"""Two brokers, and the differences between the runs of a plan on both."""

from __future__ import annotations

import time
from itertools import count

from scenarios.comparison import Difference, differences_of
from scenarios.connections import Broker, Pace
from scenarios.executor import Run
from scenarios.plans import Plan
from scenarios.scalable.executor import ScalableRun

_FAST = Pace(0.2, 10), Pace(0.05, 3)
_SLOW = Pace(0.6, 20), Pace(0.2, 6)
_NUMBERS = count()


class Pair:
    """Two brokers."""

    def __init__(self, first: Broker, second: Broker) -> None:
        self.first, self.second = first, second
        self.unstable = 0
        """Number of differences that a second run did not have."""

    async def differences(self, seed: int, plan: Plan) -> list[Difference]:
        """Return the differences that two runs of a plan have in common. The second run has longer waits."""
        found = await self.run(seed, plan)
        if not found:
            return []
        again = {(one.area, one.step) for one in await self.run(seed, plan, _SLOW)}
        confirmed = [one for one in found if (one.area, one.step) in again]
        self.unstable += len(found) - len(confirmed)
        return confirmed

    async def run(self, seed: int, plan: Plan, paces: tuple[Pace, Pace] = _FAST) -> list[Difference]:
        """Run a plan once on each broker, with new names, and return the differences."""
        now_ns = time.time_ns()
        token, now_ms = f"d{seed}x{now_ns // 1000 % 10**9}n{next(_NUMBERS)}", now_ns // 10**6
        run = ScalableRun if any("segments" in topic for topic in plan.topics) else Run
        first = await run(plan, self.first, token, now_ms, paces[0], {}).record()
        second = await run(plan, self.second, token, now_ms, paces[1], first.counts).record()
        return differences_of(first, second)
