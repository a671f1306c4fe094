"""Reading of a recording, and loading of its splits' tables with the recording's numbers.

Rules of this file
1. Independent tasks read a recording in splits, and one task reads it if there is only one split.
2. A recording with TLS secrets is read by one task, because the records of a TLS connection can be decrypted only from
   its handshake on.
3. An incremental run reads the new files from the reader's state after the earlier files. It reads them in splits if
   they are larger than a split, because each stage of the reading in splits has a fixed cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa

from pcli.codec.capture.frames import Stream
from pcli.spark.columnar.lifecycles.partial_renumbering import renumber_table
from pcli.spark.engine import Engine, Progress
from pcli.spark.input.read_plan import Recording, splits_of
from pcli.spark.request import Request
from pcli.spark.stages.kept_states import NO_FILE, KeptRecording, StateFile
from pcli.spark.stages.kept_values import keep_value, load_kept
from pcli.spark.stages.read_in_parallel import read_in_parallel
from pcli.spark.stages.read_sequentially import Checkpoint, Keeps, ReadSplits, read_in_order
from pcli.spark.stages.split_tables import PartStorage, SplitParts, load
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.data_files import DataFile, Staging, write_rows

_PARTS: Final = 100_000
"""Maximum number of parts of a table of one recording."""


@dataclass(slots=True)
class ReadRecording:
    """A recording that was read, with the means to write its tables."""

    engine: Engine
    staging: Staging
    place: int
    """The index of the recording."""
    recording: Recording
    splits: list[SplitParts] = field(default_factory=list)
    """The splits, and the results from the end of the recording as the last split."""
    streams: dict[int, Stream] = field(default_factory=dict)
    """All connections by number, in their state at the end of the recording."""
    frames: int = 0
    first_ns: int = 0
    """Time of the first frame; 0 if none."""
    last_ns: int = 0
    duplicate_connections: frozenset[int] = frozenset()
    """Second connections of proxied conversations; set when lifecycles are merged."""
    positions: dict[int, int] = field(default_factory=dict)
    """Number of bytes read from each part, after decompression."""
    kept: KeptRecording | None = None
    """The state after the last run, to which the stages add that of this run; None if the run is not incremental."""

    @classmethod
    def of(cls, engine: Engine, staging: Staging, place: int, recording: Recording, read: ReadSplits) -> ReadRecording:
        """Return the result of reading, including the results at the end of the recording."""
        splits = [*read.splits, *([] if read.ending is None else [read.ending])]
        at = read.counters
        return cls(
            engine, staging, place, recording, splits, read.streams, at.frames, at.first_ns, at.last_ns,
            positions=read.positions,
        )  # fmt: skip

    def writer(self, table: str) -> PartWriter:
        """Return the writer of a table of this recording."""
        return PartWriter(self.staging, table, self.recording.cluster, self.place)


@dataclass(frozen=True, slots=True)
class Start:
    """The position from which a recording is read; by default its beginning."""

    parts: int = 0
    """Number of captures before the position."""
    checkpoint: StateFile = NO_FILE
    """The file with the reader's state; empty at the beginning."""
    splits: int = 0
    """Number of splits of these captures."""
    kept: int = 0
    """Number of the last captures after which the reader's state is kept."""

    def carried(self, staging: Staging) -> Checkpoint | None:
        """Return the state, or None at the beginning."""
        carried: Checkpoint | None = load_kept(staging.store, self.checkpoint) if self.checkpoint else None
        return carried


_BEGINNING: Final = Start()

_Read = tuple[ReadSplits, dict[int, StateFile]]
"""A result, and the new files with the reader's state, by the number of captures read before the state was kept."""


def read_recording(
    recording: Recording,
    request: Request,
    engine: Engine,
    storage: PartStorage,
    staging: Staging,
    start: Start = _BEGINNING,
) -> _Read:
    """Read the captures after a position. A single process uses ``storage``; tasks write files."""
    new = recording.parts[start.parts :]
    if request.incremental:
        splits = splits_of(new, split=request.split_bytes, since_ns=request.since_ns, until_ns=request.until_ns)
        recording = replace(recording, splits=splits)
    size = sum(entry.found.size for entry in new)
    if not engine.apart or not new:

        def on_bytes(part: int, done: int) -> None:
            engine.report_progress(Progress("read", part - start.parts, 1, len(new), min(done, size), size))

        return _read_in_order(request, storage, staging, start, recording, on_bytes)
    read = None
    if not request.key_log and not (request.incremental and size <= request.split_bytes):
        read = _read_in_parallel(recording, request, engine, staging, start)
    if read is None:
        task = partial(_read_in_order, request, PartStorage(staging), staging, start)
        [read] = engine.map("read", task, [recording], sizes=[size])
    return read


def _read_in_order(
    request: Request,
    storage: PartStorage,
    staging: Staging,
    start: Start,
    recording: Recording,
    on_bytes: Callable[[int, int], None] = lambda _part, _done: None,
) -> _Read:
    """Read captures by one reader. ``on_bytes`` is that of `read_in_order`."""
    keeps, checkpoints = _keeps(recording, staging, start)
    carried = start.carried(staging)
    read = read_in_order(
        recording, request, storage, on_bytes=on_bytes, keeps=keeps, carried=carried, before=start.splits
    )
    return read, checkpoints


def _read_in_parallel(
    recording: Recording, request: Request, engine: Engine, staging: Staging, start: Start
) -> _Read | None:
    """Read captures in splits. Return None if there is only one split, or if TLS is decrypted."""
    carried = start.carried(staging) if len(recording.splits) > 1 else None
    if len(recording.splits) < 2 or (carried is not None and carried.decrypts()):
        return None
    keeps, checkpoints = _keeps(recording, staging, start)
    read = read_in_parallel(recording, request, engine, staging, keeps=keeps, carried=carried, before=start.splits)
    return None if read is None else (read, checkpoints)


def _keeps(recording: Recording, staging: Staging, start: Start) -> tuple[Keeps, dict[int, StateFile]]:
    """Return the states to keep, and the files with these states, which are added later."""
    last = len(recording.parts)
    checkpoints: dict[int, StateFile] = {}

    def keep(checkpoint: Checkpoint) -> None:
        checkpoints[checkpoint.counters.parts] = keep_value(staging, "checkpoint", checkpoint)

    counts = range(max(start.parts, last - start.kept) + 1, last + 1)
    return Keeps(counts, keep), checkpoints


def tables_of(staging: Staging, split: SplitParts, name: str) -> Iterator[pa.Table]:
    """Yield a split's table, in one or more parts, with the recording's numbers."""
    for part in split.tables.get(name, ()):
        table = load(staging, part)
        yield table if part.shift is None else renumber_table(name, table, part.shift)


@dataclass(frozen=True, slots=True)
class PartWriter:
    """A writer for the parts of a table of one recording."""

    staging: Staging
    table: str
    cluster: str
    place: int

    def part(self, number: int) -> int:
        """Return a number of a part that is unique across all recordings."""
        return self.place * _PARTS + number

    def rows(self, number: int, rows: pa.Table) -> list[DataFile]:
        """Write a part."""
        return write_rows(self.staging, TABLES[self.table], self.part(number), rows)
