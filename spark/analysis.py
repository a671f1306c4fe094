"""The analysis of captures. It writes tables. An `Engine` runs the same stages in one process or on Spark.

plan -> parse and aggregate each split -> (merge of splits, if they were read in parallel) -> merge -> observe -> commit

Rules of this file
1. OUT does not change before the commit. If a run fails or is cancelled, OUT remains unchanged.
2. Each recording (all captures of a cluster) is analyzed separately. Parts of tables are numbered consecutively across
   all recordings.
3. If a file cannot be read, only its own rows are missing, unless the request is strict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import pyarrow as pa

from pcli.codec.capture.frames import Note
from pcli.codec.errors import CaptureError, LocalError
from pcli.spark.engine import Engine
from pcli.spark.input.capture_files import changes
from pcli.spark.input.read_plan import Plan, planned, strict_error
from pcli.spark.request import Request
from pcli.spark.stages.count_permits import count_new_permits, count_permits
from pcli.spark.stages.incremental import is_unchanged, keep, kept_of, read_new, with_missing_files
from pcli.spark.stages.inventory_rows import captures_table, gaps_table
from pcli.spark.stages.kept_states import IncrementalState, KeptRecording
from pcli.spark.stages.list_frames import list_frames, list_new_frames
from pcli.spark.stages.merge_exchanges import merge_exchanges
from pcli.spark.stages.merge_incrementally import merge_incrementally
from pcli.spark.stages.merge_lifecycles import collect_small_tables, merge_messages
from pcli.spark.stages.observe_connections import observe_recording
from pcli.spark.stages.read_recording import ReadRecording, read_recording
from pcli.spark.stages.split_tables import MEMORY, PartStorage, ReadCounts
from pcli.spark.summary import Summary, summary_of, troubles_of
from pcli.spark.tables.catalog import TABLES, Table
from pcli.spark.tables.data_files import DataFile, Staging, in_order, write_rows
from pcli.spark.tables.maintenance import vacuum
from pcli.spark.tables.run_commit import KEEP_DAYS, OpenRun, begin
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import Store, open_store
from pcli.spark.tables.uri_redaction import hidden

_VACUUM_RUNS: Final = 10
"""Number of incremental runs after which the files of earlier runs are removed."""


def analyze(request: Request, engine: Engine, *, may_be_none: bool = False) -> Summary:
    """Write the requested tables and return a summary.

    If ``may_be_none`` is true and none of the files is a readable capture, the table `captures` lists the files, and no
    error is raised.

    Raise LocalError if OUT is not a folder of tables or cannot be written, or if the request is invalid. Raise
    CaptureError if no capture can be read, or if the request is strict and a file cannot be read. In these cases OUT
    does not change.
    """
    tables = request.tables
    store = open_store(request.out)
    found = planned(request, store, may_be_none=may_be_none)
    engine = engine.suited(sum(entry.found.size for one in found.recordings for entry in one.parts))
    run = begin(store)
    try:
        kept = _kept(request, engine, run)
        continued = kept is not None and bool(kept.recordings)
        readings, found = _read(request, engine, found, run, kept)
        changed = {} if request.incremental else changes([entry.found for entry in found.entries], request.paths)
        captures = _captures(found, readings, changed)
        troubles = troubles_of(captures)
        if request.strict and troubles:
            raise CaptureError(strict_error([(path, error) for path, _, error in troubles]))
        if kept is not None and is_unchanged(run, kept) and _nothing_new(store, run, tables, captures):
            run.abandon()
            return summary_of(store, run.base, changed=False)
        made = _TableWriter(request, run.staging)
        made.write(captures, readings)
        state = {} if kept is None else keep(run, kept, request.horizon_s)
        keep_days, replaced = _keep_days(request), made.replaced if continued else {}
        completed = run.commit(
            made.files, tables, request=_recorded(request), state=state, keep_days=keep_days, replaced=replaced
        )
    except BaseException:
        with suppress(LocalError):  # the original error, such as a full disk, is raised below
            run.abandon()
        raise
    if not request.incremental or completed.run % _VACUUM_RUNS == 0:
        with suppress(LocalError):  # the run is complete; the next run removes the files
            vacuum(store, keep_days=keep_days, keep_runs=2)
    return summary_of(store, completed, late=made.late)


def _keep_days(request: Request) -> float:
    """Return the days for which earlier runs remain readable. Each incremental run writes all rows again."""
    if request.keep_days is not None:
        return request.keep_days
    return 0 if request.incremental else KEEP_DAYS


def _nothing_new(store: Store, run: OpenRun, tables: Sequence[Table], captures: pa.Table) -> bool:
    """Return whether the last run wrote the requested tables and found the same captures."""
    if run.base.names != tuple(table.name for table in tables):
        return False
    return bool(StoredTables(store).read("captures").equals(in_order(TABLES["captures"], captures)))


def _kept(request: Request, engine: Engine, run: OpenRun) -> IncrementalState | None:
    """Return the data kept by the previous incremental run, or None if the run is not incremental."""
    if not request.incremental:
        return None
    return kept_of(run, request)


def _read(
    request: Request, engine: Engine, found: Plan, run: OpenRun, kept: IncrementalState | None
) -> tuple[list[ReadRecording], Plan]:
    """Read all recordings; return the results and a plan that includes the files of earlier runs."""
    if kept is None:
        storage = PartStorage(run.staging, MEMORY)
        read = partial(read_recording, request=request, engine=engine, storage=storage)
        of = partial(ReadRecording.of, engine, run.staging)
        return [of(at, one, read(one, staging=run.staging)[0]) for at, one in enumerate(found.recordings)], found
    found, missing = with_missing_files(found, kept)
    readings = [
        read_new(one, request, engine, run.staging, at, kept, missing) for at, one in enumerate(found.recordings)
    ]
    return readings, found


class _TableWriter:
    """The files of the tables of a run."""

    def __init__(self, request: Request, staging: Staging) -> None:
        self._request, self._staging = request, staging
        self._names = {table.name for table in request.tables}
        self.files: list[DataFile] = []
        self.replaced: dict[str, list[DataFile]] = {}
        """The replaced files of the tables of which an incremental run keeps all other files."""
        self.late = 0
        """Number of messages that have frames after the horizon."""

    def write(self, captures: pa.Table, readings: Sequence[ReadRecording]) -> None:
        """Write the files of all tables."""
        self.files += write_rows(self._staging, TABLES["captures"], 0, captures)
        for reading in readings:
            gaps = gaps_table(reading.recording, reading.splits)
            self.files += write_rows(self._staging, TABLES["gaps"], reading.place, gaps)
        for reading in readings:
            self._write_recording(reading)

    def _write_recording(self, reading: ReadRecording) -> None:
        """Write the tables of one recording, except `captures` and `gaps`."""
        if reading.kept is not None:
            self._merge_incrementally(reading, reading.kept)
        elif self._names & {"messages", "exchanges", "permits"}:
            self._merge(reading)
        if "permits" in self._names:
            self._count_permits(reading)
        if "frames" in self._names:
            self._list_frames(reading)
        cut = self._request.since_ns is not None or self._request.until_ns is not None
        self.files += observe_recording(reading, self._names, cut=cut)

    def _merge(self, reading: ReadRecording) -> None:
        """Write `messages` and `exchanges`, and determine the duplicate connections."""
        merged_facts = collect_small_tables(reading)
        if "messages" in self._names:
            buckets = merge_messages(reading, merged_facts)
            self.files += [one for some in buckets for one in some.files]
        if "exchanges" in self._names:
            self.files += merge_exchanges(reading, merged_facts)

    def _merge_incrementally(self, reading: ReadRecording, kept: KeptRecording) -> None:
        horizon_ns = int(self._request.horizon_s * 1_000_000_000)
        merged = merge_incrementally(reading, kept.lifecycles, self._names, horizon_ns)
        self.files += merged.made
        self.late += merged.late
        for name, files in merged.replaced.items():
            self._replace(name, files)
        kept.lifecycles = merged.kept

    def _count_permits(self, reading: ReadRecording) -> None:
        kept = reading.kept
        if kept is None:
            self.files += count_permits(reading)
            return
        removed = kept.lifecycles.removed
        last = reading.splits[removed - 1].part if removed else -1
        made, replaced, kept.permits = count_new_permits(reading, kept.permits, last)
        self.files += made
        self._replace("permits", replaced)

    def _list_frames(self, reading: ReadRecording) -> None:
        kept = reading.kept
        if kept is None:
            self.files += list_frames(reading, reading.splits)
            return
        made, replaced, kept.frames = list_new_frames(reading, kept.frames)
        self.files += made
        self._replace("frames", replaced)

    def _replace(self, table: str, files: Sequence[DataFile]) -> None:
        self.replaced.setdefault(table, []).extend(files)


def _captures(found: Plan, readings: Sequence[ReadRecording], changed: Mapping[str, str]) -> pa.Table:
    """Return the table `captures`. ``changed`` contains a text for each file that changed while it was read."""
    counted: dict[str, ReadCounts] = {}
    notes: dict[str, Note] = {}
    positions: dict[str, int] = {}
    for reading in readings:
        where = {entry.part: entry.found.where for entry in reading.recording.parts}
        positions |= {where[part]: position for part, position in reading.positions.items()}
        for split in reading.splits:
            counted.setdefault(where[split.part], ReadCounts()).add(split.counted)
            for event in split.placed_events:
                if isinstance(event.item, Note) and event.item.is_of_file:
                    notes[where[split.part]] = event.item
    notes |= {where: Note.of_file(where, text) for where, text in changed.items()}
    return captures_table(found.entries, counted, notes, positions)


def _recorded(request: Request) -> dict[str, Any]:
    """Return the request for the table `runs`, without passwords and TLS secrets."""
    recorded = asdict(request) | {"paths": [hidden(path) for path in request.paths], "cluster": hidden(request.cluster)}
    del recorded["out"], recorded["key_log"]
    return recorded
