"""A run on a folder of tables, as a transaction: readers read the old tables until the run ends, then all new tables.

The folder
- ``OUT/<table>/…parquet``: the tables. A plain read of ``OUT/<table>`` is correct except while a run commits.
- ``OUT/_manifest.json``: the list of these files. A read that uses this list (`pcli.spark.tables.stored_tables`) is
  always consistent.
- ``OUT/_work/<run>/``: the files of a run in progress. ``OUT/_state/…``: input of the next incremental run.

Rules of this file
1. A run commits in these steps: all its files are in ``_work``; the intent is written next to them; the files are moved
   to their final paths; the manifest is replaced; files that no longer belong to the tables are removed. On a local
   file system this takes milliseconds.
2. A run that is killed before its intent is written has changed nothing. If it is killed later, the next run completes
   the commit, because every step may be repeated. Until the commit is complete, the manifest may list the old tables,
   and a plain read may find both old and new files.
3. If two runs are simultaneous, the run that commits second finds a newer generation than the generation at its start,
   and changes nothing. A lock on the folder serializes commits; the kernel releases it when the process ends. On a file
   system without locks, only the manifest distinguishes two simultaneous commits.
4. Files are removed from the folders of tables only if an earlier manifest of pcli lists them and the current manifest
   does not.
5. A run never moves or removes the files of a different active run. A run is dead if its process no longer exists or,
   if that cannot be determined, if nothing was written for a day.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from pcli.codec.errors import LocalError
from pcli.spark.tables.catalog import Table
from pcli.spark.tables.manifest import MANIFEST, Manifest
from pcli.spark.tables.staging import Staging, WrittenFile, write_empty
from pcli.spark.tables.table_store import Store

__all__ = ["Run", "begin", "read_manifest"]

_WORK: Final = "_work"
_INTENT: Final = "commit.json"
_SILENT_NS: Final = 86_400_000_000_000
"""A run on a different machine is dead if it writes nothing for this many ns."""

_RUN: Final = re.compile(r"_work/g(\d+)-(.+)-(\d+)-[0-9a-f]+")
"""The name of a run's folder: the generation that the run may create, and the host and process of its driver."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run in progress."""

    base: Manifest
    """The manifest at the start of the run."""
    staging: Staging
    """The folder for the files that the run's tasks write."""

    def commit(
        self,
        made: Iterable[WrittenFile],
        tables: Sequence[Table],
        *,
        partitioned: Iterable[str] = (),
        run: Mapping[str, Any],
        state: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Commit these files as the tables; return the new manifest, or the old manifest if nothing is new.

        ``tables`` are all requested tables, including empty tables. ``state`` contains the current and the final path
        of each file for the next run. Existing files are kept. Raise LocalError if a different run has committed since
        this run began.
        """
        files = list(made)
        there = {file.stored.table for file in files}
        files += [write_empty(self.staging, table) for table in tables if table.name not in there]
        files.sort(key=lambda file: file.stored.path)
        state = state or {}
        manifest = Manifest(
            self.base.generation,
            tuple(file.stored for file in files),
            tuple(table.name for table in tables),
            tuple(sorted(set(partitioned) & there)),
            json.loads(json.dumps(run)),
            tuple(sorted(state.values())),
        )
        assert len({file.stored.path for file in files}) == len(files), "two parts of a table have the same number"
        if manifest == self.base and len(_there(self.staging.store, manifest)) == len(files) + len(state):
            self.abandon()
            return self.base
        manifest = replace(manifest, generation=self.base.generation + 1)
        moves = {file.staged: file.stored.path for file in files} | dict(state)
        with _locked(self.staging.store):
            _intend(self, manifest, moves)
        return manifest

    def abandon(self) -> None:
        """Leave the tables unchanged. If the intent is already written, the next run completes the commit."""
        store = self.staging.store
        with _locked(store):
            if not store.has(f"{self.staging.folder}/{_INTENT}"):
                _remove_work(store, self.staging.folder)


def begin(store: Store) -> Run:
    """Begin a run, after completing killed runs or removing their files.

    Raise LocalError if the folder contains other files or cannot be written.
    """
    with _locked(store):
        _check_ours(store)
        _recover(store)
        base = read_manifest(store) or Manifest()
        host = re.sub(r"[^\w.]", "_", platform.node()) or "host"
        folder = f"{_WORK}/g{base.generation + 1}-{host}-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        # Writing this file shows immediately whether the folder is writable.
        try:
            store.write(f"{folder}/begun", b"")
        except LocalError as error:
            reason = str(error).removeprefix(f"{store.path(f'{folder}/begun')}: ")
            raise LocalError(f"{store.root}: not writable: {reason}") from None
    return Run(base, Staging(store, folder))


def read_manifest(store: Store) -> Manifest | None:
    """Return the manifest, or None if there is none."""
    data = store.read(MANIFEST)
    return None if data is None else Manifest.decode(data, store.path(MANIFEST))


@contextmanager
def _locked(store: Store) -> Iterator[None]:
    """Hold an exclusive lock on the folder if its file system supports locks. It is not reentrant."""
    place = -1
    if store.local:
        with suppress(ImportError, OSError):  # the folder does not exist yet, or there are no locks
            import fcntl

            place = os.open(store.root, os.O_RDONLY)
            fcntl.flock(place, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if place >= 0:
            os.close(place)


def _check_ours(store: Store) -> None:
    names = [name for name in store.list() if not name.startswith(".")]
    if names and MANIFEST not in names and _WORK not in names:
        raise LocalError(f"{store.root}: the folder contains other files and no tables of pcli: specify a new folder")


def _intend(run: Run, manifest: Manifest, moves: dict[str, str]) -> None:
    """Write the intent of a commit, then complete the commit."""
    store, base = run.staging.store, run.base
    if (read_manifest(store) or Manifest()) != base:
        _remove_work(store, run.staging.folder)
        raise LocalError(f"{store.root}: a different run has committed in the meantime; nothing was changed: run again")
    kept = _there(store, base)
    moves = {staged: target for staged, target in moves.items() if target not in kept}
    obsolete = sorted(kept - {file.path for file in manifest.files} - set(manifest.state))
    intent = {"manifest": manifest.encode().decode(), "moves": moves, "gone": obsolete}
    try:
        store.write(f"{run.staging.folder}/{_INTENT}", json.dumps(intent).encode())
        _move(store, moves)
        store.replace(MANIFEST, manifest.encode())
    except LocalError:
        # The file system failed; the process was not killed. Roll back, unless the manifest is already replaced.
        if (now := read_manifest(store)) != manifest:
            store.remove(f"{run.staging.folder}/{_INTENT}")
            _take_back(store, now or Manifest(), moves)
            raise
    _clear(store, obsolete)
    _remove_work(store, run.staging.folder)


def _take_back(store: Store, now: Manifest, moves: Mapping[str, str]) -> None:
    """Remove the files that were moved, except files that belong to the tables."""
    for target in {*moves.values()} - {file.path for file in now.files} - {*now.state}:
        store.remove(target)


def _there(store: Store, manifest: Manifest) -> set[str]:
    """Return the paths of a manifest's files that exist."""
    return {path for path in (*(file.path for file in manifest.files), *manifest.state) if store.has(path)}


def _move(store: Store, moves: Mapping[str, str]) -> None:
    for staged, target in moves.items():
        if store.has(staged):  # otherwise it was moved before the run was killed
            store.move(staged, target)


def _clear(store: Store, obsolete: Iterable[str]) -> None:
    """Remove files, and the folders that become empty."""
    folders = set()
    for name in obsolete:
        store.remove(name)
        words = name.split("/")[:-1]
        folders |= {"/".join(words[:count]) for count in range(1, len(words) + 1)}
    for folder in sorted(folders, key=len, reverse=True):
        if not store.list(folder):
            store.remove_folder(folder)


def _recover(store: Store) -> None:
    """Complete a commit whose run was killed, and remove the files of other dead runs."""
    for folder in store.list(_WORK):
        if _is_dead(store, folder):
            intent = store.read(f"{folder}/{_INTENT}")
            if intent is not None:
                _finish(store, intent)
            _remove_work(store, folder)


def _finish(store: Store, intent: bytes) -> None:
    """Complete a commit, or roll it back if a different run has committed. Ignore an incomplete intent."""
    try:
        recorded = json.loads(intent)
    except ValueError:
        return
    manifest = Manifest.decode(recorded["manifest"].encode(), "the intent of a run")
    now = read_manifest(store) or Manifest()
    if manifest.generation == now.generation + 1:
        _move(store, recorded["moves"])
        store.replace(MANIFEST, manifest.encode())
    elif manifest != now:
        _take_back(store, now, recorded["moves"])
        return
    _clear(store, recorded["gone"])


def _is_dead(store: Store, folder: str) -> bool:
    """Return whether the run that created this folder is dead."""
    match = _RUN.fullmatch(folder)
    if match is None:
        return False
    if not store.local or match[2] != re.sub(r"[^\w.]", "_", platform.node()):
        changed = store.changed_ns(folder)
        return changed > 0 and changed + _SILENT_NS < time.time_ns()
    try:
        os.kill(int(match[3]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return int(match[3]) == os.getpid()


def _remove_work(store: Store, folder: str) -> None:
    store.remove_folder(folder)
    if not store.list(_WORK):
        store.remove_folder(_WORK)
