"""`make crash`: kill the broker at random moments, and check that it keeps its guarantees."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from interop.building import MissingError

from crash.scalable_trial import ScalableRound, scalable_load_command
from crash.trial import Round, load_command

_KILLS = 10
"""Kills in one round, which has its own data directory."""


def run_round(seed: int, load: list[str], *, scalable: bool) -> tuple[int, list[str], int]:
    """Run one round. Return the seed, the violated guarantees, and the number of events of the load."""
    kind = ScalableRound if scalable else Round
    with tempfile.TemporaryDirectory(prefix="pcli-crash-") as folder:
        round_ = kind(Path(folder), seed, lose_writes=seed % 2 == 1, load=load)
        try:
            return seed, round_.run(_KILLS), len(round_.events)
        except (RuntimeError, TimeoutError) as error:
            return seed, [str(error)], len(round_.events)


def main() -> int:
    """Run the trials. Return 0 if no guarantee was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30, help="number of kills")
    parser.add_argument("--start", type=int, default=0, help="first seed of a round")
    parser.add_argument("--resume", action="store_true", help="skip rounds that passed in an earlier run")
    parser.add_argument("--scalable", action="store_true", help="V5 clients on scalable topics of a broker of Pulsar 5")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    try:
        load = [str(word) for word in (scalable_load_command() if arguments.scalable else load_command())]
    except MissingError as error:
        print(f"crash: {error}", file=sys.stderr)
        return 2
    seeds = range(arguments.start, arguments.start + -(-arguments.trials // _KILLS))
    log = Path("build/crash-scalable.ndjson" if arguments.scalable else "build/crash.ndjson")
    log.parent.mkdir(exist_ok=True)
    done = _passed(log) if arguments.resume else set()
    failed, events, begin = 0, 0, time.monotonic()
    with ProcessPoolExecutor(arguments.workers) as pool, log.open("a" if arguments.resume else "w") as results:
        rounds = [pool.submit(run_round, seed, load, scalable=arguments.scalable) for seed in seeds if seed not in done]
        for count, future in enumerate(as_completed(rounds), 1):
            seed, violations, number = future.result()
            events += number
            failed += bool(violations)
            results.write(json.dumps({"seed": seed, "violations": violations, "events": number}) + "\n")
            results.flush()
            for line in violations[:10]:
                print(f"round {seed}: {line}")
            if violations:
                options = " SCALABLE=1" if arguments.scalable else ""
                print(f"  to repeat it: make crash TRIALS={_KILLS} START={seed}{options}")
            minutes = (time.monotonic() - begin) / 60
            print(
                f"{count * _KILLS} of {len(rounds) * _KILLS} trials, {failed} rounds failed, {minutes:.1f} min",
                flush=True,
            )
    earlier = f" ({len(done) * _KILLS} of them in earlier runs)" if done else ""
    print(f"{len(seeds) * _KILLS} trials{earlier}, {events} events of the clients, {failed} rounds failed")
    return 1 if failed else 0


def _passed(log: Path) -> set[int]:
    if not log.exists():
        return set()
    results = [json.loads(line) for line in log.read_text().splitlines()]
    return {result["seed"] for result in results if not result["violations"]}


if __name__ == "__main__":
    sys.exit(main())
