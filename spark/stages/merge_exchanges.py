"""The table `exchanges`, from the partials of all splits.

Rules of this file
1. ACKs with a request id and a response in the same split, or in a different split, are rows of columns. The driver
   matches all other requests frame by frame.
2. An incremental run writes each ACK with a response in the same split once. All other requests are matched on the
   driver, because the rows of ``ack_halves`` of one batch are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.capture.frames import Stream
from pcli.spark.columnar.lifecycles.exchange_rows import exchanges_of_acks, exchanges_of_requests
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EXCHANGES
from pcli.spark.columnar.lifecycles.pairs_across_splits import (
    PairableRanges,
    RequestIds,
    ack_ranges,
    frames_of_acks,
    pair_acks,
    separate_requests,
)
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.engine import Shared
from pcli.spark.stages.merge_lifecycles import MergedFacts
from pcli.spark.stages.pair_splits import pair_across_splits
from pcli.spark.stages.read_recording import PartWriter, ReadRecording, tables_of
from pcli.spark.stages.split_tables import SplitParts, size_of
from pcli.spark.tables.data_files import DataFile


def merge_exchanges(reading: ReadRecording, merged_facts: MergedFacts) -> list[DataFile]:
    """Write the table `exchanges` of a recording."""
    facts, streams = merged_facts.facts, list(reading.streams.values())
    ranges = ack_ranges(merged_facts.small.unpaired)
    pair = partial(_pair_acks, facts.forwarded_requests)
    paired, ambiguous = pair_across_splits(reading, "ack_halves", ranges, pair)
    few = _matched_by_frame(reading, merged_facts, ambiguous)
    write = reading.writer("exchanges")
    shared = reading.engine.share((facts, streams))
    items = [paired, *reading.splits]
    sizes = [size_of([split], "answered", "ack_halves", "paired") for split in items]
    made = reading.engine.map("exchanges", partial(_acks, write, shared, ranges), items, sizes=sizes)
    return [one for some in made for one in some] + write.rows(len(items), few)


def _matched_by_frame(reading: ReadRecording, merged_facts: MergedFacts, ambiguous: Sequence[pa.Table]) -> pa.Table:
    """Return EXCHANGES of all requests that the driver matches; ``ambiguous`` are rows of ``ack_halves``."""
    small = merged_facts.small
    forwarded = pa.concat_tables([small.forwarded, *map(frames_of_acks, ambiguous)])
    small, streams = replace(small, forwarded=forwarded), list(reading.streams.values())
    return exchanges_of_requests(small, merged_facts.facts, streams, reading.recording.cluster)


def _pair_acks(requests: RequestIds, halves: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return pairs and ACKs without a response, and the rows that `exchanges_of_requests` must match."""
    made = pair_acks(separate_requests(halves, requests)[0])
    return pa.concat_tables([made.answered, made.alone]), made.ambiguous


def _acks(
    write: PartWriter, shared: Shared[tuple[RecordingFacts, list[Stream]]], ranges: PairableRanges, split: SplitParts
) -> list[DataFile]:
    """Write the rows of ACKs of a split, or of the paired ACKs of different splits."""
    staging, requests = write.staging, shared.value[0].forwarded_requests
    halves = (
        separate_requests(ranges.outside(table), requests)[0] for table in tables_of(staging, split, "ack_halves")
    )
    tables = chain(tables_of(staging, split, "answered"), tables_of(staging, split, "paired"), halves)
    return _written(write, shared, tables, split)


def _written(
    write: PartWriter,
    shared: Shared[tuple[RecordingFacts, list[Stream]]],
    tables: Iterable[pa.Table],
    split: SplitParts,
) -> list[DataFile]:
    facts, streams = shared.value
    rows = [exchanges_of_acks(table, facts, streams, write.cluster) for table in tables]
    return write.rows(split.split + 1, pa.concat_tables([EXCHANGES.empty_table(), *rows]))


def merge_acks(reading: ReadRecording, facts: RecordingFacts) -> list[list[DataFile]]:
    """Write the rows of `exchanges` for ACKs with a response in the same split; return the files of each split."""
    write = reading.writer("exchanges")
    shared = reading.engine.share((facts, list(reading.streams.values())))
    sizes = [size_of([split], "answered") for split in reading.splits]
    return reading.engine.map("exchanges", partial(_answered, write, shared), reading.splits, sizes=sizes)


def _answered(
    write: PartWriter, shared: Shared[tuple[RecordingFacts, list[Stream]]], split: SplitParts
) -> list[DataFile]:
    return _written(write, shared, tables_of(write.staging, split, "answered"), split)


def exchanges_of_halves(
    reading: ReadRecording, merged_facts: MergedFacts, halves: pa.Table
) -> tuple[pa.Table, pa.Table]:
    """Return EXCHANGES of all requests except for ACKs with a response in the same split.

    ``halves`` are the ACKs and responses without a counterpart in their split. Also return the rows of ``halves`` that
    later frames may concern: a response that precedes all ACKs with its id is ignored.
    """
    facts, streams = merged_facts.facts, list(reading.streams.values())
    ranges = ack_ranges(merged_facts.small.unpaired)
    plain, called = separate_requests(halves, facts.forwarded_requests)
    made = pair_acks(ranges.inside(plain))
    few = _matched_by_frame(reading, merged_facts, [made.ambiguous])
    acks = pa.concat_tables([made.answered, made.alone, ranges.outside(plain)])
    rows = pa.concat_tables([few, exchanges_of_acks(acks, facts, streams, reading.recording.cluster)])
    responses = pa.concat_tables([called, made.ambiguous])
    responses = responses.filter(pc.less(responses["asked_number"], 0))
    return rows, pa.concat_tables([halves.filter(pc.greater_equal(halves["asked_number"], 0)), responses])
