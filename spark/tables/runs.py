"""The table `runs`: which versions of the tables belong together.

Rules of this file
1. A run commits its tables one by one, and its row in ``runs`` last. A reader that takes the versions from this row
   therefore reads tables of one run.
2. Rows are only added. Earlier runs remain readable until their files are removed (`pcli tables vacuum`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from pcli.codec.errors import LocalError
from pcli.spark.columnar.table_schema import LONG, TEXT, column, many, never_null, record
from pcli.spark.tables.catalog import Table
from pcli.spark.tables.data_files import Staging, write_rows
from pcli.spark.tables.delta_tables import CONFLICT, commit_files, delta_errors, file_paths, open_delta
from pcli.spark.tables.table_store import Store

RUNS: Final = Table(
    "runs",
    "a run that has written tables",
    pa.schema([
        never_null("run", LONG, "number of the run, from 1"),
        never_null("name", TEXT, "name of the folders that contain the run's files"),
        never_null("finished_ns", LONG, "time of the run's end"),
        never_null("pcli", TEXT, "version of pcli"),
        column("request", TEXT, "the request as JSON, without passwords and TLS secrets"),
        column("tables", many(record(
            column("name", TEXT, "name of the table"),
            column("version", LONG, "version of the Delta table"),
            column("rows", LONG, "number of rows"),
            column("bytes", LONG, "size of the files"),
            column("files", LONG, "number of files"),
        )), "the tables that the run wrote, in the order of docs/tables.md"),
        column("state", many(TEXT), "files that contain the state for the next incremental run"),
    ]),
    ("run",),
)  # fmt: skip
"""Not a table of the catalog, because it describes runs and not captures."""

_LOG_DAYS: Final = 1
"""Days for which the log of ``runs`` keeps its entries. Only its last version is read."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The state of a table after a run."""

    name: str
    version: int
    """Version of the Delta table."""
    rows: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Run:
    """A completed run."""

    run: int = 0
    """Number of the run, from 1; 0 if there was none yet."""
    name: str = ""
    """Name of the folders that contain the run's files."""
    finished_ns: int = 0
    pcli: str = ""
    """Version of pcli."""
    request: dict[str, Any] = field(default_factory=dict)
    """The request as plain JSON, for readers of the tables."""
    tables: tuple[TableVersion, ...] = ()
    """The tables that the run wrote, including empty tables."""
    state: tuple[str, ...] = ()
    """Files in OUT that contain the input of the next incremental run."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(table.name for table in self.tables)

    def table(self, name: str) -> TableVersion | None:
        """Return the state of a table, or None if the run did not write it."""
        return next((table for table in self.tables if table.name == name), None)


def add_run(staging: Staging, run: Run) -> None:
    """Add a row for a run. Raise LocalError if another run with this number was added."""
    current = open_delta(staging.store, RUNS.name)
    if current is not None and _runs_in(staging.store, current)[-1].run >= run.run:
        raise LocalError(f"{staging.store.path(RUNS.name)}: {CONFLICT}")
    row = asdict(run) | {"request": json.dumps(run.request)}
    files = write_rows(staging, RUNS, 0, pa.Table.from_pylist([row], RUNS.schema))
    commit_files(staging, RUNS, current, files, run.run, log_days=_LOG_DAYS, replaced=())


def read_runs(store: Store) -> list[Run]:
    """Return all runs in order, or none if the folder contains no tables of pcli."""
    table = open_delta(store, RUNS.name)
    return [] if table is None else _runs_in(store, table)


def tables_id(store: Store) -> str:
    """Return the id of the table `runs`, which never changes; empty if the folder contains no tables of pcli."""
    table = open_delta(store, RUNS.name)
    return "" if table is None else str(table.metadata().id)


def _runs_in(store: Store, table: DeltaTable) -> list[Run]:
    with delta_errors(store, RUNS.name):
        paths = [store.path(path) for path in file_paths(store, RUNS.name, table)]
        rows = ds.dataset(paths, RUNS.schema, format="parquet", filesystem=store.files).to_table().to_pylist()
    try:
        return sorted((_run_of(row) for row in rows), key=lambda run: run.run)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise LocalError(f"{store.path(RUNS.name)}: not a table of pcli, or damaged") from None


def _run_of(row: dict[str, Any]) -> Run:
    tables = tuple(TableVersion(**table) for table in row["tables"])
    return Run(**row | {"request": json.loads(row["request"]), "tables": tables, "state": tuple(row["state"])})


def find_run(runs: Sequence[Run], where: str, *, number: int | None = None, at_ns: int | None = None) -> Run:
    """Return the last run, the run with this number, or the last run that had finished at this time.

    Raise LocalError that names ``where`` if there is no such run.
    """
    if not runs:
        raise LocalError(f"{where}: the folder contains no tables: create them with `pcli analyze -o`")
    chosen = [run for run in runs if number in (None, run.run) and (at_ns is None or run.finished_ns <= at_ns)]
    if not chosen:
        wanted = f"run {number}" if number is not None else "run that had finished at this time"
        raise LocalError(f"{where}: no {wanted}; `pcli tables OUT --runs` lists the runs")
    return chosen[-1]
