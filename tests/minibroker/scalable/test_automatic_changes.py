"""Automatic splits, merges, rebuckets and prunes on the broker's clock, at the times of a real 5.0.1."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from tests.minibroker.scalable.conftest import TOPIC

LIMITS = {
    "splitMsgRateInThreshold": 60.0,
    "mergeMsgRateInThreshold": 20.0,
    "splitVsRebucketMinMsgRateInThreshold": 60.0,
    "splitCooldownSeconds": 5,
    "mergeCooldownSeconds": 5,
    "mergeWindowSeconds": 20,
}


def active(scene):
    return [one.id for one in scene.topic.layout.active]


def publish_for(scene, client, seconds, rate=100):
    """Publish at a rate, messages per second."""
    for second in range(seconds):
        for number in range(rate):
            client.publish("x", second * rate + number)
        scene.world.wait(1000)


def test_idle_neighbours_are_merged_and_pruned(make_scene):
    scene = make_scene(3)
    scene.service.controlled(TOPIC)
    scene.world.wait(300_000)
    assert active(scene) == [0, 1, 2]
    scene.world.wait(60_000)  # cold since the first report, for the merge window
    assert active(scene) == [0, 3]
    scene.world.wait(60_000)
    assert sorted(scene.topic.layout.segments) == [0, 3]
    scene.world.wait(180_000)  # less than the cool-down of a merge
    assert len(active(scene)) == 2
    scene.world.wait(120_000)
    assert len(active(scene)) == 1


@pytest.mark.parametrize(("limit", "left"), [(0, 4), (1, 2), (3, 1)])
def test_the_depth_limits_merges_until_the_parents_are_pruned(make_scene, limit, left):
    scene = make_scene(4, scalableTopicAutoScaleIntervalSeconds=2, scalableTopicLoadReportIntervalSeconds=1)
    scene.topic.policy = {"maxDagDepth": limit, "mergeWindowSeconds": 0, "mergeCooldownSeconds": 0}
    scene.service.controlled(TOPIC)
    scene.world.wait(50_000)
    assert len(active(scene)) == left


def test_nothing_changes_without_a_controller(make_scene):
    scene = make_scene(3)
    scene.world.wait(1_800_000)
    assert active(scene) == [0, 1, 2]


def test_a_busy_segment_is_split_and_its_idle_children_are_merged(make_scene):
    scene = make_scene(1, scalableTopicAutoScaleIntervalSeconds=10)
    scene.topic.policy = LIMITS
    scene.service.controlled(TOPIC)
    client = scene.world.client()
    client.producer(scene.name(0))
    publish_for(scene, client, 80)
    assert active(scene) == [1, 2]
    assert scene.topic.last_by_kind.keys() == {"split"}
    scene.world.wait(120_000)
    assert len(active(scene)) == 1


@pytest.mark.parametrize("policy", [{"enabled": False}, {"maxSegments": 1}])
def test_policies_prevent_a_split(make_scene, policy):
    scene = make_scene(1, scalableTopicAutoScaleIntervalSeconds=10)
    scene.topic.policy = LIMITS | policy
    scene.service.controlled(TOPIC)
    client = scene.world.client()
    client.producer(scene.name(0))
    publish_for(scene, client, 80)
    assert active(scene) == [0]


def test_too_many_consumers_cause_a_rebucket(make_scene):
    """The fifth consumer of four buckets gets nothing, and all see the next layout."""
    scene = make_scene(1)
    clients = [scene.world.client() for _ in range(5)]
    for index, client in enumerate(clients):
        answers = scene.register(client, f"s{index}")
    response, update = answers
    assert (response.assignment.layout_epoch, len(response.assignment.segments)) == (0, 0)
    assert isinstance(update, pb.CommandScalableTopicAssignmentUpdate)
    assert update.assignment.layout_epoch == 1
    [new] = scene.topic.layout.active
    assert len(new.bucket_starts) == 7


def test_a_segment_with_a_backlog_is_not_pruned(make_scene):
    scene = make_scene(1)
    client = scene.world.client()
    client.subscribe(scene.name(0), initialPosition=pb.CommandSubscribe.Earliest)
    client.producer(scene.name(0))
    client.publish()
    scene.change("split", 0)
    scene.world.wait(180_000)
    assert 0 in scene.topic.layout.segments
    client.hear()
    [message] = [body for body in client.flow() if isinstance(body, pb.CommandMessage)]
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[message.message_id]))
    scene.world.wait(60_000)
    assert 0 not in scene.topic.layout.segments
    assert scene.service.segment_topic(scene.topic, scene.topic.layout.active[0]) is not None
