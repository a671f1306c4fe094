"""Files of tables in preparation. Any process can write them to a folder that readers ignore; the driver commits them.

A task calls ``write_rows(staging, table, part, rows)`` and sends the small return values to the driver.
The driver commits the files as a generation (`pcli.spark.tables.table_commit.Run.commit`). If a task fails or runs
twice, some of its files are in no manifest. These files are removed with the folder of the run.

Rules of this file
1. A file name consists of the part number and a digest of the file's bytes. The same rows therefore result in the same
   file, and a run without new data moves no files.
2. Rows are sorted before they are written, and divided by cluster and hour if the table is partitioned. The path then
   contains both columns (``cluster=…/hour=…``). The file omits ``cluster``, because pyarrow rejects a column that is
   both in the path and in the file.
3. pyarrow writes the Parquet files; writing through the JVM would take twelve times as long.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pcli.spark.tables.catalog import Table
from pcli.spark.tables.manifest import Stored
from pcli.spark.tables.table_store import Store, refused

__all__ = ["Staging", "WrittenFile", "write_bytes", "write_rows"]

_ROW_GROUP: Final = 1 << 17
"""Maximum number of rows in a row group."""

_IN_LIST: Final = ".list.element"
"""The part of a Parquet column name that denotes the elements of a list."""

_RUN: Final = 256
"""Minimum average length of runs at which moving whole runs of rows is faster than moving single rows."""

_HOUR_NS: Final = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Staging:
    """The folder in which the files of one run are written. The object can be sent to other processes."""

    store: Store
    folder: str
    """The path of the folder in the store; it begins with ``_``."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was written, and its position in the tables."""

    stored: Stored
    staged: str
    """The current path of the file in the store."""


def write_rows(
    staging: Staging, table: Table, part: int, rows: pa.Table, *, partitioned: bool = False
) -> list[WrittenFile]:
    """Write a part of a table: one file, or one per cluster and hour if ``partitioned``; no file if there are no rows.

    ``part`` must be unique among the parts of the table. The rows need all columns of the table's schema, in any order.
    Raise LocalError if the file system reports an error.
    """
    if not rows.num_rows:
        return []
    rows = rows.select(table.schema.names).cast(table.schema)
    if not partitioned:
        return [_write(staging, table, part, "", _sorted(rows, table.order))]
    return [_write(staging, table, part, folder, piece) for folder, piece in _pieces(table, rows)]


def write_empty(staging: Staging, table: Table) -> WrittenFile:
    """Write a file without rows, so that an empty table can be read."""
    return _write(staging, table, 0, "", table.schema.empty_table())


def write_bytes(staging: Staging, name: str, data: bytes) -> str:
    """Write a file that contains state for the next run and belongs to no table; return its path in the store."""
    path = f"{staging.folder}/{name}"
    staging.store.write(path, data)
    return path


def _sorted(rows: pa.Table, order: tuple[str, ...]) -> pa.Table:
    places = pc.sort_indices(rows, [(name, "ascending") for name in order]).to_numpy()
    behind = np.flatnonzero(places[1:] != places[:-1] + 1) + 1
    if len(behind) * _RUN > len(places):
        return rows.take(pa.array(places))
    # Most rows are already in order. Moving whole runs is several times faster than moving single rows with lists.
    edges = [0, *behind.tolist(), len(places)]
    runs = [rows.slice(int(places[at]), until - at) for at, until in pairwise(edges) if until > at]
    return rows if len(runs) < 2 else pa.concat_tables(runs).combine_chunks()


def _pieces(table: Table, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the sorted rows of each partition and the partition's folder."""
    hours = pa.array(rows[table.hour].to_numpy() // _HOUR_NS)
    rows = _sorted(rows.append_column("#hour", hours), ("cluster", "#hour", *table.order))
    clusters = pc.rank(rows["cluster"], tiebreaker="dense").to_numpy()
    hours = rows["#hour"].to_numpy()
    edges = np.flatnonzero((np.diff(clusters) != 0) | (np.diff(hours) != 0)) + 1
    for start, end in zip([0, *edges.tolist()], [*edges.tolist(), rows.num_rows]):
        label = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=int(hours[start]))
        folder = f"cluster={quote(rows['cluster'][start].as_py(), safe='')}/hour={label:%Y-%m-%d-%H}"
        yield folder, rows.slice(start, end - start).drop_columns(["#hour", "cluster"])


def _write(staging: Staging, table: Table, part: int, folder: str, rows: pa.Table) -> WrittenFile:
    staged = f"{staging.folder}/{table.name}/{uuid.uuid4().hex}.parquet"
    with refused(staging.store.path(staged)), staging.store.create(staged) as stream:
        file = _Digested(stream)
        leaves = list(_leaves(rows.schema))
        pq.write_table(
            rows,
            pa.PythonFile(file, "w"),
            compression="zstd",
            row_group_size=_ROW_GROUP,
            # Only text columns benefit from a dictionary. Most numbers are close to the previous number, so deltas are
            # smaller, and writing them takes a quarter less time. No reader skips rows by the statistics of a list.
            use_dictionary=[name for name, kind in leaves if pa.types.is_string(kind)],
            column_encoding={name: "DELTA_BINARY_PACKED" for name, kind in leaves if pa.types.is_integer(kind)},
            write_statistics=[name for name, _ in leaves if _IN_LIST not in name],
        )
    name = f"{part:05d}-{file.digest.hexdigest()}.parquet"
    return WrittenFile(Stored(table.name, folder, name, rows.num_rows, file.size), staged)


def _leaves(fields: Iterable[pa.Field], before: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """Yield the leaf columns with the names that Parquet uses."""
    for field in fields:
        name, kind = f"{before}{field.name}", field.type
        if pa.types.is_list(kind):
            name, kind = f"{name}{_IN_LIST}", kind.value_type
        if pa.types.is_struct(kind):
            yield from _leaves(kind, f"{name}.")
        else:
            yield name, kind


class _Digested(io.RawIOBase):
    """An output file that computes the digest and size of its content."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.digest = blake2b(digest_size=8)
        self.size = 0

    def write(self, data: Any, /) -> int:
        """Write to the stream and update the digest."""
        self.digest.update(data)
        self._stream.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.size

    def writable(self) -> bool:
        """Return True."""
        return True
