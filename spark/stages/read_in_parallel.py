"""Reading of a recording by independent tasks, split by split. The results are equal to the results of one reader.

scan -> merge on the driver, with repeated reading of some splits -> parse

Rules of this file
1. The first reading of a split determines how its connections start and end. The merge then determines its valid rows
   and their numbers. The second reading produces tables with the recording's numbers. Tables that can be renumbered are
   produced in the first reading (`first_reading`), so few splits are read twice.
2. If a split does not end where the next split starts (a wrong boundary, damage), the next split is read again from the
   position at which the reading ended.
3. If the state assumed for a connection at the start of a split was wrong, the connection is read again in that split
   from its true state. This may affect the next split.
4. The driver holds only frames at the boundaries of splits, and frames of connections that are read again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pcli.codec.capture.frames import Note
from pcli.spark.columnar.split_merge import chain, context_of, merge_splits, reread_split
from pcli.spark.columnar.split_merge.connection_chains import ChainResult, Context, RereadOrder, RereadResult
from pcli.spark.columnar.split_merge.merge_results import MergedSplit, MergedSplits
from pcli.spark.columnar.split_merge.split_reader import ConnectionSpan, EdgeReader, SplitEdges
from pcli.spark.engine import Engine, Shared
from pcli.spark.input.read_plan import Entry, Recording
from pcli.spark.input.splits import Split, SplitEnd, corrected_splits
from pcli.spark.request import Request, RequiredData
from pcli.spark.stages.first_reading import OwnTables, correct_split, stands
from pcli.spark.stages.read_sequentially import collection_disabled
from pcli.spark.stages.second_reading import ParseResult, parse_split
from pcli.spark.stages.split_tables import PlacedEvent, SplitParts
from pcli.spark.stages.split_windows import SplitWindows
from pcli.spark.tables.data_files import Staging

__all__ = ["ParallelReading", "read_in_parallel"]


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The result of the first reading of a split."""

    edges: SplitEdges
    ended: SplitEnd
    read: bool
    """Whether the file could be read."""
    own: SplitParts | None
    """The split's tables, if they are produced in the first reading."""
    secrets: bool
    """Whether the split contains TLS secrets."""


@dataclass(slots=True)
class ParallelReading:
    """The result of reading a recording."""

    parsed: list[ParseResult]
    merged_splits: MergedSplits
    positions: dict[int, int]
    """Number of bytes read from each part, after decompression."""
    again: int
    """Number of times that a connection was read again."""


def read_in_parallel(
    recording: Recording, request: Request, required: RequiredData, engine: Engine, staging: Staging
) -> ParallelReading | None:
    """Read all splits of a recording; the tables are in files of the staging folder.

    Return None if the recording contains TLS secrets, because splits cannot be decrypted independently.
    """
    splits, scanned = _scan_all(recording, partial(_scan, request, required, staging), engine)
    if any(one.secrets for one in scanned):
        return None
    merged_splits, again = _stitch(request, engine, splits, [one.edges for one in scanned])
    items = [
        _Item(number, split, joined, one.own if one.own is not None and stands(joined) else None)
        for number, (split, joined, one) in enumerate(zip(splits, merged_splits.splits, scanned))
    ]
    sizes = [size if item.own is None else 0 for size, item in zip(_sizes(recording, splits), items)]
    parsed = engine.map("parse", partial(_parse, request, required, staging), items, sizes=sizes)
    _carry_times(parsed)
    _look_up_times(request, engine, splits, merged_splits, parsed)
    parsed += [ParseResult(SplitParts(len(splits) + entry.part, entry.part)) for entry in _unread(recording, splits)]
    positions = {split.part: one.ended.position for split, one in zip(splits, scanned) if one.read}
    return ParallelReading(parsed, merged_splits, positions, again)


@dataclass(frozen=True, slots=True)
class _Item:
    """A split whose valid rows are known."""

    number: int
    split: Split
    joined: MergedSplit
    own: SplitParts | None
    """The split's tables, if they are correct except for their numbers."""


def _parse(request: Request, required: RequiredData, staging: Staging, item: _Item) -> ParseResult:
    if item.own is not None:
        return ParseResult(correct_split(staging, item.number, item.own, item.joined))
    with collection_disabled():
        return parse_split(request, required, staging, item.number, item.split, item.joined)


def _unread(recording: Recording, splits: Sequence[Split]) -> Iterator[Entry]:
    """Return the files without splits: all their packets are outside the requested time range."""
    read = {split.part for split in splits}
    return (entry for entry in recording.parts if entry.part not in read)


def _sizes(recording: Recording, splits: Sequence[Split]) -> list[int]:
    sizes = {entry.part: entry.found.size for entry in recording.parts}
    return [(split.end if split.end >= 0 else sizes[split.part]) - split.start for split in splits]


def _carry_times(parsed: Sequence[ParseResult]) -> None:
    """Set the time of events before a split's first frame to the time of the last frame in earlier splits."""
    last_ns = 0
    for one in parsed:
        one.parts.placed_events = [
            event if event.last_ns else replace(event, last_ns=last_ns) for event in one.parts.placed_events
        ]
        last_ns = one.last_ns or last_ns


