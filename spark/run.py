"""A run over a folder of tables: nobody sees anything of it before its end, and then all of it.

The folder
- ``OUT/<table>/…parquet``: the tables. A plain read of ``OUT/<table>`` is right when no run is just ending.
- ``OUT/_manifest.json``: which files these are. Who reads by it (`pcli.spark.stored`) is right at any moment.
- ``OUT/_work/<run>/``: what a run has made so far. ``OUT/_state/…``: what the next incremental run begins with.

Rules of this file
1. A run ends so: all its files lie in ``_work``; its intent is written beside them; the files move to their places;
   the manifest is replaced; the files that are no part of the tables any more are removed. On a local file system that
   takes milliseconds.
2. Killed before its intent, it has changed nothing. Killed after it, the next run ends it first: every step may be done
   twice. Whoever reads by the manifest has the old tables until then, and a plain read may find both.
3. Two runs at once: who commits second finds another generation than it began with, and changes nothing.
4. Only files that a manifest of ours names are removed from the tables' folders.
"""

from __future__ import annotations

import json
import os
import platform
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pcli.codec.errors import LocalError
from pcli.spark.manifest import MANIFEST, Manifest
from pcli.spark.staging import Made, Staging, write_empty
from pcli.spark.store import Store
from pcli.spark.tables import Table

__all__ = ["Run", "begin", "read_manifest"]

_WORK: Final = "_work"
_INTENT: Final = "commit.json"
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
        _intend(self, manifest, moves)
        return manifest

    def abandon(self) -> None:
        """Leave everything as it was."""
        _remove_work(self.staging.store, self.staging.folder)


def begin(store: Store) -> Run:
    """Begin a run; what a killed one has left is ended or removed first.

    Raises LocalError when the folder is somebody else's, or cannot be written.
    """
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


def _check_ours(store: Store) -> None:
    names = [name for name in store.list() if not name.startswith(".")]
    if names and MANIFEST not in names and _WORK not in names:
        raise LocalError(f"{store.root}: there are other files in it, and no tables of pcli: name a new folder")


def _intend(run: Run, manifest: Manifest, moves: dict[str, str]) -> None:
    """Write down what is to be done, and do it."""
    store, base = run.staging.store, run.base
    if (read_manifest(store) or Manifest()) != base:
        run.abandon()
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
        # Not a killed process but a file system that refuses: go back to what was.
        store.remove(f"{run.staging.folder}/{_INTENT}")
        for target in moves.values():
            store.remove(target)
        raise
    _clear(store, gone)
    _remove_work(store, run.staging.folder)
    _remove_stale(store, manifest.generation)


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
        intent = store.read(f"{folder}/{_INTENT}")
        now = (read_manifest(store) or Manifest()).generation
        if intent is not None and (done := _finish(store, intent, now)):
            _remove_work(store, folder)
            _remove_stale(store, done)
        elif intent is not None or _is_dead(store, folder):
            _remove_work(store, folder)


def _finish(store: Store, intent: bytes, now: int) -> int:
    """Do what is left of a commit; the generation that it made, 0: it was too late, or it is half-written."""
    try:
        said = json.loads(intent)
    except ValueError:
        return 0
    manifest = Manifest.decode(said["manifest"].encode(), "the intent of a run")
    if manifest.generation not in (now, now + 1):
        return 0
    if manifest.generation == now + 1:
        _move(store, said["moves"])
        store.replace(MANIFEST, manifest.encode())
    _clear(store, said["gone"])
    return manifest.generation


def _is_dead(store: Store, folder: str) -> bool:
    """Whether the process that made this folder was of this machine and is no more."""
    match = _RUN.fullmatch(folder)
    if match is None or not store.local or match[2] != re.sub(r"[^\w.]", "_", platform.node()):
        return False
    try:
        os.kill(int(match[3]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return int(match[3]) == os.getpid()


def _remove_stale(store: Store, generation: int) -> None:
    """Remove what runs have left that cannot be committed any more."""
    for folder in store.list(_WORK):
        match = _RUN.fullmatch(folder)
        if match is not None and int(match[1]) <= generation:
            _remove_work(store, folder)


def _remove_work(store: Store, folder: str) -> None:
    store.remove_folder(folder)
    if not store.list(_WORK):
        store.remove_folder(_WORK)
