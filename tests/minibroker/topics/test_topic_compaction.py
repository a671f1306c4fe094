"""Compactions of a topic: thresholds, slices, and what ends a compaction."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.minibroker.compaction.compactor import TwoPhaseCompactor
from pcli.minibroker.topics.topic_compaction import COMPACTION, AlreadyRunningError

TOPIC = "persistent://public/default/t"


class Scene:
    """A topic with keyed messages."""

    def __init__(self, world):
        self.world, self.client = world, world.client()
        self.client.producer("t")
        self.topic = world.broker.topics[TOPIC]
        self.compaction = self.topic.compaction
        self.next = 0

    def publish(self, count, keys=10, payload=b"hello"):
        for _ in range(count):
            metadata = pb.MessageMetadata(
                producer_name="p", sequence_id=self.next, publish_time=1, partition_key=str(self.next % keys)
            )
            self.client(pb.CommandSend(producer_id=1, sequence_id=self.next), entry=push_entry(metadata, payload))
            self.next += 1

    def read(self):
        """Return the entry ids that a reader with readCompacted receives."""
        reader = self.world.client()
        start = pb.MessageIdData(ledgerId=(1 << 64) - 1, entryId=(1 << 64) - 1)
        reader.subscribe("t", subscription="r", durable=False, read_compacted=True, start_message_id=start)
        received = [body.message_id.entryId for body in reader.flow()]
        reader.leave()
        return received


@pytest.fixture
def scene(world):
    return Scene(world)


@pytest.mark.parametrize("level", ["broker", "namespace", "topic"])
def test_the_threshold_counts_from_the_last_compaction(make_world, level):
    settings = {"brokerServiceCompactionThresholdInBytes": 450} if level == "broker" else {}
    world = make_world(brokerServiceCompactionMonitorIntervalInSeconds=5, **settings)
    scene = Scene(world)
    policies = world.broker.policies
    if level == "namespace":
        policies.set_namespace("public/default", "compactionThreshold", 450)
    elif level == "topic":
        policies.set_topic(scene.topic.name, "compactionThreshold", 450)
    for published, horizon in ((15, -1), (20, 19), (25, 19), (40, 39)):
        scene.publish(published - scene.next)
        world.wait(6000)
        assert scene.compaction.compacted.horizon == horizon
    assert (scene.compaction.status, scene.read()) == ("SUCCESS", list(range(30, 40)))
    finished = scene.compaction.record.succeeded
    world.wait(6000)
    assert scene.compaction.record.succeeded == finished


def test_a_threshold_creates_the_subscription_of_the_compactor_at_once(world, scene):
    """The subscription keeps a topic without other subscriptions from being deleted."""
    world.broker.policies.set_namespace("public/default", "compactionThreshold", 450)
    assert list(scene.topic.subscriptions) == [COMPACTION]


def test_a_long_compaction_pauses_for_other_work(world, scene):
    scene.publish(1200)
    scene.compaction.trigger()
    world.advance(1)
    assert scene.compaction.status == "RUNNING"
    with pytest.raises(AlreadyRunningError):
        scene.compaction.trigger()
    scene.publish(1)
    world.wait(10)
    assert scene.compaction.status == "SUCCESS"
    assert scene.compaction.record.removed == 1190
    assert scene.compaction.record.duration > 1
    assert scene.read() == list(range(1190, 1201))


def test_nothing_is_deleted_before_it_is_compacted(make_world):
    world = make_world(managedLedgerMaxEntriesPerLedger=10, managedLedgerMinLedgerRolloverTimeMinutes=0)
    scene = Scene(world)
    scene.compaction.trigger()
    world.wait(5)
    scene.publish(25, keys=3)
    assert len(scene.topic.ledger.ledgers) == 3
    scene.compaction.trigger()
    world.wait(5)
    assert len(scene.topic.ledger.ledgers) == 1
    assert scene.read() == [2, 3, 4]


def test_an_unload_ends_a_compaction(world, scene):
    scene.publish(1200, payload=bytes(2000))
    kept = world.broker.pool.kept
    scene.compaction.trigger()
    world.advance(1)
    world.broker.unload(scene.topic)
    world.wait(100)
    assert scene.compaction.status == "NOT_RUN"
    assert scene.compaction.compacted.ledger is None
    assert world.broker.pool.kept == kept


def test_the_deletion_of_the_subscription_finishes_a_compaction(world, scene):
    scene.publish(1200)
    scene.compaction.trigger()
    world.advance(1)
    scene.topic.remove_subscription(scene.topic.subscriptions[COMPACTION])
    assert scene.compaction.status == "SUCCESS"
    assert scene.compaction.compacted.ledger is None
    assert len(scene.read()) == 1000


def test_the_deletion_of_the_subscription_before_a_compaction_begins(world, scene):
    scene.topic.create_subscription(COMPACTION, 0)
    scene.publish(20)
    scene.compaction.trigger()
    scene.topic.remove_subscription(scene.topic.subscriptions[COMPACTION])
    world.wait(5)
    assert (scene.compaction.status, scene.read()) == ("SUCCESS", list(range(10, 20)))


def test_a_truncation_during_a_compaction(make_world):
    """The entries that are left, or that were read before, are compacted."""
    world = make_world(managedLedgerMaxEntriesPerLedger=700, managedLedgerMinLedgerRolloverTimeMinutes=0)
    scene = Scene(world)
    scene.topic.create_subscription("sub", 0)
    scene.publish(1400)
    scene.compaction.trigger()
    world.advance(1)
    for subscription in scene.topic.subscriptions.values():
        subscription.skip_all()
    scene.topic.trim(all_closed=True)
    assert scene.topic.ledger.first == 1400
    world.wait(10)
    assert scene.compaction.status == "SUCCESS"
    assert scene.compaction.compacted.horizon == 1399


def test_a_deleted_topic_releases_its_compacted_messages(world, scene):
    scene.publish(20)
    scene.compaction.trigger()
    world.wait(5)
    world.broker.delete_topic(scene.topic.name, force=True)
    assert world.broker.pool.kept == 0


def test_a_full_storage_makes_a_compaction_fail(world, scene):
    scene.publish(20, payload=bytes(1000))
    world.broker.pool.max_backlog = world.broker.pool.kept + 3000
    kept = world.broker.pool.kept
    scene.compaction.trigger()
    world.wait(5)
    assert scene.compaction.status == "ERROR"
    assert "limit" in scene.compaction.error
    assert scene.compaction.record.failed > 0
    assert world.broker.pool.kept == kept


def test_a_consumer_of_the_compactors_subscription_makes_it_fail(world, scene):
    world.client().subscribe("t", subscription=COMPACTION)
    scene.publish(1)
    scene.compaction.trigger()
    world.wait(5)
    assert scene.compaction.status == "ERROR"
    assert "ConsumerBusyException" in scene.compaction.error


@pytest.mark.parametrize("exposes", [False, True])
def test_broker_entry_metadata_is_kept_if_clients_receive_it(make_world, exposes):
    interceptor = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
    world = make_world(
        exposingBrokerEntryMetadataToClientEnabled=exposes, brokerEntryMetadataInterceptors=[interceptor]
    )
    scene = Scene(world)
    scene.publish(3, keys=1)
    scene.compaction.trigger()
    world.wait(5)
    entry = scene.compaction.compacted.ledger.last()
    entry.parse()
    assert (entry.entry_id, entry.block > 0) == (2, exposes)


def test_an_internal_error_ends_a_compaction(world, scene, monkeypatch):
    scene.publish(1)
    monkeypatch.setattr(TwoPhaseCompactor, "run", lambda _: 1 // 0)
    scene.compaction.trigger()
    world.wait(5)
    assert (scene.compaction.status, scene.compaction.error[:18]) == ("ERROR", "ZeroDivisionError:")
    assert isinstance(world.broker.failures.pop(), ZeroDivisionError)
    monkeypatch.undo()
    scene.compaction.trigger()
    world.wait(5)
    assert scene.compaction.status == "SUCCESS"
