"""The diagnosis of captures in the stages of an analysis (`analysis`), without tables.

plan -> read -> observe; the partial diagnoses of all groups are merged

Rules of this file
1. The result is that of `Diagnosis` over all frames in order, except that memory limits apply to each group.
2. Only captures that one reader can also read are diagnosed: there is no result if a file is not a capture, if the
   files are in another order, or if there are too many findings. The caller then reads the captures itself.
3. Rows are in files of a temporary folder, also after the diagnosis: they contain the connection of each frame.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import numpy as np

from pcli.codec.capture.frames import Note
from pcli.codec.observe.diagnosis import Diagnosis, RuleChoice
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord
from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.observation.frame_header_rows import FRAME
from pcli.spark.engine import Engine
from pcli.spark.input.capture_files import changes
from pcli.spark.input.read_plan import CLUSTER, plan
from pcli.spark.request import Request
from pcli.spark.stages.evidence_packets import packets_before
from pcli.spark.stages.observe_connections import diagnose_recording
from pcli.spark.stages.read_recording import ReadRecording, read_recording, tables_of
from pcli.spark.stages.split_tables import PartStorage, SplitParts
from pcli.spark.tables.data_files import Staging
from pcli.spark.tables.table_store import open_store

_NO_PLACES: Final = np.zeros(0, np.int64)


@dataclass(slots=True)
class DiagnosedCaptures:
    """The diagnosis of captures, and what a reader of the captures would know."""

    diagnosis: Diagnosis
    notes: list[Note]
    """The notes of the reader, in order."""
    files: list[tuple[str, int]]
    """Name of each file, and the number of packets before it."""
    packets: int
    first_ns: int
    """Time of the first frame."""
    _reading: ReadRecording

    complete: ClassVar = True
    """Whether the connections of all frames are known, as in `FrameStreams`."""
    repeats: ClassVar = False

    def repeated(self) -> Iterator[ConnectionRecord]:
        """Yield the records of the connections that repeat others, as `ConnectionTracker.repeated` does."""
        return iter(self.diagnosis.repeated)

    def numbers_until(self, wanted: Collection[int]) -> dict[int, Iterator[int]]:
        """Return, for each connection with wanted frames, the numbers of all its frames up to the last wanted frame."""
        numbers = np.array(sorted(wanted), np.int64)
        find = partial(_streams_of, self._reading.staging, numbers)
        last: dict[int, int] = {}
        for some, streams in self._reading.engine.map("evidence", find, self._reading.splits):
            last.update(zip(streams.tolist(), some.tolist(), strict=True))
        task = partial(_places_of, self._reading.staging, last)
        places = self._reading.engine.map("evidence", task, self._reading.splits)
        return {
            stream: iter(np.concatenate([_NO_PLACES, *(some[stream] for some in places if stream in some)]).tolist())
            for stream in last
        }


@contextmanager
def diagnosed(request: Request, rules: RuleChoice, engine: Engine) -> Iterator[DiagnosedCaptures | None]:
    """Yield the diagnosis of the files that ``request.paths`` names, or None if one reader must diagnose them."""
    found = plan(request.paths, split=request.split_bytes, may_be_none=True)
    names = [entry.found.path for one in found.recordings for entry in one.parts]
    if names != list(request.paths):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="pcli-") as folder:
        staging = Staging(open_store(folder), CLUSTER)
        [recording] = found.recordings
        read, _ = read_recording(recording, request, engine, PartStorage(staging), staging)
        reading = ReadRecording.of(engine, staging, 0, recording, read)
        diagnosis = diagnose_recording(reading, rules)
        if diagnosis.dropped or not reading.frames:
            yield None
            return
        events = (event.item for split in reading.splits for event in split.placed_events)
        notes = [item for item in events if isinstance(item, Note)]
        changed = changes([entry.found for entry in recording.parts], request.paths)
        notes += [Note.of_file(where, text) for where, text in changed.items()]
        *before, packets = packets_before(reading)
        yield DiagnosedCaptures(
            diagnosis, notes, list(zip(names, before, strict=True)), packets, reading.first_ns, reading
        )


def _streams_of(staging: Staging, numbers: Longs, split: SplitParts) -> tuple[Longs, Longs]:
    """Return those frames that are in a split, in order, and their connections."""
    found = list(_frames(staging, split))
    places = np.concatenate([_NO_PLACES, *(places for places, _ in found)])
    streams = np.concatenate([_NO_PLACES, *(streams for _, streams in found)])
    rows = np.flatnonzero(np.isin(places, numbers))
    rows = rows[np.argsort(places[rows])]
    return places[rows], streams[rows]


def _places_of(staging: Staging, last: dict[int, int], split: SplitParts) -> dict[int, Longs]:
    """Return the frames of each connection up to its last frame in ``last``, in order."""
    found: dict[int, Longs] = {}
    for places, streams in _frames(staging, split):
        for stream in set(np.unique(streams).tolist()) & last.keys():
            ours = places[(streams == stream) & (places <= last[stream])]
            found[stream] = np.concatenate([found.get(stream, _NO_PLACES), ours])
    return {stream: np.sort(places) for stream, places in found.items()}


def _frames(staging: Staging, split: SplitParts) -> Iterator[tuple[Longs, Longs]]:
    """Yield the numbers and the connections of the frames of a split."""
    for table in tables_of(staging, split, "heads"):
        rows = np.flatnonzero(table["kind"].to_numpy() == FRAME)
        yield table["place"].to_numpy()[rows].astype(np.int64), table["stream"].to_numpy()[rows].astype(np.int64)
