"""Benchmark of a large load: the cost of `spark-analyze`, what it transfers, and a check of its tables.

    python bench/scale.py [--size 20GB] [--workload u200] [--sample 200MB] [--folder DIR]

A load of --size is generated and analysed with `--master local[2]`. The tables are compared with the truth of the
generator: message by message up to 2 GB, and by counts and sums of all times and ids above. The bytes of each exchange
and the values that the driver holds are measured in one process on a load of --sample, whole and with only the packets
of one direction; splits of 16 MB stand for the 128 MB of a large input. docs/scale.md contains the results.
"""

from __future__ import annotations

import argparse
import pickle
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from load.ground_truth import GroundTruth
from load.load_writer import write_load
from load.process_cost import Cost, cost_of
from load.settings import WORKLOADS, bytes_of
from load.table_check import check_messages
from load.truth_files import WORDS

from pcli.spark.analysis import analyze
from pcli.spark.engine import Block, InProcess, Shared, packed
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

FULL_CHECK = 2_000_000_000
"""Maximum size of a load whose rows are compared one by one; the truth of a larger load does not fit into memory."""
TABLES = ("messages", "exchanges")
SPLIT = 16 << 20
PORT = 6650
Join = Callable[[int, Iterator[tuple[str, pa.RecordBatch]]], Any]


class CountingEngine(InProcess):
    """An engine that reads splits independently, as Spark does, and counts what Spark would transfer."""

    apart = True  # type: ignore[misc]

    def __init__(self) -> None:
        super().__init__()
        self.exchanged: Counter[str] = Counter()
        """Bytes of rows by exchange, packed as Spark transfers them."""
        self.returned: Counter[str] = Counter()
        """Bytes of results by stage, which the driver receives."""
        self.shared: list[int] = []
        """Bytes of each value that all tasks receive."""

    def share(self, value: Any) -> Shared[Any]:
        """See `Engine.share`."""
        self.shared.append(len(pickle.dumps(value)))
        return super().share(value)

    def map(self, what: str, function: Any, items: Sequence[Any], *, sizes: Sequence[int] | None = None) -> list[Any]:
        """See `Engine.map`."""
        found = super().map(what, function, items, sizes=sizes)
        self.returned[what] += len(pickle.dumps(found))
        return found

    def exchange(
        self, what: str, cut: Callable[[Any], Iterator[Block]], items: Sequence[Any], buckets: int, join: Join, *,
        sizes: Sequence[int] | None = None,
    ) -> list[Any]:  # fmt: skip
        """See `Engine.exchange`."""

        def counted(item: Any) -> Iterator[Block]:
            for block in cut(item):
                self.exchanged[what] += len(packed(block.rows))
                yield block

        found = super().exchange(what, counted, items, buckets, join, sizes=sizes)
        self.returned[what] += len(pickle.dumps(found))
        return found


def one_direction(path: Path, target: Path, *, client: bool) -> Path:
    """Write the packets that the clients (or the brokers) sent to a new capture."""
    data = path.read_bytes()
    with target.open("wb") as out:
        out.write(data[:24])
        at = 24
        while at < len(data):
            end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
            ip = at + 16 + 14
            (port,) = struct.unpack_from(">H", data, ip + (data[ip] & 15) * 4 + 2)
            if (port == PORT) == client:
                out.write(data[at:end])
            at = end
    return target


# -- what is transferred -----------------------------------------------------------------------------------------------


def transfers(path: Path, folder: Path, name: str, only: tuple[str, ...]) -> None:
    """Print the bytes of exchanges, results and shared values for one capture, per gigabyte of the capture."""
    engine, size = CountingEngine(), path.stat().st_size
    began = time.process_time()
    analyze(Request((str(path),), str(folder / f"transfers-{name}"), only=only, split_bytes=SPLIT), engine)
    took = time.process_time() - began
    print(f"\n{name}: {size / 1e6:,.0f} MB in {-(-size // SPLIT)} splits, one process, {took:.1f} CPU s")
    for what, counts in (("exchange", engine.exchanged), ("results", engine.returned)):
        for stage, count in counts.items():
            print(f"  {what:10} {stage:16} {count / 1e6:9.1f} MB {count / size * 1e3:9.1f} MB per GB of input")
    print(f"  {'shared':10} {'largest value':16} {max(engine.shared, default=0) / 1e6:9.1f} MB")


def sample(workload: str, size: int, folder: Path) -> None:
    """Measure the transfers of a small load and of its directions."""
    load = replace(WORKLOADS[workload], size=size)
    (path,) = write_load(load, folder / "sample")
    transfers(path, folder, "both directions", TABLES)
    transfers(path, folder, "all tables", ())
    for client, name in ((True, "clients"), (False, "brokers")):
        transfers(one_direction(path, folder / f"{name}.pcap", client=client), folder, name, TABLES)


