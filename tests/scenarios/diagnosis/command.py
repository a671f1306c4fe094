"""Run generated scenarios and report which rules of the diagnosis are right.

    make scenarios SEEDS=200 BROKER=real RESUME=1

The exit code is 1 if a rule was wrong, and 2 if the broker is missing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed, wait
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from scenarios.brokers import BrokerError
from scenarios.connections import Broker
from scenarios.diagnosis.analysis import analyse, analysers
from scenarios.diagnosis.broker_pool import Brokers
from scenarios.diagnosis.checks import OUTCOMES, Outcome, check
from scenarios.diagnosis.drawing import plan_of_seed, recipes_for
from scenarios.diagnosis.execution import run
from scenarios.diagnosis.networks import NetworkMissingError, network_fault
from scenarios.diagnosis.partial_captures import cut
from scenarios.diagnosis.plan import CLIENTS, V5_CLIENT, Plan, Recipe
from scenarios.diagnosis.processes import client_fault
from scenarios.diagnosis.sniffing import can_sniff
from scenarios.results import Results

_SHARED = Path(__file__).parent.parent.parent.parent.parent / "shared"
_REAL = {"real": _SHARED / "real-broker" / "start", "real5": _SHARED / "real-broker-5" / "start"}
_KEEP_ALIVE = "keepAliveIntervalSeconds=5"
"""A shorter interval than the default, for scenarios in which a PING remains unanswered."""
_SETTINGS = {"real5": (_KEEP_ALIVE, "scalableTopicConsumerSessionGracePeriodSeconds=5")}
"""More settings of all brokers, by kind, with shorter times than the defaults."""
_EARLIER_S, _LATER_S = 0.3, 0.05
"""A broker of a busy machine processes frames so much later than they are captured; the capture lags behind by less."""


def outcomes_of_seed(
    seed: int,
    recipes: Sequence[Recipe],
    broker_for: Callable[[Plan], AbstractContextManager[Broker]],
    folder: Path,
    pool: ProcessPoolExecutor,
    *,
    sniffing: bool,
) -> tuple[list[str], list[Outcome]]:
    """Run a scenario; return the names of its recipes and the outcomes.

    ``broker_for`` returns a broker that fits a plan. ``folder`` receives the capture and logs.
    """
    plan = plan_of_seed(seed, recipes, f"s{time.time_ns() // 1_000_000:x}")
    try:
        with broker_for(plan) as broker:
            ran = run(plan, broker, folder, sniffing=sniffing)
    except (BrokerError, NetworkMissingError) as fault:
        return plan.recipes, [Outcome("scenario", "broken", f"cannot run because {fault}")]
    if ran.broken:
        return plan.recipes, [Outcome("scenario", "broken", text) for text in ran.broken]
    if sniffing and plan.part:
        first = cut(ran.capture, plan.part, ran.port)
        ran.samples = [sample for sample in ran.samples if sample.before - _EARLIER_S > first]
    elif plan.part:
        plan.part = ""
    times = [
        ("segments" if sample.scalable else "consumers", time)
        for sample in ran.samples
        for time in (sample.before - _EARLIER_S, sample.after + _LATER_S)
    ]
    try:
        analysis = analyse(pool, ran.capture, ran.port, times)
    except RuntimeError as fault:
        return plan.recipes, [Outcome("scenario", "broken", str(fault))]
    gaps = [one.text for one in analysis.findings if one.rule == "capture-incomplete"]
    if sniffing and gaps and not plan.part:
        return plan.recipes, [Outcome("scenario", "broken", f"tcpdump lost packets: {gaps[0]}")]
    return plan.recipes, check(plan, ran, analysis)


def _table(found: dict[int, list[Outcome]]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for outcomes in found.values():
        for one in outcomes:
            counts[one.rule][one.kind] += 1
    kinds = (*OUTCOMES, "broken")
    print(f"{'rule':<32}" + "".join(f"{kind:>13}" for kind in kinds))
    for rule, row in sorted(counts.items()):
        print(f"{rule:<32}" + "".join(f"{row[kind] or '':>13}" for kind in kinds))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--broker", choices=("real", "real5", "mini"), default="mini")
    parser.add_argument("--resume", action="store_true", help="use the results of earlier runs of the same code")
    parser.add_argument("--jobs", type=int, default=6, help="number of scenarios that run at the same time")
    parser.add_argument("--real", type=Path, help="the script that starts a real broker")
    parser.add_argument("--url", default="", help="service URL of a running broker instead of --real")
    parser.add_argument("--admin", default="", help="HTTP URL of that broker")
    parser.add_argument("--capture", choices=("auto", "tcpdump", "proxy"), default="auto", help="what captures")
    parser.add_argument("--quick", action="store_true", help="only recipes that take a few seconds")
    parser.add_argument("--client", action="append", choices=(*CLIENTS, V5_CLIENT), help="only this client; repeatable")
    parser.add_argument("--recipe", action="append", help="only this recipe; repeatable")
    parser.add_argument("--keep", type=Path, help="folder for the captures and logs of the seeds with failures")
    arguments = parser.parse_args()
    sniffing = arguments.capture == "tcpdump" or (arguments.capture == "auto" and can_sniff())
    is_5 = arguments.broker == "real5"
    wanted = arguments.client or ([V5_CLIENT] if is_5 else CLIENTS)
    clients = [name for name in wanted if _is_available(f"the {name} client", client_fault(name))]
    networks = sniffing and _is_available("networks", network_fault())
    recipes = recipes_for(
        quick=arguments.quick,
        sniffing=sniffing,
        clients=clients,
        networks=networks,
        restarts=arguments.broker != "mini",
    )
    recipes = [one for one in recipes if not arguments.recipe or one.name in arguments.recipe]
    if not recipes:
        parser.error(f"no recipe can run: {', '.join(arguments.recipe or wanted)}")
    words = [arguments.broker, "tcpdump" if sniffing else "proxy"]
    words += [*(["quick"] if arguments.quick else []), *(clients if arguments.client else [])]
    words += [*(["loopback"] if not networks else []), *(arguments.recipe or ())]
    kind = "-".join(words)
    results = Results(kind, "pcli-scenarios", _UNDER_TEST)
    seeds = range(arguments.start, arguments.start + arguments.seeds)
    found: dict[int, list[Outcome]] = {}
    names: dict[int, list[str]] = {}
    for seed in seeds if arguments.resume else ():
        kept = results.read(seed)
        if kept is not None:
            found[seed] = [Outcome(**one) for one in kept["outcomes"]]
            names[seed] = kept["recipes"]
    began = time.monotonic()
    try:
        with ExitStack() as stack:
            left = [seed for seed in seeds if seed not in found]
            if left:
                real = arguments.real or _REAL.get(arguments.broker)
                brokers = Brokers(real, _SETTINGS.get(arguments.broker, (_KEEP_ALIVE,)), stack)
                if arguments.url:
                    brokers.use(Broker(arguments.url, arguments.admin, arguments.broker))
                brokers.shared()
                folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
                pool = stack.enter_context(analysers(2))
                threads = stack.enter_context(ThreadPoolExecutor(arguments.jobs))
                running = {}
                for seed in left:
                    place = folder / str(seed)
                    future = threads.submit(
                        outcomes_of_seed, seed, recipes, brokers.broker_for, place, pool, sniffing=sniffing
                    )
                    if not running:
                        wait([future])  # a broker that has just started is slow
                    running[future] = seed
                for done in as_completed(running):
                    seed = running[done]
                    names[seed], found[seed] = done.result()
                    results.write(seed, {"recipes": names[seed], "outcomes": [vars(one) for one in found[seed]]})
                    if all(one.kind == "right" for one in found[seed]):
                        shutil.rmtree(folder / str(seed), ignore_errors=True)
                    print(f"\r{len(found)}/{len(seeds)} scenarios", end="", file=sys.stderr)
                print(f", {time.monotonic() - began:.0f} s", file=sys.stderr)
    except (BrokerError, OSError) as fault:
        print(f"scenarios: {fault}", file=sys.stderr)
        return 2
    _table(found)
    words = [*(["--quick"] if arguments.quick else []), *([] if sniffing else ["--capture proxy"])]
    words += [f"--recipe {name}" for name in arguments.recipe or ()]
    words += [f"--client {name}" for name in arguments.client or ()]
    options = f"BROKER={arguments.broker}" + (f" SCENARIO_OPTIONS='{' '.join(words)}'" if words else "")
    for seed, outcomes in sorted(found.items()):
        bad = [one for one in outcomes if one.kind != "right"]
        if bad:
            print(f"\nseed {seed}: {', '.join(names[seed])}: make scenarios SEEDS=1 START={seed} {options}")
            for one in bad:
                print(f"  {one.kind} {one.rule}: {one.detail}")
    return 1 if any(one.kind != "right" for outcomes in found.values() for one in outcomes) else 0


def _is_available(what: str, fault: str) -> bool:
    """Return whether there is no fault; otherwise print which recipes cannot run, and why."""
    if fault:
        print(f"scenarios: without the recipes for {what}: {fault}", file=sys.stderr)
    return not fault


_UNDER_TEST = ("minibroker", "codec", "cli", "replay/proxy", "tests/scenarios")


if __name__ == "__main__":
    sys.exit(main())
