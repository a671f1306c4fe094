"""Benchmark of `analyze` and `spark-analyze` on generated load, with tshark in the same run.

    python bench/spark.py [--size 100MB] [--large 400MB] [--workloads u200,u1k,b200]

CPU seconds are those of the whole process tree. The cost of a command on a file of 5 MB is its fixed cost and is
printed separately; rates apply to the bytes above 5 MB. The issue's figures are for --size 400MB --large 2GB. tshark
prints four TCP fields (`-d tcp.port==6650,data -T fields …`); it has no Pulsar dissector here and does much less than
pcli. The ratios to the goals are printed (1.00: reached). The goals were set on a machine with a known rate of tshark
(TSHARK); ``scaled`` ratios take tshark's rate in this run into account. The cheaper of two runs is used, because other
load on the machine increases CPU seconds. ``--parts engines`` compares RDDs with Spark Connect. ``--parts batch`` runs
two incremental runs: on a file of --size, and on further files with --large bytes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import median

from load.load_writer import write_load
from load.process_cost import Cost, cost_of
from load.settings import WORKLOADS, bytes_of

FIXED = 5_000_000
"""Bytes of the file on which a command shows its fixed cost."""
TABLES = "messages,exchanges"
GOALS = {
    ("analyze", "u200"): (800.0, 170.0),
    ("spark", "u200"): (340.0, 0.0),
    ("spark", "u1k"): (0.0, 140.0),
    ("spark", "b200"): (0.0, 230.0),
}
"""Thousand frames and megabytes per CPU second; 0 if there is no goal."""
TSHARK = {"u200": 76.0, "u1k": 84.0, "b200": 85.0}
"""Megabytes per CPU second of tshark on the machine for which the goals were set (../shared/design/spark-design.md)."""
RUNS = 2
ENGINE_RUNS, ENGINE_LIMIT = 3, 1.10
CONNECT_RUN = str(Path(__file__).parent / "load" / "connect_run.py")
FIXED_GOAL, LAG_GOAL, SCALING_GOAL, WORKER_GOAL = 13.0, 1.10, 1.8, 650.0
TCP_FIELDS = ("tcp.stream", "tcp.seq", "tcp.ack", "tcp.len")


@dataclass(frozen=True, slots=True)
class Capture:
    """A generated load."""

    name: str
    path: Path
    megabytes: float
    frames: int
    packets: int


class Bench:
    """Generates captures, runs commands on them, and removes captures and results."""

    def __init__(self, folder: Path, sizes: tuple[int, int]) -> None:
        self.folder, self.sizes = folder, sizes
        self.speed: dict[str, float] = {}
        """tshark's rate here divided by its rate on the machine of the goals, by workload."""

    def capture(self, name: str, size: int) -> Capture:
        """Return a workload of approximately this size."""
        target = self.folder / f"{name}-{size}"
        if not (target / "load.json").exists():
            write_load(replace(WORKLOADS[name], size=size), target, name)
            for part in ("truth.parquet", "lost.parquet"):
                (target / part).unlink()
        options = json.loads((target / "load.json").read_text())
        return Capture(
            name, target / options["files"][0], options["bytes"] / 1e6, options["frames"], options["packets"]
        )

    def forget(self, name: str) -> None:
        """Remove the captures of a workload."""
        for target in self.folder.glob(f"{name}-*"):
            shutil.rmtree(target)

    def analyze(self, capture: Capture) -> Cost:
        """Run in one process; return the cheapest of several runs."""
        return min((self.tables(capture, TABLES) for _ in range(RUNS)), key=lambda cost: cost.cpu)

    def tables(self, capture: Capture, only: str) -> Cost:
        """Run in one process; all tables if ``only`` is empty."""
        return self._pcli("analyze", capture, ["--only", only] if only else [])

    def spark(self, capture: Capture, cores: int = 2) -> Cost:
        """Run on Spark with this number of cores; return the cheapest of several runs."""
        words = ["--only", TABLES, "--master", f"local[{cores}]"]
        return min((self._pcli("spark-analyze", capture, words) for _ in range(RUNS)), key=lambda cost: cost.cpu)

    def engines(self, capture: Capture) -> dict[str, list[Cost]]:
        """Run the RDDs of a local Spark and a local Spark Connect server in turn, several times."""
        costs: dict[str, list[Cost]] = {"local[2]": [], "sc://": []}
        for _ in range(ENGINE_RUNS):
            costs["local[2]"].append(self._pcli("spark-analyze", capture, ["--only", TABLES, "--master", "local[2]"]))
            costs["sc://"].append(self._run([CONNECT_RUN], capture, ["--only", TABLES]))
        return costs

    def _pcli(self, command: str, capture: Capture, more: list[str]) -> Cost:
        return self._run(["-m", "pcli.cli", command], capture, more)

    def _run(self, program: list[str], capture: Capture, more: list[str]) -> Cost:
        with tempfile.TemporaryDirectory(dir=self.folder) as out:
            return cost_of([sys.executable, *program, str(capture.path), "-o", f"{out}/tables", *more])


