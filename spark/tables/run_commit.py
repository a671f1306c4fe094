"""A run on a folder of tables, as a transaction: readers read the old tables until the run ends, then all new tables.

The folder
- ``OUT/<table>``: a Delta table. ``OUT/runs``: the Delta table that contains, for each run, the versions of its tables.
- ``OUT/<table>/<run>/``: the data files that a run has written. ``OUT/_work/<run>/``: partial tables of a run in
  progress. ``OUT/_state/``: input of the next incremental run.

Rules of this file
1. A run commits each table, then adds its row to ``runs``. A reader of ``runs`` reads tables of one run; a reader of a
   single Delta table reads one version of it.
2. If a run fails, it restores the tables that it has committed to their versions before the run, and removes its
   files. If it is killed, the next run does this.
3. Delta refuses the commit of a run if a different run has committed since this run began. The table ``captures`` is
   part of all runs and is committed first, so the slower of two simultaneous runs changes nothing. No run begins while
   a different run commits.
4. If a different program has changed a table since the last run, no run begins. Changes that keep the rows, such as
   OPTIMIZE, are allowed.
5. The files of a different active run are never removed. A run is dead if its process no longer exists or, if that
   cannot be determined, if nothing was written for a day.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version as version_of
from typing import Any, Final

from deltalake import DeltaTable

from pcli.codec.errors import LocalError
from pcli.spark.tables.catalog import TABLES, Table
from pcli.spark.tables.data_files import DataFile, Staging
from pcli.spark.tables.delta_tables import (
    CONFLICT,
    RUN_METADATA,
    commit_files,
    delta_errors,
    file_paths,
    open_delta,
    versions_since,
)
from pcli.spark.tables.runs import RUNS, Run, TableVersion, add_run, read_runs
from pcli.spark.tables.table_store import Store

KEEP_DAYS: Final = 7.0
"""Days for which the tables of earlier runs remain readable, as the default of Delta."""

_WORK: Final = "_work"
STATE: Final = "_state"
"""The folder of the input of the next incremental run."""
_SILENT_NS: Final = 86_400_000_000_000
"""A run on a different machine is dead if it writes nothing for this many ns."""

_COMMIT_MS: Final = 600_000
"""A run adds its row to ``runs`` within this time of its first commit, in ms. Otherwise it was killed."""

_NAME: Final = re.compile(r"r(\d+)-(.+)-(\d+)-[0-9a-f]+")
"""The name of a run's folders: its number, and the host and process of its driver."""

_HARMLESS: Final = frozenset({
    "ADD FEATURE", "OPTIMIZE", "SET TBLPROPERTIES", "VACUUM END", "VACUUM START"
})  # fmt: skip
"""Operations of other programs that keep the rows of a table."""


@dataclass(slots=True)
class OpenRun:
    """A run in progress."""

    base: Run
    """The last run before this one."""
    staging: Staging
    """The place of the files that the run's tasks write."""
    found: dict[str, DeltaTable | None]
    """The tables at the start of the run, by name."""

    def commit(
        self,
        made: Iterable[DataFile],
        tables: Sequence[Table],
        *,
        request: Mapping[str, Any],
        state: Mapping[str, str] | None = None,
        keep_days: float = KEEP_DAYS,
        replaced: Mapping[str, Sequence[DataFile]] | None = None,
    ) -> Run:
        """Commit these files as the tables; return the completed run.

        ``tables`` are all requested tables, including empty tables. ``state`` contains the current and the final path
        of each file for the next run. The logs of new tables keep their entries for ``keep_days`` and one day.
        ``replaced`` contains the replaced files of the tables of which the run keeps all other files. Raise LocalError
        if a different run has committed since this run began.
        """
        files = list(made)
        state = state or {}
        versions = []
        for table in tables:
            own = [file for file in files if file.table == table.name]
            versions.append(self._commit(table, own, keep_days, (replaced or {}).get(table.name)))
        for path, target in state.items():
            if path != target:
                self.staging.store.move(path, target)
        return self.complete(versions, request=request, state=sorted(state.values()))

    def complete(self, tables: Iterable[TableVersion], *, request: Mapping[str, Any], state: Iterable[str] = ()) -> Run:
        """Add the row of the run to the table `runs`; return the completed run."""
        store = self.staging.store
        run = Run(
            self.base.run + 1,
            self.staging.run,
            time.time_ns(),
            version_of("pulsar-pcli"),
            json.loads(json.dumps(request)),
            tuple(tables),
            tuple(state),
        )
        add_run(self.staging, run)
        with suppress(LocalError):  # the run is complete; the next run removes what remains
            for path in set(store.list(STATE)) - set(run.state):
                store.remove(path)
            if not run.state:
                store.remove_folder(STATE)
            _remove_work(store, self.staging.run)
        return run

    def _commit(
        self, table: Table, files: list[DataFile], keep_days: float, replaced: Sequence[DataFile] | None = None
    ) -> TableVersion:
        found, number, log_days = self.found[table.name], self.base.run + 1, math.ceil(keep_days) + 1
        sizes = sum(file.rows for file in files), sum(file.bytes for file in files), len(files)
        before = self.base.table(table.name)
        if found is None or before is None or replaced is None:
            version = commit_files(self.staging, table, found, files, number, log_days=log_days)
            return TableVersion(table.name, version, *sizes)
        paths = [file.path for file in replaced]
        self._restore_files(table.name, found, paths, before.version)
        version = commit_files(self.staging, table, found, files, number, log_days=log_days, replaced=paths)
        kept = (
            before.rows - sum(file.rows for file in replaced),
            before.bytes - sum(file.bytes for file in replaced),
            before.files - len(replaced),
        )
        return TableVersion(table.name, version, *(one + other for one, other in zip(kept, sizes, strict=True)))

    def _restore_files(self, name: str, table: DeltaTable, paths: Collection[str], version: int) -> None:
        """Restore the files of a table's ``version`` if a different program has merged any of these files.

        The rows do not change.
        """
        store = self.staging.store
        if {f"{name}/{path}" for path in paths} <= set(file_paths(store, name, table)):
            return
        with delta_errors(store, name):
            table.restore(version)
            table.update_incremental()

    def abandon(self) -> None:
        """Leave the tables as they were before the run, unless it is complete."""
        runs = read_runs(self.staging.store)  # a different run may have been completed since this run began
        _end(self.staging.store, self.staging.run, {run.name for run in runs}, _versions(runs))


