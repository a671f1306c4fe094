"""Reading of a recording, and loading of its splits' tables with the recording's numbers.

A recording with TLS secrets is read sequentially, in one task, because the records of a TLS connection can be decrypted
only from its handshake on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

from pcli.codec.capture.frames import Stream
from pcli.spark.columnar.lifecycles.partial_renumbering import renumber_table
from pcli.spark.columnar.observation.finding_table import FramePlace
from pcli.spark.engine import Engine, Progress
from pcli.spark.input.read_plan import Entry, Recording
from pcli.spark.request import Request, RequiredData
from pcli.spark.stages.kept_lifecycles import KeptLifecycles
from pcli.spark.stages.kept_observations import KeptObservations
from pcli.spark.stages.kept_states import KeptStates, PermitState, TableState
from pcli.spark.stages.read_in_parallel import read_in_parallel
from pcli.spark.stages.read_sequentially import ReadSplits, read_in_order
from pcli.spark.stages.split_tables import PartStorage, SplitParts, load
from pcli.spark.tables.data_files import Staging

__all__ = ["ReadRecording", "as_read", "part_number", "progress_reporter", "read_recording", "tables_of"]

_PARTS: Final = 100_000
"""Maximum number of parts of a table of one recording."""


@dataclass(slots=True)
class ReadRecording:
    """The result of reading a recording."""

    recording: Recording
    splits: list[SplitParts] = field(default_factory=list)
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
    observed: KeptObservations | None = None
    """The states of the groups that the observation continues, then those that it has reached before the end of the
    recording; None if the run is not incremental."""
    lifecycles: KeptLifecycles | None = None
    """The state of messages and requests after the last run, then of this run; None if the run is not incremental."""
    permits: KeptStates[PermitState] | None = None
    """The states of the table `permits` after the last runs, then also after this run; None if the run is not
    incremental."""
    frame_states: KeptStates[TableState] | None = None
    """The states of the table `frames`."""
    evidence: dict[int, FramePlace] = field(default_factory=dict)
    """The positions of the frames that findings name, by number: of the last run, then of this run."""


def read_recording(
    recording: Recording,
    request: Request,
    required: RequiredData,
    engine: Engine,
    storage: PartStorage,
    staging: Staging,
) -> ReadRecording:
    """Read a recording in parallel or sequentially, depending on the engine. Sequential reading uses ``storage``."""
    if engine.apart:
        read = None if request.key_log else read_in_parallel(recording, request, required, engine, staging)
        if read is not None:
            return as_read(recording, read)
        size = sum(entry.found.size for entry in recording.parts)
        [alone] = engine.map("read", partial(_read_alone, request, required, staging), [recording], sizes=[size])
        return as_read(recording, alone)
    on_bytes = progress_reporter(engine, recording.parts)
    return as_read(recording, read_in_order(recording, request, required, storage, on_bytes=on_bytes))


def _read_alone(request: Request, required: RequiredData, staging: Staging, recording: Recording) -> ReadSplits:
    """Read a recording sequentially in one task; the tables are in files of the staging folder."""
    return read_in_order(recording, request, required, PartStorage(staging), on_bytes=lambda _part, _done: None)


def progress_reporter(engine: Engine, entries: Sequence[Entry], first: int = 0) -> Callable[[int, int], None]:
    """Return a function that reports progress by part and bytes; ``first`` is the part number of the first entry."""
    total = sum(entry.found.size for entry in entries)

    def report_progress(part: int, done: int) -> None:
        engine.report_progress(Progress("read", part - first, 1, len(entries), min(done, total), total))

    return report_progress


def as_read(recording: Recording, read: ReadSplits) -> ReadRecording:
    """Return the result of reading, including the results at the end of the recording."""
    splits = [*read.splits, *([] if read.ending is None else [read.ending])]
    counters = read.counters
    return ReadRecording(
        recording,
        splits,
        read.streams,
        counters.frames,
        counters.first_ns,
        counters.last_ns,
        positions=read.positions,
    )


def tables_of(staging: Staging, split: SplitParts, name: str) -> Iterator[pa.Table]:
    """Yield a split's table, in one or more parts, with the recording's numbers."""
    for part in split.tables.get(name, ()):
        table = load(staging, part)
        yield table if part.shift is None else renumber_table(name, table, part.shift)


def part_number(place: int, number: int) -> int:
    """Return a number for a part of a table, unique across all recordings. ``place`` is the recording's index."""
    return place * _PARTS + number