# -- the check ---------------------------------------------------------------------------------------------------------


def sums_of_truth(folder: Path) -> dict[str, int]:
    """Return counts and sums of all SENDs, receipts and deliveries in the truth."""
    found: Counter[str] = Counter()
    for batch in pq.ParquetFile(folder / "truth.parquet").iter_batches():
        for name, word in (("sent", "send"), ("receipt", "receipt"), ("delivered", "dispatch")):
            kinds = pc.index_in(batch["kind"].cast(pa.string()), pa.array(WORDS))
            rows = batch.filter(pc.equal(kinds, WORDS.index(word)))
            found[name] += rows.num_rows
            if word != "dispatch":
                found[f"{name}_ns"] += _sum(rows["time_ns"])
            if word == "receipt":
                found["ledger"] += _sum(rows["ledger"])
                found["entry"] += _sum(rows["entry"])
    return dict(found)


def sums_of_table(out: Path) -> dict[str, int]:
    """Return the same counts and sums of the table `messages`."""
    found: Counter[str] = Counter()
    for path in sorted((out / "messages").rglob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(columns=["ledger", "entry", "producer", "deliveries"]):
            producer = batch["producer"]
            for name in ("sent", "receipt"):
                times = pc.struct_field(producer, f"{name}_ns")
                found[name] += len(times) - times.null_count
                found[f"{name}_ns"] += _sum(times)
            for name in ("ledger", "entry"):
                found[name] += _sum(batch[name])
            found["delivered"] += _sum(pc.struct_field(batch["deliveries"].flatten(), "count"))
    return dict(found)


def _sum(values: Any) -> int:
    """Return the sum of 64-bit numbers, which may need more than 64 bits."""
    high = pc.sum(pc.shift_right(values.cast(pa.int64()), 32)).as_py() or 0
    low = pc.sum(pc.bit_wise_and(values.cast(pa.int64()), (1 << 32) - 1)).as_py() or 0
    return (high << 32) + low


def check(folder: Path, out: Path, size: int) -> bool:
    """Compare the tables with the truth and print the result."""
    if size <= FULL_CHECK:
        result = check_messages(StoredTables(str(out)).read("messages"), GroundTruth(folder))
        print("\n".join(f"  {line}" for line in result.lines()))
        return result.good
    truth, table = sums_of_truth(folder), sums_of_table(out)
    for name, value in truth.items():
        print(f"  {name}: {value:,}, in the table {table.get(name, 0):,}")
    return truth == table


def run(path: list[Path], out: Path, only: str) -> Cost:
    words = [sys.executable, "-m", "pcli.cli", "spark-analyze", *map(str, path), "-o", str(out), "--master", "local[2]"]
    return cost_of([*words, "--only", only] if only else words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=bytes_of, default=bytes_of("20GB"))
    parser.add_argument("--workload", default="u200", choices=sorted(WORKLOADS))
    parser.add_argument("--only", default=",".join(TABLES), help="tables to write; empty for all")
    parser.add_argument("--sample", type=bytes_of, default=bytes_of("200MB"), help="size of the load of transfers")
    parser.add_argument("--folder", type=Path, help="where loads and tables are written; default: a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        sample(options.workload, options.sample, folder)
        began = time.perf_counter()
        paths = write_load(replace(WORKLOADS[options.workload], size=options.size), folder / "load")
        size = sum(path.stat().st_size for path in paths)
        print(f"\nload of {size / 1e9:.2f} GB, generated in {time.perf_counter() - began:.0f} s")
        cost = run(paths, folder / "out", options.only)
        rate, cpu_rate = size / 1e6 / cost.wall, size / 1e6 / cost.cpu
        print(f"spark-analyze, local[2]: {cost.wall:.1f} s wall ({rate:.0f} MB/s), {cost.cpu:.1f} CPU s"
              f" ({cpu_rate:.0f} MB/s), of which Java {cost.java_cpu:.1f}")  # fmt: skip
        print(f"memory: driver {cost.driver_mb:,.0f} MB, Python worker {cost.worker_mb:,.0f} MB")
        files = [path.stat().st_size for path in (folder / "out").rglob("*.parquet")]
        print(f"tables: {len(files)} files, {sum(files) / 1e6:,.1f} MB")
        if not check(folder / "load", folder / "out", size):
            sys.exit("the tables differ from the truth")


if __name__ == "__main__":
    main()
