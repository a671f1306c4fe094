"""Incremental runs: only new files are read; the tables of earlier files are kept.

Steps
- The reader's state after each of the last files and the tables of every split are kept. A file that follows all
  earlier files is read from the last state. The observation of connections continues in the same way
  (kept_observations.py). The remaining stages use the tables of old and new files.
- Results from the end of the recording are not kept, because files may follow.
- If a file arrived late and precedes other files, or has changed (it was still being written), it is read together with
  all files after it, from the last state before it. These files must still exist.

Rules of this file
1. In whatever order the files arrived, the tables have the same rows as the tables that a single run writes for all
   files.
2. The rows of a file remain in the tables if the file no longer exists or cannot be read now. The table `captures`
   reports a file that cannot be read.
3. Options that affect which packets are read or how they are read must be equal to the options of the first run.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import takewhile
from typing import Any, Final

from pcli.codec.capture.frames import Stream
from pcli.codec.errors import LocalError
from pcli.spark.engine import Engine
from pcli.spark.input.read_plan import Entry, Plan, Recording, ordered
from pcli.spark.request import Request, RequiredData
from pcli.spark.stages.kept_observations import KeptObservations
from pcli.spark.stages.kept_values import dump, load
from pcli.spark.stages.read_recording import ReadRecording, as_read, progress_reporter
from pcli.spark.stages.read_sequentially import Checkpoint, ReadInOrder, read_in_order
from pcli.spark.stages.split_tables import PartStorage, SplitParts
from pcli.spark.tables.data_files import Staging, write_bytes
from pcli.spark.tables.run_commit import STATE, OpenRun
from pcli.spark.tables.table_store import Store
from pcli.spark.tables.uri_redaction import hidden

__all__ = ["IncrementalState", "is_unchanged", "keep", "kept_of", "read_new", "with_missing_files"]

_FORMAT: Final = 3
"""Number of the format of the kept data. Increase it when a class or a partial table in it changes."""

_INDEX: Final = f"index-{_FORMAT}-"
"""Start of the name of the file with an `IncrementalState`. In format 1, the name does not contain the number."""

_CHECKPOINTS: Final = 4
"""Number of the last files after which the reader's state is kept. If one of these files is late or changes, little is
read again."""


@dataclass(slots=True)
class KeptRecording:
    """The data that is kept for a recording."""

    entries: list[Entry] = field(default_factory=list)
    """The files in order."""
    splits: list[SplitParts] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    checkpoints: dict[int, str] = field(default_factory=dict)
    """Names of the files that contain the reader's state, by the number of captures read before the state was kept."""
    observations: list[KeptObservations] = field(default_factory=list)
    """The states of the observed groups after the last runs, in order."""

    def paths(self) -> Iterator[str]:
        """Yield the paths of all files that contain kept data."""
        yield from (part.path for split in self.splits for some in split.tables.values() for part in some)
        yield from self.checkpoints.values()
        yield from (group.path for one in self.observations for group in one.groups)


@dataclass(slots=True)
class IncrementalState:
    """The data that an incremental run keeps for the next run."""

    options: dict[str, Any]
    recordings: dict[str, KeptRecording] = field(default_factory=dict)
    """The recordings by cluster."""


def kept_of(run: OpenRun, request: Request, required: RequiredData) -> IncrementalState:
    """Return the data of the previous run, or an empty state.

    Raise LocalError if its options or the format were different.
    """
    store, options = run.staging.store, _options(request, required)
    index = next((name for name in run.base.state if name.startswith(f"{STATE}/index-")), None)
    data = None if index is None else store.read(index)
    if index is None or data is None:
        return IncrementalState(options)
    if not index.startswith(f"{STATE}/{_INDEX}"):
        raise LocalError(
            f"{store.root}: the earlier run kept its state in a different format (another version of pcli): omit "
            "--incremental, or use a new OUT and a new checkpoint"
        )
    kept: IncrementalState = load(data, store.path(index))
    for name, value in kept.options.items():
        if options[name] != value:
            raise LocalError(
                f"{store.root}: --incremental continues an earlier run that had a different {name}: "
                "use the same options, or omit --incremental to read all files again"
            )
    return kept


