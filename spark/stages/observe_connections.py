"""Observation of groups of connections by the Observer, the Tracker and the rules, with one task for each group.

Rules of this file
1. Connections that share a topic, a transaction or a proxied conversation form a group. A group is observed completely,
   in the order of the recording, and its results do not depend on other groups in the same task.
2. If large groups would keep some tasks busy while others are idle, they are divided: their connections are observed
   first, then their topics (observe_topics). A division adds a fifth of the work (group_division.py).
3. The results of a group are small and are sent to the driver, which writes each table of a recording as one file.
4. A group of an incremental run continues the only kept group that contains any of its connections. If there are
   several, because a new connection ties them, or if a connection is now known to be different (its client, its
   protocol, or whether its server is a Pulsar server), the group is observed again from its first frame: the states of
   two Trackers cannot be merged, and the Tracker does not keep the records of all ended connections.
5. A kept group never loses connections, and small new groups are added to a small kept group. The number of kept groups
   therefore does not grow with the number of runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.capture.frames import Stream
from pcli.codec.observe.diagnosis import Diagnosis, RuleChoice
from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.observation.capture_event_rows import RecordingEvent, note_and_end_rows, stream_rows
from pcli.spark.columnar.observation.connection_groups import PACKED_FRAMES, Sets, groups_of, packed
from pcli.spark.columnar.observation.finding_table import with_places
from pcli.spark.columnar.observation.group_division import Division, divide, divided_time, groups_to_divide
from pcli.spark.columnar.observation.observation_schemas import INNER
from pcli.spark.columnar.observation.observation_schemas import TABLES as OBSERVED
from pcli.spark.columnar.observation.observe_group import conclude, diagnosis_of, new_group, observe, observe_links
from pcli.spark.columnar.observation.recording_context import Recording, recording_of
from pcli.spark.engine import Block, Shared
from pcli.spark.stages.evidence_packets import places_of_evidence
from pcli.spark.stages.kept_states import NO_FILE, KeptGroup, ObservationState, StateFile
from pcli.spark.stages.kept_values import keep_value, load_kept
from pcli.spark.stages.observe_topics import blocks, observe_topic_parts
from pcli.spark.stages.read_recording import ReadRecording, tables_of
from pcli.spark.stages.split_tables import SplitParts, size_of
from pcli.spark.tables.data_files import DataFile, Staging

_PART: int = 1_000_000
"""Maximum number of frames in a part of topics that can be divided further."""

_PARTS: Final = 4
"""Number of parts of topics for each simultaneous task, so that the parts keep the tasks equally busy."""

_NEW, _OLD, _END = "new", "old", "end"
"""Kinds of items: rows that the kept states do not contain, rows that they contain, and rows that are valid only if no
file follows."""

_Tables = dict[str, Any]
"""The tables of a group as batches, by name, or its partial diagnosis."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts that all tasks need."""

    cluster: str
    recording: Recording
    buckets: Longs
    """The bucket of each connection's group."""
    divided: frozenset[int]
    """Buckets of connections whose topics are observed separately."""
    keeps: bool
    """Whether the states of the groups are kept for the next run."""
    continued: dict[int, KeptGroup]
    """The kept groups that are continued, by bucket."""


