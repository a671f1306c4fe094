"""The observation of one group of connections, frame by frame, with the objects of pcli.codec.observe.

Rules of this file
1. The Observer, Tracker and rules of pcli.codec process the group's frames, notes and ends in the order of the
   recording. They also receive facts about the other groups: the time of the last frame before a note, whether packets
   were truncated earlier, and which servers use Pulsar.
2. Rules about hosts and about the capture are not checked for a group: `conclude` checks them once, after all groups.
3. The limits of Tracker and Observer apply to each group, so a group may keep records that a single Tracker would drop.
4. A `Group` can be pickled between two rows and continued later (spark/stages/observe_connections.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from pcli.codec.capture.frames import Note
from pcli.codec.observe.diagnosis import ALL_RULES, Diagnosis
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.rules import RULES, Finding, Moment
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord, ConnectionRecord
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.spark.columnar.observation.capture_event_rows import RecordingEvent
from pcli.spark.columnar.observation.client_tables import (
    CONNECTION_CELLS,
    CONSUMER_CELLS,
    PRODUCER_CELLS,
    FinalConnection,
    FinalConsumer,
    FinalProducer,
)
from pcli.spark.columnar.observation.finding_table import FINDING_CELLS, FindingRow, merge_findings
from pcli.spark.columnar.observation.frames_from_rows import HeadFrame, from_heads, open_kept
from pcli.spark.columnar.observation.group_division import Division
from pcli.spark.columnar.observation.host_history import HostLog, play
from pcli.spark.columnar.observation.partial_trackers import LAST, BrokerFrameTime, LinkTracker, TopicTracker
from pcli.spark.columnar.observation.record_columns import rows_of
from pcli.spark.columnar.observation.recording_context import Recording, capture_part, whole
from pcli.spark.columnar.observation.scalable_tables import (
    ASSIGNMENT_CELLS,
    LAYOUT_CELLS,
    SEGMENT_CELLS,
    assignments_of,
    layouts_of,
    segments_of,
)
from pcli.spark.columnar.observation.topic_tables import (
    BALANCE_CELLS,
    KEY_CELLS,
    SUBSCRIPTION_CELLS,
    TOPIC_CELLS,
    balances_of,
    final_statistics_of,
    keys_of,
    topics_of,
)

_T = TypeVar("_T", bound=Tracker)

_ELSEWHERE: Final = ("host", "capture")
"""Groups of rules whose records are incomplete in a single group of connections."""


def observe(batches: Iterable[pa.RecordBatch], recording: Recording, *, cluster: str = "") -> dict[str, Any]:
    """Return the tables of one group, by the names in TABLES and INNER.

    ``batches`` contains the rows of HEADS of all connections in the group, sorted by place and order.
    """
    group = new_group(recording)
    group.process_all(batches)
    return group.tables(cluster)


def new_group(recording: Recording) -> Group[Tracker]:
    """Return a group without rows."""
    return Group(recording, Tracker)


def observe_links(batches: Iterable[pa.RecordBatch], recording: Recording, *, cluster: str = "") -> dict[str, Any]:
    """Return the tables of a part of the connections (group_division.py), with LINK_EVENTS but no tables of topics."""
    group = Group(recording, LinkTracker)
    group.process_all(batches)
    tables = group.tables(cluster)
    return tables | {"link_events": group.tracker.rows()}


def observe_topics(
    batches: Iterable[pa.RecordBatch],
    recording: Recording,
    division: Division,
    part: int,
    events: Iterable[dict[str, Any]],
    *,
    cluster: str = "",
) -> dict[str, Any]:
    """Return the tables of one part of the topics, without tables of connections.

    ``events`` contains the rows of LINK_EVENTS in order.
    """
    group = Group(recording, partial(TopicTracker, events), partial(division.is_of, part))
    group.process_all(batches)
    group.tracker.play(LAST - 1)
    return group.tables(cluster)


def _all(_: Any) -> bool:
    return True


class Group(Generic[_T]):
    """The state of the observation of a group."""

    def __init__(
        self,
        recording: Recording,
        tracker: Callable[..., _T],
        is_own: Callable[[object], bool] = _all,
    ) -> None:
        self._recording, self._is_own, self._tracker_of = recording, is_own, tracker
        self._log = HostLog()
        self._records: dict[str, list[Any]] = {}
        self._found: dict[tuple[Any, ...], FindingRow] = {}
        self._bytes: Counter[tuple[int, bool]] = Counter()
        rules = recording.rules or ALL_RULES
        elsewhere = [rule.name for rule in RULES.values() if rule.group in _ELSEWHERE]
        self._diagnosis = Diagnosis(
            rules.only,
            ignore={*rules.ignore, *elsewhere},
            thresholds=rules.thresholds,
            on_record=self._asked if recording.rules is None else None,
            hosts=self._log,
            servers=recording.servers,
            tracker=self._made,
            is_own=is_own,
        )
        self._see = Observer(opener=open_kept).see

    def _made(self, **options: Any) -> _T:
        self.tracker = self._tracker_of(**options)
        return self.tracker

    def resume(self, recording: Recording) -> None:
        """Continue with the facts of a recording that has become longer.

        No connection that the group has seen may connect to a server that is only now known to be a Pulsar server.
        """
        self.tracker.connections.add_pulsar_servers(recording.servers)
        self._recording = recording

    def process_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Process all rows."""
        for item in from_heads(self.count_bytes(batches)):
            self.take(item)

    def count_bytes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches and count their bytes."""
        for batch in batches:
            side = batch.column("from_client").to_numpy(zero_copy_only=False)
            both = batch.column("stream").to_numpy() * 2 + side
            directions, places = np.unique(both, return_inverse=True)
            sums = np.zeros(len(directions), np.int64)
            np.add.at(sums, places, batch.column("size").to_numpy())
            for direction, total in zip(directions.tolist(), sums.tolist(), strict=True):
                self._bytes[direction >> 1, bool(direction & 1)] += total
            yield batch

    def take(self, item: HeadFrame | BrokerFrameTime | RecordingEvent) -> None:
        """Process a frame, a note, an end, or the time of a broker's frame."""
        log, diagnosis = self._log, self._diagnosis
        if isinstance(item, HeadFrame):
            log.place, log.order = item.number, 0
            if item.capture_problems:
                diagnosis.capture.cut = item.number > self._recording.cut_after
            diagnosis.see(self._see(item))
            return
        if isinstance(item, BrokerFrameTime):
            self.tracker.note_broker_frame(item.stream, item.time_ns, item.number)
            return
        log.place, log.order = item.after, item.order
        capture = diagnosis.capture
        capture.frames, capture.last_ns = item.after, item.last_ns
        if isinstance(item.item, Note):
            diagnosis.note(item.item)
        else:
            diagnosis.ended(item.item)

    def _asked(self, group: str, record: object, found: list[Finding]) -> None:
        self._records.setdefault(group, []).append(record)
        last_frame = record.last_frame if isinstance(record, ConnectionRecord) else 0
        self._found |= {one.identity: FindingRow(one, last_frame) for one in found}

    def tables(self, cluster: str) -> dict[str, Any]:
        """Finish and return all tables, or the partial diagnosis. No rows can be processed afterwards."""
        known, capture = self._recording.capture, self._diagnosis.capture
        capture.last_ns, capture.frames, capture.cut = known.last_ns, known.frames, known.cut
        if known.unread:
            capture.unread = known.unread
            self.tracker.doubt_all_records()
        if self._recording.rules is not None:
            self._diagnosis.finish()
            partial_diagnosis = {"diagnosis": self._diagnosis.partial()}
            return partial_diagnosis | {"host_events": self._log.rows(), "capture_parts": capture_part(capture)}
        now, tracker, records = known.last_ns, self._diagnosis.subscriptions, self._records
        statistics = final_statistics_of(tracker, now)
        self._diagnosis.finish()
        topics, subscriptions = topics_of(tracker, statistics, self._is_own)
        balances = balances_of(tracker, statistics, self._is_own)
        consumers = [FinalConsumer(one, statistics.consumer(one), now) for one in records.get("consumer", ())]
        links = [self._with_bytes(one) for one in records.get("connection", ())]
        producers = [FinalProducer(one, now) for one in records.get("producer", ())]
        scalable = records.get("scalable_topic", ())
        return {
            "findings": rows_of(FINDING_CELLS, list(self._found.values()), cluster),
            "consumers": rows_of(CONSUMER_CELLS, consumers, cluster),
            "producers": rows_of(PRODUCER_CELLS, producers, cluster),
            "connections": rows_of(CONNECTION_CELLS, links, cluster),
            "keys": rows_of(KEY_CELLS, list(keys_of(tracker, self._is_own)), cluster),
            "subscriptions": rows_of(SUBSCRIPTION_CELLS, subscriptions, cluster),
            "topics": rows_of(TOPIC_CELLS, topics, cluster),
            "balances": rows_of(BALANCE_CELLS, balances, cluster),
            "segments": rows_of(SEGMENT_CELLS, segments_of(scalable), cluster),
            "layouts": rows_of(LAYOUT_CELLS, layouts_of(scalable), cluster),
            "assignments": rows_of(ASSIGNMENT_CELLS, assignments_of(scalable), cluster),
            "host_events": self._log.rows(),
            "capture_parts": capture_part(capture),
        }

    def _with_bytes(self, record: ConnectionRecord) -> FinalConnection:
        return FinalConnection(record, self._bytes[record.stream, True], self._bytes[record.stream, False])


