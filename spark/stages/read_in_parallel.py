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
5. An incremental run reads only the splits of new files. The first split continues the state of a reader after the
   earlier files, and the states after the last files are kept. They
   equal those of `read_in_order`, which can continue them, up to the differences that `split_merge` lists.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pcli.codec.capture.frames import Note
from pcli.codec.capture.reading import ReadOptions
from pcli.spark.columnar.reading.capture_reader import WindowReader
from pcli.spark.columnar.split_merge.connection_chains import (
    ChainResult,
    Context,
    RereadOrder,
    RereadResult,
    chain,
    context_of,
    load_carried,
)
from pcli.spark.columnar.split_merge.merge import merge_splits
from pcli.spark.columnar.split_merge.merge_results import MergedSplit, MergedSplits
from pcli.spark.columnar.split_merge.reader_state import earlier_packets, reader_state
from pcli.spark.columnar.split_merge.reread_split import reread_split
from pcli.spark.columnar.split_merge.split_reader import ConnectionSpan, EdgeReader, SplitEdges, with_file_notes
from pcli.spark.engine import Engine, Shared
from pcli.spark.input.read_plan import Entry, Recording
from pcli.spark.input.splits import Split, SplitEnd, SplitReader, corrected_splits
from pcli.spark.request import Request
from pcli.spark.stages.first_reading import OwnTables, correct_split, renumbered, stands
from pcli.spark.stages.read_sequentially import (
    NOTHING_KEPT,
    Checkpoint,
    Counters,
    Keeps,
    ReadSplits,
    collection_disabled,
    noted_packets,
)
from pcli.spark.stages.second_reading import ParseResult, parse_ending, parse_split
from pcli.spark.stages.split_tables import PlacedEvent, SplitParts
from pcli.spark.tables.data_files import Staging


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
    last_ns: int
    """Time of the last packet; 0 if none."""


def read_in_parallel(
    recording: Recording,
    request: Request,
    engine: Engine,
    staging: Staging,
    *,
    keeps: Keeps = NOTHING_KEPT,
    carried: Checkpoint | None = None,
    before: int = 0,
) -> ReadSplits | None:
    """Read all splits of a recording; the tables are in files of the staging folder.

    ``keeps``, ``carried`` and ``before`` are those of `read_in_order`. The splits are those of the files after
    ``carried``. Return None if they contain TLS secrets, because splits cannot be decrypted independently.
    """
    splits, scanned = _scan_all(recording, partial(_scan, request, staging), engine, first=carried is None)
    if any(one.secrets for one in scanned):
        return None
    start = Checkpoint(Counters(), WindowReader(request.reading).fast, {}, {}) if carried is None else carried
    earlier = earlier_packets(start.reader, start.counters.frames, start.streams)
    edges = [one.edges for one in scanned]
    kept = [sum(split.part < count for split in splits) for count in keeps.counts]
    context = context_of(request.reading, edges, earlier, kept)
    chained = _stitch(request, engine, splits, edges, context, earlier.connections)
    merged = merge_splits(context, edges, [split.part for split in splits], chained, earlier)
    items = [
        _Item(before + number, split, joined, one.own if one.own is not None and stands(joined) else None)
        for number, (split, joined, one) in enumerate(zip(splits, merged.splits, scanned))
    ]
    sizes = [size if item.own is None else 0 for size, item in zip(_sizes(recording, splits), items)]
    task = partial(_parse, request, staging, bool(keeps.counts))
    parsed = engine.map("parse", task, items, sizes=sizes)
    counters = _counters(start.counters, context, splits, merged, parsed)
    parts = [one.parts for one in parsed]
    parts += _unread(recording.parts[start.counters.parts :], splits, before + len(splits))
    number, fed = before + len(parts), counters[-1].fed
    ending = parse_ending(request.required, staging, number, fed, recording.cluster, merged.ending)
    known = {packet: one.last_ns for packet, one in zip(context.packets[1:], scanned) if one.last_ns}
    times = _PacketTimes(request, engine, splits, context.packets, start.times | known)
    _add_times([*parsed, ending], start.counters.last_ns, times)
    for checkpoint in checkpoints_of(keeps.counts, request.reading, context, chained, merged, counters, times.of):
        keeps.keep(checkpoint)
    return ReadSplits(
        sorted(parts, key=lambda one: one.part),
        ending.parts,
        dict(enumerate(merged.streams)),
        _after(counters[-1], len(recording.parts), merged.ending, ending),
        {split.part: one.ended.position for split, one in zip(splits, scanned) if one.read},
    )


def _counters(
    start: Counters, context: Context, splits: Sequence[Split], merged: MergedSplits, parsed: Sequence[ParseResult]
) -> list[Counters]:
    """Return the position after each number of splits, from 0."""
    out = [start]
    for split, packets, joined, one in zip(splits, context.packets[1:], merged.splits, parsed, strict=True):
        fed = split.part if packets > out[-1].packets else out[-1].fed
        out.append(replace(_after(out[-1], split.part, joined, one), fed=fed, packets=packets))
    return out