def _look_up_times(
    request: Request,
    engine: Engine,
    splits: Sequence[Split],
    merged_splits: MergedSplits,
    parsed: Sequence[ParseResult],
) -> None:
    """Look up packet times for notes that refer to other splits. Such notes exist only if packets were lost."""
    starts = [joined.renaming.packets for joined in merged_splits.splits]
    required: dict[int, set[int]] = {}
    for one in parsed:
        for event in one.parts.placed_events:
            if _timeless(event):
                required.setdefault(bisect_left(starts, event.item.packet) - 1, set()).add(event.item.packet)
    items = [(splits[row], [packet - starts[row] for packet in sorted(some)]) for row, some in sorted(required.items())]
    times: dict[int, int] = {}
    for row, found in zip(sorted(required), engine.map("times", partial(_times, request), items), strict=True):
        times.update((packet + starts[row], time_ns) for packet, time_ns in found.items())
    for one in parsed:
        one.parts.placed_events = [
            replace(event, packet_ns=times.get(event.item.packet)) if _timeless(event) else event
            for event in one.parts.placed_events
        ]


def _timeless(event: PlacedEvent) -> bool:
    return (
        event.packet_ns is None and event.item.packet > 0 and isinstance(event.item, Note) and event.item.kind != "file"
    )


def _times(request: Request, item: tuple[Split, list[int]]) -> dict[int, int]:
    """Return the times of these packets of a split. Packets are counted from 1."""
    split, required = item
    before, found = 0, dict[int, int]()
    for records in SplitWindows(request, split):
        here = [packet for packet in required if before < packet <= before + len(records)]
        found.update((packet, int(records.time_ns[packet - before - 1])) for packet in here)
        before += len(records)
    return found


# -- first reading ---------------------------------------------------------------------------------------------------


def _scan_all(
    recording: Recording, task: Callable[[tuple[Split, bool]], ScanResult], engine: Engine
) -> tuple[list[Split], list[ScanResult]]:
    """Return the corrected splits of the recording, each with its result."""
    splits = list(recording.splits)
    known: dict[tuple[Split, bool], ScanResult] = {}
    while True:
        new = [(split, not number) for number, split in enumerate(splits) if (split, not number) not in known]
        found = engine.map("scan", task, new, sizes=_sizes(recording, [split for split, _ in new]))
        known.update(zip(new, found, strict=True))
        scanned = [known[split, not number] for number, split in enumerate(splits)]
        mended = _corrected(splits, scanned)
        if mended == splits:
            return splits, _with_last_notes(splits, scanned)
        splits = mended


def _corrected(splits: Sequence[Split], scanned: Sequence[ScanResult]) -> list[Split]:
    out = []
    for part in sorted({split.part for split in splits}):
        rows = [row for row, split in enumerate(splits) if split.part == part]
        out += corrected_splits([splits[row] for row in rows], [scanned[row].ended for row in rows])
    return out


def _with_last_notes(splits: Sequence[Split], scanned: Sequence[ScanResult]) -> list[ScanResult]:
    """Keep the note about a file only in its last split, because in other splits a wrong boundary causes it."""
    out = []
    for split, one, follows in zip(splits, scanned, [*splits[1:], None], strict=True):
        last = follows is None or follows.part != split.part
        out.append(one if last or not one.edges.notes else replace(one, edges=replace(one.edges, notes=[])))
    return out


def _scan(request: Request, required: RequiredData, staging: Staging, item: tuple[Split, bool]) -> ScanResult:
    split, first = item
    reader, windows = EdgeReader(request.reading, first=first), SplitWindows(request, split)
    own = OwnTables(split, required, staging) if required.once else None
    with collection_disabled():
        for records in windows:
            places = reader.take(records)
            if reader.noted:
                own = None  # the split will be read again
            if own is not None:
                own.add(places, records)
    for note in windows.notes:
        reader.note(note)
    tables = None if own is None else own.finish()
    return ScanResult(reader.close(), windows.ended, windows.read, tables, bool(windows.secrets))


# -- merge -----------------------------------------------------------------------------------------------------------


def _stitch(
    request: Request, engine: Engine, splits: Sequence[Split], edges: Sequence[SplitEdges]
) -> tuple[MergedSplits, int]:
    """Merge each connection across all splits; read it again in splits where its assumed state was wrong."""
    context = context_of(request.reading, edges)
    shared = engine.share(context)
    keys: dict[bytes, list[tuple[int, ConnectionSpan]]] = {}
    for number, one in enumerate(edges):
        for span in one.spans:
            keys.setdefault(span.key, []).append((number, span))
    reread: dict[bytes, dict[int, RereadResult]] = {key: {} for key in keys}
    chained: dict[bytes, ChainResult] = {}
    again, left = 0, list(keys)
    while left:
        chained |= {key: chain(keys[key], context, reread[key]) for key in left}
        orders = [order for key in left if (order := chained[key].order) is not None]
        again += len(orders)
        rounds = {split: [one for one in orders if one.split == split] for split in {one.split for one in orders}}
        items = [(splits[split], mine) for split, mine in sorted(rounds.items())]
        for found in engine.map("repair", partial(_repair, request, shared), items):
            for done in found:
                reread[done.key][done.split] = done
        left = [order.key for order in orders]
    return merge_splits(context, edges, [split.part for split in splits], list(chained.values())), again


def _repair(request: Request, context: Shared[Context], item: tuple[Split, list[RereadOrder]]) -> list[RereadResult]:
    split, orders = item
    return reread_split(orders, context.value, SplitWindows(request, split))
