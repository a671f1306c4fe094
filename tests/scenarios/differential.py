"""Run generated plans against two brokers and report the differences.

    make differential SEEDS=100 START=0 RESUME=1 REAL=5

The first broker is a real one, the second is the mini-broker of the same version; both are started, or URL and ADMIN
name the first. REAL is 4 (Pulsar 4.2.4), 5 (5.0.1) or the script that starts a broker. With 5.0.1, the plans use
scalable topics, unless PLANS=classic. A seed with differences runs again with longer waits, and only differences that
both runs have are reported. The exit code is 1 if there are differences and 2 if a broker is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from hypothesis.strategies import SearchStrategy
from scenarios.brokers import STARTS, BrokerError, mini_broker, real_broker
from scenarios.comparison import Difference
from scenarios.connections import Broker
from scenarios.pairs import Pair
from scenarios.plans import Plan, plan_of_seed
from scenarios.results import Results
from scenarios.scalable.executor import GRACE_S
from scenarios.scalable.plans import strategy as scalable_strategy
from scenarios.simplification import simplest

from pcli.minibroker.versions import NAMES

_SETTINGS = f"scalableTopicConsumerSessionGracePeriodSeconds={GRACE_S}", "scalableTopicLoadReportIntervalSeconds=3600"
"""Settings of both brokers. An older version ignores them. Load reports would appear in the statistics at some time."""

Strategy = SearchStrategy[Plan] | None


async def _run_seeds(
    pair: Pair, seeds: list[int], jobs: int, results: Results, strategy: Strategy
) -> dict[int, list[Difference]]:
    found: dict[int, list[Difference]] = {}
    room, began = asyncio.Semaphore(jobs), time.monotonic()

    async def one(seed: int) -> None:
        async with room:
            plan = await asyncio.to_thread(plan_of_seed, seed, strategy)
            found[seed] = await pair.differences(seed, plan)
            results.put(seed, found[seed])
            bad = sum(map(bool, found.values()))
            seconds = time.monotonic() - began
            print(
                f"\r{len(found)}/{len(seeds)} seeds, {bad} with differences, {seconds:.0f} s", end="", file=sys.stderr
            )

    await asyncio.gather(*map(one, seeds))
    print(file=sys.stderr)
    return found


def _report(found: dict[int, list[Difference]]) -> list[tuple[str, int]]:
    """Print the table by area; return each area with the seed of its shortest example."""
    seeds: dict[str, list[int]] = {}
    total: Counter[str] = Counter()
    for seed, differences in sorted(found.items()):
        for one in differences:
            total[one.area] += 1
            seeds.setdefault(one.area, []).append(seed)
    print(f"{'differences':>11}  {'seeds':>5}  area")
    for area, number in total.most_common():
        print(f"{number:>11}  {len(set(seeds[area])):>5}  {area}")
    print(f"{sum(total.values()):>11}  {sum(map(bool, found.values())):>5}  of {len(found)} seeds")
    firsts: dict[str, int] = {}
    for seed, differences in sorted(found.items()):
        if differences:
            firsts.setdefault(differences[0].area, seed)
    return list(firsts.items())


def _show(seed: int, differences: list[Difference], pair: Pair) -> None:
    print(f"\nseed {seed}: make differential SEEDS=1 START={seed}")
    for one in differences[:5]:
        print(f"  step {one.step}: {one.area}")
        if one.request:
            print(f"    request        {one.request}")
        print(f"    {pair.first.name:<14} {one.first}\n    {pair.second.name:<14} {one.second}")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="use the results of earlier runs of the same code")
    parser.add_argument("--jobs", type=int, default=24, help="number of plans that run at the same time")
    parser.add_argument(
        "--real", default="4", help="4 (Pulsar 4.2.4), 5 (5.0.1) or the script that starts a real broker"
    )
    parser.add_argument("--pulsar", choices=NAMES, help="the version of that script or of --url; by default 4.2.4")
    parser.add_argument("--plans", choices=("classic", "scalable"), help="by default scalable with Pulsar 5.0.1")
    parser.add_argument("--url", default="", help="service URL of a running broker instead of --real")
    parser.add_argument("--admin", default="", help="HTTP URL of that broker")
    parser.add_argument("--shrink", type=float, default=60, help="seconds to simplify one plan; 0: no simplification")
    arguments = parser.parse_args()
    version = arguments.pulsar or next((name for name in NAMES if name.startswith(f"{arguments.real}.")), NAMES[0])
    plans = arguments.plans or ("classic" if version == NAMES[0] else "scalable")
    strategy = scalable_strategy() if plans == "scalable" else None
    results = Results(f"{version}-{plans}")
    seeds = list(range(arguments.start, arguments.start + arguments.seeds))
    found = {seed: kept for seed in seeds if arguments.resume and (kept := results.get(seed)) is not None}
    left = [seed for seed in seeds if seed not in found]
    if found:
        print(f"{len(found)} of {len(seeds)} seeds have a result for this code in {results.folder}", file=sys.stderr)
    try:
        with ExitStack() as stack:
            pair = None
            if left or (any(found.values()) and arguments.shrink):
                if arguments.url:
                    real = Broker(arguments.url, arguments.admin, "real broker")
                else:
                    start = STARTS[version] if arguments.real in ("4", "5") else Path(arguments.real)
                    real = stack.enter_context(real_broker(start, *_SETTINGS))
                pair = Pair(real, stack.enter_context(mini_broker(*_SETTINGS, version=version)))
                found |= asyncio.run(_run_seeds(pair, left, arguments.jobs, results, strategy))
            firsts = _report(found)
            if pair is not None and pair.unstable:
                print(f"{pair.unstable:>11}         more did not occur in the second run")
            for seed, differences in sorted(found.items()):
                if differences and pair is not None:
                    _show(seed, differences, pair)
            for area, seed in firsts if arguments.shrink and pair is not None else ():
                _print_simplest(pair, seed, area, arguments.shrink, strategy)
    except (BrokerError, OSError) as fault:
        print(f"differential: {fault}", file=sys.stderr)
        return 2
    return 1 if any(found.values()) else 0


def _print_simplest(pair: Pair, seed: int, area: str, limit_s: float, strategy: Strategy) -> None:
    found, differences = simplest(pair, seed, area, limit_s, strategy)
    if found is None:
        print(f"\n{area}: seed {seed} did not reproduce it")
        return
    print(f"\n{area}: the simplest plan found for seed {seed}")
    plan = found.as_dict()
    print(f"  topics {json.dumps(plan['topics'])} policies {json.dumps(plan['policies'])}")
    for number, step in enumerate(plan["steps"], start=1):
        print(f"  {number} {json.dumps(step)}")
    _show(seed, differences, pair)


if __name__ == "__main__":
    sys.exit(main())