def diagnosis_of(parts: Sequence[Mapping[str, Any]], recording: Recording) -> Diagnosis:
    """Return the diagnosis of a recording from the partial diagnoses of all groups."""
    capture, records = _records_elsewhere(
        (one["host_events"] for one in parts), (one["capture_parts"] for one in parts), recording
    )
    rules = recording.rules or ALL_RULES
    diagnosis = Diagnosis(rules.only, ignore=rules.ignore, thresholds=rules.thresholds)
    diagnosis.merge((one["diagnosis"] for one in parts), capture, records)
    return diagnosis


def _records_elsewhere(
    host_events: Iterable[pa.RecordBatch], capture_parts: Iterable[pa.RecordBatch], recording: Recording
) -> tuple[CaptureRecord, list[tuple[str, Any]]]:
    """Return the record of the capture, and the records of `_ELSEWHERE` with their groups."""
    capture = whole(recording, capture_parts)
    hosts = list(play(host_events, capture))
    for host in hosts if capture.unread else ():
        host.doubts.add("unread")
    return capture, [*(("host", one) for one in hosts), ("capture", capture)]


def conclude(
    findings: Iterable[pa.RecordBatch],
    host_events: Iterable[pa.RecordBatch],
    capture_parts: Iterable[pa.RecordBatch],
    recording: Recording,
    *,
    cluster: str = "",
) -> pa.RecordBatch:
    """Return the sorted findings of a recording: all groups' findings, and the findings about hosts and the capture.

    The first three arguments are the results of `observe` for each group.
    """
    capture, records = _records_elsewhere(host_events, capture_parts, recording)
    moment = Moment(capture.last_ns, over=True, capture=capture)
    more = [
        FindingRow(found, 0)
        for group, record in records
        for rule in RULES.values()
        if rule.group == group
        for found in rule.evaluate(record, moment)
    ]
    return merge_findings([*findings, rows_of(FINDING_CELLS, more, cluster)], cluster)
