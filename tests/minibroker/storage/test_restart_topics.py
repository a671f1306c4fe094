"""Deduplication, compaction, schemas and shadow topics after a restart of a broker with durable storage."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from tests.minibroker.topics.test_topic_compaction import Scene

TOPIC = "/admin/v2/persistent/public/default/t"


# -- deduplication -----------------------------------------------------------------------------------------------------


def send(client: Any, *ids: int) -> list[bool]:
    """Send messages with these sequence ids; return whether each of them was stored."""
    receipts = [client.publish(sequence_id=number)[0] for number in ids]
    return [receipt.message_id.entryId < 1 << 63 for receipt in receipts]


@pytest.mark.parametrize("interval", [1, 2, 1000])
def test_resent_messages_are_duplicates_after_a_restart(make_world: Any, interval: int) -> None:
    world = make_world(brokerDeduplicationEnabled=True, brokerDeduplicationEntriesInterval=interval)
    client = world.client()
    client.producer(producer_name="p")
    assert send(client, 0, 1, 5) == [True, True, True]
    world.restart(lazy=False)
    client = world.client()
    assert client.producer(producer_name="p").last_sequence_id == 5
    assert send(client, 4, 5, 6) == [False, False, True]


def test_deduplication_starts_without_ids_when_it_is_enabled_again(make_world: Any) -> None:
    world = make_world()
    policy = f"{TOPIC}/deduplicationEnabled"
    client = world.client()
    client.producer(producer_name="p")
    world.rest("POST", policy, body=True)
    send(client, 3)
    world.rest("POST", policy, body=False)
    assert not [path for path in world.database.texts if path.startswith("/deduplication/")]
    world.restart()
    client = world.client()
    client.producer(producer_name="p")
    world.rest("POST", policy, body=True)
    assert send(client, 3, 3) == [True, False]


# -- compaction --------------------------------------------------------------------------------------------------------


def test_a_compacted_ledger_remains_without_the_original_entries(make_world: Any) -> None:
    world = make_world()
    scene = Scene(world)
    scene.publish(25, keys=3)
    scene.compaction.trigger()
    world.wait(5)
    world.restart(lazy=False)
    scene = Scene(world)
    world.rest("POST", f"{TOPIC}/trim")
    assert scene.topic.ledger.first == 25
    assert scene.read() == [22, 23, 24]
    world.restart(lazy=False)
    scene = Scene(world)
    assert scene.read() == [22, 23, 24]
    assert scene.compaction.compacted.horizon == 24
    scene.next = 25
    scene.publish(1, keys=3)
    scene.compaction.trigger()
    world.wait(5)
    assert len(world.database.entries) == 3
    world.restart(lazy=False)
    assert Scene(world).read() == [23, 24, 0]


def test_an_interrupted_compaction_leaves_nothing(make_world: Any) -> None:
    world = make_world()
    scene = Scene(world)
    scene.publish(1200, keys=1200)
    scene.compaction.trigger()
    world.wait(4)
    assert scene.compaction.status == "RUNNING"
    world.write()
    assert len(world.database.entries) > 1
    world.restart(lazy=False)
    scene = Scene(world)
    world.write()
    assert len(world.database.entries) == 1
    assert not [path for path in world.database.texts if path.startswith("/compacted-ledgers/")]
    assert len(scene.read()) == 1000  # the permits of the reader


# -- schemas -----------------------------------------------------------------------------------------------------------


def test_schemas_keep_their_versions_and_deletions(make_world: Any) -> None:
    world = make_world()
    path = "/admin/v2/schemas/public/default/t/schema"
    world.client().producer()

    def post(name: str) -> Any:
        text = f'{{"type":"record","name":"R","fields":[{{"name":"{name}","type":["null","int"],"default":null}}]}}'
        return world.rest("POST", path, {"type": "AVRO", "schema": text, "properties": {}}).json["version"]["version"]

    assert [post("a"), post("b")] == [0, 1]
    before = world.rest("GET", f"{path}s").json
    world.restart(lazy=False)
    assert world.rest("GET", f"{path}s").json == before
    assert [post("a"), post("c")] == [0, 2]
    world.rest("DELETE", path)
    world.restart(lazy=False)
    assert world.rest("GET", path).status == 404
    assert post("a") == 4


# -- shadow topics -----------------------------------------------------------------------------------------------------


def test_a_shadow_topic_contains_the_entries_of_its_source(make_world: Any) -> None:
    world = make_world()
    client = world.client()
    client.subscribe()
    client.producer()
    client.publish("a")
    source = "persistent://public/default/t"
    assert world.rest("PUT", f"{TOPIC}-shadow", {"PULSAR.SHADOW_SOURCE": source}).status == 204
    assert world.rest("PUT", f"{TOPIC}/shadowTopics", [f"{source}-shadow"]).status == 204
    client.publish("b")
    world.restart(lazy=False)
    client = world.client()
    client.subscribe("t-shadow", initialPosition=pb.CommandSubscribe.Earliest)
    assert len(client.flow()) == 2
    client.producer()
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=2, publish_time=world.now)
    client(pb.CommandSend(producer_id=1, sequence_id=2), entry=push_entry(metadata, b"c"))
    assert world.broker.topics[f"{source}-shadow"].ledger.next == 3
