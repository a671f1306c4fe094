"""The facts about a recording, and the table `messages`, from the partials of all splits.

Rules of this file
1. The small tables (names, sessions, gaps) and a summary of the cumulative ACKs are collected on the driver and sent to
   all tasks as `RecordingFacts`. The tables that grow with the traffic are shuffled by message id, so that a large
   connection does not make the buckets uneven.
2. The few messages that cannot be computed from only their own rows (resent, refused, chunked, of transactions) are
   matched on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.lifecycles.bucket_merge import MergedBucket, merge_bucket
from pcli.spark.columnar.lifecycles.closed_messages import (
    ClosedEntries,
    ClosingRules,
    in_entries,
    joined_entries,
    newest_numbers,
    separate,
    separate_chunks,
)
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
from pcli.spark.columnar.lifecycles.messages_of_driver import AckQuestions, messages_of_driver, questions_of
from pcli.spark.columnar.lifecycles.pairs_across_splits import (
    PairableRanges,
    RequestIds,
    frames_of_acks,
    pair_sends,
    requests_of_bytes,
    send_ranges,
    sends_outside,
    separate_requests,
)
from pcli.spark.columnar.lifecycles.partial_renumbering import concat_partials
from pcli.spark.columnar.lifecycles.partial_tables import PARTIALS, Partials
from pcli.spark.columnar.lifecycles.recording_facts import CumulativeAcks, RecordingFacts
from pcli.spark.columnar.lifecycles.resend_candidates import Suspect, separate_candidates
from pcli.spark.columnar.lifecycles.resent_messages import RESOLVED, resolve_sends
from pcli.spark.columnar.lifecycles.row_operations import shuffle_key
from pcli.spark.columnar.table_schema import LONG
from pcli.spark.engine import Block, Shared
from pcli.spark.stages.pair_splits import blocks_of, pair_across_splits
from pcli.spark.stages.read_recording import PartWriter, ReadRecording, tables_of
from pcli.spark.stages.split_tables import Part, PartStorage, SplitParts, load, size_of
from pcli.spark.tables.data_files import DataFile, Staging

_BUCKET_BYTES: Final = 96 << 20
"""Size in bytes of the partials that one task merges. The task needs about twice as much memory."""

_LONG: Final = frozenset({"published", "halves", "consumed", "cumulative", "answered", "ack_halves"})
"""Partials that grow with the traffic."""

SMALL: Final = frozenset(PARTIALS) - _LONG | {"cumulative"}
"""The partials of which an incremental run keeps the rows of the whole recording, except old rows. The kept cumulative
ACKs are those that open messages may need."""

_SHUFFLED: Final = ("published", "halves", "consumed")
"""Partials that are shuffled by message id."""


@dataclass(frozen=True, slots=True)
class MergedFacts:
    """The small tables of a recording and the facts derived from them."""

    small: Partials
    facts: RecordingFacts


def collect_small_tables(reading: ReadRecording) -> MergedFacts:
    """Collect the small tables and derive the facts; set the duplicate connections of the recording."""
    return derive_facts(reading, reading.splits, small_tables(reading.staging, reading.splits))


def small_tables(staging: Staging, splits: Iterable[SplitParts]) -> Partials:
    """Return the small tables of splits; the other tables are empty."""
    return concat_partials([Partials(*(_all(staging, splits, one.name) for one in fields(Partials)))])


def derive_facts(reading: ReadRecording, splits: Sequence[SplitParts], small: Partials) -> MergedFacts:
    """Derive the facts from the small tables and from the ACKs of ``splits``.

    Set the duplicate connections of the recording.
    """
    engine, staging = reading.engine, reading.staging
    requests = requests_of_bytes(small.forwarded)
    if requests:
        called = engine.map("settle", partial(_called_acks, staging, requests), splits)
        small.forwarded = pa.concat_tables([small.forwarded, frames_of_acks(pa.concat_tables(called))])
    facts = collect_facts(small, list(reading.streams.values()))
    facts.forwarded_requests = requests
    if size_of(splits, "cumulative"):
        made = engine.map("acks", partial(_summary, staging, engine.share(facts)), splits)
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


def _no_frames() -> Longs:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class ClosedFiles:
    """The closed messages of a period in one bucket."""

    files: list[DataFile]
    entries: pa.Table
    """Their ids as ENTRIES."""
    earlier: dict[str, list[Part]]
    """Their partial rows that are older than the period."""
    halves: Longs
    """Their frames in ``halves`` that are older than the period."""
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
    left: list[MessageRows] = field(default_factory=list)
    """Messages that need a cumulative ACK of a different bucket."""
    partials: dict[str, list[Part]] = field(default_factory=dict)
    """The partial rows of open messages."""
    halves: Longs = field(default_factory=_no_frames)
    """Their frames in ``halves``."""
    closed: list[ClosedFiles] = field(default_factory=list)
    """The closed messages of each period."""


def merge_messages(
    reading: ReadRecording, merged_facts: MergedFacts, rules: ClosingRules | None = None
) -> list[BucketFiles]:
    """Write the table `messages` of a recording, separated by ``rules`` if there are any."""
    engine, staging = reading.engine, reading.staging
    ranges = send_ranges(merged_facts.small.unpaired)
    pair = partial(_pair_sends, engine.share(merged_facts.facts))
    paired, ambiguous = pair_across_splits(reading, "halves", ranges, pair)
    known = replace(merged_facts.facts, resend_candidates=sum(ambiguous, merged_facts.facts.resend_candidates))
    facts = engine.share(known)
    resolved, candidates = _resolved(reading, MergedFacts(merged_facts.small, known), facts)
    resolved = _without_closed(resolved, rules)
    buckets = 1 + size_of(reading.splits, *_SHUFFLED) // _BUCKET_BYTES
    items: list[SplitParts | pa.Table] = [resolved, paired, *reading.splits]
    sizes = [1, 1, *(size_of([split], *_SHUFFLED) for split in reading.splits)]
    write = reading.writer("messages")
    shared = engine.share(rules)
    cut, join = partial(_cut, staging, facts, ranges, shared, buckets), partial(_join, write, facts, shared)
    found = engine.exchange("merge", cut, items, buckets, join, sizes=sizes)
    chunks = pa.concat_tables([PARTIALS["consumed"].empty_table(), *(one.chunks for one in found)])
    left = [message for one in found for message in one.left]
    exact = replace(known, cumulative_acks=_answers(reading, facts, questions_of(chunks, left, known)))
    usual, chunked, ids = messages_of_driver(chunks, left, resolved, exact, write.cluster)
    rest = BucketFiles([], chunks)
    if rules is not None:
        chunked, closed = separate_chunks(chunked, ids, chunks, rules)
        rest.closed = [_closed_files(write, buckets, one) for one in closed]
        _remove(reading, found, joined_entries(one.entries for one in closed))
        _keep_candidates(staging, rest, candidates, rules)
        _keep_halves(reading, [*found, rest], rules)
    rest.files = write.rows(buckets, pa.concat_tables([usual, chunked]))
    return [*found, rest]


def _remove(reading: ReadRecording, found: Sequence[BucketFiles], entries: pa.Table) -> None:
    """Remove the rows of CONSUMED with these ids from the partial rows of open messages."""
    if not len(entries):
        return
    kept = [one.partials.get("consumed", []) for one in found]
    others = partial(_others, reading.staging, reading.engine.share(entries))
    for one, parts in zip(found, reading.engine.map("close", others, kept)):
        one.partials["consumed"] = parts


def _others(staging: Staging, entries: Shared[pa.Table], parts: Sequence[Part]) -> list[Part]:
    tables = [load(staging, part) for part in parts]
    others = [table.filter(pa.array(~in_entries(entries.value, table))) for table in tables]
    return PartStorage(staging).keep("consumed", others)


def _keep_candidates(staging: Staging, rest: BucketFiles, candidates: pa.Table, rules: ClosingRules) -> None:
    """Keep the rows that `resolve_sends` has matched for the next run, up to twice the horizon."""
    newest = newest_numbers("published", candidates)
    old = candidates.filter(pa.array((newest <= rules.frames) & (newest > rules.forgotten)))
    single = pc.less(pc.min_element_wise(old["sent_number"], old["receipt_number"]), 0)
    rest.partials["published"] = PartStorage(staging).keep("published", [old.filter(pc.invert(single))])
    rest.halves = newest_numbers("halves", old.filter(single))


def _keep_halves(reading: ReadRecording, found: list[BucketFiles], rules: ClosingRules) -> None:
    """Keep the rows of ``halves`` of open messages, and those of closed messages that are older than their period."""
    closed = [one.closed for one in found if one.closed]
    needed = [np.concatenate([one.halves for one in found])]
    needed += [np.concatenate([_no_frames(), *(some[at].halves for some in closed)]) for at in range(len(rules.starts))]
    if not any(len(one) for one in needed):
        return
    halves = partial(_halves_of, reading.staging, reading.engine.share(needed))
    kept = reading.engine.map("halves", halves, reading.splits)
    of_open, *of_periods = ([part for parts in some for part in parts] for some in zip(*kept, strict=True))
    rest = found[-1]
    rest.partials["halves"] = of_open
    for one, parts in zip(rest.closed, of_periods, strict=True):
        one.earlier["halves"] = parts


def _halves_of(staging: Staging, needed: Shared[list[Longs]], split: SplitParts) -> list[list[Part]]:
    """Return the rows of ``halves`` with these frames, for each item of ``needed``."""
    tables, storage = list(tables_of(staging, split, "halves")), PartStorage(staging)
    numbers = [newest_numbers("halves", table) for table in tables]
    return [
        storage.keep(
            "halves", [table.filter(pa.array(np.isin(of, one))) for table, of in zip(tables, numbers, strict=True)]
        )
        for one in needed.value
    ]


def _answers(
    reading: ReadRecording, facts: Shared[RecordingFacts], questions: AckQuestions
) -> dict[int, CumulativeAcks]:
    """Return the cumulative ACKs that the driver needs, and all unusual ones."""
    found = [EFFECTIVE.empty_table()]
    if len(questions[0]):
        found += reading.engine.map("acks", partial(_first_acks, reading.staging, facts, questions), reading.splits)
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
    reading: ReadRecording, merged_facts: MergedFacts, facts: Shared[RecordingFacts]
) -> tuple[pa.Table, pa.Table]:
    """Return RESOLVED, and the rows of PUBLISHED and ``halves`` that were matched with it."""
    back = [PARTIALS["published"].empty_table()]
    if merged_facts.facts.resend_candidates:
        back += reading.engine.map("settle", partial(_called_back, reading.staging, facts), reading.splits)
    candidates = pa.concat_tables(back)
    resolved = resolve_sends(merged_facts.small, candidates, merged_facts.facts, list(reading.streams.values()))
    return resolved, candidates


def _called_back(staging: Staging, facts: Shared[RecordingFacts], split: SplitParts) -> pa.Table:
    """Return the rows of a split that must be matched on the driver."""
    tables = chain.from_iterable(tables_of(staging, split, name) for name in ("published", "halves"))
    found = [separate_candidates(table, facts.value)[1] for table in tables]
    return pa.concat_tables([PARTIALS["published"].empty_table(), *found])


# -- the buckets of messages


def _cut(
    staging: Staging,
    facts: Shared[RecordingFacts],
    ranges: PairableRanges,
    rules: Shared[ClosingRules | None],
    buckets: int,
    item: SplitParts | pa.Table,
) -> Iterator[Block]:
    """Yield the rows of a split, or the rows matched on the driver, in blocks for the buckets of messages."""
    if isinstance(item, pa.Table):
        yield from _blocks_by_place("resolved", 0, item, buckets)
        return
    halves = (sends_outside(ranges, table) for table in tables_of(staging, item, "halves"))
    for kind, tables in (
        ("published", tables_of(staging, item, "published")),
        ("halves", chain(tables_of(staging, item, "paired"), halves)),
    ):
        for table in tables:
            rows = _without_closed(separate_candidates(table, facts.value)[0], rules.value)
            yield from _blocks_by_place(kind, item.split + 1, rows, buckets)
    for table in tables_of(staging, item, "consumed"):
        yield from _blocks_by_place("consumed", item.split + 1, table, buckets)
    for table in tables_of(staging, item, "cumulative"):
        ledger, entry = (table[name].to_numpy() for name in ("ledger", "entry"))
        of = shuffle_key(ledger, entry, np.zeros_like(entry)) % buckets
        yield from blocks_of("cumulative", item.split + 1, table, of, buckets)


def _without_closed(published: pa.Table, rules: ClosingRules | None) -> pa.Table:
    """Return the rows without SENDs that `resolve_sends` has matched and whose messages are closed.

    These SENDs are kept for later resends, and a later run need not match them again.
    """
    if rules is None or not rules.closed_sends:
        return published
    return published.filter(pc.invert(pc.is_in(published["sent_number"], pa.array(rules.closed_sends, LONG))))


def _blocks_by_place(kind: str, rank: int, table: pa.Table, buckets: int) -> Iterator[Block]:
    yield from blocks_of(kind, rank, table, table["place"].to_numpy() % buckets, buckets)


_KINDS: Final = {
    "halves": PARTIALS["halves"],
    "published": PARTIALS["published"],
    "consumed": PARTIALS["consumed"],
    "resolved": RESOLVED,
    "cumulative": PARTIALS["cumulative"],
}


def _join(
    write: PartWriter,
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
    published = pa.concat_tables([tables["halves"], tables["published"]])
    resolved, cumulative = tables.pop("resolved"), tables.pop("cumulative")
    merged = merge_bucket(published, tables["consumed"], resolved, cumulative, facts.value, write.cluster)
    if rules.value is None:
        return BucketFiles(write.rows(bucket, merged.messages), merged.chunks, merged.left)
    return _separated(write, bucket, merged, tables, resolved, rules.value)


def _separated(
    write: PartWriter,
    bucket: int,
    merged: MergedBucket,
    tables: dict[str, pa.Table],
    resolved: pa.Table,
    rules: ClosingRules,
) -> BucketFiles:
    """Write the open and the closed messages of a bucket, and the partial rows that the next run needs."""
    storage = PartStorage(write.staging)
    one = separate(merged.messages, tables, resolved, pa.concat_tables([merged.chunks, _rows_of(merged.left)]), rules)
    closed = [_closed_files(write, bucket, some) for some in one.closed]
    files, partials = write.rows(bucket, one.messages), _stored(storage, one.partials)
    return BucketFiles(files, merged.chunks, merged.left, partials, one.halves, closed)


def _closed_files(write: PartWriter, bucket: int, one: ClosedEntries) -> ClosedFiles:
    """Write the closed messages of a period."""
    earlier = _stored(PartStorage(write.staging), one.earlier)
    return ClosedFiles(write.rows(bucket, one.messages), one.entries, earlier, one.halves, one.sends, one.sequences)


def _rows_of(left: list[MessageRows]) -> pa.Table:
    """Return the rows of CONSUMED of messages that the driver completes."""
    schema = PARTIALS["consumed"]
    rows = [{name: row[name] for name in schema.names} for one in left for row in one.consumed]
    return pa.Table.from_pylist(rows, schema)


def _stored(storage: PartStorage, tables: dict[str, pa.Table]) -> dict[str, list[Part]]:
    return {name: storage.keep(name, [table]) for name, table in tables.items()}
