"""The search for the simplest plan that has a difference in the same area.

Rules of this file
1. Hypothesis shrinks the plan of the seed for half of the time. It runs one plan after another.
2. Groups of steps are then removed. Many plans run at the same time, so each round takes as long as one plan. The
   executor does not execute steps whose producer or consumer is missing.
3. Steps after the difference are not executed.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from scenarios.comparison import Difference
from scenarios.connections import Pace
from scenarios.pairs import Pair
from scenarios.plans import Plan, search

__all__ = ["simplest"]

_PACE = Pace(0.1, 5), Pace(0.03, 0.5)
_AT_ONCE = 24


def simplest(pair: Pair, seed: int, area: str, limit_s: float) -> tuple[Plan | None, list[Difference]]:
    """Return the simplest plan found and its differences in the area. The plan is None if the difference is lost."""
    until = time.monotonic() + limit_s
    found = _Simplification(pair, seed, area)
    found.shrink(until - limit_s / 2)
    if found.plan is not None:
        asyncio.run(found.remove_steps(until))
    return found.plan, found.differences


class _Simplification:
    def __init__(self, pair: Pair, seed: int, area: str) -> None:
        self._pair, self._seed, self._area = pair, seed, area
        self.plan: Plan | None = None
        self.differences: list[Difference] = []

    def shrink(self, until: float) -> None:
        """Shrink the plan of the seed with Hypothesis (rule 1)."""

        def check(plan: Plan) -> None:
            if time.monotonic() < until:
                length = len(self.plan.steps) if self.plan is not None else None
                assert not asyncio.run(self._try(replace(plan, steps=plan.steps[:length])))

        try:
            search(self._seed, check, shrink=True)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # the failure, or a report of Hypothesis that the failure is not repeatable
            return

    async def remove_steps(self, until: float) -> None:
        """Remove groups of steps, from large groups to single steps (rule 2)."""
        assert self.plan is not None
        size = (len(self.plan.steps) + 1) // 2
        while size and time.monotonic() < until:
            steps = self.plan.steps
            starts = range(0, len(steps), size)
            for first in range(0, len(starts), _AT_ONCE):
                some = [steps[:at] + steps[at + size :] for at in starts[first : first + _AT_ONCE]]
                await asyncio.gather(*(self._try(replace(self.plan, steps=one)) for one in some))
            if len(self.plan.steps) == len(steps):
                size //= 2
            else:
                size = min(size, max(1, len(self.plan.steps) // 2))

    async def _try(self, plan: Plan) -> bool:
        """Return whether a plan has the difference. Keep the shortest such plan."""
        found = [one for one in await self._pair.run(self._seed, plan, _PACE) if one.area == self._area]
        if not found:
            return False
        plan = replace(plan, steps=plan.steps[: found[0].step])
        if self.plan is None or len(plan.steps) <= len(self.plan.steps):
            self.plan, self.differences = plan, found
        return True
