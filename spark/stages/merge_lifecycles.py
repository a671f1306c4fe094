"""The tables `messages` and `exchanges`, from the partials of all splits.

Rules of this file
1. The small tables (names, sessions, gaps) and a summary of the cumulative ACKs are collected on the driver and sent to
   all tasks as `RecordingFacts`. The tables that grow with the traffic are shuffled by message id, so that a large
   connection does not make the buckets uneven.
2. The few messages that cannot be computed from only their own rows (resent, refused, chunked, of transactions) are
   matched on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.capture.frames import Stream
from pcli.spark.columnar.lifecycles.bucket_merge import merge_bucket
from pcli.spark.columnar.lifecycles.collect_recording_facts import collect_facts
from pcli.spark.columnar.lifecycles.cumulative_acks import (
    EFFECTIVE,
    acks_by_subscription,
    effective_acks,
    first_acks_after,
    later_acks_of,
    summarize_acks,
)
from pcli.spark.columnar.lifecycles.event_histories import MessageRows
from pcli.spark.columnar.lifecycles.exchange_rows import exchanges_of_acks, exchanges_of_requests
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EXCHANGES
from pcli.spark.columnar.lifecycles.messages_of_driver import AckQuestions, messages_of_driver, questions_of
from pcli.spark.columnar.lifecycles.partial_renumbering import concat_partials
from pcli.spark.columnar.lifecycles.partial_tables import PARTIALS, Partials
from pcli.spark.columnar.lifecycles.recording_facts import CumulativeAcks, RecordingFacts
from pcli.spark.columnar.lifecycles.resend_candidates import Suspect, separate_candidates
from pcli.spark.columnar.lifecycles.resent_messages import RESOLVED, resolve_sends
from pcli.spark.columnar.lifecycles.row_operations import shuffle_key
from pcli.spark.columnar.lifecycles.unpaired_acks import (
    AckRanges,
    RequestIds,
    ack_ranges,
    frames_of_acks,
    pair_acks,
    requests_of_bytes,
    separate_requests,
)
from pcli.spark.columnar.lifecycles.unpaired_sends import SendRanges, pair_sends, send_ranges
from pcli.spark.engine import Block, Engine, Shared
from pcli.spark.stages.pair_splits import blocks_of, pair_across_splits
from pcli.spark.stages.read_recording import ReadRecording, part_number, tables_of
from pcli.spark.stages.split_tables import SplitParts, size_of
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.data_files import DataFile, Staging, write_rows

__all__ = ["MergedFacts", "collect_small_tables", "merge_exchanges", "merge_messages"]

_BUCKET_BYTES: Final = 96 << 20
"""Size in bytes of the partials that one task merges. The task needs about twice as much memory."""

_LONG: Final = frozenset({"published", "halves", "consumed", "cumulative", "answered", "ack_halves"})
"""Partials that grow with the traffic."""

_SHUFFLED: Final = ("published", "halves", "consumed")
"""Partials that are shuffled by message id."""


@dataclass(frozen=True, slots=True)
class MergedFacts:
    """The small tables of a recording and the facts derived from them."""

    small: Partials
    facts: RecordingFacts


def collect_small_tables(engine: Engine, staging: Staging, reading: ReadRecording) -> MergedFacts:
    """Collect the small tables and derive the facts; set the duplicate connections of the recording."""
    small = concat_partials([Partials(*(_all(staging, reading.splits, one.name) for one in fields(Partials)))])
    requests = requests_of_bytes(small.forwarded)
    if requests:
        called = engine.map("settle", partial(_called_acks, staging, requests), reading.splits)
        small.forwarded = pa.concat_tables([small.forwarded, frames_of_acks(pa.concat_tables(called))])
    facts = collect_facts(small, list(reading.streams.values()))
    facts.forwarded_requests = requests
    if size_of(reading.splits, "cumulative"):
        made = engine.map("acks", partial(_summary, staging, engine.share(facts)), reading.splits)
        facts.later_acks = later_acks_of(pa.concat_tables([summary for summary, _ in made]))
        facts.odd_acks = pa.concat_tables([odd for _, odd in made])
    reading.duplicate_connections = facts.duplicate_connections
    return MergedFacts(small, facts)


def _effective(staging: Staging, facts: RecordingFacts, split: SplitParts) -> pa.Table:
    """Return the effective cumulative ACKs of a split."""
    tables = [effective_acks(table, facts) for table in tables_of(staging, split, "cumulative")]
    return pa.concat_tables([EFFECTIVE.empty_table(), *tables])


def _summary(staging: Staging, facts: Shared[RecordingFacts], split: SplitParts) -> tuple[pa.Table, pa.Table]:
    """Return the summary of the usual cumulative ACKs of a split, and the unusual ones."""
    acks = _effective(staging, facts.value, split)
    return summarize_acks(acks, facts.value), acks.filter(pc.invert(acks.column("usual")))


def _called_acks(staging: Staging, requests: RequestIds, split: SplitParts) -> pa.Table:
    """Return the ACKs and responses of a split that have these request ids."""
    found = [separate_requests(table, requests)[1] for table in tables_of(staging, split, "ack_halves")]
    return pa.concat_tables([PARTIALS["ack_halves"].empty_table(), *found])


def _all(staging: Staging, splits: Iterable[SplitParts], name: str) -> pa.Table:
    tables = [] if name in _LONG else [table for split in splits for table in tables_of(staging, split, name)]
    return pa.concat_tables([PARTIALS[name].empty_table(), *tables])


def merge_messages(
    engine: Engine,
    staging: Staging,
    reading: ReadRecording,
    merged_facts: MergedFacts,
    place: int,
) -> list[DataFile]:
    """Write the table `messages` of the recording with the index ``place``."""
    ranges = send_ranges(merged_facts.small.unpaired)
    pair = partial(_pair_sends, engine.share(merged_facts.facts))
    paired, ambiguous = pair_across_splits(engine, staging, reading.splits, "halves", ranges, pair)
    known = replace(merged_facts.facts, resend_candidates=sum(ambiguous, merged_facts.facts.resend_candidates))
    facts = engine.share(known)
    resolved = _resolved(engine, staging, reading, MergedFacts(merged_facts.small, known), facts)
    buckets = 1 + size_of(reading.splits, *_SHUFFLED) // _BUCKET_BYTES
    items: list[SplitParts | pa.Table] = [resolved, paired, *reading.splits]
    sizes = [1, 1, *(size_of([split], *_SHUFFLED) for split in reading.splits)]
    write = _Write(staging, "messages", reading.recording.cluster, place)
    given = engine.exchange(
        "merge", partial(_cut, staging, facts, ranges, buckets), items, buckets, partial(_join, write, facts),
        sizes=sizes,
    )  # fmt: skip
    chunks = pa.concat_tables([PARTIALS["consumed"].empty_table(), *(one for _, one, _ in given)])
    left = [message for _, _, some in given for message in some]
    exact = replace(known, cumulative_acks=_answers(engine, staging, reading, facts, questions_of(chunks, left, known)))
    rows = messages_of_driver(chunks, left, resolved, exact, write.cluster)
    return [one for made, _, _ in given for one in made] + write.rows(buckets, rows)


def _answers(
    engine: Engine, staging: Staging, reading: ReadRecording, facts: Shared[RecordingFacts], questions: AckQuestions
) -> dict[int, CumulativeAcks]:
    """Return the cumulative ACKs that the driver needs, and all unusual ones."""
    found = [EFFECTIVE.empty_table()]
    if len(questions[0]):
        found += engine.map("acks", partial(_first_acks, staging, facts, questions), reading.splits)
    return acks_by_subscription(pa.concat_tables(found), facts.value)


def _first_acks(
    staging: Staging, facts: Shared[RecordingFacts], questions: AckQuestions, split: SplitParts
) -> pa.Table:
    return first_acks_after(_effective(staging, facts.value, split), *questions)


def _pair_sends(facts: Shared[RecordingFacts], halves: pa.Table) -> tuple[pa.Table, list[Suspect]]:
    made = pair_sends(halves, facts.value)
    return made.published, made.ambiguous


# -- messages that the driver matches


def _resolved(
    engine: Engine, staging: Staging, reading: ReadRecording, merged_facts: MergedFacts, facts: Shared[RecordingFacts]
) -> pa.Table:
    back = [PARTIALS["published"].empty_table()]
    if merged_facts.facts.resend_candidates:
        back += engine.map("settle", partial(_called_back, staging, facts), reading.splits)
    return resolve_sends(merged_facts.small, pa.concat_tables(back), merged_facts.facts, list(reading.streams.values()))


def _called_back(staging: Staging, facts: Shared[RecordingFacts], split: SplitParts) -> pa.Table:
    """Return the rows of a split that must be matched on the driver."""
    tables = chain.from_iterable(tables_of(staging, split, name) for name in ("published", "halves"))
    found = [separate_candidates(table, facts.value)[1] for table in tables]
    return pa.concat_tables([PARTIALS["published"].empty_table(), *found])


# -- the buckets of messages


def _cut(
    staging: Staging,
    facts: Shared[RecordingFacts],
    ranges: SendRanges,
    buckets: int,
    item: SplitParts | pa.Table,
) -> Iterator[Block]:
    """Yield the rows of a split, or the rows matched on the driver, in blocks for the buckets of messages."""
    if isinstance(item, pa.Table):
        yield from _blocks_by_place("resolved", 0, item, buckets)
        return
    halves = (ranges.sends_outside(table) for table in tables_of(staging, item, "halves"))
    for table in chain(tables_of(staging, item, "published"), tables_of(staging, item, "paired"), halves):
        yield from _blocks_by_place("published", item.split + 1, separate_candidates(table, facts.value)[0], buckets)
    for table in tables_of(staging, item, "consumed"):
        yield from _blocks_by_place("consumed", item.split + 1, table, buckets)
    for table in tables_of(staging, item, "cumulative"):
        ledger, entry = (table[name].to_numpy() for name in ("ledger", "entry"))
        of = shuffle_key(ledger, entry, np.zeros_like(entry)) % buckets
        yield from blocks_of("cumulative", item.split + 1, table, of, buckets)


def _blocks_by_place(kind: str, rank: int, table: pa.Table, buckets: int) -> Iterator[Block]:
    yield from blocks_of(kind, rank, table, table["place"].to_numpy() % buckets, buckets)


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


_KINDS: Final = {
    "published": PARTIALS["published"],
    "consumed": PARTIALS["consumed"],
    "resolved": RESOLVED,
    "cumulative": PARTIALS["cumulative"],
}
"""The kinds of rows, in the order of the arguments of `merge_bucket`."""


def _join(
    write: _Write, facts: Shared[RecordingFacts], bucket: int, rows: Iterator[tuple[str, pa.RecordBatch]]
) -> tuple[list[DataFile], pa.Table, list[MessageRows]]:
    """Write the messages of a bucket; return the written files and what the driver completes."""
    batches: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in _KINDS}
    for kind, batch in rows:
        batches[kind].append(pa.RecordBatch.from_arrays(batch.columns, schema=_KINDS[kind]))
    tables = (pa.Table.from_batches(batches.pop(kind), schema) for kind, schema in _KINDS.items())
    published, consumed, resolved, cumulative = tables
    merged = merge_bucket(published, consumed, resolved, cumulative, facts.value, write.cluster)
    return write.rows(bucket, merged.messages), merged.chunks, merged.left


def merge_exchanges(
    engine: Engine,
    staging: Staging,
    reading: ReadRecording,
    merged_facts: MergedFacts,
    place: int,
) -> list[DataFile]:
    """Write the table `exchanges` of the recording with the index ``place``."""
    facts, streams = merged_facts.facts, list(reading.streams.values())
    ranges = ack_ranges(merged_facts.small.unpaired)
    pair = partial(_pair_acks, facts.forwarded_requests)
    paired, ambiguous = pair_across_splits(engine, staging, reading.splits, "ack_halves", ranges, pair)
    called = [frames_of_acks(one) for one in ambiguous]
    small = replace(merged_facts.small, forwarded=pa.concat_tables([merged_facts.small.forwarded, *called]))
    few = exchanges_of_requests(small, facts, streams, reading.recording.cluster)
    write = _Write(staging, "exchanges", reading.recording.cluster, place)
    shared = engine.share((facts, streams))
    items = [paired, *reading.splits]
    sizes = [size_of([split], "answered", "ack_halves", "paired") for split in items]
    made = engine.map("exchanges", partial(_acks, write, shared, ranges), items, sizes=sizes)
    return [one for some in made for one in some] + write.rows(len(items), few)


def _pair_acks(requests: RequestIds, halves: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return pairs and ACKs without a response, and the rows that `exchanges_of_requests` must match."""
    made = pair_acks(separate_requests(halves, requests)[0])
    return pa.concat_tables([made.answered, made.alone]), made.ambiguous


def _acks(
    write: _Write, shared: Shared[tuple[RecordingFacts, list[Stream]]], ranges: AckRanges, split: SplitParts
) -> list[DataFile]:
    """Write the rows of ACKs of a split, or of the paired ACKs of different splits."""
    facts, streams = shared.value
    staging = write.staging
    halves = (
        separate_requests(ranges.outside(table), facts.forwarded_requests)[0]
        for table in tables_of(staging, split, "ack_halves")
    )
    tables = chain(tables_of(staging, split, "answered"), tables_of(staging, split, "paired"), halves)
    rows = [exchanges_of_acks(table, facts, streams, write.cluster) for table in tables]
    return write.rows(split.split + 1, pa.concat_tables([EXCHANGES.empty_table(), *rows]))