def _after(counters: Counters, parts: int, joined: MergedSplit, parsed: ParseResult) -> Counters:
    """Return a position after the frames of one more split."""
    return replace(
        counters,
        parts=parts,
        frames=joined.first_number - 1 + joined.rows,
        first_ns=counters.first_ns or parsed.first_ns,
        last_ns=parsed.last_ns or counters.last_ns,
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """A split whose valid rows are known."""

    number: int
    split: Split
    joined: MergedSplit
    own: SplitParts | None
    """The split's tables, if they are correct except for their numbers."""


def _parse(request: Request, staging: Staging, kept: bool, item: _Item) -> ParseResult:
    """Return the results of a split; ``kept`` is whether the next run needs its tables."""
    if item.own is not None:
        parts = correct_split(staging, item.number, item.own, item.joined)
        return ParseResult(renumbered(staging, parts) if kept else parts)
    with collection_disabled():
        return parse_split(request, staging, item.number, item.split, item.joined)


def _unread(entries: Iterable[Entry], splits: Sequence[Split], number: int) -> list[SplitParts]:
    """Return an empty split for each file without splits, because its packets are outside the requested time range.

    ``number`` is the number of the first of these splits.
    """
    read = {split.part for split in splits}
    parts = (entry.part for entry in entries if entry.part not in read)
    return [SplitParts(place, part) for place, part in enumerate(parts, number)]


def _sizes(recording: Recording, splits: Sequence[Split]) -> list[int]:
    sizes = {entry.part: entry.found.size for entry in recording.parts}
    return [(split.end if split.end >= 0 else sizes[split.part]) - split.start for split in splits]


def _add_times(parsed: Sequence[ParseResult], last_ns: int, times: _PacketTimes) -> None:
    """Add the times that were unknown in the splits of the events.

    The last frame before an event may be in an earlier split; ``last_ns`` is the time of the last frame before all
    splits. A note may refer to a packet of a different split, but only if packets were lost.
    """
    found = times.of(event.item.packet for one in parsed for event in one.parts.placed_events if _timeless(event))
    for one in parsed:
        one.parts.placed_events = [
            replace(
                event,
                last_ns=event.last_ns or last_ns,
                packet_ns=found.get(event.item.packet) if _timeless(event) else event.packet_ns,
            )
            for event in one.parts.placed_events
        ]
        last_ns = one.last_ns or last_ns


class _PacketTimes:
    """The times of packets in any split."""

    def __init__(
        self, request: Request, engine: Engine, splits: Sequence[Split], starts: Sequence[int], known: dict[int, int]
    ) -> None:
        """``starts`` contains the number of packets before each split, and ``known`` the times that are known."""
        self._request, self._engine, self._splits, self._starts = request, engine, splits, starts
        self._known = known

    def of(self, packets: Iterable[int]) -> dict[int, int]:
        """Return the times of packets. Packets of earlier files are omitted if their times are unknown."""
        packets, starts = set(packets), self._starts
        required: dict[int, set[int]] = {}
        for packet in packets - self._known.keys():
            if packet > starts[0]:
                required.setdefault(bisect_left(starts, packet) - 1, set()).add(packet)
        rows = sorted(required)
        items = [(self._splits[row], [packet - starts[row] for packet in sorted(required[row])]) for row in rows]
        for row, found in zip(rows, self._engine.map("times", partial(_times, self._request), items), strict=True):
            self._known.update((packet + starts[row], time_ns) for packet, time_ns in found.items())
        return {packet: self._known[packet] for packet in packets if packet in self._known}


def _timeless(event: PlacedEvent) -> bool:
    return event.packet_ns is None and event.item.packet > 0 and isinstance(event.item, Note) and not event.item.source


def _times(request: Request, item: tuple[Split, list[int]]) -> dict[int, int]:
    """Return the times of these packets of a split. Packets are counted from 1."""
    split, required = item
    before, found = 0, dict[int, int]()
    for records in SplitReader(split, request.since_ns, request.until_ns):
        here = [packet for packet in required if before < packet <= before + len(records)]
        found.update((packet, int(records.time_ns[packet - before - 1])) for packet in here)
        before += len(records)
    return found


# -- first reading ---------------------------------------------------------------------------------------------------


def _scan_all(
    recording: Recording, task: Callable[[tuple[Split, bool]], ScanResult], engine: Engine, *, first: bool
) -> tuple[list[Split], list[ScanResult]]:
    """Return the corrected splits of the recording, each with its result.

    ``first`` is whether the recording begins with the first split.
    """
    splits = list(recording.splits)
    known: dict[tuple[Split, bool], ScanResult] = {}
    while True:
        items = [(split, first and not number) for number, split in enumerate(splits)]
        new = [item for item in items if item not in known]
        found = engine.map("scan", task, new, sizes=_sizes(recording, [split for split, _ in new]))
        known.update(zip(new, found, strict=True))
        scanned = [known[item] for item in items]
        mended = _corrected(splits, scanned)
        if mended == splits:
            parts, names = [split.part for split in splits], [split.path for split in splits]
            edges = with_file_notes([one.edges for one in scanned], parts, names)
            return splits, [replace(one, edges=mine) for one, mine in zip(scanned, edges, strict=True)]
        splits = mended


def _corrected(splits: Sequence[Split], scanned: Sequence[ScanResult]) -> list[Split]:
    out = []
    for part in sorted({split.part for split in splits}):
        rows = [row for row, split in enumerate(splits) if split.part == part]
        out += corrected_splits([splits[row] for row in rows], [scanned[row].ended for row in rows])
    return out


def _scan(request: Request, staging: Staging, item: tuple[Split, bool]) -> ScanResult:
    split, first = item
    reader, windows = EdgeReader(request.reading, first=first), SplitReader(split, request.since_ns, request.until_ns)
    required = request.required
    own = OwnTables(split, required, staging) if required.once else None
    last_ns = 0
    with collection_disabled():
        for records in windows:
            places = reader.take(records)
            last_ns = int(records.time_ns[-1]) if len(records) else last_ns
            if reader.noted:
                own = None  # the split will be read again
            if own is not None:
                own.add(places, records)
    for note in windows.notes:
        reader.note(note)
    tables = None if own is None else own.finish()
    return ScanResult(reader.close(), windows.ended, windows.read, tables, bool(windows.secrets), last_ns)


# -- merge -----------------------------------------------------------------------------------------------------------


def _stitch(
    request: Request,
    engine: Engine,
    splits: Sequence[Split],
    edges: Sequence[SplitEdges],
    context: Context,
    earlier: Mapping[bytes, bytes],
) -> list[ChainResult]:
    """Follow each connection through all splits; read it again in splits where its assumed state was wrong.

    ``earlier`` is `EarlierPackets.connections`.
    """
    shared = engine.share(context)
    keys: dict[bytes, list[tuple[int, ConnectionSpan]]] = {key: [] for key in earlier}
    for number, one in enumerate(edges):
        for span in one.spans:
            keys.setdefault(span.key, []).append((number, span))
    reread: dict[bytes, dict[int, RereadResult]] = {key: {} for key in keys}
    chained: dict[bytes, ChainResult] = {}
    left = list(keys)
    while left:
        chained |= {key: chain(keys[key], context, reread[key], earlier.get(key, b"")) for key in left}
        orders = [order for key in left if (order := chained[key].order) is not None]
        rounds = {split: [one for one in orders if one.split == split] for split in {one.split for one in orders}}
        items = [(splits[split], mine) for split, mine in sorted(rounds.items())]
        for found in engine.map("repair", partial(_repair, request, shared), items):
            for done in found:
                reread[done.key][done.split] = done
        left = [order.key for order in orders]
    return list(chained.values())


def _repair(request: Request, context: Shared[Context], item: tuple[Split, list[RereadOrder]]) -> list[RereadResult]:
    split, orders = item
    return reread_split(orders, context.value, SplitReader(split, request.since_ns, request.until_ns))


def checkpoints_of(
    counts: Sequence[int],
    options: ReadOptions,
    context: Context,
    chained: Sequence[ChainResult],
    merged: MergedSplits,
    counters: Sequence[Counters],
    times_of: Callable[[Iterable[int]], dict[int, int]],
) -> Iterator[Checkpoint]:
    """Yield the state after each of these numbers of files, at the splits in `Context.kept`.

    ``counters`` contains the position after each number of splits, from 0. ``times_of`` returns the times of packets.
    """
    starts = [stream.opening[0] for stream in merged.streams]
    numbers = {born: number for number, born in enumerate(starts)}
    for index, (count, split) in enumerate(zip(counts, context.kept, strict=True)):
        states = [load_carried(one.states[index]) for one in chained if one.states[index]]
        connections = [one.connection for one in states if one.connection is not None]
        for connection in connections:
            connection.stream.number = numbers[connection.stream.opening[0]]
        reached = replace(counters[split], parts=count)
        begun = bisect_right(starts, reached.packets)
        state = reader_state(options, states, starts[:begun], reached.packets, context.fed[split])
        streams = dict(enumerate(merged.streams[:begun])) | {one.stream.number: one.stream for one in connections}
        noted = noted_packets(connections)
        times = times_of([reached.packets, *(packet for packet, time_ns in noted.items() if time_ns is None)])
        known = {packet: time_ns for packet, time_ns in noted.items() if time_ns is not None}
        yield Checkpoint(reached, state, streams, known | times)