@dataclass(frozen=True, slots=True)
class _Item:
    """The input of one task: the rows of a split, and rows of connections, notes and ends."""

    split: SplitParts | None
    """The split, or None if the item has only ``rows``."""
    rank: int
    rows: pa.Table
    kind: str = _NEW


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of one task."""

    tables: _Tables
    bucket: int
    file: StateFile = NO_FILE
    """The file with the state of the group; empty if it is not kept."""


def observe_recording(reading: ReadRecording, names: Iterable[str], *, cut: bool = False) -> list[DataFile]:
    """Write the named tables of a recording.

    ``cut`` is whether only the packets of a time range were read.
    """
    required = [name for name in OBSERVED if name in set(names)]
    if not required:
        return []
    tables = _observed(reading)
    if "findings" in required:
        findings = tables["findings"]
        known = {} if reading.kept is None else reading.kept.evidence
        places = places_of_evidence(reading, findings, known, cut=cut)
        if reading.kept is not None:
            reading.kept.evidence = places
        tables["findings"] = _table(with_places(findings, places, reading.recording.cluster))
    return [made for name in required for made in reading.writer(name).rows(0, tables[name])]


def diagnose_recording(reading: ReadRecording, rules: RuleChoice) -> Diagnosis:
    """Return the diagnosis of a recording. It is that of one process, except that memory limits apply to each group."""
    return diagnosis_of(*_of_groups(reading, rules))


def _observed(reading: ReadRecording) -> dict[str, pa.Table]:
    """Return the tables of one recording by name."""
    return _joined(*_of_groups(reading), reading.recording.cluster)


def _of_groups(reading: ReadRecording, rules: RuleChoice | None = None) -> tuple[list[_Tables], Recording]:
    """Return the results of all groups of a recording, with its facts. The results are tables if there are no rules."""
    engine, staging = reading.engine, reading.staging
    frames: Counter[int] = Counter()
    for split in reading.splits:
        frames.update(split.frames)
    recording_events, cluster = _recording_events(reading.splits), reading.recording.cluster
    recording = recording_of(
        (one for some in recording_events for one in some), reading.streams, frames, reading.first_ns, reading.last_ns
    )
    recording = replace(recording, rules=rules)
    groups, division, continued = _groups(reading, frames, recording)
    buckets, size = _buckets(groups)
    divided = frozenset(buckets[list(division.links)].tolist())
    by_bucket = {int(buckets[group]): one for group, one in continued.items()}
    facts = engine.share(_Facts(cluster, recording, buckets, divided, reading.kept is not None, by_bucket))
    items = _items(reading, recording_events, groups, len(continued))
    sizes = [1 if item.split is None else size_of([item.split], "heads") for item in items]
    cut, join = partial(_cut, staging, facts), partial(_join, staging, facts)
    results = engine.exchange("observe", cut, items, size, join, sizes=sizes)
    if reading.kept is not None:
        state = _kept(reading, recording_events, frames, recording, buckets, results)
        reading.kept.observations = reading.kept.observations.followed_by(state, [])
    given = [one.tables for one in results]
    if division.links:
        events = [one.pop("link_events") for one in given if "link_events" in one]
        given += observe_topic_parts(reading, recording, division, events)
    return given, recording


def _items(
    reading: ReadRecording, recording_events: Sequence[list[RecordingEvent]], groups: Mapping[int, int], continued: int
) -> list[_Item]:
    """Return the rows of connections, and the splits with rows that are not in the state of their group.

    ``continued`` is the number of groups that continue a kept group.
    """
    kept = _last_state(reading)
    items = [
        _Item(split, rank, _table(note_and_end_rows(some)), _OLD if split.part < kept.parts else _NEW)
        for rank, (split, some) in enumerate(zip(reading.splits, recording_events), 1)
    ]
    if reading.kept is not None:
        items[-1] = replace(items[-1], kind=_END)
    # Connections that are in no kept group have no rows in old splits.
    given = [item for item in items if item.kind != _OLD] if continued == len(kept.groups) else items
    used = {number for item in given if item.split is not None for number in item.split.frames}
    used |= {int(number) for item in given for number in item.rows["stream"].to_pylist()}
    if reading.kept is not None:
        used |= set(groups.values())  # every group needs a row
    return [_Item(None, 0, _table(stream_rows(reading.streams[number] for number in sorted(used)))), *given]


def _kept(
    reading: ReadRecording,
    recording_events: Sequence[list[RecordingEvent]],
    frames: Mapping[int, int],
    recording: Recording,
    buckets: Longs,
    results: Sequence[_Result],
) -> ObservationState:
    """Return the states of all groups."""
    used = {one.item.stream.number for some in recording_events for one in some if one.item.stream is not None}
    files = {one.bucket: one.file for one in results}
    streams: dict[int, dict[int, tuple[Any, ...]]] = {}
    for number, values in kept_streams(reading.streams, used | frames.keys(), recording.servers).items():
        streams.setdefault(int(buckets[number]), {})[number] = values
    kept = [KeptGroup(some, files[bucket]) for bucket, some in sorted(streams.items())]
    return ObservationState(len(reading.recording.parts), groups=kept)


def _last_state(reading: ReadRecording) -> ObservationState:
    """Return the state after the last run."""
    states = [] if reading.kept is None else reading.kept.observations.states
    return states[-1] if states else ObservationState()


def _recording_events(splits: Iterable[SplitParts]) -> list[list[RecordingEvent]]:
    """Return the notes and ends of each split, numbered consecutively across all splits."""
    order = count(1)
    return [
        [RecordingEvent(one.after, one.last_ns, next(order), one.item) for one in split.placed_events]
        for split in splits
    ]


def _groups(
    reading: ReadRecording, frames: Mapping[int, int], recording: Recording
) -> tuple[dict[int, int], Division, dict[int, KeptGroup]]:
    """Return the group of each connection (or its part if the group is divided), the division, and the kept groups.

    In an incremental run, no group is divided, because the observation of the parts of a group cannot be continued.
    """
    tables = (table for split in reading.splits for table in tables_of(reading.staging, split, "ties"))
    ties = [batch for table in tables for batch in table.to_batches()]
    if reading.kept is not None:
        found = groups_of(ties, reading.streams)
        groups, continued = continued_groups(
            found, _last_state(reading).groups, reading.streams, frames, recording.servers
        )
        return groups, Division(), continued
    groups = groups_of(ties, reading.streams, frames)
    sizes: Counter[int] = Counter()
    for stream, group in groups.items():
        sizes[group] += frames.get(stream, 0)
    tasks = reading.engine.parallel
    large = groups_to_divide(sizes, tasks) if tasks > 1 else set()
    streams = {number: stream for number, stream in reading.streams.items() if groups[number] in large}
    if not streams:
        return groups, Division(), {}
    table = pa.Table.from_batches(ties)
    ours = table.filter(pc.is_in(table["stream"], pa.array(list(streams), pa.int64())))
    part = min(_PART, sum(sizes[group] for group in large) // (_PARTS * tasks) + 1)
    division = divide(ours.to_batches(), streams, frames, part)
    if divided_time(sizes, large, tasks, division.heaviest) >= divided_time(sizes, set(), tasks):
        return groups, Division(), {}
    return groups | packed(division.links, frames), division, {}


def _buckets(groups: Mapping[int, int]) -> tuple[Longs, int]:
    """Return the bucket of each connection, and the number of buckets."""
    names = {group: bucket for bucket, group in enumerate(sorted(set(groups.values())))}
    buckets = np.zeros(max(groups, default=-1) + 1, np.int64)
    for stream, group in groups.items():
        buckets[stream] = names[group]
    return buckets, len(names)


def _cut(staging: Staging, facts: Shared[_Facts], item: _Item) -> Iterator[Block]:
    """Yield a split's rows as blocks by group, in order."""
    tables = [] if item.split is None else tables_of(staging, item.split, "heads")
    rows = pa.concat_tables([*tables, item.rows])
    buckets = facts.value.buckets[rows["stream"].to_numpy()]
    order = np.lexsort((rows["order"].to_numpy(), rows["place"].to_numpy(), buckets))
    if item.kind == _OLD:
        order = order[~np.isin(buckets[order], list(facts.value.continued))]
    buckets, rows = buckets[order], rows.take(pa.array(order))
    yield from blocks(rows, buckets, item.rank, item.kind)


