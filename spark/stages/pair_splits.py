"""Requests and responses of different splits, paired by id.

Rules of this file
1. Rows whose counterpart may be in a different split are shuffled by connection, producer and id. Their number depends
   on the traffic: each boundary between two splits leaves some, and lost packets leave more.
2. If there are few, the driver pairs them, which saves the shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.lifecycles.pairs_across_splits import PairableRanges
from pcli.spark.columnar.lifecycles.partial_tables import PARTIALS
from pcli.spark.engine import Block
from pcli.spark.stages.read_recording import ReadRecording, tables_of
from pcli.spark.stages.split_tables import PartStorage, SplitParts, size_of
from pcli.spark.tables.data_files import Staging

FEW_BYTES: int = 16 << 20
"""Maximum size in bytes of the rows that the driver pairs."""

_BUCKET_BYTES: Final = 64 << 20

_Pair = Callable[[pa.Table], tuple[pa.Table, Any]]
"""A function that pairs the rows of some ids. It returns the paired rows, and what must be matched in another way."""


def pair_across_splits(
    reading: ReadRecording, name: str, ranges: PairableRanges, pair: _Pair
) -> tuple[SplitParts, list[Any]]:
    """Apply ``pair`` to the rows of the table ``name`` that are in ``ranges``.

    Return the paired rows as a table ``paired``, and the other results of ``pair``.
    """
    found = SplitParts(-1, -1)
    if ranges.empty:
        return found, []
    engine, staging, splits = reading.engine, reading.staging, reading.splits
    size = size_of(splits, name)
    if size <= FEW_BYTES:
        rows = [ranges.inside(one) for split in splits for one in tables_of(staging, split, name)]
        made, rest = pair(pa.concat_tables([PARTIALS[name].empty_table(), *rows]))
        found.tables["paired"] = PartStorage(staging, 2 * FEW_BYTES).keep("paired", [made])
        return found, [rest]
    buckets = 1 + size // _BUCKET_BYTES
    sizes = [size_of([split], name) for split in splits]
    cut, join = partial(_cut, staging, name, ranges, buckets), partial(_join, staging, name, pair)
    results = engine.exchange("pair", cut, splits, buckets, join, sizes=sizes)
    found.tables["paired"] = [part for parts, _ in results for part in parts]
    return found, [rest for _, rest in results]


def _cut(staging: Staging, name: str, ranges: PairableRanges, buckets: int, split: SplitParts) -> Iterator[Block]:
    for table in tables_of(staging, split, name):
        rows = ranges.inside(table)
        yield from blocks_of(name, split.split, rows, ranges.buckets(rows, buckets), buckets)


def _join(
    staging: Staging, name: str, pair: _Pair, bucket: int, rows: Iterator[tuple[str, pa.RecordBatch]]
) -> tuple[list[Any], Any]:
    """Pair the rows of a bucket and write the pairs to a file."""
    batches = [pa.RecordBatch.from_arrays(batch.columns, schema=PARTIALS[name]) for _, batch in rows]
    made, rest = pair(pa.Table.from_batches(batches, PARTIALS[name]))
    return PartStorage(staging).keep("paired", [made]), rest


def blocks_of(kind: str, rank: int, table: pa.Table, of: Longs, buckets: int) -> Iterator[Block]:
    """Yield the rows of a table in blocks; ``of`` contains the bucket of each row."""
    if buckets == 1:
        parts = [(0, table)]
    else:
        # NumPy sorts 16-bit numbers with radix sort, which is faster than its sort for 64-bit numbers.
        of = of.astype(np.uint16 if buckets < 1 << 16 else np.int64)
        order = np.argsort(of, kind="stable")
        table, of = table.take(pa.array(order)), of.take(order)
        edges = np.searchsorted(of, np.arange(buckets + 1))
        parts = [(at, table.slice(edges[at], edges[at + 1] - edges[at])) for at in range(buckets)]
    for bucket, rows in parts:
        for batch in rows.to_batches():
            yield Block(bucket, rank, kind, batch)
