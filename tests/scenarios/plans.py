"""Plans: scripts of application behaviour as plain data, drawn by Hypothesis.

Rules of this file
1. A plan is drawn as lists of bytes. `build` interprets them with a model of the objects that exist, so every list is
   a valid plan, and Hypothesis shrinks a plan by removing steps and by reducing bytes to 0.
2. A step refers to topics, producers, consumers and transactions by their number in the plan. It refers to messages by
   their number among the stored entries of a topic or among the entries that a consumer holds; the executor resolves
   them.
3. The first option of every choice is the simplest, because the number 0 selects it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from scenarios.plan_model import Model, Numbers
from scenarios.step_kinds import KINDS

Kind = Callable[[Any, Numbers], "dict[str, Any] | None"]
"""A function that draws a step with a model, or returns None if the plan has no object for it."""

_NUMBERS_PER_STEP = 14
_GROUPS, _GROUP_SIZE = 6, 12
"""Lists of Hypothesis have about five elements; several lists together give plans of about thirty steps."""


@dataclass(frozen=True)
class Plan:
    """One script."""

    topics: list[dict[str, Any]] = field(default_factory=list)
    """Each topic: ``persistent`` and the number of ``partitions`` (0: not partitioned)."""
    policies: list[dict[str, Any]] = field(default_factory=list)
    """REST calls on the namespace before the topics are created."""
    steps: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return asdict(self)


def build(
    header: bytes,
    lists: Sequence[Sequence[bytes]],
    kinds: Sequence[Kind] = KINDS,
    model_of: Callable[[Numbers], Model] = Model,
) -> Plan:
    """Return the plan that these numbers describe. ``kinds`` are the kinds of its steps, repeated by weight."""
    model = model_of(Numbers(header))
    steps = []
    for numbers in (one for some in lists for one in some):
        drawn = Numbers(numbers)
        step = drawn.pick(kinds)(model, drawn)
        if step is not None:
            steps.append(step)
    return Plan(model.topics, model.policies, steps)


def plans(
    builder: Callable[..., Plan] = build, groups: int = _GROUPS, numbers_per_step: int = _NUMBERS_PER_STEP
) -> st.SearchStrategy[Plan]:
    """Return the strategy that draws plans of about five steps for each group.

    A step that uses more than ``numbers_per_step`` numbers always has the first option of its last choices.
    """
    numbers = st.binary(min_size=numbers_per_step, max_size=numbers_per_step)
    return st.builds(builder, numbers, st.tuples(*[st.lists(numbers, max_size=_GROUP_SIZE)] * groups))


def search(
    number: int, body: Callable[[Plan], None], *, shrink: bool, strategy: st.SearchStrategy[Plan] | None = None
) -> None:
    """Call a function with the plan of a seed. ``strategy`` draws the plan; by default it is `plans`.

    If it raises an error and ``shrink`` is true, Hypothesis calls it with simpler plans and finally raises the error of
    the simplest plan. Hypothesis runs the empty plan first; the second example is the plan of the seed.
    """
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    chosen = settings(
        max_examples=2, phases=phases, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )

    def run(plan: Plan) -> None:
        body(plan)

    chosen(seed(number)(given(plans() if strategy is None else strategy)(run)))()


def plan_of_seed(number: int, strategy: st.SearchStrategy[Plan] | None = None) -> Plan:
    """Return the plan of a seed. It is the same in every process."""
    found: list[Plan] = []
    search(number, found.append, shrink=False, strategy=strategy)
    return found[-1]