# -- in one process ----------------------------------------------------------------------------------------------------


def one_process(bench: Bench, names: list[str]) -> None:
    fixed = bench.analyze(bench.capture("u200", FIXED))
    print(f"analyze --only {TABLES}, one process; fixed cost {fixed.cpu:.1f} CPU s")
    _heading()
    for name in names:
        capture = bench.capture(name, bench.sizes[0])
        cost = bench.analyze(capture)
        peer = _peer(bench, capture)
        _rate(bench, "analyze", capture, capture.megabytes - FIXED / 1e6, cost.cpu - fixed.cpu, cost.driver_mb)
        if peer is not None:
            frames, rate = capture.frames / peer.cpu / 1e3, capture.megabytes / peer.cpu
            print(f"  {'tshark, 4 TCP fields':20} {peer.cpu:7.1f} {frames:11,.0f} {'':20} {rate:6,.0f}")
            print(f"  {name}: {peer.cpu / cost.cpu:.1f} times as fast as tshark, fixed cost included")


def _heading() -> None:
    goal = f"{'goal':>6} {'ratio':>6} {'scaled':>6}"
    print(f"  {'':20} {'CPU s':>7} {'k frames/s':>11} {goal} {'MB/s':>6} {goal} {'peak MB':>8}")


def _peer(bench: Bench, capture: Capture) -> Cost | None:
    """Run tshark on the same capture, and record the speed of this machine."""
    if not shutil.which("tshark"):
        print("  tshark is not installed: nothing to compare with")
        return None
    peer = min((cost_of(_tshark(capture)) for _ in range(RUNS)), key=lambda cost: cost.cpu)
    if capture.name in TSHARK:
        bench.speed[capture.name] = capture.megabytes / peer.cpu / TSHARK[capture.name]
    return peer


def _tshark(capture: Capture) -> list[str]:
    fields = [word for field in TCP_FIELDS for word in ("-e", field)]
    return ["tshark", "-r", str(capture.path), "-d", "tcp.port==6650,data", "-T", "fields", *fields]


def _rate(bench: Bench, command: str, capture: Capture, megabytes: float, cpu: float, peak_mb: float) -> None:
    """Print one line with the cost of ``megabytes`` of a capture."""
    if cpu <= 0:
        print(f"  {command} {capture.name}: no more than the fixed cost; take a larger --size")
        return
    goals = GOALS.get((command, capture.name), (0.0, 0.0))
    rates = capture.frames * megabytes / capture.megabytes / cpu / 1e3, megabytes / cpu
    speed = bench.speed.get(capture.name)
    cells = ""
    for rate, goal, width in zip(rates, goals, (11, 6)):
        ratio = f"{rate / goal:.2f}" if goal else ""
        scaled = f"{rate / goal / speed:.2f}" if goal and speed else ""
        cells += f" {rate:{width},.0f} {f'{goal:.0f}' if goal else '':>6} {ratio:>6} {scaled:>6}"
    print(f"  {command + ' ' + capture.name:20} {cpu:7.1f}{cells} {peak_mb:8,.0f}")


