"""Plans with scalable topics. The format, the drawing and the simplification are those of `scenarios.plans`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hypothesis.strategies import SearchStrategy
from scenarios import plans
from scenarios.plans import Plan
from scenarios.scalable.plan_model import ScalableModel
from scenarios.scalable.step_kinds import KINDS

_GROUPS = 5
"""A step can wait two seconds for a check of sealed segments, so a plan has about 25 steps."""


def build(header: bytes, lists: Sequence[Sequence[bytes]]) -> Plan:
    """Return the plan that these numbers describe."""
    return plans.build(header, lists, KINDS, ScalableModel)


@cache
def strategy() -> SearchStrategy[Plan]:
    """Return the strategy that draws plans."""
    return plans.plans(build, _GROUPS)
