"""Maintenance of the tables in a folder: removal of earlier runs, and compaction of files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties

from pcli.codec.errors import LocalError
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.data_files import ROW_GROUP
from pcli.spark.tables.delta_tables import delta_errors, open_delta
from pcli.spark.tables.run_commit import KEEP_DAYS, active_runs, begin
from pcli.spark.tables.runs import RUNS, Run, TableVersion, find_run, read_runs
from pcli.spark.tables.table_store import Store

_DAY_NS: Final = 86_400_000_000_000
_TARGET_BYTES: Final = 256 << 20
"""Size of the files that `compact` writes."""


@dataclass(frozen=True, slots=True)
class Removed:
    """The result of `vacuum` for a table."""

    name: str
    files: int


def vacuum(store: Store, *, keep_days: float = KEEP_DAYS, keep_runs: int = 1, dry_run: bool = False) -> list[Removed]:
    """Remove the runs that ended more than ``keep_days`` ago, and the files that only these runs use.

    The last ``keep_runs`` runs and the last run that wrote a table are always kept. Files that are in no table, such as
    those of a run that was killed, are removed at the same age. Raise LocalError if the folder contains no tables.
    """
    runs = read_runs(store)
    find_run(runs, store.root)
    last = {table.name: run.run for run in runs for table in run.tables}
    kept_always = {*last.values(), *(run.run for run in runs[-keep_runs:])}
    old_ns = time.time_ns() - keep_days * _DAY_NS
    obsolete = [run.run for run in runs if run.finished_ns < old_ns and run.run not in kept_always]
    if obsolete and not dry_run:
        _delete_runs(store, obsolete)
    kept = [run for run in runs if run.run not in obsolete]
    return [
        Removed(name, _vacuum(table, store, name, kept, keep_days=keep_days, dry_run=dry_run))
        for name in (*TABLES, RUNS.name)
        if (table := open_delta(store, name)) is not None
    ]


def _delete_runs(store: Store, numbers: Sequence[int]) -> None:
    table = open_delta(store, RUNS.name)
    assert table is not None
    with delta_errors(store, RUNS.name):
        table.delete(f"run in ({', '.join(map(str, numbers))})")


def _vacuum(table: DeltaTable, store: Store, name: str, kept: Sequence[Run], *, keep_days: float, dry_run: bool) -> int:
    """Remove files of one table. Return their number.

    The files of an active run are in no version yet. While there is one, only files of earlier versions are removed.
    """
    versions = {known.version for run in kept if (known := run.table(name)) is not None}
    with delta_errors(store, name):
        paths = table.vacuum(
            int(keep_days * 24),
            dry_run=dry_run,
            enforce_retention_duration=False,
            full=not active_runs(store),
            keep_versions=sorted(versions) or None,
        )
    return len(paths)


def compact(store: Store) -> Run:
    """Merge the small files of each table of the last run, and return the run whose row refers to the new versions.

    If there is nothing to merge, the last run is returned.

    Raise LocalError if the folder contains no tables, or if another run commits at the same time.
    """
    find_run(read_runs(store), store.root)
    run = begin(store)
    try:
        tables = tuple(_compacted(store, run.found[known.name], known) for known in run.base.tables)
        if tables == run.base.tables:
            run.abandon()
            return run.base
        return run.complete(tables, request=run.base.request, state=run.base.state)
    except BaseException:
        run.abandon()
        raise


def _compacted(store: Store, table: DeltaTable | None, known: TableVersion) -> TableVersion:
    if table is None:
        raise LocalError(f"{store.path(known.name)}: the table is missing")
    properties = WriterProperties(compression="ZSTD", max_row_group_size=ROW_GROUP)
    with delta_errors(store, known.name):
        table.optimize.compact(target_size=_TARGET_BYTES, writer_properties=properties)
        table.update_incremental()
        sizes = pa.table(table.get_add_actions())["size_bytes"].to_pylist()
    return TableVersion(known.name, table.version(), known.rows, sum(sizes), len(sizes))
