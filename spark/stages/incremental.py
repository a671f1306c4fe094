"""Incremental runs: only new files are read; the tables of earlier files are kept.

Steps
- The reader's state after each of the last files and the tables of every split are kept. A file that follows all
  earlier files is read from the last state: by one task, or in splits if the new files are larger than a split. The
  observation of connections continues in the same way (kept_observations.py). The remaining stages use the tables of
  old and new files.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from itertools import takewhile
from typing import Any, Final

import pyarrow as pa

from pcli.codec.capture.frames import Stream
from pcli.codec.errors import LocalError
from pcli.spark.columnar.observation.connection_ties import merge_ties
from pcli.spark.columnar.observation.finding_table import FramePlace
from pcli.spark.engine import Engine
from pcli.spark.input.read_plan import Entry, Plan, Recording, ordered
from pcli.spark.request import Request, RequiredData
from pcli.spark.stages.kept_lifecycles import KeptLifecycles
from pcli.spark.stages.kept_observations import KeptObservations
from pcli.spark.stages.kept_states import KeptStates, PermitState, TableState
from pcli.spark.stages.kept_values import dump, load
from pcli.spark.stages.merge_lifecycles import SMALL
from pcli.spark.stages.read_new_files import Start, read_from
from pcli.spark.stages.read_recording import ReadRecording, as_read, tables_of
from pcli.spark.stages.split_tables import PartStorage, SplitParts
from pcli.spark.tables.data_files import Staging, write_bytes
from pcli.spark.tables.run_commit import STATE, OpenRun
from pcli.spark.tables.uri_redaction import hidden

__all__ = ["IncrementalState", "is_unchanged", "keep", "kept_of", "read_new", "with_missing_files"]

_FORMAT: Final = 8
"""Number of the format of the kept data. Increase it when a class or a partial table in it changes."""

_INDEX: Final = f"index-{_FORMAT}-"
"""Start of the name of the file with an `IncrementalState`. In format 1, the name does not contain the number."""

_CHECKPOINTS: Final = 4
"""Number of the last files after which the reader's state is kept. If one of these files is late or changes, little is
read again."""


_OLDER: Final = 8
"""Maximum number of older states that are kept, from which late files within the horizon are read."""

_REMOVED: Final = frozenset({
    "published", "halves", "consumed", "answered", "ack_halves", "heads", "packets",
    "permit_changes", "permit_events", "permit_totals", "frames", *SMALL,
})  # fmt: skip
"""Tables of splits that are older than the horizon and no longer needed."""


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
    lifecycles: KeptLifecycles = field(default_factory=KeptLifecycles)
    permits: KeptStates[PermitState] = field(default_factory=KeptStates)
    frames: KeptStates[TableState] = field(default_factory=KeptStates)
    evidence: dict[int, FramePlace] = field(default_factory=dict)
    """The positions of the frames that findings name, by number."""

    def oldest_state(self) -> int:
        """Return the number of captures before the oldest position from which the recording can be read.

        If no split is older than the horizon, it can be read from its beginning.
        """
        removed = self.lifecycles.removed
        if not removed:
            return 0
        last = self.splits[removed - 1].part
        first = max(
            min((one.parts for one in states if one.parts > last), default=0)
            for states in (self.observations, self.permits.states, self.frames.states)
        )
        return min(count for count in self.checkpoints if count > last and count >= first)

    def paths(self) -> Iterator[str]:
        """Yield the paths of all files that contain kept data."""
        yield from (part.path for split in self.splits for some in split.tables.values() for part in some)
        yield from self.checkpoints.values()
        yield from (group.path for one in self.observations for group in one.groups)
        yield from self.lifecycles.paths()
        yield from self.permits.paths()
        yield from self.frames.paths()


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
    late: dict[str, Entry] = {}
    for cluster, recording in recordings.items():
        recordings[cluster], some = _without_late_files(recording, kept.recordings.get(cluster, KeptRecording()))
        late |= {entry.found.where: entry for entry in some}
    placed = late | {entry.found.where: entry for recording in recordings.values() for entry in recording.parts}
    entries = [placed.get(entry.found.where, entry) for entry in (*there, *missing)]
    whole = Plan(tuple(entries), tuple(recordings[cluster] for cluster in sorted(recordings)))
    return whole, frozenset(names)


def _without_late_files(recording: Recording, old: KeptRecording) -> tuple[Recording, list[Entry]]:
    """Return a recording without the files that precede its oldest state, and these files.

    If one of the files that the oldest state includes has changed, it is not read again.
    """
    known = {entry.found.where: entry for entry in old.entries[: old.oldest_state()]}
    places = [place for place, entry in enumerate(recording.parts) if hidden(entry.found.where) in known]
    if not places:
        return recording, []
    before, after = recording.parts[: places[-1] + 1], recording.parts[places[-1] + 1 :]
    late = [entry for entry in before if hidden(entry.found.where) not in known]
    same = {hidden(entry.found.where): entry for entry in before}
    first = [same[where] if _identity(same[where]) == _identity(entry) else entry for where, entry in known.items()]
    parts = tuple(replace(entry, part=number) for number, entry in enumerate((*first, *after)))
    return replace(recording, parts=parts), [_as_late(entry) for entry in late]


def _as_late(entry: Entry) -> Entry:
    head = replace(entry.head, status="late", error="older than the horizon: its rows are not in the tables")
    return replace(entry, head=head, part=-1)


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
    before = [split for split in old.splits if split.part < at]
    start = Start(at, old.checkpoints[at] if at else "", len(before), _CHECKPOINTS)
    read, checkpoints = read_from(start, recording, request, required, engine, staging)
    read.splits = [*(_with_streams(split, read.streams) for split in before), *read.splits]
    read.positions = {part: place for part, place in old.positions.items() if part < at} | read.positions
    checkpoints |= {count: name for count, name in old.checkpoints.items() if count <= at}
    newest = _distant(checkpoints, recording.parts, request.horizon_s)
    observations = [one for one in old.observations if one.parts <= same]
    lifecycles = old.lifecycles if old.lifecycles.parts <= same else replace(old.lifecycles, facts="")
    frames = sum(split.counted.frames for split in before)
    evidence = {number: place for number, place in old.evidence.items() if number <= frames}
    kept.recordings[recording.cluster] = KeptRecording(
        [_noted(entry) for entry in recording.parts],
        list(read.splits),
        read.positions,
        {count: checkpoints[count] for count in newest},
        observations,
        lifecycles,
        old.permits.until(same),
        old.frames.until(same),
        evidence,
    )
    reading = as_read(recording, read)
    reading.observed = observations[-1] if observations else KeptObservations()
    now = kept.recordings[recording.cluster]
    reading.lifecycles, reading.evidence = lifecycles, evidence
    reading.permits, reading.frame_states = now.permits, now.frames
    return reading


def _distant(counts: Iterable[int], entries: Sequence[Entry], horizon_s: float) -> list[int]:
    """Return the last of these numbers of captures, and older numbers with a distance of a part of the horizon."""
    ordered_counts = sorted(counts, reverse=True)
    found = ordered_counts[:_CHECKPOINTS]
    step_ns = int(horizon_s * 1_000_000_000) // _OLDER
    times = {count: entries[count - 1].head.first_ns or 0 for count in ordered_counts}
    newest_ns = max(times.values(), default=0)
    for count in ordered_counts[_CHECKPOINTS:]:
        within = times[count] >= newest_ns - step_ns * _OLDER
        if within and times[count] + step_ns <= times[found[-1]]:
            found.append(count)
    return found[::-1]


def is_unchanged(run: OpenRun, kept: IncrementalState) -> bool:
    """Return whether no file was read."""
    paths = {path for one in kept.recordings.values() for path in one.paths()}
    return paths <= set(run.base.state)


def keep(run: OpenRun, kept: IncrementalState, readings: Iterable[ReadRecording], horizon_s: float) -> dict[str, str]:
    """Return the current and final paths of the files for the next run, for `Run.commit`."""
    files: dict[str, str] = {}
    readings = list(readings)
    observed = {reading.recording.cluster: reading.observed for reading in readings}
    lifecycles = {reading.recording.cluster: reading.lifecycles for reading in readings}
    permits = {reading.recording.cluster: reading.permits for reading in readings}
    frames = {reading.recording.cluster: reading.frame_states for reading in readings}
    evidence = {reading.recording.cluster: reading.evidence for reading in readings}

    def moved(path: str) -> str:
        """Return the final path of a file in the state. A file that is already in the state keeps its path."""
        files[path] = path if path.startswith(f"{STATE}/") else f"{STATE}/{path.rpartition('/')[2]}"
        return files[path]

    moved_state = IncrementalState(kept.options)
    for cluster, one in kept.recordings.items():
        state = lifecycles.get(cluster) or one.lifecycles
        splits = []
        for number, split in enumerate(_with_merged_ties(run.staging, one.splits, state.removed)):
            removed = _REMOVED if number < state.removed else ()
            tables = [(name, some) for name, some in split.tables.items() if name not in removed]
            placed = {name: [replace(part, path=moved(part.path)) for part in some] for name, some in tables}
            splits.append(replace(split, tables=placed))
        checkpoints = {count: moved(name) for count, name in one.checkpoints.items()}
        states = {known.parts: known for known in (*one.observations, observed.get(cluster)) if known is not None}
        observations = [
            replace(known, groups=[replace(group, path=moved(group.path)) for group in known.groups])
            for known in map(states.__getitem__, _distant(filter(None, states), one.entries, horizon_s))
        ]
        counted, listed = permits.get(cluster) or one.permits, frames.get(cluster) or one.frames
        counts = _distant((known.parts for known in counted.states or listed.states), one.entries, horizon_s)
        moved_state.recordings[cluster] = replace(
            one,
            splits=splits,
            checkpoints=checkpoints,
            observations=observations,
            lifecycles=state.moved(moved),
            permits=counted.reduced(counts).moved(moved),
            frames=listed.reduced(counts),
            evidence=evidence.get(cluster, one.evidence),
        )
    index = write_bytes(run.staging, f"{_INDEX}{uuid.uuid4().hex}", dump(moved_state))
    moved(index)
    return files


def _with_merged_ties(staging: Staging, splits: list[SplitParts], removed: int) -> list[SplitParts]:
    """Return splits of which the first has the ties of the first ``removed`` splits."""
    old = splits[:removed]
    if sum("ties" in split.tables for split in old) < 2:
        return splits
    tables = (table for split in old for table in tables_of(staging, split, "ties"))
    merged = pa.Table.from_batches([merge_ties(batch for table in tables for batch in table.to_batches())])
    ties = {"ties": PartStorage(staging).keep("ties", [merged])}
    first, *others = (
        replace(split, tables={name: some for name, some in split.tables.items() if name != "ties"}) for split in old
    )
    return [replace(first, tables=first.tables | ties), *others, *splits[removed:]]


def _same(old: Sequence[Entry], new: Sequence[Entry]) -> int:
    """Return the number of unchanged files before the first changed file."""
    pairs = zip(map(_identity, old), map(_identity, new))
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _identity(entry: Entry) -> tuple[str, int, int]:
    return hidden(entry.found.where), entry.found.size, entry.found.changed_ns


def _noted(entry: Entry) -> Entry:
    """Return the entry to keep. Its name contains no passwords, and the file is not opened by this name."""
    return replace(entry, found=replace(entry.found, where=hidden(entry.found.where)))


def _with_streams(split: SplitParts, streams: Mapping[int, Stream]) -> SplitParts:
    """Return the split with events that refer to the current connection objects, not to unpickled copies."""
    placed_events = [
        one if one.item.stream is None else replace(one, item=replace(one.item, stream=streams[one.item.stream.number]))
        for one in split.placed_events
    ]
    return replace(split, placed_events=placed_events)