def _join(staging: Staging, facts: Shared[_Facts], bucket: int, rows: Iterator[tuple[str, pa.RecordBatch]]) -> _Result:
    """Return the tables of one group."""
    known = facts.value
    if known.keeps:
        return _observe_further(staging, known, bucket, rows)
    observe_part = observe_links if bucket in known.divided else observe
    return _Result(observe_part((batch for _, batch in rows), known.recording, cluster=known.cluster), bucket)


def _observe_further(
    staging: Staging, known: _Facts, bucket: int, rows: Iterator[tuple[str, pa.RecordBatch]]
) -> _Result:
    """Return the tables of one group, and keep its state before the rows at the end of the recording."""
    kept = known.continued.get(bucket)
    if kept is None:
        group = new_group(known.recording)
    else:
        group = load_kept(staging.store, kept.file)
        group.resume(known.recording)
    files: list[StateFile] = []

    def batches() -> Iterator[pa.RecordBatch]:
        """Yield the rows. When a batch is requested, the group has processed all earlier rows."""
        for kind, batch in rows:
            if kind == _END and not files:
                files.append(keep_value(staging, "observation", group))
            yield batch
        if not files:
            files.append(keep_value(staging, "observation", group))

    group.process_all(batches())
    return _Result(group.tables(known.cluster), bucket, files[0])


