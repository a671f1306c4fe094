"""Run the plans of seeds in the simulated network, and report the violations of invariants.

    make simulate SEEDS=10000 START=0 RESUME=1
    make simulate SEEDS=1 START=17
    make mutants

Each seed with a violation is printed with the command that reproduces it, and its frames are written to a capture. The
exit code is 1 if an invariant is violated, or if a mutant is not caught.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from scenarios.plans import Plan
from scenarios.results import Results
from scenarios.simplification import simplest_failing
from simulation.execution import MIN_FRAMES
from simulation.invariants import INVARIANTS, Violation
from simulation.outcomes import run_plan
from simulation.plans import plan_of_seed, strategy

from pcli.codec.capture.tap_recording import Recording

_UNDER_TEST = (
    "minibroker",
    "codec",
    "replay/client",
    "tests/simulation",
    "tests/scenarios",
    "tests/minibroker/storage",
)
_PROGRESS_S = 5


def run_seed(seed: int) -> dict[str, Any]:
    """Run the plan of a seed. Return its counts and violations as JSON."""
    outcome, _ = run_plan(plan_of_seed(seed), seed)
    return {
        "seed": seed,
        "frames": outcome.frames,
        "events": dict(outcome.events),
        "checks": dict(outcome.checks),
        "exempt": dict(outcome.exempt),
        "violations": [[one.invariant, one.step, one.text] for one in outcome.violations],
    }


def write_capture(seed: int, plan: Plan, path: Path) -> None:
    """Run a plan again, and write its frames as pcapng."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        run_plan(plan, seed, tap=Recording(file))


def simplest(seed: int, invariant: str, limit_s: float) -> tuple[Plan | None, list[Violation]]:
    """Return the simplest plan found that violates an invariant, and its violations."""

    async def violations(plan: Plan) -> list[Violation]:
        return [one for one in run_plan(plan, seed)[0].violations if one.invariant == invariant]

    return simplest_failing(violations, seed, limit_s, strategy(), at_once=1)


def _results(seeds: list[int], jobs: int, results: Results, *, resume: bool) -> Iterator[dict[str, Any]]:
    """Yield the result of each seed; those of an earlier run first."""
    left = []
    for seed in seeds:
        kept = results.read(seed) if resume else None
        if kept is None:
            left.append(seed)
        else:
            yield kept
    began = shown = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        for done, result in enumerate(pool.map(run_seed, left, chunksize=4), start=1):
            results.write(result["seed"], result)
            yield result
            if time.monotonic() - shown > _PROGRESS_S:
                shown = time.monotonic()
                rate = done / (shown - began) * 60
                print(f"\r{done}/{len(left)} seeds, {rate:.0f} per minute", end="", file=sys.stderr)
    print(file=sys.stderr)
    seconds = max(time.monotonic() - began, 0.001)
    print(f"{len(left)} seeds in {seconds:.0f} s, {len(left) / seconds * 60:.0f} seeds per minute, {jobs} processes")


def _print_table(found: list[dict[str, Any]]) -> None:
    events: Counter[str] = Counter()
    violated: Counter[str] = Counter()
    for result in found:
        events.update(result["events"])
        violated.update({name for name, _, _ in result["violations"]})
    frames = [result["frames"] for result in found]
    small = sum(one < MIN_FRAMES for one in frames)
    print(f"{'seeds':>12} {len(found)}")
    print(f"{'frames':>12} {sum(frames)}, {min(frames)} to {max(frames)} per seed; {small} seeds below {MIN_FRAMES}")
    print(
        f"{'events':>12} {sum(events.values())}, {min(sum(one['events'].values()) for one in found)} or more per seed"
    )
    for name, count in events.most_common():
        print(f"{count:>12} {name}")
    print(f"\n{'invariant':<48} {'violated':>8} {'checks':>10} {'in seeds':>8} {'exempt':>8}")
    for name in (one.__name__ for one in INVARIANTS):
        checks = [result["checks"].get(name, 0) for result in found]
        exempt = sum(result["exempt"].get(name, 0) for result in found)
        print(f"{name:<48} {violated[name]:>8} {sum(checks):>10} {sum(map(bool, checks)):>8} {exempt:>8}")


def _report(result: dict[str, Any], folder: Path) -> None:
    seed = result["seed"]
    path = folder / f"seed-{seed}.pcapng"
    write_capture(seed, plan_of_seed(seed), path)
    print(f"\nseed {seed}: make simulate SEEDS=1 START={seed}\n  capture {path}")
    for name, step, text in result["violations"][:5]:
        print(f"  {name}, step {step}: {text}")


def _print_simplest(seed: int, invariant: str, limit_s: float) -> None:
    plan, violations = simplest(seed, invariant, limit_s)
    if plan is None:
        print(f"\n{invariant}: seed {seed} did not reproduce it")
        return
    print(f"\n{invariant}: the simplest plan found for seed {seed}\n  {violations[0]}")
    print(f"  topics {json.dumps(plan.topics)} policies {json.dumps(plan.policies)}")
    for number, step in enumerate(plan.steps, start=1):
        print(f"  {number} {json.dumps(step)}")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="use the results of earlier runs of the same code")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--shrink", type=float, default=20, help="seconds to simplify one plan; 0: no simplification")
    parser.add_argument("--capture-dir", type=Path, default=Path("build/simulation"), help="folder of the captures")
    parser.add_argument("--mutants", action="store_true", help="break the broker, and report when this is detected")
    arguments = parser.parse_args()
    if arguments.mutants:
        from simulation.mutants.table import print_table

        return print_table(arguments.seeds, arguments.start, arguments.jobs)
    seeds = list(range(arguments.start, arguments.start + arguments.seeds))
    results = Results("mini", "pcli-simulation", _UNDER_TEST)
    found = list(_results(seeds, arguments.jobs, results, resume=arguments.resume))
    if not found:
        return 0
    _print_table(found)
    failed = [result for result in found if result["violations"]]
    for result in failed[:20]:
        _report(result, arguments.capture_dir)
    first = {}
    for result in failed:
        for name, _, _ in result["violations"]:
            first.setdefault(name, result["seed"])
    for name, seed in first.items() if arguments.shrink else ():
        _print_simplest(seed, name, arguments.shrink)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