def _options(request: Request, required: RequiredData) -> dict[str, Any]:
    return {
        "version": version("pulsar-pcli"),
        "choice of tables": asdict(required),
        "--cluster": hidden(request.cluster),
        "--since": request.since_ns,
        "--until": request.until_ns,
        "--decode-as": request.decode_as,
        "--keylog": bool(request.key_log),
    }


def with_missing_files(plan: Plan, kept: IncrementalState) -> tuple[Plan, frozenset[str]]:
    """Return the plan with the earlier files that are missing or unreadable now, and the names of these files."""
    now = {hidden(entry.found.where): entry for entry in plan.entries}
    missing = [
        _as_missing(entry, now.get(entry.found.where))
        for one in kept.recordings.values()
        for entry in one.entries
        if entry.found.where not in now or now[entry.found.where].head.status == "unreadable"
    ]
    names = {entry.found.where for entry in missing}
    there = [entry for where, entry in now.items() if where not in names]
    recordings = {recording.cluster: recording for recording in plan.recordings}
    for cluster in sorted({entry.cluster for entry in missing}):
        parts = recordings[cluster].parts if cluster in recordings else ()
        every = ordered([*parts, *(entry for entry in missing if entry.cluster == cluster)])
        recordings[cluster] = Recording(cluster, tuple(every), ())
    placed = {entry.found.where: entry for recording in recordings.values() for entry in recording.parts}
    entries = [placed.get(entry.found.where, entry) for entry in (*there, *missing)]
    whole = Plan(tuple(entries), tuple(recordings[cluster] for cluster in sorted(recordings)))
    return whole, frozenset(names)


def _as_missing(entry: Entry, now: Entry | None) -> Entry:
    """Return the entry of an earlier run, with the reason why the file cannot be read now.

    The reason is empty if the file no longer exists.
    """
    error = "" if now is None else f"not readable now: {now.head.error}; its rows are from an earlier run"
    return replace(entry, head=replace(entry.head, error=error))


def read_new(
    recording: Recording,
    request: Request,
    required: RequiredData,
    engine: Engine,
    staging: Staging,
    kept: IncrementalState,
    missing: frozenset[str],
) -> ReadRecording:
    """Read the new files of a recording and update ``kept``; raise LocalError if a required file no longer exists."""
    old = kept.recordings.get(recording.cluster, KeptRecording())
    same = _same(old.entries, recording.parts)
    at = max((count for count in old.checkpoints if count <= same), default=0)
    for entry in recording.parts[at:]:
        if entry.found.where in missing:
            raise LocalError(
                f"{entry.found.path}: this file must be read again, because an earlier file is new or has changed, but "
                "it is missing: omit --incremental to write tables of the existing files"
            )
    start = _Start(old.checkpoints[at] if at else "", [split for split in old.splits if split.part < at])
    task = partial(_read_from, request, required, staging, start)
    new = recording.parts[at:]
    if engine.apart and new:
        [(read, checkpoints)] = engine.map("read", task, [recording], sizes=[sum(entry.found.size for entry in new)])
    else:
        read, checkpoints = task(recording, progress_reporter(engine, new, at))
    read.positions = {part: place for part, place in old.positions.items() if part < at} | read.positions
    checkpoints |= {count: name for count, name in old.checkpoints.items() if count <= at}
    newest = sorted(checkpoints)[-_CHECKPOINTS:]
    observations = [one for one in old.observations if one.parts <= same]
    kept.recordings[recording.cluster] = KeptRecording(
        [_noted(entry) for entry in recording.parts],
        list(read.splits),
        read.positions,
        {count: checkpoints[count] for count in newest},
        observations,
    )
    reading = as_read(recording, read)
    reading.observed = observations[-1] if observations else KeptObservations()
    return reading


@dataclass(frozen=True, slots=True)
class _Start:
    """The position from which a recording is read further."""

    checkpoint: str
    """Name of the file with the reader's state; empty at the beginning."""
    splits: list[SplitParts]
    """The results of the captures before the position."""