def _joined(given: Sequence[_Tables], recording: Recording, cluster: str) -> dict[str, pa.Table]:
    """Combine the tables of all groups into the tables of the recording."""
    found = {name: [one[name] for one in given] for name in (*OBSERVED, *INNER)}
    events, parts = found.pop("host_events"), found.pop("capture_parts")
    findings = conclude(found.pop("findings"), events, parts, recording, cluster=cluster)
    tables = {name: pa.Table.from_batches(some, OBSERVED[name]) for name, some in found.items()}
    return tables | {"findings": _table(findings)}


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


# -- kept groups ------------------------------------------------------------------------------------------------------


def kept_streams(
    streams: Mapping[int, Stream], used: Container[int], servers: Container[tuple[str, int]]
) -> dict[int, tuple[Any, ...]]:
    """Return connections in the form of `KeptGroup.streams`.

    ``used`` contains those with frames, notes or an end. ``servers`` contains the addresses of the Pulsar servers.
    """
    return {number: _values(one, servers) if number in used else () for number, one in streams.items()}


def _values(one: Stream, servers: Container[tuple[str, int]]) -> tuple[Any, ...]:
    return one.client, one.server, one.kind, one.midstream, one.opening, tuple(one.bases), one.server in servers


def continued_groups(
    found: Mapping[int, int],
    kept: Sequence[KeptGroup],
    streams: Mapping[int, Stream],
    frames: Mapping[int, int],
    servers: Container[tuple[str, int]],
) -> tuple[dict[int, int], dict[int, KeptGroup]]:
    """Return the group of each connection, and the kept groups to continue, by group.

    ``found`` is the group of each connection according to `groups_of`, without combined groups. A group is identified
    by its lowest connection number. ``frames`` contains the number of frames of each connection, and ``servers`` the
    addresses of the Pulsar servers.
    """
    sets = Sets()
    for stream, group in found.items():
        sets.join(("group", group), stream)
    for place, one in enumerate(kept):
        for stream in one.streams:
            sets.join(("kept", place), stream)
    least: dict[Any, int] = {}
    for stream in sorted(found):
        least.setdefault(sets.top(stream), stream)
    groups = {stream: least[sets.top(stream)] for stream in found}
    parts: dict[int, list[KeptGroup]] = {}
    for one in kept:
        parts.setdefault(groups[next(iter(one.streams))], []).append(one)
    continued = {
        group: some[0] for group, some in parts.items() if len(some) == 1 and _is_same(some[0], streams, servers)
    }
    fresh = packed({stream: group for stream, group in groups.items() if group not in parts}, frames)
    return _with_fresh(groups | fresh, set(fresh.values()), continued, frames), continued


def _is_same(kept: KeptGroup, streams: Mapping[int, Stream], servers: Container[tuple[str, int]]) -> bool:
    return all(not values or _values(streams[number], servers) == values for number, values in kept.streams.items())


def _with_fresh(
    groups: dict[int, int], fresh: set[int], continued: Mapping[int, KeptGroup], frames: Mapping[int, int]
) -> dict[int, int]:
    """Add new groups to the smallest continued group, up to PACKED_FRAMES."""
    sizes: dict[int, int] = {}
    for stream, group in groups.items():
        sizes[group] = sizes.get(group, 0) + frames.get(stream, 0)
    into = min(continued, key=lambda group: sizes[group], default=-1)
    added = set()
    for group in sorted(fresh) if into >= 0 else ():
        if sizes[into] + sizes[group] <= PACKED_FRAMES:
            sizes[into] += sizes[group]
            added.add(group)
    return {stream: into if group in added else group for stream, group in groups.items()}
