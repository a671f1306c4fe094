"""The run of each mutant until an invariant is violated."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial

from simulation.execution import run_plan
from simulation.mutants import MUTANTS
from simulation.plans import plan_of_seed

__all__ = ["first_violation", "print_table"]


def first_violation(name: str, seeds: int, start: int = 0) -> tuple[str, int, str]:
    """Run seeds with a mutant until one violates an invariant.

    Return the invariant, the number of seeds and the text of the violation; an empty invariant if none is violated.
    """
    for number, seed in enumerate(range(start, start + seeds), start=1):
        with MUTANTS[name].applied():
            outcome, _ = run_plan(plan_of_seed(seed), seed)
        if outcome.violations:
            return outcome.violations[0].invariant, number, str(outcome.violations[0])
    return "", seeds, ""


def print_table(seeds: int, start: int, jobs: int) -> int:
    """Print the table of all mutants. Return 1 if one is not detected."""
    with ProcessPoolExecutor(jobs) as pool:
        found = list(pool.map(partial(first_violation, seeds=seeds, start=start), MUTANTS))
    print(f"{'mutant':<36} {'invariant':<44} seeds")
    for name, (invariant, number, _) in zip(MUTANTS, found):
        print(f"{name:<36} {invariant or 'none':<44} {number:>5}")
    missed = sum(not invariant for invariant, _, _ in found)
    print(f"{len(found) - missed} of {len(found)} mutants are detected")
    return 1 if missed else 0
