"""Incremental runs: only new files are read; the tables of earlier files are kept.

Steps
- The reader's state after each of the last files and the tables of every split are kept. A file that follows all
  earlier files is read from the last state: by one task, or in splits if the new files are larger than a split. The
  observation of connections continues in the same way (observe_connections.py). The remaining stages use the tables of
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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from itertools import takewhile
from typing import Any, Final

import pyarrow as pa

from pcli.codec.capture.frames import Stream
from pcli.codec.errors import LocalError
from pcli.spark.columnar.observation.connection_ties import merge_ties
from pcli.spark.engine import Engine
from pcli.spark.input.read_plan import Entry, Plan, Recording, ordered
from pcli.spark.request import Request
from pcli.spark.stages.kept_states import NO_FILE, IncrementalState, KeptRecording, KeptStates, State, moved, paths_of
from pcli.spark.stages.kept_values import keep_value, load
from pcli.spark.stages.merge_lifecycles import SMALL
from pcli.spark.stages.read_recording import ReadRecording, Start, read_recording, tables_of
from pcli.spark.stages.split_tables import PartStorage, SplitParts
from pcli.spark.tables.data_files import Staging
from pcli.spark.tables.run_commit import STATE, OpenRun
from pcli.spark.tables.uri_redaction import hidden

_FORMAT: Final = 10
"""Number of the format of the kept data. Increase it when a class or a partial table in it changes."""

_INDEX: Final = f"index-{_FORMAT}"
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


def kept_of(run: OpenRun, request: Request) -> IncrementalState:
    """Return the data of the previous run, or an empty state.

    Raise LocalError if its options or the format were different.
    """
    store, options = run.staging.store, _options(request)
    index = next((name for name in run.base.state if name.startswith(f"{STATE}/index-")), None)
    data = None if index is None else store.read(index)
    if index is None or data is None:
        return IncrementalState(options)
    if not index.startswith(f"{STATE}/{_INDEX}-"):
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


def _options(request: Request) -> dict[str, Any]:
    return {
        "version": version("pulsar-pcli"),
        "choice of tables": asdict(request.required),
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
    engine: Engine,
    staging: Staging,
    place: int,
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
    start = Start(at, old.checkpoints[at] if at else NO_FILE, len(before), _CHECKPOINTS)
    storage = PartStorage(staging)
    read, checkpoints = read_recording(recording, request, engine, storage, staging, start)
    read.splits = [*(_with_streams(split, read.streams) for split in before), *read.splits]
    read.positions = {part: place for part, place in old.positions.items() if part < at} | read.positions
    checkpoints |= {count: name for count, name in old.checkpoints.items() if count <= at}
    newest = _distant(checkpoints, recording.parts, request.horizon_s)
    lifecycles = old.lifecycles if old.lifecycles.parts <= same else replace(old.lifecycles, facts="")
    frames = sum(split.counted.frames for split in before)
    evidence = {number: place for number, place in old.evidence.items() if number <= frames}
    now = kept.recordings[recording.cluster] = KeptRecording(
        [_noted(entry) for entry in recording.parts],
        list(read.splits),
        read.positions,
        {count: checkpoints[count] for count in newest},
        old.observations.until(same),
        lifecycles,
        old.permits.until(same),
        old.frames.until(same),
        evidence,
    )
    reading = ReadRecording.of(engine, staging, place, recording, read)
    reading.kept = now
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
    return paths_of(kept.recordings) <= set(run.base.state)


def keep(run: OpenRun, kept: IncrementalState, horizon_s: float) -> dict[str, str]:
    """Return the current and final paths of the files for the next run, for `Run.commit`."""
    files: dict[str, str] = {}

    def final_path(path: str) -> str:
        """Return the final path of a file in the state. A file that is already in the state keeps its path."""
        files[path] = path if path.startswith(f"{STATE}/") else f"{STATE}/{path.rpartition('/')[2]}"
        return files[path]

    recordings = {cluster: _reduced(run.staging, one, horizon_s) for cluster, one in kept.recordings.items()}
    state = moved(IncrementalState(kept.options, recordings), final_path)
    final_path(keep_value(run.staging, _INDEX, state))
    return files


def _reduced(staging: Staging, one: KeptRecording, horizon_s: float) -> KeptRecording:
    """Return the state of a recording without the tables and states that no later run needs."""
    old = one.lifecycles.removed
    splits = _with_merged_ties(staging, one.splits, old)
    for number, split in enumerate(splits[:old]):
        tables = {name: some for name, some in split.tables.items() if name not in _REMOVED}
        splits[number] = replace(split, tables=tables)

    def distant(states: KeptStates[State]) -> KeptStates[State]:
        return states.reduced(_distant((state.parts for state in states.states), one.entries, horizon_s))

    return replace(
        one,
        splits=splits,
        observations=distant(one.observations),
        permits=distant(one.permits),
        frames=distant(one.frames),
    )


def _with_merged_ties(staging: Staging, splits: list[SplitParts], removed: int) -> list[SplitParts]:
    """Return splits of which the first has the ties of the first ``removed`` splits."""
    old = splits[:removed]
    if sum("ties" in split.tables for split in old) < 2:
        return list(splits)
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
