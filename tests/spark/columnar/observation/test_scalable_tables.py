"""Tables of scalable topics, compared with the object path over the whole recording."""

from __future__ import annotations

from collections import Counter

import pytest

from pcli.codec.capture import CapturedFrame, Stream
from pcli.codec.observe.tracking.tracker import Tracker, process_events
from pcli.codec.proto import pb
from pcli.codec.wire import Frame, push_frame
from pcli.spark.columnar.observation.record_columns import rows_of
from pcli.spark.columnar.observation.scalable_tables import (
    ASSIGNMENT_CELLS,
    LAYOUT_CELLS,
    SEGMENT_CELLS,
    assignments_of,
    layouts_of,
    segments_of,
)

NAMES = ("segments", "layouts", "assignments")


def in_order(rows):
    return sorted(rows, key=repr)


def of_objects(items):
    tracker = Tracker()
    process_events(items, tracker)
    topics = list(tracker.scalable_topics.topics.values())
    sources = (
        (SEGMENT_CELLS, segments_of), (LAYOUT_CELLS, layouts_of), (ASSIGNMENT_CELLS, assignments_of)
    )  # fmt: skip
    tables = [rows_of(cells, found(topics), "c").to_pylist() for cells, found in sources]
    moved = {name: one.record.messages.moved for name, one in tracker.subscriptions.lifecycles.topics.items()}
    return dict(zip(NAMES, map(in_order, tables), strict=True)), moved


@pytest.mark.slow
def test_rows_are_those_of_the_tracker(recordings, rows_of_items, captures_5):
    compared = 0
    all_moved = Counter()
    for name, items in recordings():
        if not name.startswith(captures_5.name):
            continue
        rows, (wanted, moved) = rows_of_items(items), of_objects(items)
        _, divided, _ = rows.divided()
        for table in NAMES:
            assert in_order(rows.rows(table)) == wanted[table], (name, table)
            parts = [row for batch in divided[table] for row in batch.to_pylist()]
            assert in_order(parts) == wanted[table], (name, table)
            compared += len(wanted[table])
        assert {row["topic"]: row["sent_elsewhere"] for row in rows.rows("topics")}.items() <= moved.items()
        all_moved.update(moved)
    assert compared > 100
    assert all_moved.total() == 9


def update(segments):
    dag = pb.ScalableTopicDAG(epoch=1, segments=segments)
    name = "topic://public/default/t"
    return pb.CommandScalableTopicUpdate(session_id=1, dag=dag, resolved_topic_name=name)


def observed(rows_of_items, *bodies):
    stream = Stream(0, ("10.0.0.1", 40_000), ("10.0.0.2", 6650), midstream=False)
    items = []
    for number, body in enumerate(bodies, 1):
        data = push_frame(body)
        place = (number, number, 10**18 + number, stream, False, 0, "start", ())
        items.append(CapturedFrame(data, Frame.of(data).type, *place))
    return rows_of_items(items)


def test_numbers_that_do_not_fit_are_null(rows_of_items):
    most = (1 << 64) - 1
    segment = pb.SegmentInfoProto(
        segment_id=most, hash_start=0, hash_end=(1 << 32) - 1, state=pb.ACTIVE, parent_ids=[most, 3],
        created_at_epoch=most, created_at_ms=most,
    )  # fmt: skip
    [row] = observed(rows_of_items, update([segment])).rows("segments")
    expected = {
        "segment": None, "first_hash": 0, "last_hash": None, "parents": [None, 3], "created_epoch": None,
        "created_at_ns": None,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_a_classic_topic_that_was_looked_up_has_no_rows(rows_of_items):
    segment = pb.SegmentInfoProto(
        segment_id=0, hash_start=0, hash_end=65535, state=pb.ACTIVE, created_at_epoch=0, created_at_ms=1,
        legacy_topic_name="persistent://public/default/t",
    )  # fmt: skip
    dag = pb.ScalableTopicDAG(epoch=0, segments=[segment])
    name = "persistent://public/default/t"
    body = pb.CommandScalableTopicUpdate(session_id=1, dag=dag, resolved_topic_name=name)
    rows = observed(rows_of_items, body)
    assert [rows.rows(name) for name in NAMES] == [[], [], []]
