"""Backlog quotas with settings and times that the recorded conversations in tests/conform do not contain."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.minibroker.stats.partitioned_stats import partitioned_stats
from pcli.minibroker.stats.topic_stats import topic_stats

TOPIC = "persistent://public/default/t"
AGE = "message_age"
SIZE = "destination_storage"


class Scene:
    """A topic with a producer and subscriptions, on a broker that checks quotas every second."""

    def __init__(self, world, *subscriptions):
        self.world, self.client = world, world.client()
        self.client.producer("t", producer_name="p")
        self.topic = world.broker.topics[TOPIC]
        self.cursors = {}
        for name in subscriptions:
            self.cursors[name] = self.topic.create_subscription(name, 0).cursor
        self.sent = 0

    def publish(self, count=1, size=76):
        """Publish entries of 100 bytes."""
        for _ in range(count):
            self.client.publish("x" * size, self.sent)
            self.sent += 1

    def quota(self, kind=SIZE, size=-1, time=-1, policy="producer_exception"):
        quota = {"limit": size, "limitSize": size, "limitTime": time, "policy": policy}
        self.world.broker.policies.namespaces["public/default"].quotas[kind] = quota

    def refusal(self):
        """Return the error that a new producer gets, or None."""
        return getattr(self.client.producer("t", producer_id=9), "error", None)


@pytest.fixture
def make_scene(make_world):
    def make(*subscriptions, **settings):
        return Scene(make_world(backlogQuotaCheckIntervalInSeconds=1, **settings), *subscriptions)

    return make


def test_the_cursor_of_deduplication_can_be_the_slowest_one(make_scene):
    """It is a durable cursor, and is created before the subscriptions (ManagedCursorContainer)."""
    scene = make_scene("sub", brokerDeduplicationEnabled=True, preciseTimeBasedBacklogQuotaCheck=True)
    scene.publish(2)
    scene.world.advance(1000)
    assert topic_stats(scene.topic)["oldestBacklogMessageSubscriptionName"] == "pulsar.dedup"
    scene.quota(size=150)
    scene.cursors["sub"].mark_delete_to(1)
    assert scene.refusal() == pb.ProducerBlockedQuotaExceededException


@pytest.mark.parametrize(
    "settings", [{"backlogQuotaDefaultLimitBytes": 150}, {"backlogQuotaDefaultLimitGB": 150 / (1 << 30)}]
)
def test_the_brokers_quota_applies_to_all_topics(make_scene, settings):
    scene = make_scene("sub", **settings)
    scene.publish(1)
    assert scene.refusal() is None
    scene.publish(1)
    scene.client(pb.CommandCloseProducer(producer_id=9))
    assert scene.refusal() == pb.ProducerBlockedQuotaExceededError


def test_quotas_are_not_checked_if_the_check_is_disabled(make_scene):
    scene = make_scene("sub", backlogQuotaCheckEnabled=False, backlogQuotaDefaultLimitBytes=10)
    scene.publish(1)
    scene.world.wait(5000)
    assert scene.client.hear() == []
    assert scene.refusal() == pb.ProducerBlockedQuotaExceededError


def test_the_precise_age_is_that_of_the_first_message(make_scene):
    scene = make_scene("sub", preciseTimeBasedBacklogQuotaCheck=True)
    scene.quota(AGE, time=3)
    scene.publish(1)  # published at the start of the world
    scene.world.wait(3000)
    assert scene.client.hear() == []
    stats = topic_stats(scene.topic)
    assert (stats["oldestBacklogMessageAgeSeconds"], stats["oldestBacklogMessageSubscriptionName"]) == (3, "sub")
    scene.world.wait(1000)
    [closed] = scene.client.hear()
    assert isinstance(closed, pb.CommandCloseProducer)
    assert scene.refusal() == pb.ProducerBlockedQuotaExceededException


def test_the_age_in_the_statistics_is_that_of_the_last_check(make_scene):
    scene = make_scene("sub", preciseTimeBasedBacklogQuotaCheck=True)
    scene.publish(1)
    scene.world.wait(2500)
    scene.cursors["sub"].mark_delete_to(0)
    assert topic_stats(scene.topic)["oldestBacklogMessageAgeSeconds"] == 2
    scene.world.wait(1000)
    assert topic_stats(scene.topic)["oldestBacklogMessageAgeSeconds"] == -1


def test_a_precise_eviction_leaves_nine_tenths_of_the_age(make_scene):
    scene = make_scene("sub", "two", preciseTimeBasedBacklogQuotaCheck=True)
    scene.quota(AGE, time=10, policy="consumer_backlog_eviction")
    for seconds in (0, 5000):
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=seconds, publish_time=scene.world.now)
        scene.client(pb.CommandSend(producer_id=1, sequence_id=seconds), entry=push_entry(metadata, b"x"))
        scene.world.wait(5000)
    assert [one.mark_delete for one in scene.cursors.values()] == [-1, -1]
    scene.world.wait(1000)
    assert [one.mark_delete for one in scene.cursors.values()] == [0, 0]


def test_system_topics_have_no_quota(make_world):
    world = make_world(backlogQuotaDefaultLimitBytes=0)
    client = world.client()
    assert isinstance(client.producer("persistent://public/default/__change_events"), pb.CommandProducerSuccess)


def test_partitions_report_the_oldest_message():
    parts = {
        "a": {"oldestBacklogMessageAgeSeconds": -1},
        "b": {"oldestBacklogMessageAgeSeconds": 7, "oldestBacklogMessageSubscriptionName": "sub"},
    }
    merged = partitioned_stats(parts, 2, each=False)
    assert (merged["oldestBacklogMessageAgeSeconds"], merged["oldestBacklogMessageSubscriptionName"]) == (7, "sub")
    merged = partitioned_stats({"a": parts["a"]}, 1, each=False)
    assert merged["oldestBacklogMessageAgeSeconds"] == 0
    assert "oldestBacklogMessageSubscriptionName" not in merged
