"""Recordings as rows, shuffled by groups of connections, and the results of the object path."""

from __future__ import annotations

import gzip
import io
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pcli.codec.capture import CapturedFrame, Note, ReadOptions, Stream, StreamEnd, read_capture
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.rules import Finding
from pcli.codec.observe.statistics import Connections
from pcli.codec.observe.tracking.statistics.broker_statistics import figures
from pcli.codec.observe.tracking.statistics.message_balance import balances
from pcli.codec.observe.tracking.tracker import process_events
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.from_captured_frames import places_of
from pcli.spark.columnar.observation.capture_event_rows import RecordingEvent, note_and_end_rows, stream_rows
from pcli.spark.columnar.observation.connection_groups import groups_of
from pcli.spark.columnar.observation.connection_ties import ties_of
from pcli.spark.columnar.observation.finding_table import findings_of
from pcli.spark.columnar.observation.frame_header_rows import to_heads
from pcli.spark.columnar.observation.group_division import Division, divide
from pcli.spark.columnar.observation.observe_group import conclude, observe, observe_links, observe_topics
from pcli.spark.columnar.observation.partial_trackers import sorted_events
from pcli.spark.columnar.observation.recording_context import recording_of
from pcli.spark.columnar.observation.topic_routing import topic_rows

Items = list[CapturedFrame | Note | StreamEnd]


@lru_cache(None)
def _load(path: Path) -> Items:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return list(read_capture([(path.name, io.BytesIO(data))], ReadOptions(ends=True)))


def asides_of(items: Items) -> list[RecordingEvent]:
    """The notes and ends of a recording."""
    found: list[RecordingEvent] = []
    after = last_ns = 0
    for item in items:
        if isinstance(item, CapturedFrame):
            after, last_ns = item.number, item.time_ns
        else:
            found.append(RecordingEvent(after, last_ns, len(found) + 1, item))
    return found


