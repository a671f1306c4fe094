"""The search for the simplest plan that fails in the same way.

Rules of this file
1. Hypothesis shrinks the plan of the seed for half of the time. It runs one plan after another.
2. Groups of steps are then removed. Many plans run at the same time, so each round takes as long as one plan. The
   executor does not execute steps whose producer or consumer is missing.
3. Steps after the failure are not executed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from hypothesis.strategies import SearchStrategy
from scenarios.comparison import Difference
from scenarios.connections import Pace
from scenarios.pairs import Pair
from scenarios.plans import Plan, search

_PACE = Pace(0.1, 5), Pace(0.03, 0.5)


class Failure(Protocol):
    """A failure of a plan."""

    @property
    def step(self) -> int:
        """The number of the plan's step, from 1; 0 for the preparation."""


_F = TypeVar("_F", bound=Failure)


def simplest(
    pair: Pair, seed: int, area: str, limit_s: float, strategy: SearchStrategy[Plan] | None = None
) -> tuple[Plan | None, list[Difference]]:
    """Return the simplest plan found and its differences in the area. The plan is None if the difference is lost."""

    async def differences(plan: Plan) -> list[Difference]:
        return [one for one in await pair.run(seed, plan, _PACE) if one.area == area]

    return simplest_failing(differences, seed, limit_s, strategy)


def simplest_failing(
    run: Callable[[Plan], Awaitable[list[_F]]],
    seed: int,
    limit_s: float,
    strategy: SearchStrategy[Plan] | None = None,
    at_once: int = 24,
) -> tuple[Plan | None, list[_F]]:
    """Return the simplest plan found for which ``run`` returns failures, and these failures.

    The plan is None if the plan of the seed does not fail. ``strategy`` draws the plan of the seed. ``at_once`` is the
    number of plans that run at the same time; 1 if ``run`` only computes.
    """
    until = time.monotonic() + limit_s
    found = _Simplification(run, seed, strategy, at_once)
    found.shrink(until - limit_s / 2)
    if found.plan is not None:
        asyncio.run(found.remove_steps(until))
    return found.plan, found.failures


class _Simplification(Generic[_F]):
    def __init__(
        self, run: Callable[[Plan], Awaitable[list[_F]]], seed: int, strategy: SearchStrategy[Plan] | None, at_once: int
    ) -> None:
        self._run, self._seed, self._strategy, self._at_once = run, seed, strategy, at_once
        self.plan: Plan | None = None
        self.failures: list[_F] = []

    def shrink(self, until: float) -> None:
        """Shrink the plan of the seed with Hypothesis (rule 1)."""

        def check(plan: Plan) -> None:
            if time.monotonic() < until:
                length = len(self.plan.steps) if self.plan is not None else None
                assert not asyncio.run(self._try(replace(plan, steps=plan.steps[:length])))

        try:
            search(self._seed, check, shrink=True, strategy=self._strategy)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # the failure, or a report of Hypothesis that the failure is not repeatable
            return

    async def remove_steps(self, until: float) -> None:
        """Remove groups of steps, from large groups to single steps (rule 2)."""
        assert self.plan is not None
        size = (len(self.plan.steps) + 1) // 2
        while size and time.monotonic() < until:
            before, first = len(self.plan.steps), 0
            while first < len(self.plan.steps) and time.monotonic() < until:
                steps = self.plan.steps
                starts = range(first, len(steps), size)[: self._at_once]
                some = [steps[:at] + steps[at + size :] for at in starts]
                await asyncio.gather(*(self._try(replace(self.plan, steps=one)) for one in some))
                if len(self.plan.steps) == len(steps):
                    first = starts[-1] + size
            if len(self.plan.steps) == before:
                size //= 2
            else:
                size = min(size, max(1, len(self.plan.steps) // 2))

    async def _try(self, plan: Plan) -> bool:
        """Return whether a plan fails. Keep the shortest such plan."""
        found = await self._run(plan)
        if not found:
            return False
        plan = replace(plan, steps=plan.steps[: found[0].step])
        if self.plan is None or len(plan.steps) <= len(self.plan.steps):
            self.plan, self.failures = plan, found
        return True
