"""The data files of tables. Any process can write them; no reader sees them before the driver commits them.

A task calls ``write_rows(staging, table, part, rows)`` and sends the small return values to the driver, which commits
them (`pcli.spark.tables.run_commit.Run.commit`). The files of a run are in ``OUT/<table>/<run>/``, so that the files of
a failed run, and those of a task that ran twice, can be found and removed.

Rules of this file
1. Rows are sorted before they are written. If the table is partitioned, there is one file for each cluster and day. The
   file contains the columns of the partition too, so that it can be read without the log of the table.
2. Each file has the statistics that readers need to skip it: the number of rows, and the minimum, maximum and number of
   nulls of each column (Delta protocol, "Per-file Statistics").
3. pyarrow writes the Parquet files; writing through the JVM would take twelve times as long.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pcli.spark.tables.catalog import DAY, PARTITION, Table
from pcli.spark.tables.segment_columns import add_segments
from pcli.spark.tables.table_store import Store, refused

ROW_GROUP: Final = 1 << 14
"""Maximum number of rows in a row group. A reader skips the row groups of other topics and times."""

_IN_LIST: Final = ".list.element"
"""The part of a Parquet column name that denotes the elements of a list."""

_RUN: Final = 256
"""Minimum average length of runs at which moving whole runs of rows is faster than moving single rows."""

_DAY_NS: Final = 86_400_000_000_000

_TEXT: Final = 256
"""Maximum number of characters of a text in the statistics."""


@dataclass(frozen=True, slots=True)
class Staging:
    """The place where the files of one run are written. The object can be sent to other processes."""

    store: Store
    run: str
    """The name of the run's folders."""

    @property
    def folder(self) -> str:
        """The path in the store of the folder for partial tables. It is removed when the run ends."""
        return f"_work/{self.run}"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table that is not committed yet."""

    table: str
    path: str
    """The path in the folder of the table."""
    rows: int
    bytes: int
    partition: Mapping[str, str] = field(default_factory=dict)
    """The values of the partition columns as text; empty if the table is not partitioned."""
    statistics: str = "{}"
    """The statistics as JSON."""


def write_rows(staging: Staging, table: Table, part: int, rows: pa.Table) -> list[DataFile]:
    """Write a part of a table: one file, or one for each cluster and day; no file if there are no rows.

    ``part`` is the number of the part. The rows need all columns of the table's schema, in any order, except those that
    are computed here (`day`, and the columns of segment_columns.py). Raise LocalError if the file system reports an
    error.
    """
    if not rows.num_rows:
        return []
    if not table.time:
        return [_write(staging, table, part, in_order(table, rows), {})]
    return [_write(staging, table, part, piece, values) for piece, values in _pieces(table, rows)]


def write_bytes(staging: Staging, name: str, data: bytes) -> str:
    """Write a file that contains state for the next run and belongs to no table; return its path in the store."""
    path = f"{staging.folder}/{name}"
    staging.store.write(path, data)
    return path


def in_order(table: Table, rows: pa.Table) -> pa.Table:
    """Return rows with the columns of a table, in the table's order."""
    if "segment" in table.schema.names and "segment" not in rows.column_names:
        rows = add_segments(rows)
    return _sorted(rows.select(table.schema.names).cast(table.schema), (*table.partition, *table.order))


def _sorted(rows: pa.Table, order: tuple[str, ...]) -> pa.Table:
    places = pc.sort_indices(rows, [(name, "ascending") for name in order]).to_numpy()
    behind = np.flatnonzero(places[1:] != places[:-1] + 1) + 1
    if len(behind) * _RUN > len(places):
        return rows.take(pa.array(places))
    # Most rows are already in order. Moving whole runs is several times faster than moving single rows with lists.
    edges = [0, *behind.tolist(), len(places)]
    runs = [rows.slice(int(places[at]), until - at) for at, until in pairwise(edges) if until > at]
    return rows if len(runs) < 2 else pa.concat_tables(runs).combine_chunks()


