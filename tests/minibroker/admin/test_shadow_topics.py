"""Shadow topics: the messages of the source with their ids. tests/conform contains conversations of a real 4.2.4."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.topic_name import TopicName

SOURCE, SHADOW = "persistent://public/default/t", "persistent://public/default/s"
REST = "/admin/v2/persistent/public/default"


@pytest.fixture
def stage(world, rest):
    """Return a producer of the source, and a consumer of the shadow topic with permits."""
    producer, consumer = world.client(), world.client()
    producer.producer("t")
    assert rest("PUT", f"{REST}/s", {"PULSAR.SHADOW_SOURCE": SOURCE}).status == 204
    assert rest("PUT", f"{REST}/t/shadowTopics", [SHADOW]).status == 204
    consumer.subscribe("s")
    consumer.flow()
    return producer, consumer


def places(bodies):
    return [(body.message_id.ledgerId, body.message_id.entryId) for body in bodies]


def test_messages_have_the_ids_of_the_source(world, stage):
    producer, consumer = stage
    receipts = producer.publish("m0") + producer.publish("m1")
    assert places(consumer.hear()) == places(receipts)
    assert len(world.broker.topics[SHADOW].ledger.read(0, 10, 1000)) == 2


def test_the_source_starts_a_new_ledger_when_its_shadow_topic_has_been_loaded(world, rest):
    """The shadow topic opens the ledger with recovery. Without subscriptions, the closed ledger is deleted."""
    producer = world.client()
    producer.producer("t")
    [before] = places(producer.publish("m0"))
    assert rest("PUT", f"{REST}/s", {"PULSAR.SHADOW_SOURCE": SOURCE}).status == 204
    assert rest("GET", f"{REST}/t/internalStats").json["currentLedgerEntries"] == 1
    [after] = places(producer.publish("m1"))
    assert after == (after[0], 0)
    assert after[0] > before[0]
    assert [one["ledgerId"] for one in rest("GET", f"{REST}/t/internalStats").json["ledgers"]] == [after[0]]


def test_the_size_is_that_of_the_replicated_metadata(world, rest, stage):
    stage[0].publish("m0" * 100)
    stats = rest("GET", f"{REST}/s/stats").json
    assert stats["bytesOutCounter"] > 200 > stats["bytesInCounter"] == stats["storageSize"]
    [replicator] = stats["publishers"]
    assert replicator["producerName"] == f"pulsar.repl-{SOURCE}-->{SHADOW}"
    assert replicator["clientVersion"] == "Pulsar-Java-v4.2.4"


def test_an_expired_message_is_readable_after_the_next_one(world, rest, stage):
    producer, consumer = stage
    assert rest("POST", f"{REST}/t/messageTTL?messageTTL=10").status == 204
    world.now += 1000
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=world.now - 20_000)
    producer(pb.CommandSend(producer_id=1, sequence_id=0), entry=push_entry(metadata, b"old"))
    assert consumer.hear() == []
    producer.publish("new")
    assert len(consumer.hear()) == 2


def test_ledgers_that_the_source_deletes_disappear(world, stage):
    producer, _ = stage
    producer.publish("m0")
    world.broker.unload(world.broker.topics[SOURCE])
    world.broker.topics[SOURCE].trim(all_closed=True)
    shadow, source = world.broker.topics[SHADOW].ledger, world.broker.topics[SOURCE].ledger
    assert [one.id for one in shadow.ledgers] == [one.id for one in source.ledgers]
    assert (shadow.first, shadow.next) == (1, 1)


def test_each_partition_is_the_shadow_of_one_partition(world, rest):
    media = "application/vnd.partitioned-topic-metadata+json"
    body = {"partitions": 2, "properties": {"PULSAR.SHADOW_SOURCE": SOURCE}}
    assert rest("PUT", f"{REST}/t/partitions", 2).status == 204
    assert rest("PUT", f"{REST}/s/partitions", body, media=media).status == 204
    assert rest("PUT", f"{REST}/t/shadowTopics", [SHADOW]).status == 204
    producer, consumer = world.client(), world.client()
    producer.producer("t-partition-1")
    consumer.subscribe("s-partition-1")
    consumer.flow()
    assert places(producer.publish("m0")) == places(consumer.hear())
    topic = world.broker.topic_registry.load(TopicName.parse(f"{SHADOW}-partition-1"))
    assert str(topic.shadow_source) == f"{SOURCE}-partition-1"


def test_after_the_forced_deletion_of_the_shadow_topic_the_source_works(world, rest, stage):
    producer, _ = stage
    assert rest("DELETE", f"{REST}/s?force=true").status == 204
    assert len(producer.publish("m0")) == 1
    assert rest("DELETE", f"{REST}/t?force=true").status == 204
    assert not world.broker.failures


@pytest.mark.parametrize(
    ("path", "body", "media"),
    [
        ("s", {"PULSAR.SHADOW_SOURCE": SOURCE}, "application/json"),
        (
            "p/partitions",
            {"partitions": 2, "properties": {"PULSAR.SHADOW_SOURCE": SOURCE}},
            "application/vnd.partitioned-topic-metadata+json",
        ),
        ("t/properties", {"PULSAR.SHADOW_SOURCE": SOURCE}, "application/json"),
        ("t/shadowTopics", [SHADOW], "application/json"),
        ("t/shadowTopics", [], "application/json"),
    ],
)
def test_shadow_topics_are_disabled_by_default_in_version_5(make_rest, path, body, media):
    """Responses of a real 5.0.1. With the setting, it behaves like 4.2.4 (``tests/conform``)."""
    _, rest = make_rest(version="5.0.1")
    assert rest("PUT", f"{REST}/t").status == 204
    answer = rest("PUT", f"{REST}/{path}", body, media)
    assert (answer.status, answer.json) == (405, {"reason": "Shadow topics are disabled"})
    assert rest("GET", f"{REST}/s/stats").status == rest("GET", f"{REST}/p/partitioned-stats").status == 404
