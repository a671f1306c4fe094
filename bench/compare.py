"""Ratios of the main commands to those of another revision, on the same inputs in one run.

    python bench/compare.py REV [--megabytes 40] [--messages 200000] [--pairs 5] [--only diagnose]

REV is installed without dependencies in a temporary folder; both revisions use the packages of this environment. Each
row runs alternately with REV and with this tree. Printed: the medians of CPU seconds, wall seconds and peak memory of
this tree, and the median of each pair's ratio to REV; a ratio below 1 means less than REV. The capture is that of
bench/dissect.py, which has many short connections; a load is the workload u200 of bench/generate.py.

Rows without `-j` run in one process of this tree. Of the rows with `-j 2`, compare only the wall seconds: the CPU of
the workers is not counted, and REV runs as it does by default.

The rows of the broker are its start up to the first accepted producer, and a number of unbatched messages that are
published and consumed; `wall` and `memory` are then also those of the broker.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).parent.parent

FEW = "pulsar.type == 'SUBSCRIBE' or pulsar.message.redelivery_count > 0"
"""A filter that keeps little."""


class Cost(NamedTuple):
    """The cost of one process."""

    cpu: float
    wall: float
    peak_mb: float


def captures(folder: Path, megabytes: int) -> tuple[Path, Path, int]:
    """Write both captures; return their paths and the number of frames in the first.

    It runs in a process of its own: the peak memory of a process includes that of the process that started it.
    """
    from dataclasses import replace

    from dissect import make
    from load.load_writer import write_load
    from load.settings import WORKLOADS

    capture = folder / "bench.pcapng"
    frames = make(HERE / "tests" / "captures", capture, megabytes)
    [load] = write_load(replace(WORKLOADS["u200"], size=megabytes * 1_000_000), folder / "u200", "u200")
    return capture, load, frames


def commands(capture: Path, load: Path, folder: Path) -> dict[str, list[str]]:
    """Return the arguments of pcli for each row. REV runs without ``-j``."""
    tables = ["analyze", str(capture), "-o", str(folder / "tables"), "-j"]
    return {
        "pcli --help": ["--help"],
        "pcli --version": ["--version"],
        "pcli decode": ["decode", "0000000c00000008080b5a040801100a"],
        "dissect, filter that keeps little": ["dissect", "-r", str(capture), "-Y", FEW],
        "dissect, that filter, a load": ["dissect", "-r", str(load), "-Y", FEW],
        "dissect, every line": ["dissect", "-r", str(capture), "--system"],
        "dissect -T ndjson": ["dissect", "-r", str(capture), "--system", "-T", "ndjson"],
        "diagnose": ["diagnose", "-r", str(capture), "-j", "1"],
        "diagnose, -j 2": ["diagnose", "-r", str(capture), "-j", "2"],
        "stats topics": ["stats", "topics", "-r", str(capture)],
        "stats balances": ["stats", "balances", "-r", str(capture)],
        "trace": ["trace", "-r", str(capture)],
        "analyze, all tables": [*tables, "1"],
        "analyze, all tables, -j 2": [*tables, "2"],
        "analyze, messages, a load": [
            "analyze",
            str(load),
            "-o",
            str(folder / "load"),
            "--only",
            "messages",
            "-j",
            "1",
        ],
    }


def install(revision: str, folder: Path) -> Path:
    """Install a revision without dependencies; return the folder for PYTHONPATH."""
    source, target = folder / "source", folder / "installed"
    archive = subprocess.run(["git", "-C", str(HERE), "archive", revision], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(source, filter="data")
    pip = [sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, str(source)], check=True)
    return target


def cost(arguments: list[str], where: Path) -> Cost:
    """Run a command of the revision that is installed in this folder."""
    command = [sys.executable, "-m", "pcli.cli", *arguments]
    started = time.perf_counter()
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(where)}, **silent)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(arguments)}: exit code {os.waitstatus_to_exitcode(status)}")
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - started, usage.ru_maxrss / 1024)


def command_cost(arguments: list[str], without_jobs: Path, where: Path) -> Cost:
    """Run a command; without ``-j N`` if the revision in this folder is ``without_jobs``."""
    kept = arguments
    if where == without_jobs and "-j" in arguments:
        place = arguments.index("-j")
        kept = [*arguments[:place], *arguments[place + 2 :]]
    return cost(kept, where)


def broker_cost(messages: int, where: Path) -> Cost:
    """Start the broker of the revision in this folder, and publish and consume messages. Return the cost of the last.

    Without messages, it is the cost of the start up to the first accepted producer.
    """
    import broker as brokers

    port = brokers.free_port()
    command = [sys.executable, "-m", "pcli.cli", "broker", "--port", str(port), "--http-port", "0", "--log", "quiet"]
    with brokers.running("pcli", command, port, where=str(where)) as broker:
        if not messages:
            return Cost(broker.cpu(), broker.started, broker.resident())
        began = time.perf_counter()
        return Cost(brokers.unbatched(broker, messages), time.perf_counter() - began, broker.resident())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", metavar="REV")
    parser.add_argument("--megabytes", type=int, default=40)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        theirs, ours = (install(one, folder / label) for one, label in ((options.revision, "rev"), ("HEAD", "head")))
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            capture, load, frames = pool.submit(captures, folder, options.megabytes).result()
        print(
            f"{capture.stat().st_size / 1e6:.0f} MB, {frames:,} frames; {options.pairs} pairs with {options.revision}"
        )
        print(f"{'':36} {'CPU s':>8} {'wall s':>8} {'peak MB':>8} {'CPU':>8} {'wall':>8} {'memory':>8}")
        rows: dict[str, Callable[[Path], Cost]] = {
            name: partial(command_cost, arguments, theirs)
            for name, arguments in commands(capture, load, folder).items()
        }
        rows |= {
            "broker: start": partial(broker_cost, 0),
            "broker: unbatched CPU": partial(broker_cost, options.messages),
        }
        for row, measure in rows.items():
            if options.only in row:
                pairs = [(measure(ours), measure(theirs)) for _ in range(options.pairs)]
                ratios = [[mine / other for mine, other in zip(*pair, strict=True)] for pair in pairs]
                figures = [f"{median(column):8.2f}" for column in zip(*(mine for mine, _ in pairs), strict=True)]
                figures += [f"{median(column):7.2f}x" for column in zip(*ratios, strict=True)]
                print(f"{row:36} {' '.join(figures)}", flush=True)


if __name__ == "__main__":
    main()
