"""The plan of a seed. The format, the drawing and the simplification are those of `scenarios.plans`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hypothesis.strategies import SearchStrategy
from scenarios import plans
from scenarios.plan_model import Model, Numbers
from scenarios.plans import Plan
from simulation.scalable_step_kinds import KINDS as SCALABLE_KINDS
from simulation.scalable_step_kinds import scalable_plan
from simulation.step_kinds import KINDS, draw_event, send

_GROUPS = 12
_NUMBERS_PER_STEP = 24
MIN_EVENTS = 5
MIN_MESSAGES = 120


def build(header: bytes, lists: Sequence[Sequence[bytes]]) -> Plan:
    """Return the plan that these numbers describe, with at least MIN_EVENTS events and MIN_MESSAGES messages.

    The topic of every second plan is scalable.
    """
    scalable = header[-1] % 2 == 1
    plan = plans.build(header, lists, SCALABLE_KINDS if scalable else KINDS)
    model, drawn = Model(Numbers(header)), Numbers(header * 40)
    model.producers = [one for one in plan.steps if one["do"] == "producer"]
    for one in model.producers:
        one.setdefault("open", True)
    steps = list(plan.steps)
    while sum(one["do"] == "event" for one in steps) < MIN_EVENTS:
        steps.insert(drawn.below(len(steps) + 1), draw_event(model, drawn))
    while sum(one.get("count", 0) for one in steps if one["do"] == "send") < MIN_MESSAGES:
        step = send(model, drawn)
        if step is not None:
            steps.append(step)
            if step["do"] == "producer":
                model.producers[-1] = step | {"open": True}
    for one in steps:
        one.pop("open", None)
    plan = Plan(plan.topics, plan.policies, steps)
    return scalable_plan(plan, Numbers(header[-3:-1])) if scalable else plan


@cache
def strategy() -> SearchStrategy[Plan]:
    """Return the strategy that draws plans."""
    return plans.plans(build, _GROUPS, _NUMBERS_PER_STEP)


def plan_of_seed(seed: int) -> Plan:
    """Return the plan of a seed. It is the same in every process."""
    return plans.plan_of_seed(seed, strategy())
