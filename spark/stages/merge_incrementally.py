"""The tables `messages` and `exchanges` of an incremental run: only new rows and open rows are merged.

Rules of this file
1. The rows are equal to those of a run over all captures, except for frames of messages that are older than the
   horizon.
2. The run merges the partial rows of open messages and of new splits. It writes newly closed rows, and replaces the
   files with open rows.
3. If a fact that closed rows depend on has changed, or if a closed message has further frames, the run merges the
   partial rows of all splits within the horizon, and replaces all rows of these periods.
4. If a message is older than the horizon and has further frames, these frames become a row of their own with the
   evidence ``late``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.lifecycles.closed_messages import (
    ClosingRules,
    ids_of,
    in_entries,
    joined_entries,
    newest_numbers,
    oldest_numbers,
)
from pcli.spark.columnar.lifecycles.partial_renumbering import concat_partials
from pcli.spark.columnar.lifecycles.partial_tables import PARTIALS, Partials
from pcli.spark.columnar.lifecycles.settled_facts import has_later_gaps, settled_facts, subscriptions_by_topic
from pcli.spark.engine import Shared
from pcli.spark.stages.kept_small_tables import without_old_rows
from pcli.spark.stages.kept_states import ClosedPeriod, KeptLifecycles, Parts
from pcli.spark.stages.merge_exchanges import exchanges_of_halves, merge_acks
from pcli.spark.stages.merge_files import merge_files
from pcli.spark.stages.merge_lifecycles import (
    SMALL,
    BucketFiles,
    ClosedFiles,
    MergedFacts,
    derive_facts,
    merge_messages,
    small_tables,
)
from pcli.spark.stages.read_recording import ReadRecording, tables_of
from pcli.spark.stages.split_tables import Part, PartStorage, SplitParts, load
from pcli.spark.tables.data_files import DataFile, Staging

_PERIODS: Final = 4
"""Number of periods into which the rows are divided if all of them are merged."""


@dataclass(slots=True)
class MergedLifecycles:
    """The result of a recording."""

    made: list[DataFile]
    replaced: dict[str, list[DataFile]]
    """The files of earlier runs that ``made`` replaces, by table."""
    kept: KeptLifecycles
    late: int
    """Number of messages that have frames after the horizon."""


def merge_incrementally(
    reading: ReadRecording, kept: KeptLifecycles, names: set[str], horizon_ns: int
) -> MergedLifecycles:
    """Write `messages` and `exchanges` of a recording, if they are in ``names``.

    ``kept`` is the state of the last run. The last split of ``reading`` contains the rows from the end of the
    recording.
    """
    return _Run(reading, kept, horizon_ns).merge(names)


@dataclass(frozen=True, slots=True)
class _Source:
    """The rows to merge."""

    splits: list[SplitParts]
    """Partial rows of earlier runs, then the splits."""
    small: Partials
    """The small tables of the whole recording."""
    known: dict[str, pa.Table]
    """The small tables without the end of the recording, with a column ``split``."""
    first: int
    """Index of the first split."""
    periods: list[tuple[int, int]]
    """The number of splits and the newest time at the end of each period."""


class _Run:
    """One run."""

    def __init__(self, reading: ReadRecording, kept: KeptLifecycles, horizon_ns: int) -> None:
        self._staging, self._reading, self._storage = reading.staging, reading, PartStorage(reading.staging)
        self._kept, self._horizon_ns = kept, horizon_ns
        self._splits, self._end = reading.splits[:-1], reading.splits[-1]
        self._ends = np.cumsum([0, *(one.counted.frames for one in self._splits)])
        """The last frame before each split, and the last frame of the last split."""
        # The earliest packet of each split: a single wrong timestamp does not make all rows final.
        times = [one.counted.first_ns or 0 for one in self._splits]
        self._newest = [0, *np.maximum.accumulate(np.array(times, np.int64)).tolist()]
        """The time up to which the recording was read, before each split and after the last one."""
        self._limit_ns = self._newest[-1] - horizon_ns
        past = [*kept.past, *((one.splits, one.newest_ns) for one in kept.closed)]
        # Messages of the other periods were closed after this time, and have frames up to a horizon before it.
        final_ns = max((newest_ns for _, newest_ns in past if newest_ns < self._limit_ns), default=0)
        old = [splits for splits, newest_ns in past if newest_ns < final_ns - horizon_ns]
        self._forgotten = max(old, default=kept.forgotten)

    def merge(self, names: set[str]) -> MergedLifecycles:
        """Merge only new rows if no earlier row can have changed, otherwise all rows within the horizon."""
        if not names & {"messages", "exchanges", "permits"}:
            return MergedLifecycles([], {}, self._without_lifecycles(), 0)
        source = self._new_rows()
        merged_facts = self._facts(source)
        late = 0
        if self._kept.splits:
            touched, late = self._further_frames(source.splits)
            if touched or self._changed(merged_facts):
                source = self._all_rows()
                merged_facts = self._facts(source)
        merged = self._merged(names, source, merged_facts, late)
        self._merge_final_files(merged)
        return merged

    def _facts(self, source: _Source) -> MergedFacts:
        return derive_facts(self._reading, source.splits, source.small)

    # -- the rows to merge

    def _new_rows(self) -> _Source:
        """Return the rows of open messages and of new splits."""
        kept = self._kept
        first = kept.splits
        older = self._loaded(kept.small)
        known = self._with_small(older, first)
        open_rows = self._earlier_rows(kept.partials, older)
        splits = [open_rows, *self._splits[first:], self._end]
        periods = [(len(self._splits), self._newest[-1])]
        return _Source(splits, self._small(known), known, first, periods)

    def _all_rows(self) -> _Source:
        """Return all rows within the horizon."""
        kept = self._kept
        first = kept.removed
        older = {name: table.filter(pc.less(table["split"], first)) for name, table in self._loaded(kept.small).items()}
        known = self._with_small(older, first)
        earlier: Parts = defaultdict(list)
        for parts in (kept.partials, *(one.earlier for one in kept.closed)):
            for name, some in parts.items():
                for table in self._tables(some):
                    old = newest_numbers(name, table) <= self._ends[first]
                    earlier[name] += self._storage.keep(name, [table.filter(pa.array(old))])
        splits = [self._earlier_rows(earlier, older), *self._splits[first:], self._end]
        return _Source(splits, self._small(known), known, first, self._periods(first))

    def _earlier_rows(self, partials: Parts, older: dict[str, pa.Table]) -> SplitParts:
        """Return partial rows of earlier splits with their cumulative ACKs, which tasks read."""
        rows = dict(partials)
        if "cumulative" in older:
            table = older["cumulative"].drop_columns(["split"])
            rows["cumulative"] = self._storage.keep("cumulative", [table])
        return SplitParts(-1, -1, rows)

    def _periods(self, first: int) -> list[tuple[int, int]]:
        """Divide the splits from ``first`` on into periods."""
        times = [self._limit_ns + self._horizon_ns * number // _PERIODS for number in range(_PERIODS)]
        ends = {int(np.searchsorted(self._newest, one)) - 1 for one in times}
        places = sorted({one for one in ends if first < one < len(self._splits)} | {len(self._splits)})
        return [(one, self._newest[one]) for one in places]

    def _loaded(self, parts: Parts) -> dict[str, pa.Table]:
        return {name: pa.concat_tables(self._tables(some)) for name, some in parts.items() if some}

    def _tables(self, parts: Iterable[Part]) -> list[pa.Table]:
        return [load(self._staging, one) for one in parts]

    def _with_small(self, known: dict[str, pa.Table], first: int) -> dict[str, pa.Table]:
        """Return small tables with a column ``split``, and those of the splits from ``first`` on."""
        found = {name: [table] for name, table in known.items()}
        for number, split in enumerate(self._splits[first:], first):
            for name in sorted(split.tables.keys() & SMALL):
                for table in tables_of(self._staging, split, name):
                    numbers = pa.array(np.full(len(table), number, np.int64))
                    found.setdefault(name, []).append(table.append_column("split", numbers))
        return {name: pa.concat_tables(some) for name, some in found.items()}

    def _small(self, known: dict[str, pa.Table]) -> Partials:
        plain = {
            name: known[name].drop_columns(["split"]) if name in known.keys() - {"cumulative"} else schema.empty_table()
            for name, schema in PARTIALS.items()
        }
        return concat_partials([Partials(**plain), small_tables(self._staging, [self._end])])

    # -- changes of closed rows

    def _changed(self, merged_facts: MergedFacts) -> bool:
        """Return whether a fact that closed rows depend on has changed."""
        kept, facts = self._kept, merged_facts.facts
        if self._digest(merged_facts, kept.frames, kept.connections) != kept.facts:
            return True
        if has_later_gaps(facts, kept.subscriptions):
            return True
        for stream, producer, least, most, *_ in set(facts.resend_candidates) - kept.ranges:
            for one in kept.closed:
                low, high = one.sequences.get((stream, producer), (1, 0))
                if max(low, least) <= min(high, most):
                    return True
        return False

    def _digest(self, merged_facts: MergedFacts, frames: int, connections: int) -> str:
        return settled_facts(merged_facts.facts, self._reading.streams.values(), frames, connections)

    def _further_frames(self, splits: Sequence[SplitParts]) -> tuple[bool, int]:
        """Return whether new splits have frames of closed messages, and the number of messages older than the horizon.

        ``splits`` are the rows of earlier runs and the new splits.
        """
        kept = self._kept
        closed = joined_entries(self._tables(part for one in kept.closed for part in one.entries))
        final = self._final()
        if not len(closed) and not len(final):
            return False, 0
        known = self._reading.engine.share((closed, final))
        found = self._reading.engine.map("compare", partial(_known_ids, self._staging, known), splits[1:])
        late = joined_entries(ids for _, ids in found)
        return any(touched for touched, _ in found), _count(late)

    # -- the result

    def _merged(self, names: set[str], source: _Source, merged_facts: MergedFacts, late: int) -> MergedLifecycles:
        kept, frames, whole = self._kept, int(self._ends[-1]), source.first < self._kept.splits
        starts = [source.first, *(splits for splits, _ in source.periods[:-1])]
        rules = ClosingRules(
            frames, kept.frames, self._ends[starts], subscriptions_by_topic(merged_facts.facts), self._limit_ns,
            int(self._ends[self._forgotten]), kept.closed_sends(whole=whole), self._final(),
        )  # fmt: skip
        made: dict[str, list[DataFile]] = {"messages": [], "exchanges": []}
        closed = [_Closed(splits, newest_ns) for splits, newest_ns in source.periods]
        buckets: list[BucketFiles] = []
        acks: list[Part] = []
        final: list[DataFile] = []
        if "messages" in names:
            reading = replace(self._reading, splits=source.splits)
            buckets = merge_messages(reading, merged_facts, rules)
            made["messages"] = [one for some in buckets for one in some.files]
            for some in buckets:
                for period, part in zip(closed, some.closed):
                    period.add(part)
        if "exchanges" in names:
            made["exchanges"], final, acks = self._exchanges(source, merged_facts, rules, closed)
        replaced = {name: list(kept.files.get(name, ())) for name in made if name in names}
        if whole:
            for old in kept.closed:
                for name in replaced:
                    replaced[name] += old.files.get(name, ())
        new = [one.kept(self._storage) for one in closed]
        files = [*final, *(one for some in made.values() for one in some)]
        files += [one for period in new for some in period.files.values() for one in some]
        state = self._state(source, merged_facts, buckets, acks, made, new, rules)
        state.final_files["exchanges"] += final
        return MergedLifecycles(files, replaced, state, late)

    def _merge_final_files(self, merged: MergedLifecycles) -> None:
        """Merge the files with final rows if there are many. The files of this run are merged by a later run."""
        for name in sorted(merged.replaced.keys() & self._kept.final_files.keys()):
            files = self._kept.final_files[name]
            found = merge_files(self._reading, files)
            merged.made += found.made
            merged.replaced[name] += found.replaced
            merged.kept.final_files[name] = [*found.files, *merged.kept.final_files[name][len(files) :]]

    def _final(self) -> pa.Table:
        return joined_entries(self._tables(self._kept.final))

    def _exchanges(
        self, source: _Source, merged_facts: MergedFacts, rules: ClosingRules, closed: list[_Closed]
    ) -> tuple[list[DataFile], list[DataFile], list[Part]]:
        """Write `exchanges`, and add the files with closed rows to ``closed``.

        Return the files with open rows, the files with requests without a response whose frames are no longer kept, and
        the rows of ``ack_halves`` of open requests.
        """
        reading = replace(self._reading, splits=source.splits[1:])
        *of_splits, open_files = merge_acks(reading, merged_facts.facts)
        ends = [one.splits for one in closed]
        for number, files in enumerate(of_splits, source.first):
            closed[int(np.searchsorted(ends, number, side="right"))].exchanges += files
        tables = [table for split in source.splits for table in tables_of(self._staging, split, "ack_halves")]
        halves = pa.concat_tables([PARTIALS["ack_halves"].empty_table(), *tables])
        rows, halves = exchanges_of_halves(reading, merged_facts, halves)
        answered = pc.fill_null(rows["answered_frame"], -1).to_numpy()
        done = (answered >= 0) & (answered <= rules.frames)
        period = np.searchsorted(rules.starts, answered) - 1
        asked, unanswered = rows["asked_frame"].to_numpy(), answered < 0
        old = unanswered & (asked <= self._ends[self._forgotten])
        new = old & (asked > self._ends[self._kept.forgotten])
        frames = newest_numbers("ack_halves", halves)
        for at, one in enumerate(closed):
            mine = done & (period == at)
            one.exchanges += self._written(rows.filter(pa.array(mine)))
            earlier = np.isin(frames, asked[mine]) & (frames <= rules.starts[at])
            one.add_earlier({"ack_halves": self._storage.keep("ack_halves", [halves.filter(pa.array(earlier))])})
        left = ~np.isin(frames, np.concatenate([asked[done], answered[done]]))
        left &= (frames <= rules.frames) & (frames > self._ends[self._forgotten])
        open_files += self._written(rows.filter(pa.array(~done & ~old)))
        kept = self._storage.keep("ack_halves", [halves.filter(pa.array(left))])
        return open_files, self._written(rows.filter(pa.array(new))), kept

    def _written(self, rows: pa.Table) -> list[DataFile]:
        return self._reading.writer("exchanges").rows(0, rows)

    def _state(
        self,
        source: _Source,
        merged_facts: MergedFacts,
        buckets: Sequence[BucketFiles],
        acks: list[Part],
        made: dict[str, list[DataFile]],
        new: list[ClosedPeriod],
        rules: ClosingRules,
    ) -> KeptLifecycles:
        """Return the state for the next run."""
        kept, facts = self._kept, merged_facts.facts
        whole = source.first < kept.splits
        closed = [*([] if whole else kept.closed), *new]
        subscriptions = {} if whole else kept.subscriptions
        partials: Parts = defaultdict(list, {"ack_halves": acks})
        for one in buckets:
            for name, some in one.partials.items():
                partials[name] += some
        connections = len(self._reading.streams)
        state = KeptLifecycles(
            len(self._reading.recording.parts), len(self._splits), kept.removed, rules.frames, connections,
            self._digest(merged_facts, rules.frames, connections), dict(rules.subscriptions) | subscriptions,
            {}, dict(partials), frozenset(facts.resend_candidates),
            kept.sends,
            made, closed, kept.final, kept.final_files, kept.past, kept.forgotten,
        )  # fmt: skip
        state = self._without_old_periods(state)
        first_halves = int(np.searchsorted(self._ends, self._first_frame(state, "halves"))) - 1
        first_open = self._first_frame(state, "published", "consumed", "halves")
        small = without_old_rows(source.known, state.forgotten, first_open, first_halves)
        return replace(state, small={name: self._storage.keep(name, [table]) for name, table in small.items()})

    # -- the horizon

    def _without_lifecycles(self) -> KeptLifecycles:
        """Return the state if only the tables of observed frames are requested."""
        removed = int(np.searchsorted(self._newest, self._limit_ns)) - 1
        return replace(
            self._kept, parts=len(self._reading.recording.parts), splits=len(self._splits),
            removed=max(self._kept.removed, min(removed, len(self._splits) - 1)),
        )  # fmt: skip

    def _without_old_periods(self, state: KeptLifecycles) -> KeptLifecycles:
        """Return the state without the periods that are older than the horizon."""
        old = [one for one in state.closed if one.newest_ns < self._limit_ns]
        past = [*state.past, *((one.splits, one.newest_ns) for one in old)]
        files = {
            name: [*state.final_files.get(name, ()), *(file for one in old for file in one.files.get(name, ()))]
            for name in ("messages", "exchanges")
        }
        sends = state.sends.union(*(one.sends for one in old))
        final = joined_entries(self._tables([*state.final, *(part for one in old for part in one.entries)]))
        return replace(
            state,
            removed=max((one.splits for one in old), default=state.removed),
            closed=[one for one in state.closed if one.newest_ns >= self._limit_ns],
            final=self._storage.keep("entries", [final]) if old else state.final,
            final_files=files,
            past=[one for one in past if one[0] > self._forgotten],
            forgotten=self._forgotten,
            sends=frozenset(one for one in sends if one > self._ends[self._forgotten]),
        )

    def _first_frame(self, state: KeptLifecycles, *names: str) -> int:
        """Return the first frame of these partial rows of open messages; the last frame if there are none."""
        found = [int(self._ends[-1])]
        for name in names:
            tables = self._tables(state.partials.get(name, ()))
            found += [int(oldest_numbers(name, table).min()) for table in tables if len(table)]
        return min(found)


@dataclass(slots=True)
class _Closed:
    """The closed rows of a period."""

    splits: int
    newest_ns: int
    messages: list[DataFile] = field(default_factory=list)
    exchanges: list[DataFile] = field(default_factory=list)
    entries: list[pa.Table] = field(default_factory=list)
    earlier: Parts = field(default_factory=dict)
    sends: set[int] = field(default_factory=set)
    sequences: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def add(self, one: ClosedFiles) -> None:
        """Add the messages of a bucket."""
        self.messages += one.files
        self.entries.append(one.entries)
        self.add_earlier(one.earlier)
        self.sends.update(one.sends)
        for key, (least, most) in one.sequences.items():
            low, high = self.sequences.get(key, (least, most))
            self.sequences[key] = min(low, least), max(high, most)

    def add_earlier(self, rows: Parts) -> None:
        """Add partial rows that are older than the period."""
        for name, some in rows.items():
            self.earlier.setdefault(name, []).extend(some)

    def kept(self, storage: PartStorage) -> ClosedPeriod:
        """Return the period for the state."""
        entries = storage.keep("entries", [joined_entries(self.entries)])
        files = {"messages": self.messages, "exchanges": self.exchanges}
        sends = frozenset(self.sends)
        return ClosedPeriod(self.splits, self.newest_ns, entries, self.earlier, self.sequences, files, sends)


def _known_ids(staging: Staging, known: Shared[tuple[pa.Table, pa.Table]], split: SplitParts) -> tuple[bool, pa.Table]:
    """Return whether a split has rows of closed messages, and the ids of its messages beyond the horizon."""
    closed, final = known.value
    touched, late = False, []
    for name in ("published", "halves", "consumed"):
        for table in tables_of(staging, split, name):
            touched |= bool(in_entries(closed, table).any())
            rows = table.filter(pa.array(in_entries(final, table)))
            late.append(ids_of(rows))
    return touched, joined_entries(late)


def _count(entries: pa.Table) -> int:
    return int(pc.sum(pc.subtract(entries["last"], entries["first"])).as_py() or 0) + len(entries)