def apart(bench: Bench) -> None:
    """Print the additional cost of other tables."""
    capture = bench.capture("u200", bench.sizes[0])
    base = bench.analyze(capture).cpu
    print(f"\nother tables, u200 of {capture.megabytes:.0f} MB; {TABLES} alone: {base:.1f} CPU s")
    for words in ("permits", "keys", "findings", ""):
        only = f"{TABLES},{words}" if words else ""
        cost = bench.tables(capture, only)
        more = (cost.cpu - base) / capture.frames * 1e6
        name = f"with {words}" if words else "all tables"
        print(f"  {name:20} {cost.cpu:7.1f} CPU s, {more:+6.1f} us a frame, {cost.driver_mb:,.0f} MB")


# -- on Spark ----------------------------------------------------------------------------------------------------------


def on_spark(bench: Bench, names: list[str]) -> None:
    fixed = bench.spark(bench.capture("u200", FIXED))
    small, large = (size / 1e6 for size in bench.sizes)
    print(f"\nspark-analyze --only {TABLES} --master local[2]")
    _goal("fixed cost, CPU s", fixed.cpu, FIXED_GOAL, most=True)
    print(f"  of which Java {fixed.java_cpu:.1f}; below: what lies between {small:,.0f} and {large:,.0f} MB")
    _heading()
    worker, costs = 0.0, {}
    for name in names:
        if name not in bench.speed:
            _peer(bench, bench.capture(name, bench.sizes[0]))
        one, other = (bench.capture(name, size) for size in bench.sizes)
        first, second = bench.spark(one), bench.spark(other)
        _rate(bench, "spark", other, other.megabytes - one.megabytes, second.cpu - first.cpu, second.worker_mb)
        worker, costs[name] = max(worker, second.worker_mb), second
        if name != "u200":
            bench.forget(name)
    _lag(bench, costs.get("u200"))
    _scaling(bench, costs.get("u200"), fixed)
    _goal("memory of a Python worker, MB", worker, WORKER_GOAL, most=True)


def _lag(bench: Bench, usual: Cost | None) -> None:
    """Measure consumers that lag by more than a split."""
    capture = bench.capture("lag", bench.sizes[1])
    lag = bench.spark(capture)
    bench.forget("lag")
    if usual is not None:
        megabytes = bench.capture("u200", bench.sizes[1]).megabytes
        ratio = lag.cpu / capture.megabytes / (usual.cpu / megabytes)
        _goal("lagging consumers, CPU against u200", ratio, LAG_GOAL, most=True)


def _scaling(bench: Bench, two: Cost | None, fixed: Cost) -> None:
    """Compare the wall seconds after the start with one task at a time and with two."""
    if two is None:
        return
    capture = bench.capture("u200", bench.sizes[1])
    one, start = bench.spark(capture, 1), bench.spark(bench.capture("u200", FIXED), 1)
    print(f"  wall seconds: local[1] {one.wall:.1f} (start {start.wall:.1f}), local[2] {two.wall:.1f}"
          f" (start {fixed.wall:.1f})")  # fmt: skip
    alone, together = one.wall - start.wall, two.wall - fixed.wall
    if min(alone, together) > 0:
        _goal("scaling from one core to two", alone / together, SCALING_GOAL)
    else:
        print("  scaling: the start took longer than the whole; others use this machine, or --large is too small")


