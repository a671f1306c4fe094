"""The run of each mutant until an invariant is violated.

A seed in which a program fails does not count: the mutant is then detected by an accident, such as an exception, and
not by an invariant that concerns its defect.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial

from simulation.mutants import MUTANTS
from simulation.outcomes import run_plan
from simulation.plans import plan_of_seed


def first_violations(name: str, seeds: int, start: int = 0) -> tuple[list[str], int]:
    """Run seeds with a mutant until one violates invariants and no program fails.

    Return the names of these invariants and the number of seeds; no names if there is no such seed.
    """
    for number, seed in enumerate(range(start, start + seeds), start=1):
        with MUTANTS[name].applied():
            outcome, _ = run_plan(plan_of_seed(seed), seed)
        found = list(dict.fromkeys(one.invariant for one in outcome.violations))
        if found and "no_program_fails" not in found:
            return found, number
    return [], seeds


def print_table(seeds: int, start: int, jobs: int) -> int:
    """Print the table of all mutants with the invariants that detect them. Return 1 if one is not detected."""
    missed = 0
    print(f"{'mutant':<36} seeds invariants")
    with ProcessPoolExecutor(jobs) as pool:
        results = pool.map(partial(first_violations, seeds=seeds, start=start), MUTANTS)
        for name, (invariants, number) in zip(MUTANTS, results):
            missed += not invariants
            print(f"{name:<36} {number:>5} {', '.join(invariants) or 'none'}", flush=True)
    print(f"{len(MUTANTS) - missed} of {len(MUTANTS)} mutants are detected")
    return 1 if missed else 0