def begin(store: Store) -> OpenRun:
    """Begin a run, after undoing runs that were killed.

    Raise LocalError if the folder contains other files, cannot be written, or if a different program has changed a
    table.
    """
    runs = read_runs(store)
    if not runs:
        _check_new(store)
    base = runs[-1] if runs else Run()
    known, completed = _versions(runs), {run.name for run in runs}
    _recover(store, completed, known)
    host = re.sub(r"[^\w.]", "_", platform.node()) or "host"
    staging = Staging(store, f"r{base.run + 1}-{host}-{os.getpid()}-{uuid.uuid4().hex[:12]}")
    # Writing this file shows immediately whether the folder is writable.
    begun = f"{staging.folder}/begun"
    try:
        store.write(begun, b"")
    except LocalError as error:
        raise LocalError(f"{store.root}: not writable: {str(error).removeprefix(f'{store.path(begun)}: ')}") from None
    try:
        found = {name: open_delta(store, name) for name in TABLES}
        for name, table in found.items():
            if table is not None:
                _check_ours(store, name, table, known.get(name, -1), completed)
    except LocalError:
        _remove_work(store, staging.run)
        raise
    return OpenRun(base, staging, found)


def active_runs(store: Store) -> list[str]:
    """Return the names of the runs in progress."""
    return [name for name in _begun(store) if not _is_dead(store, name)]


def _begun(store: Store) -> list[str]:
    """Return the names of the runs that have not removed their partial tables yet."""
    return [path.rpartition("/")[2] for path in store.list(_WORK)]


def _versions(runs: Iterable[Run]) -> dict[str, int]:
    """Return the versions of the tables after the last run that wrote them, by name."""
    return {table.name: table.version for run in runs for table in run.tables}


def _check_new(store: Store) -> None:
    """Raise LocalError if a folder without runs contains anything but the remains of a killed run."""
    names = {name for name in store.list() if not name.startswith(".")}
    if names and _WORK not in names:
        raise LocalError(f"{store.root}: the folder contains other files and no tables of pcli: specify a new folder")


def _check_ours(store: Store, name: str, table: DeltaTable, known: int, completed: Collection[str]) -> None:
    """Raise LocalError if a different program has changed the rows of a table after its version ``known``.

    Raise LocalError also if a different run is committing: if this run were undone, the table would lose its rows.
    """
    for commit in versions_since(table, known):
        if commit.get("operation") == "RESTORE" and int(commit["operationParameters"].get("version", -1)) <= known:
            return
        committing = RUN_METADATA in commit and commit[RUN_METADATA] not in completed
        if committing and commit["timestamp"] > time.time() * 1000 - _COMMIT_MS:
            raise LocalError(f"{store.path(name)}: {CONFLICT}")
        if RUN_METADATA not in commit and commit.get("operation") not in _HARMLESS:
            raise LocalError(
                f"{store.path(name)}: version {commit['version']} was written by a different program "
                f"({commit.get('operation')}, {commit.get('engineInfo', 'unknown')}), and a new run would replace it: "
                "specify a new folder, or restore the earlier version of the table"
            )


def _recover(store: Store, completed: set[str], known: Mapping[str, int]) -> None:
    """Undo the runs that were killed, and remove the folders of completed runs that were killed at their end."""
    for name in _begun(store):
        if _is_dead(store, name):
            _end(store, name, completed, known)


def _end(store: Store, name: str, completed: Collection[str], known: Mapping[str, int]) -> None:
    """Undo the run with this name if it is not complete, and remove its partial tables."""
    if name not in completed:
        for table in TABLES:
            _restore(store, table, name, known.get(table, -1))
        for table in (*TABLES, RUNS.name):
            store.remove_folder(f"{table}/{name}")
            if not store.list(table):
                store.remove_folder(table)
    _remove_work(store, name)


def _restore(store: Store, table: str, name: str, known: int) -> None:
    """Restore a table to its version ``known`` if the run with this name has changed it."""
    current = open_delta(store, table)
    if current is None or all(commit.get(RUN_METADATA) != name for commit in versions_since(current, known)):
        return
    if known < 0:
        store.remove_folder(table)
        return
    with delta_errors(store, table):
        current.restore(known)


def _is_dead(store: Store, name: str) -> bool:
    """Return whether the run that created this folder is dead."""
    match = _NAME.fullmatch(name)
    if match is None:
        return False
    if not store.local or match[2] != re.sub(r"[^\w.]", "_", platform.node()):
        changed = store.changed_ns(f"{_WORK}/{name}")
        return changed > 0 and changed + _SILENT_NS < time.time_ns()
    try:
        os.kill(int(match[3]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return int(match[3]) == os.getpid()


def _remove_work(store: Store, name: str) -> None:
    store.remove_folder(f"{_WORK}/{name}")
    if not store.list(_WORK):
        store.remove_folder(_WORK)
