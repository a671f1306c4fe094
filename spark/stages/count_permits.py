"""The table `permits`, from the sums of permits in each window.

Rules of this file
1. No task holds the whole history of a consumer: splits compute sums, the driver scans them once, and the rows of each
   split are computed from the sums of the split and from its initial balances.
2. A second that spans two windows becomes one row. Rows are therefore merged by connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.permits import PERMITS, merge_permits, permit_rows, permit_starts
from pcli.spark.engine import Block, Engine, Shared
from pcli.spark.stages.read_recording import ReadRecording, part_number, tables_of
from pcli.spark.stages.split_tables import SplitParts, as_batch, size_of
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.data_files import DataFile, Staging, write_rows

__all__ = ["count_permits"]

_BUCKET_BYTES = 256 << 20
"""Size in bytes of the sums that one task merges."""


def count_permits(engine: Engine, staging: Staging, reading: ReadRecording, place: int) -> list[DataFile]:
    """Write the table `permits` of the recording with the index ``place``."""
    totals, events = (
        [batch for split in reading.splits for batch in _batches(staging, split, f"permit_{name}")]
        for name in ("totals", "events")
    )
    starts = engine.share(_without(permit_starts(totals, events), reading.duplicate_connections))
    buckets = 1 + size_of(reading.splits, "permit_changes") // _BUCKET_BYTES
    made = engine.exchange(
        "permits",
        partial(_cut, staging, starts, reading.recording.cluster, buckets),
        reading.splits,
        buckets,
        partial(_join, staging, place),
    )
    return [one for some in made for one in some]


def _without(starts: pa.RecordBatch, duplicate_connections: frozenset[int]) -> pa.RecordBatch:
    """Return the balances except for duplicate connections, whose frames are counted on the other connection."""
    if not duplicate_connections:
        return starts
    return starts.filter(
        pc.invert(pc.is_in(starts.column("stream"), pa.array(sorted(duplicate_connections), pa.int64())))
    )


def _batches(staging: Staging, split: SplitParts, name: str) -> Iterator[pa.RecordBatch]:
    for table in tables_of(staging, split, name):
        yield from table.to_batches()


def _cut(
    staging: Staging, starts: Shared[pa.RecordBatch], cluster: str, buckets: int, split: SplitParts
) -> Iterator[Block]:
    """Yield a split's rows in blocks, one for each connection."""
    tables = list(tables_of(staging, split, "permit_changes"))
    if not tables:
        return
    mine = starts.value.filter(pc.equal(starts.value.column("cut"), split.split))
    rows = permit_rows(as_batch(pa.concat_tables(tables)), mine, cluster=cluster)
    of = rows.column("connection").to_numpy() % buckets
    for bucket in np.unique(of).tolist():
        yield Block(bucket, split.split, "permits", rows.filter(pa.array(of == bucket)))


def _join(staging: Staging, place: int, bucket: int, rows: Iterator[tuple[str, pa.RecordBatch]]) -> list[DataFile]:
    joined = merge_permits([_plain(batch) for _, batch in rows])
    table = pa.Table.from_batches([joined])
    return write_rows(staging, TABLES["permits"], part_number(place, bucket), table)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with the column descriptions, which an exchange omits."""
    return pa.RecordBatch.from_arrays(batch.columns, schema=PERMITS)