def _pieces(table: Table, rows: pa.Table) -> Iterator[tuple[pa.Table, dict[str, str]]]:
    """Yield the sorted rows of each partition and its values."""
    days = pa.array((rows[table.time].to_numpy() // _DAY_NS).astype(np.int32)).cast(pa.date32())
    rows = in_order(table, rows.append_column(DAY, days))
    clusters = pc.rank(rows["cluster"], tiebreaker="dense").to_numpy()
    days = rows[DAY].cast(pa.int32()).to_numpy()
    edges = np.flatnonzero((np.diff(clusters) != 0) | (np.diff(days) != 0)) + 1
    for start, end in zip([0, *edges.tolist()], [*edges.tolist(), rows.num_rows]):
        values = {name: str(rows[name][start].as_py()) for name in PARTITION}
        yield rows.slice(start, end - start), values


def _write(staging: Staging, table: Table, part: int, rows: pa.Table, partition: dict[str, str]) -> DataFile:
    path = f"{staging.run}/{part:05d}-{uuid.uuid4().hex[:12]}.parquet"
    name = f"{table.name}/{path}"
    leaves = list(_leaves(rows.schema))
    with refused(staging.store.path(name)), staging.store.create(name) as stream:
        with pq.ParquetWriter(
            stream,
            rows.schema,
            compression="zstd",
            # Only text columns benefit from a dictionary. Most numbers are close to the previous number, so deltas are
            # smaller, and writing them takes a quarter less time. No reader skips rows by the statistics of a list.
            use_dictionary=[name for name, kind in leaves if pa.types.is_string(kind)],
            column_encoding={name: "DELTA_BINARY_PACKED" for name, kind in leaves if pa.types.is_integer(kind)},
            write_statistics=[name for name, _ in leaves if _IN_LIST not in name],
        ) as writer:
            writer.write_table(rows, row_group_size=ROW_GROUP)
        size = stream.tell()
    statistics = statistics_of(writer.writer.metadata)
    return DataFile(table.name, path, rows.num_rows, size, partition, json.dumps(statistics))


def _leaves(fields: Iterable[pa.Field], before: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """Yield the leaf columns with the names that Parquet uses."""
    for one in fields:
        name, kind = f"{before}{one.name}", one.type
        if pa.types.is_list(kind):
            name, kind = f"{name}{_IN_LIST}", kind.value_type
        if pa.types.is_struct(kind):
            yield from _leaves(kind, f"{name}.")
        else:
            yield name, kind


def statistics_of(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return the statistics of a file for the log of a Delta table, from those of its row groups."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for number in range(metadata.num_columns):
        columns = [group.column(number) for group in groups]
        path = columns[0].path_in_schema
        found = [column.statistics for column in columns]
        if _IN_LIST in path or not all(one is not None and one.has_null_count for one in found):
            continue
        _put(nulls, path, sum(one.null_count for one in found))
        ranges = [(one.min, one.max) for one in found if one.has_min_max]
        complete = len(ranges) == sum(1 for one in found if one.num_values)
        lower, upper = _bounds(ranges if complete else [])
        _put(least, path, lower)
        _put(most, path, upper)
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _bounds(ranges: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return the minimum and the maximum of a column; None if they are unknown or have no order in Delta."""
    if not ranges or type(ranges[0][0]) not in (int, float, str):
        return None, None
    lower, upper = min(low for low, _ in ranges), max(high for _, high in ranges)
    if isinstance(lower, str):
        # A cut maximum must not be less than the text: the last code point of Unicode follows it.
        return lower[:_TEXT], upper if len(upper) <= _TEXT else f"{upper[:_TEXT]}\U0010ffff"
    if isinstance(lower, float) and not (math.isfinite(lower) and math.isfinite(upper)):
        return None, None
    return lower, upper


def _put(tree: dict[str, Any], path: str, value: Any) -> None:
    """Put a value into a tree by its path. None is not put, but its folders are.

    Without the folder of a struct, delta-rs takes null as its bound, and then finds no row in which the struct is null.
    """
    *folders, name = path.split(".")
    for folder in folders:
        tree = tree.setdefault(folder, {})
    if value is not None:
        tree[name] = value
