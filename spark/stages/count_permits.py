"""The table `permits`, from the sums of permits in each window.

Rules of this file
1. No task holds the whole history of a consumer: splits compute sums, the driver scans them once, and the rows of each
   split are computed from the sums of the split and from its initial balances.
2. A second that spans two windows becomes one row. Rows are therefore merged by connection.
3. An incremental run continues from the balances after the last run. A row is closed if its second precedes all packets
   of the last split. If a later frame belongs to a closed row, or if a connection turns out to be a duplicate, the run
   continues from an older state, and replaces the files of later states. Rows before the oldest state are final.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.permits.permit_buckets import BUCKET_NS, PERMITS, merge_permits, permit_rows
from pcli.spark.columnar.permits.permit_sessions import PermitSessions
from pcli.spark.engine import Block, Shared
from pcli.spark.stages.kept_states import KeptStates, PermitState, StateFile
from pcli.spark.stages.kept_values import keep_value, load_kept
from pcli.spark.stages.merge_files import merge_files_of_states
from pcli.spark.stages.read_recording import PartWriter, ReadRecording, tables_of
from pcli.spark.stages.split_tables import Part, PartStorage, SplitParts, as_batch, size_of
from pcli.spark.tables.data_files import DataFile, Staging

_BUCKET_BYTES: Final = 256 << 20
"""Size in bytes of the sums that one task merges."""

_NEVER: Final = np.iinfo(np.int64).max


@dataclass(slots=True)
class _Merged:
    """The rows of a bucket of connections."""

    closed: list[DataFile]
    open: list[DataFile]
    kept: list[Part]
    """The open rows, without the frames that were read at the end of the recording."""
    closed_ns: int
    """The last second of the closed rows; -1 if none."""
    first_ns: int
    """The first second of the rows of new splits."""


def count_permits(reading: ReadRecording) -> list[DataFile]:
    """Write the table `permits` of a recording."""
    run = _Run(reading)
    items = [("new", split) for split in reading.splits]
    merged = run.merge(run.starts(PermitSessions(), reading.splits), items, _NEVER)
    return [file for one in merged for file in one.closed]


def count_new_permits(
    reading: ReadRecording, kept: KeptStates[PermitState], last: int
) -> tuple[list[DataFile], list[DataFile], KeptStates[PermitState]]:
    """Continue the table `permits` of a recording.

    The last split of ``reading`` contains the rows from the end of the recording. ``last`` is the last capture whose
    splits have no tables any more; -1 if none. Return the new files, the replaced files, and the states.
    """
    run, parts, connections = _Run(reading), len(reading.recording.parts), len(reading.streams)
    while _has_rows_before(kept, last) and not _same_duplicates(kept.states[-1], reading):
        kept = kept.back()
    while True:
        state = kept.states[-1] if kept.states else PermitState()
        merged, sessions = run.merge_after(state)
        if not _has_rows_before(kept, last) or all(one.first_ns > state.closed_ns for one in merged):
            break
        kept = kept.back()
    closed = [file for one in merged for file in one.closed]
    left = [file for one in merged for file in one.open]
    new = PermitState(
        parts, closed, connections, _duplicates(reading, connections), sessions,
        [part for one in merged for part in one.kept], max([state.closed_ns, *(one.closed_ns for one in merged)]),
    )  # fmt: skip
    kept, made = merge_files_of_states(reading, kept)
    return [*closed, *left, *made], kept.replaced, kept.followed_by(new, left)


def _has_rows_before(kept: KeptStates[PermitState], last: int) -> bool:
    """Return whether the rows of the newest state can be computed again from the state before it."""
    before = kept.states[-2].parts if len(kept.states) > 1 else 0
    return bool(kept.states) and before > last


def _same_duplicates(state: PermitState, reading: ReadRecording) -> bool:
    return state.duplicate_connections == _duplicates(reading, state.connections)


def _duplicates(reading: ReadRecording, connections: int) -> frozenset[int]:
    return frozenset(one for one in reading.duplicate_connections if one < connections)


class _Run:
    """The computation of the rows of one recording."""

    def __init__(self, reading: ReadRecording) -> None:
        self._engine, self._staging, self._reading = reading.engine, reading.staging, reading

    def merge_after(self, state: PermitState) -> tuple[list[_Merged], StateFile]:
        """Merge the rows after a state; return them and the file with the balances."""
        splits = [split for split in self._reading.splits[:-1] if split.part >= state.parts]
        end = self._reading.splits[-1]
        sessions = load_kept(self._staging.store, state.sessions) if state.sessions else PermitSessions()
        starts = self.starts(sessions, splits)
        file = keep_value(self._staging, "sessions", sessions)
        starts = pa.concat_batches([starts, self.starts(sessions, [end])])
        times = [split.counted.first_ns for split in splits if split.counted.first_ns is not None]
        limit_ns = times[-1] // BUCKET_NS * BUCKET_NS if times else 0
        earlier = SplitParts(-1, -1, {"permits": state.open})
        items = [("open", earlier), *(("new", split) for split in splits), ("end", end)]
        return self.merge(starts, items, limit_ns), file

    def starts(self, sessions: PermitSessions, splits: Sequence[SplitParts]) -> pa.RecordBatch:
        """Return the balances at the start of each part of the splits.

        Duplicate connections are omitted, because their frames are counted on the other connection.
        """
        totals, events = (
            [
                batch
                for split in splits
                for table in tables_of(self._staging, split, name)
                for batch in table.to_batches()
            ]
            for name in ("permit_totals", "permit_events")
        )
        starts = sessions.starts(totals, events)
        duplicates = pa.array(sorted(self._reading.duplicate_connections), pa.int64())
        return starts.filter(pc.invert(pc.is_in(starts.column("stream"), duplicates)))

    def merge(self, starts: pa.RecordBatch, items: Sequence[_Item], limit_ns: int) -> list[_Merged]:
        """Merge the rows by connection. Rows of seconds before ``limit_ns`` are closed."""
        buckets = 1 + size_of((split for _, split in items), "permit_changes") // _BUCKET_BYTES
        cut = partial(_cut, self._staging, self._engine.share(starts), self._reading.recording.cluster, buckets)
        return self._engine.exchange(
            "permits", cut, items, buckets, partial(_join, self._reading.writer("permits"), limit_ns)
        )


_Item = tuple[str, SplitParts]
"""The kind of rows and a split. ``open`` are rows of earlier runs, ``end`` those from the end of the recording."""


def _cut(staging: Staging, starts: Shared[pa.RecordBatch], cluster: str, buckets: int, item: _Item) -> Iterator[Block]:
    """Yield a split's rows in blocks, one for each connection."""
    kind, split = item
    tables = list(tables_of(staging, split, "permits" if kind == "open" else "permit_changes"))
    if not tables:
        return
    rows = as_batch(pa.concat_tables(tables))
    if kind != "open":
        mine = starts.value.filter(pc.equal(starts.value.column("cut"), split.split))
        rows = permit_rows(rows, mine, cluster=cluster)
    of = rows.column("connection").to_numpy() % buckets
    for bucket in np.unique(of).tolist():
        yield Block(bucket, split.split, kind, rows.filter(pa.array(of == bucket)))


