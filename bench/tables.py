"""Benchmark of the layout of the tables: the bytes that a query reads, and the time of a commit.

    python bench/tables.py [--gigabytes 5] [--topics 100]

Generated messages of one day are written as a run writes them: each file contains a part of the messages of all topics.
A query for one topic and one hour must read at most 5 % of the bytes of the table. A commit of all tables of a run must
take at most 1 s. The medians of five commits and the ratios to both limits are printed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow import fs

from pcli.spark.tables.catalog import DAY, ON_REQUEST, TABLES
from pcli.spark.tables.data_files import write_rows
from pcli.spark.tables.run_commit import begin
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import Store, open_store

ROWS = 1_000_000
"""Messages in a part. A task of a run writes about as many."""
READ_LIMIT, COMMIT_LIMIT = 0.05, 1.0
START_NS = 1_795_132_800_000_000_000
"""2026-11-20T00:00:00Z."""
HOUR_NS = 3_600_000_000_000
COMMITS = 5
MESSAGES = TABLES["messages"]


def part_of(number: int, topics: int) -> pa.Table:
    """Return messages of a whole day: random topics and times, a producer, and one delivery each."""
    random = np.random.default_rng(number)
    topic = random.integers(0, topics, ROWS)
    sent = START_NS + np.sort(random.integers(0, 24 * HOUR_NS, ROWS))
    took = random.integers(1_000_000, 20_000_000, ROWS)
    empty = {field.name: pa.nulls(ROWS, field.type) for field in MESSAGES.schema if field.name != DAY}
    producer = _struct(MESSAGES.schema.field("producer").type, ROWS, {
        "connection": topic % 20, "producer_id": topic, "sequence_id": np.arange(ROWS), "sent_ns": sent,
        "receipt_ns": sent + took, "messages": np.ones(ROWS, np.int64), "size": random.integers(100, 2000, ROWS),
    })  # fmt: skip
    delivery = _struct(MESSAGES.schema.field("deliveries").type.value_type, ROWS, {
        "connection": topic % 20, "consumer_id": topic, "delivered_ns": sent + 2 * took, "acked_ns": sent + 3 * took,
        "messages": np.ones(ROWS, np.int64),
    })  # fmt: skip
    names = pa.array([f"persistent://public/default/topic-{one}" for one in range(topics)])
    columns = empty | {
        "cluster": pa.array(["default"] * ROWS),
        "topic": names.take(pa.array(topic)),
        "ledger": pa.array(topic + 1),
        "entry": pa.array(np.arange(ROWS) + number * ROWS),
        "first_ns": pa.array(sent),
        "producer": producer,
        "deliveries": pa.ListArray.from_arrays(
            pa.array(np.arange(ROWS + 1, dtype=np.int32)), delivery, type=MESSAGES.schema.field("deliveries").type
        ),
        "marker": pa.array(np.zeros(ROWS, bool)),
        "state": pa.array(["acked"] * ROWS),
        "evidence": pa.array(["complete"] * ROWS),
    }
    return pa.table(columns)


def _struct(kind: pa.StructType, rows: int, known: dict[str, Any]) -> pa.StructArray:
    arrays = [
        pa.array(known[field.name]).cast(field.type) if field.name in known else pa.nulls(rows, field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def fill(store: Store, size: float, topics: int) -> int:
    """Write messages until the table has this number of bytes. Return the number of bytes."""
    run, made, written = begin(store), [], 0
    while written < size:
        files = write_rows(run.staging, MESSAGES, len(made), part_of(len(made), topics))
        made += files
        written += sum(file.bytes for file in files)
    run.commit(made, [TABLES["captures"], MESSAGES], request={})
    return written


def read_by_query(folder: Path, topic: str, hour: int) -> tuple[int, int]:
    """Return the bytes that a query for a topic and an hour reads, and the rows that it finds."""
    after, before = START_NS + hour * HOUR_NS, START_NS + (hour + 1) * HOUR_NS
    condition = (ds.field("topic") == topic) & (ds.field("first_ns") >= after) & (ds.field("first_ns") < before)
    began = _bytes_read()
    rows = (
        DeltaTable(str(folder / "messages"))
        .to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(str(folder / "messages"), fs.LocalFileSystem()))
        .to_table(filter=condition)
    )
    assert set(pc.unique(rows["topic"]).to_pylist()) <= {topic}
    return _bytes_read() - began, rows.num_rows


def _bytes_read() -> int:
    """Return the bytes that this process has read from files so far."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar: "):
            return int(line.removeprefix("rchar: "))
    raise OSError("/proc/self/io contains no rchar")


def commits(store: Store) -> list[float]:
    """Return the times of commits of all tables of a default run in seconds, without the first one."""
    times = []
    tables = [table for table in TABLES.values() if table.name not in ON_REQUEST]
    for number in range(COMMITS + 1):
        run = begin(store)
        rows = pa.Table.from_pylist(
            [{"cluster": "c", "path": str(number), "status": "read"}], TABLES["captures"].schema
        )
        made = write_rows(run.staging, TABLES["captures"], 0, rows)
        began = time.perf_counter()
        run.commit(made, tables, request={})
        times.append(time.perf_counter() - began)
    return times[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--topics", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"{folder}/out")
        size = fill(store, options.gigabytes * 1e9, options.topics)
        table = StoredTables(store).run.table("messages")
        assert table is not None
        print(f"table: {size / 1e9:.2f} GB, {table.rows:,} rows, {table.files} files")
        shares = []
        for hour in (0, 7, 23):
            read, rows = read_by_query(Path(folder) / "out", f"persistent://public/default/topic-{hour}", hour)
            shares.append(read / size)
            print(
                f"topic-{hour}, hour {hour}: {rows:,} rows, {read / 1e6:,.1f} MB read, {read / size:.2%} of the table"
            )
        print(f"bytes read / limit: {max(shares) / READ_LIMIT:.2f}")
        took = median(commits(open_store(f"{folder}/commits")))
        print(
            f"commit of {len(TABLES) - len(ON_REQUEST)} tables: {took:.3f} s; time / limit: {took / COMMIT_LIMIT:.2f}"
        )


if __name__ == "__main__":
    main()
