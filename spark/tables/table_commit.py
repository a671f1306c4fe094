"""A run over a folder of tables: nobody sees anything of it before its end, and then all of it.

The folder
- ``OUT/<table>/…parquet``: the tables. A plain read of ``OUT/<table>`` is right when no run is just ending.
- ``OUT/_manifest.json``: which files these are. A read by it (`pcli.spark.tables.stored_tables`) is always consistent.
- ``OUT/_work/<run>/``: what a run has made so far. ``OUT/_state/…``: what the next incremental run begins with.

Rules of this file
1. A run ends so: all its files lie in ``_work``; its intent is written beside them; the files move to their places;
   the manifest is replaced; the files that are no part of the tables any more are removed. On a local file system that
   takes milliseconds.
2. Killed before its intent, it has changed nothing. Killed after it, the next run ends it first: every step may be done
   twice. Whoever reads by the manifest has the old tables until then, and a plain read may find both.
3. Two runs at once: who commits second finds another generation than it began with, and changes nothing. One commits
   at a time, by a lock on the folder itself: the kernel gives it back when its holder dies. Where a file system has no
   such lock, two that commit in the same moment are told apart by the manifest alone.
4. Only files that a manifest of ours names are removed from the tables' folders, and none that the present one names.
5. Nobody ends or removes what a living run does. Dead is: its process is no more; where that cannot be known, nothing
   was written for a day.
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
from pcli.spark.tables.staging import Made, Staging, write_empty
from pcli.spark.tables.table_store import Store

__all__ = ["Run", "begin", "read_manifest"]

_WORK: Final = "_work"
_INTENT: Final = "commit.json"
_SILENT_NS: Final = 86_400_000_000_000
"""So long, in ns, a run of another machine may write nothing."""

_RUN: Final = re.compile(r"_work/g(\d+)-(.+)-(\d+)-[0-9a-f]+")
"""The folder of a run: the generation that it may become, host and process of its driver."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has begun."""

    base: Manifest
    """The tables as they were."""
    staging: Staging
    """Where its tasks write."""

    def commit(
        self,
        made: Iterable[Made],
        tables: Sequence[Table],
        *,
        partitioned: Iterable[str] = (),
        run: Mapping[str, Any],
        state: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Make these files the tables; gives the manifest that stands then, the old one when nothing is new.

        ``tables`` are all that the run was to make, so an empty one is there too. ``state``: where files for the next
        run are, and where they are to be; those that are there already stay. LocalError when another run has ended
        since this one began.
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
        """Leave everything as it was; a commit that was decided and not taken back is left for the next run."""
        store = self.staging.store
        with _locked(store):
            if not store.has(f"{self.staging.folder}/{_INTENT}"):
                _remove_work(store, self.staging.folder)


def begin(store: Store) -> Run:
    """Begin a run; what a killed one has left is ended or removed first.

    Raises LocalError when the folder is somebody else's, or cannot be written.
    """
    with _locked(store):
        _check_ours(store)
        _recover(store)
        base = read_manifest(store) or Manifest()
        host = re.sub(r"[^\w.]", "_", platform.node()) or "host"
        folder = f"{_WORK}/g{base.generation + 1}-{host}-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        # The first file says at once when nothing can be written here.
        try:
            store.write(f"{folder}/begun", b"")
        except LocalError as error:
            reason = str(error).removeprefix(f"{store.path(f'{folder}/begun')}: ")
            raise LocalError(f"{store.root}: nothing can be written there: {reason}") from None
    return Run(base, Staging(store, folder))


def read_manifest(store: Store) -> Manifest | None:
    """The manifest; None: there is none."""
    data = store.read(MANIFEST)
    return None if data is None else Manifest.decode(data, store.path(MANIFEST))


@contextmanager
def _locked(store: Store) -> Iterator[None]:
    """Alone in the folder, as far as its file system can lock: others wait. Not to be taken twice."""
    place = -1
    if store.local:
        with suppress(ImportError, OSError):  # not there yet, or a system or file system without locks
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
        raise LocalError(f"{store.root}: there are other files in it, and no tables of pcli: name a new folder")


def _intend(run: Run, manifest: Manifest, moves: dict[str, str]) -> None:
    """Write down what is to be done, and do it."""
    store, base = run.staging.store, run.base
    if (read_manifest(store) or Manifest()) != base:
        _remove_work(store, run.staging.folder)
        raise LocalError(f"{store.root}: another run has ended there meanwhile: nothing was changed, run it again")
    kept = _there(store, base)
    moves = {staged: target for staged, target in moves.items() if target not in kept}
    gone = sorted(kept - {file.path for file in manifest.files} - set(manifest.state))
    intent = {"manifest": manifest.encode().decode(), "moves": moves, "gone": gone}
    try:
        store.write(f"{run.staging.folder}/{_INTENT}", json.dumps(intent).encode())
        _move(store, moves)
        store.replace(MANIFEST, manifest.encode())
    except LocalError:
        # Not a killed process but a file system that refuses: go back to what was, unless the manifest stands already.
        if (now := read_manifest(store)) != manifest:
            store.remove(f"{run.staging.folder}/{_INTENT}")
            _take_back(store, now or Manifest(), moves)
            raise
    _clear(store, gone)
    _remove_work(store, run.staging.folder)


def _take_back(store: Store, now: Manifest, moves: Mapping[str, str]) -> None:
    """Remove what was moved, but for what is part of the tables."""
    for target in {*moves.values()} - {file.path for file in now.files} - {*now.state}:
        store.remove(target)


def _there(store: Store, manifest: Manifest) -> set[str]:
    """The files of a manifest that nobody has taken away."""
    return {path for path in (*(file.path for file in manifest.files), *manifest.state) if store.has(path)}


def _move(store: Store, moves: Mapping[str, str]) -> None:
    for staged, target in moves.items():
        if store.has(staged):  # else it was moved before the run was killed
            store.move(staged, target)


def _clear(store: Store, gone: Iterable[str]) -> None:
    """Remove files, and the folders that are empty then."""
    folders = set()
    for name in gone:
        store.remove(name)
        words = name.split("/")[:-1]
        folders |= {"/".join(words[:count]) for count in range(1, len(words) + 1)}
    for folder in sorted(folders, key=len, reverse=True):
        if not store.list(folder):
            store.remove_folder(folder)


def _recover(store: Store) -> None:
    """End the run that was killed while it committed; remove what other dead ones have left."""
    for folder in store.list(_WORK):
        if _is_dead(store, folder):
            intent = store.read(f"{folder}/{_INTENT}")
            if intent is not None:
                _finish(store, intent)
            _remove_work(store, folder)


def _finish(store: Store, intent: bytes) -> None:
    """Do what is left of a commit; take it back when it was too late. Nothing is done of one that is half-written."""
    try:
        said = json.loads(intent)
    except ValueError:
        return
    manifest = Manifest.decode(said["manifest"].encode(), "the intent of a run")
    now = read_manifest(store) or Manifest()
    if manifest.generation == now.generation + 1:
        _move(store, said["moves"])
        store.replace(MANIFEST, manifest.encode())
    elif manifest != now:
        _take_back(store, now, said["moves"])
        return
    _clear(store, said["gone"])


def _is_dead(store: Store, folder: str) -> bool:
    """Whether who made this folder is no more."""
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