def batches(bench: Bench) -> None:
    """Print the cost of two incremental runs on one recording."""
    print(f"\nspark-analyze --incremental --only {TABLES}, u200: two files of a recording, one in each run")
    load = bench.folder / "rotated"
    first, *others = write_load(replace(WORKLOADS["u200"], size=sum(bench.sizes), rotate=bench.sizes[0]), load)
    files = (first, _joined(others, load / "large.pcap"))
    for cores in (1, 2):
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            words = ["-o", f"{folder}/out", "--only", TABLES, "--incremental", "--master", f"local[{cores}]"]
            for count in (1, 2):
                captures = map(str, files[:count])
                cost = cost_of([sys.executable, "-m", "pcli.cli", "spark-analyze", *captures, *words])
                megabytes = files[count - 1].stat().st_size / 1e6
                print(f"  local[{cores}] {megabytes:9,.0f} MB {cost.cpu:7.1f} CPU s {cost.wall:7.1f} s"
                      f" {cost.worker_mb:8,.0f} MB of a worker")  # fmt: skip
    shutil.rmtree(load)


def _joined(paths: list[Path], target: Path) -> Path:
    """Write the packets of pcap files to one file, and return it."""
    with target.open("wb") as out:
        for path in paths:
            with path.open("rb") as file:
                file.seek(24 if out.tell() else 0)
                shutil.copyfileobj(file, out)
    return target


def engines(bench: Bench) -> None:
    """Compare the RDDs of a local Spark with a Spark Connect server that starts and ends with each run."""
    print(f"\nspark-analyze --only {TABLES}, u200: local[2] and a Spark Connect server, medians of {ENGINE_RUNS} runs")
    print(f"  {'':12} {'':10} {'CPU s':>7} {'of Java':>8} {'wall s':>7} {'worker MB':>10}")
    medians: list[dict[str, Cost]] = []
    for size in (FIXED, *bench.sizes):
        capture = bench.capture("u200", size)
        found = {name: _median(costs) for name, costs in bench.engines(capture).items()}
        for name, cost in found.items():
            print(
                f"  {capture.megabytes:9,.0f} MB {name:10} {cost.cpu:7.1f} {cost.java_cpu:8.1f} {cost.wall:7.1f}"
                f" {cost.worker_mb:10,.0f}"
            )
        _engine_ratio("whole run", found, {})
        medians.append(found)
    for number, what in ((1, "above the fixed cost"), (2, "between the two sizes")):
        base = medians[0] if number == 1 else medians[1]
        _engine_ratio(what, medians[2], base)


def _median(costs: list[Cost]) -> Cost:
    """Return the median of each figure."""
    return Cost(*(median(getattr(cost, field.name) for cost in costs) for field in fields(Cost)))


def _engine_ratio(what: str, costs: dict[str, Cost], base: dict[str, Cost]) -> None:
    """Print the cost of Spark Connect divided by that of RDDs."""
    cells = []
    for figure in ("cpu", "wall"):
        rdd, connect = (getattr(costs[name], figure) - (getattr(base[name], figure) if base else 0.0) for name in costs)
        cells.append(f"{figure} {connect / rdd:.2f}" if rdd > 0 else f"{figure}: too small")
    print(f"  sc:// / local[2], {what}: {', '.join(cells)} (limit {ENGINE_LIMIT:g})")


def _goal(what: str, value: float, goal: float, *, most: bool = False) -> None:
    ratio = goal / value if most and value else value / goal
    print(f"  {what:40} {value:8,.2f}, goal {'at most' if most else 'at least'} {goal:g}: {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=bytes_of, default=bytes_of("100MB"))
    parser.add_argument("--large", type=bytes_of, default=bytes_of("400MB"))
    parser.add_argument("--workloads", default="u200,u1k,b200")
    parser.add_argument("--folder", type=Path, help="where captures are kept from run to run")
    parser.add_argument("--parts", default="process,tables,spark", help="which of these, engines and batch")
    options = parser.parse_args()
    names = options.workloads.split(",")
    with tempfile.TemporaryDirectory() as folder:
        if options.folder is not None:
            options.folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(options.folder or Path(folder), (options.size, options.large))
        parts = {"process": lambda: one_process(bench, names), "tables": lambda: apart(bench)}
        parts |= {
            "spark": lambda: on_spark(bench, names),
            "engines": lambda: engines(bench),
            "batch": lambda: batches(bench),
        }
        for word in options.parts.split(","):
            parts[word]()


if __name__ == "__main__":
    main()