def _join(write: PartWriter, limit_ns: int, bucket: int, rows: Iterator[tuple[str, pa.RecordBatch]]) -> _Merged:
    """Write the rows of a bucket, separated into closed and open rows."""
    of: dict[str, list[pa.RecordBatch]] = {"open": [], "new": [], "end": []}
    for kind, batch in rows:
        of[kind].append(_plain(batch))
    limit_ns = min(limit_ns, _first_ns(of["end"]))
    known = merge_permits([*of["open"], *of["new"]])
    done = pc.less(known.column("bucket_ns"), limit_ns)
    closed, left = known.filter(done), known.filter(pc.invert(done))

    def written(batch: pa.RecordBatch) -> list[DataFile]:
        return write.rows(bucket, pa.Table.from_batches([batch]))

    return _Merged(
        written(closed),
        written(merge_permits([left, *of["end"]])),
        PartStorage(write.staging).keep("permits", [pa.Table.from_batches([left])]),
        pc.max(closed.column("bucket_ns")).as_py() if len(closed) else -1,
        _first_ns(of["new"]),
    )


def _first_ns(batches: Sequence[pa.RecordBatch]) -> int:
    return min((pc.min(batch.column("bucket_ns")).as_py() for batch in batches if len(batch)), default=_NEVER)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with the column descriptions, which an exchange omits."""
    return pa.RecordBatch.from_arrays(batch.columns, schema=PERMITS)
