"""The columns of the tables `segments`, `layouts` and `assignments`: scalable topics at the end of the recording.

Classic topics that clients looked up as scalable topics have no rows: their layout is not stored by the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe.tracking.records.scalable_records import LayoutChange, ScalableTopicRecord, SegmentRecord
from pcli.codec.observe.tracking.statistics.assignment_periods import AssignmentPeriod, assignment_periods
from pcli.spark.columnar.observation.record_columns import (
    Cell,
    Get,
    cell,
    known,
    known_of,
    non_negative,
    non_negative_of,
    of,
)
from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, column, many, nanoseconds_of


@dataclass(frozen=True, slots=True)
class FinalSegment:
    """A segment at the end of the recording."""

    record: SegmentRecord


@dataclass(frozen=True, slots=True)
class FinalLayoutChange:
    """A change of a layout."""

    record: LayoutChange
    topic: ScalableTopicRecord


def segments_of(topics: Iterable[ScalableTopicRecord]) -> list[FinalSegment]:
    """Return all segments of scalable topics."""
    return [FinalSegment(one) for topic in _scalable(topics) for one in topic.segments.values()]


def layouts_of(topics: Iterable[ScalableTopicRecord]) -> list[FinalLayoutChange]:
    """Return all changes of layouts, in order for each topic."""
    return [FinalLayoutChange(one, topic) for topic in _scalable(topics) for one in topic.changes]


def assignments_of(topics: Iterable[ScalableTopicRecord]) -> list[AssignmentPeriod]:
    """Return all periods in which a registered consumer has a segment."""
    return [one for topic in _scalable(topics) for one in assignment_periods(topic)]


def _scalable(topics: Iterable[ScalableTopicRecord]) -> list[ScalableTopicRecord]:
    return [one for one in topics if one.name.startswith("topic://")]


def _ids(values: Iterable[int]) -> list[int | None]:
    """Return numbers of segments; None for a number that the column cannot contain."""
    return [one if one < 1 << 63 else None for one in values]


def _in_layout(get: Get) -> Get:
    """Return a function that reads a value of the segment in its last layout; None if there is no layout."""
    return lambda one: None if one.record.segment is None else get(one.record.segment)


_DOUBTS: Final = "reasons why evidence about the scalable topic may be incomplete (see docs/tables.md)"

SEGMENT_CELLS: Final[tuple[Cell, ...]] = (
    cell("scalable_topic", TEXT, "full name: `topic://tenant/namespace/name`", of("topic.name")),
    cell("segment", LONG, "number of the segment in its scalable topic", of("id")),
    cell("topic", TEXT, "full name of the topic that stores the segment; a classic topic after a migration",
         of("name")),
    cell("state", TEXT, "active, sealed, pruned; unknown if the capture contains no layout with the segment",
         of("state")),
    cell("first_hash", INT, "first hash of its range, 0 to 65535", of("start")),
    cell("last_hash", INT, "last hash of its range", of("end")),
    cell("parents", many(LONG), "segments from which it was made; null if they are unknown",
         _in_layout(lambda one: _ids(one.parents))),
    cell("children", many(LONG), "segments that were made from it; null if they are unknown",
         _in_layout(lambda one: _ids(one.children))),
    cell("entry_buckets", INT, "number of entry buckets; null if it is unknown",
         _in_layout(lambda one: len(one.bucket_starts) + 1)),
    cell("broker", TEXT, "URL of its broker; null if the segment is not active or the broker is unknown",
         known_of("owner")),
    cell("created_epoch", LONG, "epoch in which it was created", _in_layout(lambda one: one.created_epoch)),
    cell("created_at_ns", LONG, "time of its creation (the broker's clock); of a classic topic, the migration",
         _in_layout(lambda one: nanoseconds_of(one.created_ms))),
    cell("sealed_epoch", LONG, "epoch in which it was sealed; null if it is not sealed",
         _in_layout(lambda one: non_negative(one.sealed_epoch))),
    cell("sealed_at_ns", LONG, "time at which it was sealed (the broker's clock)",
         _in_layout(lambda one: nanoseconds_of(one.sealed_ms))),
    cell("first_ns", LONG, "time of the first layout with the segment; null if there is none",
         non_negative_of("first_ns")),
    cell("sealed_ns", LONG, "time of the first layout in which it is sealed", non_negative_of("sealed_ns")),
    cell("sealed_frame", LONG, "frame of that layout", known_of("sealed_frame")),
    cell("pruned_ns", LONG, "time of the first layout without the segment", non_negative_of("pruned_ns")),
    cell("pruned_frame", LONG, "frame of that layout", known_of("pruned_frame")),
    cell("doubts", many(TEXT), _DOUBTS, lambda one: sorted(one.record.topic.doubts)),
)  # fmt: skip
"""All columns of `segments` except the cluster."""


def _changed_at_ns(one: FinalLayoutChange) -> int | None:
    new = [one.topic.segments[number] for number in one.record.change.after if number in one.topic.segments]
    known_segments = [segment.segment for segment in new if segment.segment is not None]
    # The creation time of a classic topic's segment is that of the migration.
    times = [segment.created_ms for segment in known_segments if not segment.legacy_topic]
    return nanoseconds_of(min(times, default=0))


LAYOUT_CELLS: Final[tuple[Cell, ...]] = (
    cell("scalable_topic", TEXT, "full name: `topic://tenant/namespace/name`", lambda one: one.topic.name),
    cell("epoch", LONG, "epoch of the change; for a prune, that of the first layout without the segments",
         of("change.epoch")),
    cell("kind", TEXT, "create, split, merge, rebucket, prune, migrate", of("change.kind")),
    cell("before", many(LONG), "segments that were sealed or removed", lambda one: _ids(one.record.change.before)),
    cell("after", many(LONG), "new segments", lambda one: _ids(one.record.change.after)),
    cell("changed_at_ns", LONG,
         "creation time of the new segments (the broker's clock); null for a prune and for classic topics",
         _changed_at_ns),
    cell("time_ns", LONG, "time of the first SCALABLE_TOPIC_UPDATE that shows the change", of("time_ns")),
    cell("frame", LONG, "frame of that SCALABLE_TOPIC_UPDATE", of("frame")),
    cell("initial", BOOL, "true if the first layout in the capture contains the change already",
         lambda one: one.record.time_ns == one.topic.first_ns),
    cell("doubts", many(TEXT), _DOUBTS, lambda one: sorted(one.topic.doubts)),
)  # fmt: skip
"""All columns of `layouts` except the cluster."""


def _of_hand_over(get: Get) -> Get:
    return lambda one: None if one.hand_over is None else get(one.hand_over)


def _buckets(one: AssignmentPeriod) -> list[dict[str, Any]]:
    return [{"first_hash": first, "last_hash": last} for first, last in one.buckets]


ASSIGNMENT_CELLS: Final[tuple[Cell, ...]] = (
    cell("scalable_topic", TEXT, "full name: `topic://tenant/namespace/name`", of("topic.name")),
    cell("segment", LONG, "number of the segment; null if the consumer received no segment", lambda one: one.segment),
    cell("subscription", TEXT, "name", of("subscription")),
    cell("consumer", TEXT, "name with which the consumer is registered", known_of("name")),
    cell("type", TEXT, "STREAM, CHECKPOINT; null if it is unknown", known_of("type")),
    cell("connection", LONG, "tcp.stream of the registration", of("stream")),
    cell("consumer_id", LONG, "consumer_id of the registration", of("id")),
    cell("registered_ns", LONG, "time of the SCALABLE_TOPIC_SUBSCRIBE", of("began_ns")),
    cell("epoch", LONG, "epoch of the layout in the assignment", lambda one: one.epoch),
    cell("since_ns", LONG, "time of the assignment", lambda one: one.since_ns),
    cell("since_frame", LONG, "frame of the assignment", lambda one: known(one.since_frame)),
    cell("until_ns", LONG, "end of the assignment; null if it has not ended", lambda one: non_negative(one.until_ns)),
    cell("end", TEXT, "`removed`: the next assignment of the consumer lacks the segment; `changed`: it has other "
         "entry buckets, or the segment was handed over again; otherwise the end of the registration, as `end` of "
         "connections", lambda one: known(one.end)),
    cell("entry_buckets", many((column("first_hash", INT, "first entry hash"),
                                column("last_hash", INT, "last entry hash"))),
         "entry buckets that the consumers share; empty if the consumer has the whole segment", _buckets),
    cell("taken_from", TEXT, "consumer that had the segment until the assignment; null if there was none",
         _of_hand_over(lambda one: known(one.before))),
    cell("ready_ns", LONG, "time of the response to the successful SUBSCRIBE after the hand-over",
         _of_hand_over(lambda one: non_negative(one.ready_ns))),
    cell("hand_over_ns", LONG, "duration of the hand-over; null if there was none or it has not ended",
         _of_hand_over(lambda one: one.ready_ns - one.time_ns if one.ready_ns >= 0 else None)),
    cell("withdrawn_ns", LONG, "time at which the consumer lost the segment before its SUBSCRIBE succeeded",
         _of_hand_over(lambda one: non_negative(one.withdrawn_ns))),
    cell("refused", LONG, "SUBSCRIBEs that were refused with ConsumerBusy in the hand-over",
         _of_hand_over(lambda one: one.busy.count)),
    cell("error", TEXT, "error of the registration", known_of("error")),
    cell("doubts", many(TEXT), _DOUBTS, lambda one: sorted(one.record.topic.doubts)),
)  # fmt: skip
"""All columns of `assignments` except the cluster."""
