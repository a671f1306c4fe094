"""Simulated runs: reproducible, and without violations."""

from __future__ import annotations

import pytest
from simulation.execution import run_plan
from simulation.plans import MIN_EVENTS, MIN_MESSAGES, plan_of_seed


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_violates_no_invariant(seed):
    outcome, _ = run_plan(plan_of_seed(seed), seed)
    assert [str(one) for one in outcome.violations] == []


def test_a_seed_determines_every_frame():
    first, second = (run_plan(plan_of_seed(7), 7)[0] for _ in range(2))
    assert first.digest == second.digest
    assert first.digest != run_plan(plan_of_seed(8), 8)[0].digest


def test_a_plan_contains_enough_events_and_messages():
    for seed in range(10):
        steps = plan_of_seed(seed).steps
        assert sum(step["do"] == "event" for step in steps) >= MIN_EVENTS
        assert sum(step["count"] for step in steps if step["do"] == "send") >= MIN_MESSAGES
