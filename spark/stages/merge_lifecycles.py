"""The tables `messages` and `exchanges`, from the partials of all splits.

Rules of this file
1. The small tables (names, sessions, cumulative ACKs, gaps) are collected on the driver and sent to all tasks as
   `RecordingFacts`. The tables that grow with the traffic are shuffled by message id, so that a large connection does
   not make the buckets uneven.
2. The few messages that cannot be computed from only their own rows (resent, refused, lost, chunked) are matched on the
   driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.capture.frames import Stream
from pcli.spark.columnar.lifecycles.bucket_merge import MergedBucket, merge_bucket
from pcli.spark.columnar.lifecycles.chunked_messages import join_chunks
from pcli.spark.columnar.lifecycles.closed_messages import ClosingRules, newest_numbers, separate
from pcli.spark.columnar.lifecycles.collect_recording_facts import collect_facts
from pcli.spark.columnar.lifecycles.exchange_rows import exchanges_of_acks, exchanges_of_requests
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EXCHANGES
from pcli.spark.columnar.lifecycles.partial_renumbering import concat_partials
from pcli.spark.columnar.lifecycles.partial_tables import PARTIALS, Partials
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.resend_candidates import separate_candidates
from pcli.spark.columnar.lifecycles.resent_messages import RESOLVED, resolve_sends
from pcli.spark.columnar.table_schema import LONG
from pcli.spark.engine import Block, Engine, Shared
from pcli.spark.stages.read_recording import ReadRecording, part_number, tables_of
from pcli.spark.stages.split_tables import Part, PartStorage, SplitParts, size_of
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.data_files import DataFile, Staging, write_rows

__all__ = [
    "SMALL",
    "BucketFiles",
    "ClosedFiles",
    "MergedFacts",
    "collect_small_tables",
    "derive_facts",
    "merge_acks",
    "merge_exchanges",
    "merge_messages",
    "small_tables",
    "write_exchanges",
]

_BUCKET_BYTES: Final = 96 << 20
"""Size in bytes of the partials that one task merges. The task needs about twice as much memory."""

_LONG: Final = frozenset({"published", "consumed", "answered"})
"""Partials that grow with the traffic."""

SMALL: Final = frozenset(PARTIALS) - _LONG
"""All other partials."""


@dataclass(frozen=True, slots=True)
class MergedFacts:
    """The small tables of a recording and the facts derived from them."""

    small: Partials
    facts: RecordingFacts


def collect_small_tables(staging: Staging, reading: ReadRecording) -> MergedFacts:
    """Collect the small tables and derive the facts; set the duplicate connections of the recording."""
    return derive_facts(small_tables(staging, reading.splits), reading)


def small_tables(staging: Staging, splits: Iterable[SplitParts]) -> Partials:
    """Return the small tables of splits; the other tables are empty."""
    return concat_partials([Partials(*(_all(staging, splits, one.name) for one in fields(Partials)))])


def derive_facts(small: Partials, reading: ReadRecording) -> MergedFacts:
    """Derive the facts from the small tables; set the duplicate connections of the recording."""
    facts = collect_facts(small, list(reading.streams.values()))
    reading.duplicate_connections = facts.duplicate_connections
    return MergedFacts(small, facts)


def _all(staging: Staging, splits: Iterable[SplitParts], name: str) -> pa.Table:
    tables = [] if name in _LONG else [table for split in splits for table in tables_of(staging, split, name)]
    return pa.concat_tables([PARTIALS[name].empty_table(), *tables])


@dataclass(slots=True)
class ClosedFiles:
    """The closed messages of a period in one bucket."""

    files: list[DataFile]
    entries: pa.Table
    """Their ids as ENTRIES."""
    earlier: dict[str, list[Part]]
    """Their partial rows that are older than the period."""
    sends: list[int]
    """Their SENDs in RESOLVED."""
    sequences: dict[tuple[int, int], tuple[int, int]]
    """The range of the sequence ids of their other SENDs, by connection and producer_id."""


@dataclass(slots=True)
class BucketFiles:
    """The messages of a bucket."""

    files: list[DataFile]
    """The files of all messages, or of open messages if there are rules for closing."""
    chunks: pa.Table
    """Rows of CONSUMED that belong to chunks."""
    partials: dict[str, list[Part]] = field(default_factory=dict)
    """The partial rows of open messages."""
    closed: list[ClosedFiles] = field(default_factory=list)
    """The closed messages of each period."""


def merge_messages(
    engine: Engine,
    staging: Staging,
    reading: ReadRecording,
    merged_facts: MergedFacts,
    place: int,
    rules: ClosingRules | None = None,
) -> list[BucketFiles]:
    """Write the table `messages` of the recording with the index ``place``, separated by ``rules`` if there are any."""
    facts = engine.share(merged_facts.facts)
    resolved, candidates = _resolved(engine, staging, reading, merged_facts, facts)
    if rules is not None:
        resolved = resolved.filter(pc.invert(pc.is_in(resolved["sent_number"], pa.array(rules.closed_sends, LONG))))
    buckets = 1 + size_of(reading.splits, "published", "consumed") // _BUCKET_BYTES
    items: list[SplitParts | pa.Table] = [resolved, *reading.splits]
    sizes = [1, *(size_of([split], "published", "consumed") for split in reading.splits)]
    write = _Write(staging, "messages", reading.recording.cluster, place)
    join = partial(_join, write, facts, engine.share(rules))
    found = engine.exchange("merge", partial(_cut, staging, facts, buckets), items, buckets, join, sizes=sizes)
    chunks = pa.concat_tables([PARTIALS["consumed"].empty_table(), *(one.chunks for one in found)])
    rest = BucketFiles(write.rows(buckets, join_chunks(chunks, resolved, merged_facts.facts, write.cluster)), chunks)
    if rules is not None:
        old = candidates.filter(pa.array(newest_numbers("published", candidates) <= rules.frames))
        rest.partials["published"] = PartStorage(staging).keep("published", [old])
    return [*found, rest]


def _resolved(
    engine: Engine, staging: Staging, reading: ReadRecording, merged_facts: MergedFacts, facts: Shared[RecordingFacts]
) -> tuple[pa.Table, pa.Table]:
    """Return RESOLVED, and the rows of PUBLISHED that were matched with it."""
    back = [PARTIALS["published"].empty_table()]
    if merged_facts.facts.resend_candidates:
        back += engine.map("settle", partial(_called_back, staging, facts), reading.splits)
    candidates = pa.concat_tables(back)
    resolved = resolve_sends(merged_facts.small, candidates, merged_facts.facts, list(reading.streams.values()))
    return resolved, candidates


def _called_back(staging: Staging, facts: Shared[RecordingFacts], split: SplitParts) -> pa.Table:
    """Return the rows of a split that must be matched on the driver."""
    found = [separate_candidates(table, facts.value)[1] for table in tables_of(staging, split, "published")]
    return pa.concat_tables([PARTIALS["published"].empty_table(), *found])


def _cut(staging: Staging, facts: Shared[RecordingFacts], buckets: int, item: SplitParts | pa.Table) -> Iterator[Block]:
    """Yield the rows of a split, or the rows matched on the driver, in blocks for the buckets of messages."""
    if isinstance(item, pa.Table):
        yield from _blocks("resolved", 0, item, buckets)
        return
    for table in tables_of(staging, item, "published"):
        yield from _blocks("published", item.split + 1, separate_candidates(table, facts.value)[0], buckets)
    for table in tables_of(staging, item, "consumed"):
        yield from _blocks("consumed", item.split + 1, table, buckets)


def _blocks(kind: str, rank: int, table: pa.Table, buckets: int) -> Iterator[Block]:
    if buckets == 1:
        parts = [(0, table)]
    else:
        # NumPy sorts 16-bit numbers with radix sort, which is faster than its sort for 64-bit numbers.
        of = (table["place"].to_numpy() % buckets).astype(np.uint16 if buckets < 1 << 16 else np.int64)
        order = np.argsort(of, kind="stable")
        table, of = table.take(pa.array(order)), of.take(order)
        edges = np.searchsorted(of, np.arange(buckets + 1))
        parts = [(at, table.slice(edges[at], edges[at + 1] - edges[at])) for at in range(buckets)]
    for bucket, rows in parts:
        for batch in rows.to_batches():
            yield Block(bucket, rank, kind, batch)


@dataclass(frozen=True, slots=True)
class _Write:
    """A writer for the parts of a table."""

    staging: Staging
    table: str
    cluster: str
    place: int

    def rows(self, number: int, rows: pa.Table) -> list[DataFile]:
        """Write a part."""
        return write_rows(self.staging, TABLES[self.table], part_number(self.place, number), rows)


_KINDS: Final = {"published": PARTIALS["published"], "consumed": PARTIALS["consumed"], "resolved": RESOLVED}


def _join(
    write: _Write,
    facts: Shared[RecordingFacts],
    rules: Shared[ClosingRules | None],
    bucket: int,
    rows: Iterator[tuple[str, pa.RecordBatch]],
) -> BucketFiles:
    """Write the messages of a bucket."""
    batches: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in _KINDS}
    for kind, batch in rows:
        batches[kind].append(pa.RecordBatch.from_arrays(batch.columns, schema=_KINDS[kind]))
    tables = {kind: pa.Table.from_batches(batches.pop(kind), schema) for kind, schema in _KINDS.items()}
    merged = merge_bucket(tables["published"], tables["consumed"], tables["resolved"], facts.value, write.cluster)
    if rules.value is None:
        return BucketFiles(write.rows(bucket, merged.messages), merged.chunks)
    return _separated(write, bucket, merged, tables, rules.value)


def _separated(
    write: _Write, bucket: int, merged: MergedBucket, tables: dict[str, pa.Table], rules: ClosingRules
) -> BucketFiles:
    """Write the open and the closed messages of a bucket, and the partial rows that the next run needs."""
    resolved, storage = tables.pop("resolved"), PartStorage(write.staging)
    one = separate(merged.messages, tables, resolved, merged.chunks, rules)
    closed = [
        ClosedFiles(
            write.rows(bucket, some.messages), some.entries, _stored(storage, some.earlier), some.sends, some.sequences
        )
        for some in one.closed
    ]
    return BucketFiles(write.rows(bucket, one.messages), merged.chunks, _stored(storage, one.partials), closed)


def _stored(storage: PartStorage, tables: dict[str, pa.Table]) -> dict[str, list[Part]]:
    return {name: storage.keep(name, [table]) for name, table in tables.items()}


def merge_exchanges(
    engine: Engine, staging: Staging, reading: ReadRecording, merged_facts: MergedFacts, place: int
) -> list[DataFile]:
    """Write the table `exchanges` of the recording with the index ``place``."""
    acks = merge_acks(engine, staging, reading, merged_facts.facts, place)
    few = exchanges_of_requests(
        merged_facts.small, merged_facts.facts, list(reading.streams.values()), reading.recording.cluster
    )
    return [one for some in acks for one in some] + write_exchanges(staging, reading, place, few)


def write_exchanges(staging: Staging, reading: ReadRecording, place: int, rows: pa.Table) -> list[DataFile]:
    """Write rows of `exchanges` that are not ACKs of one split."""
    return _Write(staging, "exchanges", reading.recording.cluster, place).rows(0, rows)


def merge_acks(
    engine: Engine, staging: Staging, reading: ReadRecording, facts: RecordingFacts, place: int
) -> list[list[DataFile]]:
    """Write the rows of `exchanges` for ACKs with a response; return the files of each split."""
    write = _Write(staging, "exchanges", reading.recording.cluster, place)
    shared = engine.share((facts, list(reading.streams.values())))
    sizes = [size_of([split], "answered") for split in reading.splits]
    return engine.map("exchanges", partial(_acks, write, shared), reading.splits, sizes=sizes)


def _acks(write: _Write, shared: Shared[tuple[RecordingFacts, list[Stream]]], split: SplitParts) -> list[DataFile]:
    """Write the rows of ACKs with a response in a split."""
    facts, streams = shared.value
    tables = [
        exchanges_of_acks(table, facts, streams, write.cluster) for table in tables_of(write.staging, split, "answered")
    ]
    return write.rows(split.split + 1, pa.concat_tables([EXCHANGES.empty_table(), *tables]))