class Rows:
    """A recording as rows."""

    def __init__(self, items: Items) -> None:
        frames = [one for one in items if isinstance(one, CapturedFrame)]
        asides = asides_of(items)
        self.frames = read_fields(places_of(frames))
        self.numbers = np.array([one.number for one in frames], np.int64)
        self.streams = {one.stream.number: one.stream for one in items if one.stream is not None}
        self.counts = Counter(one.stream.number for one in frames)
        times = (frames[0].time_ns, frames[-1].time_ns) if frames else (0, 0)
        self.recording = recording_of(asides, self.streams, self.counts, *times)
        self.ties = ties_of(self.frames, self.numbers)
        parts = [note_and_end_rows(asides), to_heads(self.frames, self.numbers), stream_rows(self.streams.values())]
        self.heads = pa.concat_batches(parts)
        self._done: dict[str, tuple[dict[str, list[pa.RecordBatch]], pa.RecordBatch]] = {}

    def groups(self, *, packed: bool = False) -> dict[int, int]:
        return groups_of([self.ties], self.streams, self.counts if packed else None)

    def observed(self, groups: dict[int, int]) -> tuple[dict[str, list[pa.RecordBatch]], pa.RecordBatch]:
        """Return the tables of all groups, observed separately, and the findings of the recording."""
        key = str(groups)
        if key not in self._done:
            self._done[key] = self._observed(groups)
        return self._done[key]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table, over all groups."""
        return [row for batch in self.observed(self.groups())[0][name] for row in batch.to_pylist()]

    def _observed(self, groups: dict[int, int]) -> tuple[dict[str, list[pa.RecordBatch]], pa.RecordBatch]:
        number = pa.array([groups[one] for one in self.heads.column("stream").to_pylist()], pa.int64())
        found: dict[str, list[pa.RecordBatch]] = {}
        for group in sorted(set(groups.values())):
            chosen = self.heads.filter(pa.compute.equal(number, group))
            ordered = chosen.sort_by([("place", "ascending"), ("order", "ascending")])
            halves = [ordered.slice(0, ordered.num_rows // 2), ordered.slice(ordered.num_rows // 2)]
            self._add(found, observe(halves, self.recording, cluster="c"))
        return found, self._concluded(found)

    def divided(self, size: int = 1) -> tuple[Division, dict[str, list[pa.RecordBatch]], pa.RecordBatch]:
        """Return the same for one divided group; ``size``: number of frames in a part."""
        division = divide([self.ties], self.streams, self.counts, size)
        heads = pa.Table.from_batches([self.heads]).sort_by([("place", "ascending"), ("order", "ascending")])
        links = np.array([division.links[one] for one in heads["stream"].to_pylist()], np.int64)
        found: dict[str, list[pa.RecordBatch]] = {}
        for link in sorted(set(division.links.values())):
            self._add(found, observe_links(_rows(heads, links == link), self.recording, cluster="c"))
        events = sorted_events(found.pop("link_events", []))
        rows, parts = topic_rows(heads, division)
        for part in range(division.size):
            chosen = _rows(rows, parts == part)
            known = [one for one in events.to_pylist() if part in division.receivers[one["stream"]]]
            self._add(found, observe_topics(chosen, self.recording, division, part, known, cluster="c"))
        return division, found, self._concluded(found)

    def _add(self, found: dict[str, list[pa.RecordBatch]], tables: dict[str, pa.RecordBatch]) -> None:
        for name, table in tables.items():
            found.setdefault(name, []).append(table)

    def _concluded(self, found: dict[str, list[pa.RecordBatch]]) -> pa.RecordBatch:
        inputs = [found.get(name, []) for name in ("findings", "host_events", "capture_parts")]
        return conclude(*inputs, self.recording, cluster="c")


def _rows(table: pa.Table, chosen: Any) -> list[pa.RecordBatch]:
    return table.filter(pa.array(chosen)).combine_chunks().to_batches()


def receivers(finding: Finding) -> tuple[Any, ...]:
    """Return all values of a finding, with those of its subject as texts."""
    subject = tuple(sorted((name, str(value)) for name, value in finding.subject.items()))
    found = [getattr(finding, name) for name in finding.__slots__ if name not in ("subject", "frames", "cause")]
    cause = finding.cause._replace(certainty=finding.cause_certainty)
    return (subject, tuple(finding.frames), *found, cause)


class Objects:
    """The results of the object path for a recording."""

    def __init__(self, items: Items) -> None:
        self.diagnosis = Diagnosis()
        self._connections = Connections()
        process_events(items, self)
        self.findings = sorted(map(receivers, self.diagnosis.findings()))
        self.connections = self._connections.rows()
        records = self.diagnosis.subscriptions.records()
        self.consumers = [record for group, record in records if group == "consumer" and record.session is not None]

    def see(self, facts: Facts) -> None:
        self._connections.add(facts)
        self.diagnosis.see(facts)

    def note(self, note: Note) -> None:
        self.diagnosis.note(note)

    def ended(self, end: StreamEnd) -> None:
        self.diagnosis.ended(end)

    def finish(self) -> None:
        # As in `pcli stats consumers`, before the tracker releases its lifecycles.
        tracker, now = self.diagnosis.subscriptions, self.diagnosis.capture.last_ns
        self.figures = figures(tracker, now, system=True)
        self.balances = balances(tracker, now, system=True)
        self.diagnosis.finish()


def joined(recordings: Sequence[Items], seed: int, *, apart: bool) -> Items:
    """Combine recordings as if they were concurrent; ``apart``: on different hosts."""
    rng = random.Random(seed)
    streams: dict[tuple[int, int], Stream] = {}
    rows = []
    for which, items in enumerate(recordings):
        begin = min(one.time_ns for one in items if not isinstance(one, Note))
        now = shift = rng.randrange(3_000_000_000)
        for place, one in enumerate(items):
            if isinstance(one, CapturedFrame):
                now = max(now, one.time_ns - begin + shift)
            rows.append((now, which, place, one, shift - begin))
    rows.sort(key=lambda row: row[:3])
    found: Items = []
    count = 0
    for _, which, _, one, delta in rows:
        stream = _moved(streams, which, one.stream, apart=apart)
        if isinstance(one, CapturedFrame):
            count += 1
            place = (count, one.packet, one.time_ns + delta + 10**18, stream, one.from_client, one.offset, one.sync)
            found.append(CapturedFrame(one.data, one.type, *place, one.capture_problems))
        elif isinstance(one, StreamEnd):
            found.append(replace(one, stream=stream, time_ns=one.time_ns + delta + 10**18))
        else:
            found.append(replace(one, stream=stream))
    return found


def _moved(streams: dict[tuple[int, int], Stream], which: int, old: Stream | None, *, apart: bool) -> Any:
    if old is None:
        return None
    if (which, old.number) not in streams:
        suffix = f"-{which}" if apart else ""
        ends = [(f"{host}{suffix}", port) for host, port in (old.client, old.server)]
        new = Stream(len(streams), ends[0], ends[1], midstream=old.midstream)
        new.kind, new.opening = old.kind, old.opening
        streams[which, old.number] = new
    return streams[which, old.number]


@pytest.fixture(scope="session")
def recordings(captures: Path, captures_5: Path, small_captures: Path) -> Callable[[], Iterator[tuple[str, Items]]]:
    """All captures of the corpus that have frames, with their names."""

    def every() -> Iterator[tuple[str, Items]]:
        for folder in (captures, captures_5, small_captures):
            for path in sorted(folder.rglob("*")):
                if path.suffix in (".pcap", ".pcapng", ".gz"):
                    items = _load(path)
                    if any(isinstance(one, CapturedFrame) for one in items):
                        yield f"{path.parent.name}/{path.name}", items

    return every


@pytest.fixture(scope="session")
def rows_of_items() -> Callable[[Items], Rows]:
    """Return the rows of a recording, computed once."""
    made: dict[int, tuple[Items, Rows]] = {}  # stored with the items, so that their id() is not used again

    def of(items: Items) -> Rows:
        if id(items) not in made:
            made[id(items)] = items, Rows(items)
        return made[id(items)][1]

    return of


@pytest.fixture(scope="session")
def objects_of() -> Callable[[Items], Objects]:
    """Return the results of the object path for a recording, computed once."""
    made: dict[int, tuple[Items, Objects]] = {}

    def of(items: Items) -> Objects:
        if id(items) not in made:
            made[id(items)] = items, Objects(items)
        return made[id(items)][1]

    return of


@pytest.fixture(scope="session")
def findings_in() -> Callable[[pa.RecordBatch], list[tuple[Any, ...]]]:
    """Return the findings in a table, as those of Objects."""
    return lambda table: sorted(receivers(one.finding) for one in findings_of(table))


@pytest.fixture(scope="session")
def join() -> Callable[..., Items]:
    """Creates one recording from several."""
    return joined
