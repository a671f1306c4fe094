"""Scalable topics in a test: changes of the layout, assignments, crashes, and errors."""

from __future__ import annotations

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.minibroker import MiniBroker

TOPIC = "topic://public/default/orders"


@pytest.fixture
def broker():
    with MiniBroker(version="5.0.1", clock="manual") as running:
        yield running
    assert running.failures == []


@pytest.fixture
def register(broker, connect):
    """Register a consumer on a connection of its own; return the connection."""

    def do(name, kind=pb.STREAM, topic=TOPIC):
        peer = connect(broker)
        command = pb.CommandScalableTopicSubscribe(
            request_id=1, topic=topic, subscription="work", consumer_name=name, consumer_id=1, consumer_type=kind
        )
        peer.ask(pb.CommandScalableTopicSubscribeResponse, command)
        return peer

    return do


def active(layout):
    return [one.id for one in layout.active]


def test_a_topic_is_created_once(broker):
    orders = broker.scalable("orders", segments=2)
    assert (orders.name, active(orders.layout)) == (TOPIC, [0, 1])
    for name in (TOPIC, "public/default/orders", "persistent://public/default/orders"):
        assert (broker.scalable(name).name, active(broker.scalable(name).layout)) == (TOPIC, [0, 1])


def test_changes_return_the_new_segments(broker):
    orders = broker.scalable("orders")
    before = orders.layout
    assert orders.split(0) == (1, 2)
    assert orders.rebucket(2, 8) == (3,)
    assert len(orders.layout.segments[3].bucket_starts) == 7
    assert orders.merge(3, 1) == (4,)
    assert (orders.layout.epoch, active(orders.layout)) == (3, [4])
    assert orders.layout.controller == broker.service_url
    assert (before.epoch, active(before), before.controller) == (0, [0], "")


def test_a_snapshot_is_not_the_layout_of_the_broker(broker):
    orders = broker.scalable("orders")
    orders.layout.segments.clear()
    assert active(orders.layout) == [0]


def test_a_session_shows_a_split(broker, connect):
    orders = broker.scalable("orders")
    peer = connect(broker)
    shown = peer.ask(pb.CommandScalableTopicUpdate, pb.CommandScalableTopicLookup(session_id=1, topic=TOPIC))
    assert len(shown.dag.segments) == 1
    orders.split(0)
    elected, split = (peer.hear(pb.CommandScalableTopicUpdate) for _ in range(2))
    assert (elected.dag.epoch, split.dag.epoch, len(split.dag.segments)) == (0, 1, 3)


@pytest.mark.parametrize("kind", [pb.STREAM, pb.CHECKPOINT])
def test_a_crash_hands_segments_over_after_the_grace_period(broker, register, kind):
    orders = broker.scalable("orders", segments=4)
    gone, left = register("a", kind), register("b", kind)
    both = {"a": [0, 2], "b": [1, 3]}
    assert orders.assignments("work") == both
    broker.crash("a")
    gone.end()
    assert broker.connections == [left.address]
    broker.advance(59)
    assert orders.assignments("work") == both
    broker.advance(1)
    assert orders.assignments("work") == {"b": [0, 1, 2, 3]}
    update = left.hear(pb.CommandScalableTopicAssignmentUpdate)
    assert [one.segment_id for one in update.assignment.segments] == [0, 1, 2, 3]


def test_children_are_assigned_after_their_drained_parent(broker, register):
    orders = broker.scalable("orders")
    register("a")
    orders.split(0)
    assert orders.assignments("work") == {"a": [0]}
    broker.advance(2)
    assert orders.assignments("work") == {"a": [0]}  # no consumer has subscribed to the parent
    assert orders.assignments("other") == {}


def test_a_consumer_of_two_topics_crashes_on_both(broker, register):
    topics = [broker.scalable(name) for name in ("orders", "jobs")]
    for topic in topics:
        register("a", topic=topic.name)
    broker.crash("a")
    assert broker.connections == []
    broker.advance(60)
    assert [topic.assignments("work") for topic in topics] == [{}, {}]


def test_a_topic_outlives_a_restart_and_the_stop(broker):
    orders = broker.scalable("orders")
    broker.restart()
    orders.split(0)
    broker.stop()
    assert active(orders.layout) == [1, 2]
    with pytest.raises(LocalError, match="has stopped"):
        orders.split(1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda orders: orders.split(7), "Segment not found: 7"),
        (lambda orders: orders.merge(0, 7), "Segment not found"),
        (lambda orders: orders.merge(0, 2), "Segments are not adjacent"),
        (lambda orders: orders.rebucket(0, 0), r"bucketCount must be in \[1, 1024\]: 0"),
    ],
)
def test_an_impossible_change_is_one_line(broker, change, said):
    orders = broker.scalable("orders", segments=3)
    with pytest.raises(LocalError, match=f"^topic {TOPIC}: {said}"):
        change(orders)
    assert orders.layout.epoch == 0


@pytest.mark.parametrize(
    ("name", "segments", "said"),
    [
        ("orders", 0, "0 segments: must be 1 or more"),
        ("orders", 65537, "end must be in"),
        ("orders-partition-1", 1, "Invalid segment topic name"),
        ("nobody/nowhere/orders", 1, "Namespace not found"),
        ("non-persistent://public/default/orders", 1, "not the name of a scalable topic"),
        ("segment://public/default/orders/0000-ffff-0", 1, "not the name of a scalable topic"),
        ("topic://public/default/a/b", 1, "not the name of a scalable topic"),
        ("topic://public/default/..", 1, "not the name of a scalable topic"),
        ("topic://public/default/ orders", 1, "not the name of a scalable topic"),
    ],
)
def test_an_invalid_topic_is_not_created(broker, name, segments, said):
    with pytest.raises(LocalError, match=said):
        broker.scalable(name, segments=segments)
    assert broker.topics == []


def test_the_default_version_has_no_scalable_topics():
    with MiniBroker() as broker, pytest.raises(LocalError, match="scalable topics are disabled"):
        broker.scalable("orders")


def test_only_registered_consumers_crash(broker, register):
    broker.scalable("orders")
    with pytest.raises(LocalError, match=r"there is no registered consumer worker-1$"):
        broker.crash("worker-1")
    register("worker-1")
    with pytest.raises(LocalError, match="there is no registered consumer worker-2; near: worker-1"):
        broker.crash("worker-2")
    broker.crash("worker-1")
    with pytest.raises(LocalError, match="consumer worker-1 is registered, but has no connection"):
        broker.crash("worker-1")
