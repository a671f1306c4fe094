"""Generate a capture of any size from a seed, and a file with the truth about every message.

    python bench/generate.py u200 --size 400MB --seed 1 -o DIR

Writes DIR/<workload>.pcap (or its parts), truth.parquet, lost.parquet and load.json (see bench/load/truth_files.py).
Workloads: u200, u1k (1 KB messages), b200 (batches of 50), lag (consumers that lag by seconds), loss (packets lost,
reordered and retransmitted), mixed (four subscription types), many (1,000 connections). Every setting has an option.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from load.load_writer import write_load
from load.settings import WORKLOADS, Load, bytes_of

_SIZES = ("size", "rate", "rotate")


def settings(argv: list[str] | None = None) -> tuple[str, Load, Path]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=sorted(WORKLOADS))
    parser.add_argument("-o", "--output", type=Path, required=True)
    for field in fields(Load):
        flag = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
        elif isinstance(field.default, tuple):
            parser.add_argument(flag, type=lambda text: tuple(text.split(",")))
        else:
            parser.add_argument(flag, type=bytes_of if field.name in _SIZES else type(field.default))
    options = vars(parser.parse_args(argv))
    changes: dict[str, Any] = {
        field.name: options[field.name] for field in fields(Load) if options[field.name] is not None
    }
    return options["workload"], replace(WORKLOADS[options["workload"]], **changes), options["output"]


def main() -> None:
    name, load, folder = settings()
    began = time.process_time()
    paths = write_load(load, folder, name)
    took = time.process_time() - began
    size = sum(path.stat().st_size for path in paths) / 1e6
    print(f"{paths[0]}: {size:,.1f} MB in {len(paths)} files, {took:.1f} CPU s, {size / took:.0f} MB/s")


if __name__ == "__main__":
    main()
