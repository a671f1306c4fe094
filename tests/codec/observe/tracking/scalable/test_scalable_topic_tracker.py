"""Scalable topics: layouts over time, sessions, assignments and hand-overs, in real captures and conversations."""

from __future__ import annotations

import pytest

from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.observe.tracking.scalable import scalable_topic_tracker
from pcli.codec.observe.tracking.tracker import Tracker, process_events
from pcli.codec.proto import pb

TOPIC = "topic://public/default/orders"


def tracked(path):
    tracker = Tracker()
    with path.open("rb") as file:
        process_events(read_capture([(path.name, file)], ReadOptions(ends=True)), tracker)
    return tracker


def topic_of(tracker, name):
    return tracker.scalable_topics.topics[f"topic://public/default/{name}"]


@pytest.mark.parametrize(
    ("capture", "topic", "history"),
    [
        ("healthy", "bas2", ["create 0, 1"]),
        ("split-merge-under-load", "sp2", ["create 0", "split 0 → 1, 2", "merge 1, 2 → 3"]),
        (
            "auto-rebucket",
            "rbk",
            ["create 0, 1, 2, 3", "rebucket 0 → 4", "rebucket 1 → 5", "rebucket 2 → 6", "rebucket 3 → 7"],
        ),
        ("migrate", "old", ["create 0, 1, 2", "migrate 0, 1, 2 → 3, 4, 5"]),
        ("migrate", "old1", ["create 0", "migrate 0 → 1"]),
    ],
)
def test_the_changes_of_a_layout(captures_5, capture, topic, history):
    record = topic_of(tracked(captures_5 / f"{capture}.pcap"), topic)
    assert [str(one.change) for one in record.changes] == history
    assert record.contradictions == {}


def test_the_hand_overs_of_segments(captures_5):
    record = topic_of(tracked(captures_5 / "consumers-join-leave-crash.pcap"), "reb")
    # s2 joins, s3 joins, s2 leaves, s3 crashes: four segments by index modulo the number of consumers
    assert [(one.segment, one.before, one.after) for one in record.hand_overs] == [
        (1, "s1", "s2"), (3, "s1", "s2"), (3, "s2", "s1"), (2, "s1", "s3"), (2, "s3", "s1"), (1, "s2", "s3"),
        (3, "s1", "s3"), (1, "s3", "s1"), (3, "s3", "s1"),
    ]  # fmt: skip
    assert all(0 < one.ready_ns - one.time_ns < 1_000_000_000 for one in record.hand_overs)
    assert {one.name: one.end for one in record.consumers} == {"s1": "closed", "s2": "closed", "s3": "fin_client"}


def test_consumers_that_share_a_segment_do_not_take_it_from_each_other(captures_5):
    record = topic_of(tracked(captures_5 / "consumers-share-segment.pcap"), "bkt2")
    shared = [one for consumer in record.consumers for one in consumer.assignments if one.segments.get(0)]
    assert shared
    assert {len(one.segments[0]) for one in shared} == {4}
    assert [(one.segment, one.before, one.after) for one in record.hand_overs] == [(1, "s1", "s2")]


def test_segments_are_linked_with_their_topics(captures_5):
    tracker = tracked(captures_5 / "migrate.pcap")
    for name, number in (
        ("persistent://public/default/old-partition-1", 1),
        ("segment://public/default/old/5555-aaa9-4", 4),
    ):
        segment = tracker.subscriptions.topic(name).segment
        assert segment is topic_of(tracker, "old").segments[number]
        assert segment.sealed == (number < 3)


class Session:
    """A session of a layout, on one connection."""

    def __init__(self, conversation):
        self.conversation = conversation
        self.tracker = Tracker()

    def client(self, body, stream=0):
        self.tracker.see(self.conversation.client(body, b"", stream))

    def broker(self, body, stream=0):
        self.tracker.see(self.conversation.broker(body, b"", stream))

    def layout(self, *ranges, epoch=0, first_id=0, session=1, stream=0):
        dag = pb.ScalableTopicDAG(epoch=epoch)
        for number, (start, end) in enumerate(ranges, first_id):
            dag.segments.add(
                segment_id=number, hash_start=start, hash_end=end, state=pb.ACTIVE, created_at_epoch=0, created_at_ms=1
            )
        self.broker(pb.CommandScalableTopicUpdate(session_id=session, dag=dag, resolved_topic_name=TOPIC), stream)

    @property
    def topic(self):
        return self.tracker.scalable_topics.topics[TOPIC]


@pytest.fixture
def session(conversation):
    return Session(conversation)


def test_an_older_layout_of_another_session_changes_nothing(session):
    session.layout((0, 65535), epoch=3, first_id=9)
    session.layout((0, 65535), epoch=2, first_id=8, session=2, stream=1)
    assert session.topic.layout.epoch == 3
    assert [one.id for one in session.topic.segments.values()] == [9]
    assert [one.epochs[0][0] for one in session.topic.sessions] == [3, 2]


def test_a_layout_with_a_gap_is_reported_once(session):
    session.layout((0, 100))
    session.layout((0, 100))
    assert session.topic.contradictions == {"no active segment has the hashes 101 to 65535": 1}


def test_a_segment_is_known_from_its_name(session):
    name = "segment://public/default/orders/0000-7fff-4"
    session.client(pb.CommandProducer(topic=name, producer_id=1, request_id=1))
    segment = session.tracker.subscriptions.topic(name).segment
    assert (segment.topic.name, segment.id, segment.start, segment.end) == (TOPIC, 4, 0, 0x7FFF)
    assert (segment.state, segment.name) == ("unknown", name)


def test_memory_is_bounded(session, monkeypatch):
    monkeypatch.setattr(scalable_topic_tracker, "MAX_SEGMENTS", 3)
    monkeypatch.setattr(scalable_topic_tracker, "MAX_SESSIONS", 4)
    monkeypatch.setattr(scalable_topic_tracker, "MAX_CHANGES", 5)
    for number in range(20):
        session.layout((0, 65535), epoch=number, first_id=number, session=number)
    assert sorted(session.topic.segments) == [17, 18, 19]
    assert [one.id for one in session.topic.sessions] == [16, 17, 18, 19]
    assert len(session.topic.changes) == 5
