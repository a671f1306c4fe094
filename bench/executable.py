"""Benchmark of the start of the executable, compared with the virtual environment of which it is built.

    make executable && python bench/executable.py [--starts 20]

Printed: the minimum and the median of the seconds of `pcli --version` and of `pcli decode`, alternately, and the ratio
of the minima; and the seconds of the first start, which unpacks the executable into an empty cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXECUTABLE = ROOT / "build" / "executable" / "pcli"
INSTALLED = ROOT / ".venv-executable" / "bin" / "pcli"
COMMANDS = (["--version"], ["decode", "0000000c00000008080b5a040801100a"])


def seconds(command: list[str | Path], env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--starts", type=int, default=20)
    starts = options.parse_args().starts
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"XDG_CACHE_HOME": cache}
        print(f"first start, {EXECUTABLE.stat().st_size / 1e6:.0f} MB: {seconds([EXECUTABLE, '--version'], env):.1f} s")
        for arguments in COMMANDS:
            times: dict[Path, list[float]] = {EXECUTABLE: [], INSTALLED: []}
            for _ in range(starts):
                for program, found in times.items():
                    found.append(seconds([program, *arguments], env))
            first = f"pcli {arguments[0]:<9}"
            for name, found in (("executable", times[EXECUTABLE]), ("venv", times[INSTALLED])):
                print(f"{first}  {name:<10}  min {min(found):.3f} s  median {statistics.median(found):.3f} s")
            print(f"{first}  ratio       {min(times[EXECUTABLE]) / min(times[INSTALLED]):.2f}")


if __name__ == "__main__":
    main()
