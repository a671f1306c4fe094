"""Benchmark of a stream: the cost of a batch as the tables grow.

    python bench/stream.py [--batches 40] [--size 5MB] [--workload u200] [--only messages]

A generated load is divided into files. Each batch is an incremental run on one more file, as in `pcli spark-stream`, in
one process. The medians of the ten batches after the first five and of the last ten batches, and their ratios, are
printed with their limits. Use --batches 100 --size 20MB to measure a load of 2 GB.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from load.load_writer import write_load
from load.settings import WORKLOADS, bytes_of

from pcli.codec.capture import Packet, read_packets
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request

LIMIT = 1.2
WARM_UP = 5
"""Batches at the start that are not compared: imports, and consumers that have not caught up."""
COMPARED = 10


@dataclass(frozen=True, slots=True)
class Batch:
    """The cost of a batch, and what there is after it."""

    cpu: float
    wall: float
    state_mb: float
    """Size of OUT/_state."""
    state_files: int
    table_files: int
    memory_mb: float
    """Memory of this process."""


def run_batch(paths: list[Path], out: Path, only: tuple[str, ...], horizon_s: float) -> Batch:
    """Run a batch; ``paths`` are all files so far."""
    cpu, wall = time.process_time(), time.perf_counter()
    request = Request(tuple(map(str, paths)), str(out), only=only, incremental=True, horizon_s=horizon_s)
    analyze(request, InProcess())
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    state = [path.stat().st_size for path in (out / "_state").rglob("*") if path.is_file()]
    tables = sum(1 for path in out.rglob("*.parquet"))
    return Batch(cpu, wall, sum(state) / 1e6, len(state), tables, _memory_mb())


def _seconds(paths: list[Path]) -> float:
    """Return the average time between the first packets of two files."""
    first, *_, last = (next(iter(packets_of(path))).time_ns for path in (paths[0], paths[-1]))
    return (last - first) / 1e9 / max(1, len(paths) - 1)


def packets_of(path: Path) -> Iterator[Packet]:
    """Yield the packets of a capture."""
    with path.open("rb") as file:
        yield from (item for item in read_packets([(path.name, file)]) if isinstance(item, Packet))


def _memory_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status contains no VmRSS")


def report(batches: list[Batch]) -> None:
    """Print the first and the last batches and their ratios."""
    first, last = batches[WARM_UP : WARM_UP + COMPARED], batches[-COMPARED:]
    print(f"\nmedians of {len(first)} batches after the first {WARM_UP}, and of the last {len(last)}")
    for name, limit in (("cpu", LIMIT), ("wall", LIMIT), ("state_mb", LIMIT), ("state_files", 0), ("table_files", 0),
                        ("memory_mb", LIMIT)):  # fmt: skip
        one, other = (median(getattr(batch, name) for batch in some) for some in (first, last))
        ratio = other / one if one else 0.0
        print(f"  {name:12} {one:9.2f} {other:9.2f}  ratio {ratio:5.2f}" + (f", at most {limit}" if limit else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--size", type=bytes_of, default=bytes_of("5MB"))
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="u200")
    parser.add_argument("--only", default="", help="tables, separated by commas; default: all tables")
    parser.add_argument("--horizon", type=float, default=5, help="batches after which rows are final; default: 5")
    options = parser.parse_args()
    only = tuple(options.only.split(",")) if options.only else ()
    load = replace(WORKLOADS[options.workload], size=options.batches * options.size, rotate=options.size)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_load(load, Path(folder) / "load")[: options.batches]
        horizon_s = options.horizon * _seconds(paths)
        print(f"horizon: {horizon_s:.1f} s of the load, {options.horizon:g} batches")
        batches = []
        for number in range(1, len(paths) + 1):
            one = run_batch(paths[:number], Path(folder) / "out", only, horizon_s)
            batches.append(one)
            print(
                f"batch {number:3}: {one.cpu:6.2f} CPU s, {one.wall:6.2f} s, state {one.state_mb:6.1f} MB in "
                f"{one.state_files} files, {one.memory_mb:5.0f} MB of memory",
                flush=True,
            )
    report(batches)


if __name__ == "__main__":
    main()