def _read_from(
    request: Request,
    required: RequiredData,
    staging: Staging,
    start: _Start,
    recording: Recording,
    on_bytes: Callable[[int, int], None] | None = None,
) -> tuple[ReadInOrder, dict[int, str]]:
    """Read the captures after a position; return the result and the new files with the reader's state.

    ``on_bytes`` is that of `read_in_order`.
    """
    carried = _carried(staging.store, start.checkpoint) if start.checkpoint else None
    before = start.splits
    if carried is not None:
        before = [_with_streams(split, carried.streams) for split in before]
    checkpoints: dict[int, str] = {}

    def on_part(checkpoint: Checkpoint) -> None:
        count = checkpoint.counters.parts
        if count > len(recording.parts) - _CHECKPOINTS:
            checkpoints[count] = write_bytes(staging, f"checkpoint-{uuid.uuid4().hex}", dump(checkpoint))

    read = read_in_order(
        recording,
        request,
        required,
        PartStorage(staging),
        on_bytes=on_bytes or (lambda _part, _done: None),
        on_part=on_part,
        carried=carried,
        before=before,
    )
    return read, checkpoints


def is_unchanged(run: OpenRun, kept: IncrementalState) -> bool:
    """Return whether no file was read."""
    paths = {path for one in kept.recordings.values() for path in one.paths()}
    return paths <= set(run.base.state)


def keep(run: OpenRun, kept: IncrementalState, readings: Iterable[ReadRecording]) -> dict[str, str]:
    """Return the current and final paths of the files for the next run, for `Run.commit`."""
    files: dict[str, str] = {}
    observed = {reading.recording.cluster: reading.observed for reading in readings}

    def moved(path: str) -> str:
        """Return the final path of a file in the state. A file that is already in the state keeps its path."""
        files[path] = path if path.startswith(f"{STATE}/") else f"{STATE}/{path.rpartition('/')[2]}"
        return files[path]

    moved_state = IncrementalState(kept.options)
    for cluster, one in kept.recordings.items():
        splits = []
        for split in one.splits:
            tables = split.tables.items()
            placed = {name: [replace(part, path=moved(part.path)) for part in some] for name, some in tables}
            splits.append(replace(split, tables=placed))
        checkpoints = {count: moved(name) for count, name in one.checkpoints.items()}
        states = {known.parts: known for known in (*one.observations, observed.get(cluster)) if known is not None}
        observations = [
            replace(known, groups=[replace(group, path=moved(group.path)) for group in known.groups])
            for known in list(states.values())[-_CHECKPOINTS:]
        ]
        moved_state.recordings[cluster] = replace(
            one, splits=splits, checkpoints=checkpoints, observations=observations
        )
    index = write_bytes(run.staging, f"{_INDEX}{uuid.uuid4().hex}", dump(moved_state))
    moved(index)
    return files


def _same(old: Sequence[Entry], new: Sequence[Entry]) -> int:
    """Return the number of unchanged files before the first changed file."""
    pairs = zip(map(_identity, old), map(_identity, new))
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _identity(entry: Entry) -> tuple[str, int, int]:
    return hidden(entry.found.where), entry.found.size, entry.found.changed_ns


def _noted(entry: Entry) -> Entry:
    """Return the entry to keep. Its name contains no passwords, and the file is not opened by this name."""
    return replace(entry, found=replace(entry.found, where=hidden(entry.found.where)))


def _carried(store: Store, name: str) -> Checkpoint:
    data = store.read(name)
    if data is None:
        raise LocalError(f"{store.path(name)}: missing; omit --incremental to read all files again")
    checkpoint: Checkpoint = load(data, store.path(name))
    return checkpoint


def _with_streams(split: SplitParts, streams: Mapping[int, Stream]) -> SplitParts:
    """Return the split with events that refer to the current connection objects, not to unpickled copies."""
    placed_events = [
        one if one.item.stream is None else replace(one, item=replace(one.item, stream=streams[one.item.stream.number]))
        for one in split.placed_events
    ]
    return replace(split, placed_events=placed_events)
