"""Observation of the topics of divided groups: one task for each part, which replays the events of the connections.

`observe_connections` observes the connections first; see `pcli.spark.columnar.observation.group_division`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.observation.capture_event_rows import stream_rows
from pcli.spark.columnar.observation.group_division import Division
from pcli.spark.columnar.observation.observe_group import observe_topics
from pcli.spark.columnar.observation.partial_trackers import sorted_events
from pcli.spark.columnar.observation.recording_context import Recording
from pcli.spark.columnar.observation.topic_routing import topic_rows
from pcli.spark.engine import Block, Shared
from pcli.spark.stages.read_recording import ReadRecording, tables_of
from pcli.spark.stages.split_tables import SplitParts, size_of
from pcli.spark.tables.data_files import Staging


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts that all tasks need."""

    cluster: str
    recording: Recording
    division: Division
    events: pa.Table
    """Rows of LINK_EVENTS in order."""


def observe_topic_parts(
    reading: ReadRecording, recording: Recording, division: Division, events: Iterable[pa.RecordBatch]
) -> list[dict[str, pa.RecordBatch]]:
    """Return the tables of each part of topics. ``events`` contains the events of the connections."""
    facts = reading.engine.share(_Facts(reading.recording.cluster, recording, division, sorted_events(events)))
    streams = pa.Table.from_batches([stream_rows(reading.streams[number] for number in division.links)])
    items: list[tuple[int, pa.Table | SplitParts]] = [(0, streams), *enumerate(reading.splits, 1)]
    sizes = [1, *(size_of([split], "heads") for split in reading.splits)]
    cut, join = partial(_cut, reading.staging, facts), partial(_join, facts)
    return reading.engine.exchange("observe topics", cut, items, division.size, join, sizes=sizes)


def _cut(staging: Staging, facts: Shared[_Facts], item: tuple[int, pa.Table | SplitParts]) -> Iterator[Block]:
    """Yield a split's rows in blocks, one for each part, in order."""
    known, (rank, source) = facts.value, item
    required = pa.array(list(known.division.links), pa.int64())
    for heads in [source] if isinstance(source, pa.Table) else tables_of(staging, source, "heads"):
        ours = heads.filter(pc.is_in(heads["stream"], required))
        yield from blocks(*topic_rows(ours, known.division), rank)


def _join(facts: Shared[_Facts], part: int, rows: Iterator[tuple[str, pa.RecordBatch]]) -> dict[str, pa.RecordBatch]:
    """Return the tables of one part."""
    known = facts.value
    ours = [stream for stream, parts in known.division.receivers.items() if part in parts]
    events = known.events.filter(pc.is_in(known.events["stream"], pa.array(ours, pa.int64()))).to_pylist()
    batches = (batch for _, batch in rows)
    return observe_topics(batches, known.recording, known.division, part, events, cluster=known.cluster)


_PIECE: Final = 1 << 16
"""Maximum number of rows in a piece."""


def blocks(rows: pa.Table, buckets: Longs, rank: int, kind: str = "heads") -> Iterator[Block]:
    """Yield rows in pieces. The rows are sorted by bucket. ``buckets`` contains the bucket of each row."""
    edges = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(buckets)]
    for start, end in pairwise(edges):
        for batch in rows.slice(start, end - start).combine_chunks().to_batches(_PIECE):
            yield Block(int(buckets[start]), rank, kind, batch)
