"""What clients observe after a restart of a broker with durable storage."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.topic_name import TopicName

TYPES = pb.CommandSubscribe.SubType
TOPIC = "/admin/v2/persistent/public/default/t"


def subscribe(world: Any, kind: Any = TYPES.Shared, **fields: Any) -> Any:
    """Return a new client with a consumer of subscription ``sub``."""
    client = world.client()
    client.subscribe(subType=kind, initialPosition=pb.CommandSubscribe.Earliest, **fields)
    return client


def publish(world: Any, *texts: str, topic: str = "t") -> list[tuple[int, int]]:
    """Publish messages with a new producer; return their ids."""
    client = world.client()
    client.producer(topic)
    return [place(client.publish(text, sequence_id=number)[0]) for number, text in enumerate(texts)]


def place(body: Any) -> tuple[int, int]:
    return body.message_id.ledgerId, body.message_id.entryId


def ack(client: Any, *places: tuple[int, int], **fields: Any) -> Any:
    ids = [pb.MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in places]
    return client(pb.CommandAck(consumer_id=1, ack_type=fields.pop("ack_type", 0), message_id=ids, **fields))


def delivered(client: Any) -> list[tuple[int, int]]:
    return [place(body) for body in client.flow() if isinstance(body, pb.CommandMessage)]


def test_messages_and_a_subscription_remain(make_world: Any) -> None:
    world = make_world()
    subscribe(world)
    sent = publish(world, "a", "b", "c")
    world.restart(lazy=False)
    assert delivered(subscribe(world)) == sent


def test_a_subscription_that_a_later_consumer_made_replicated_remains_replicated(make_world: Any) -> None:
    world = make_world()
    subscribe(world)
    subscribe(world, replicate_subscription_state=True)
    world.restart(lazy=False)
    answer = world.rest("GET", f"{TOPIC}/subscription/sub/replicatedSubscriptionStatus")
    assert answer.json == {"persistent://public/default/t": True}


def test_a_restart_opens_a_new_ledger_and_removes_an_empty_one(make_world: Any) -> None:
    world = make_world()
    [first] = publish(world, "a")
    world.restart()
    subscribe(world)
    world.restart()
    [second] = publish(world, "b")
    assert second[0] > first[0]
    assert second[1] == 0
    ledgers = world.rest("GET", f"{TOPIC}/internalStats").json["ledgers"]
    assert [one["ledgerId"] for one in ledgers] == [first[0], second[0]]
    assert delivered(subscribe(world)) == [first, second]


def test_sizes_of_ledgers_are_those_before_the_restart(make_world: Any) -> None:
    world = make_world()
    publish(world, "a", "bcd")
    size = world.broker.topics["persistent://public/default/t"].ledger.total_size
    world.restart()
    world.client().look_up("t")
    assert world.rest("GET", f"{TOPIC}/internalStats").json["totalSize"] == size


def test_statistics_after_a_restart(make_world: Any) -> None:
    world = make_world()
    consumer = subscribe(world)
    sent = publish(world, "a", "b", "c")
    ack(consumer, sent[1])
    world.restart()
    subscribe(world).flow()
    stats = world.rest("GET", f"{TOPIC}/stats").json
    published = world.broker.topics["persistent://public/default/t"].ledger.entry(2).metadata.publish_time
    assert stats["lastPublishTimeStamp"] == published
    # The size of the acknowledged ranges is that of the last ones that were written since the topic was loaded.
    assert stats["nonContiguousDeletedMessagesRangesSerializedSize"] == 0
    # The position after a read is in the ledger that was read, although there is a new one.
    assert world.rest("GET", f"{TOPIC}/internalStats").json["cursors"]["sub"]["readPosition"] == f"{sent[0][0]}:3"


def test_a_topic_that_was_terminated_before_the_restart_has_no_open_ledger(make_world: Any) -> None:
    world = make_world()
    publish(world, "a")
    world.rest("POST", f"{TOPIC}/terminate")
    open_: list[Any] = []
    closed: list[Any] = []
    for shown in (open_, closed):
        stats = world.rest("GET", f"{TOPIC}/internalStats").json
        shown += [stats["state"], stats["currentLedgerEntries"], stats["ledgers"][0]["entries"]]
        world.restart()
        world.client().look_up("t")
    assert (open_, closed) == (["Terminated", 1, 0], ["Terminated", 0, 1])


def test_acknowledged_messages_are_not_delivered_again(make_world: Any) -> None:
    world = make_world()
    consumer = subscribe(world)
    sent = publish(world, "a", "b", "c", "d")
    consumer.flow()
    ack(consumer, sent[0], sent[2])
    world.restart()
    assert delivered(subscribe(world)) == [sent[1], sent[3]]


def test_a_confirmed_acknowledgement_survives_a_crash(make_world: Any) -> None:
    world = make_world()
    consumer = subscribe(world)
    sent = publish(world, "a", "b", "c")
    consumer.flow()
    ack(consumer, sent[1])
    world.restart(lazy=False)
    consumer = subscribe(world)
    assert delivered(consumer) == sent
    assert ack(consumer, sent[1], request_id=1)[0].request_id == 1
    world.restart(lazy=False)
    assert delivered(subscribe(world)) == [sent[0], sent[2]]


def test_the_acknowledged_messages_of_a_batch_survive_a_restart_but_not_an_unload(make_world: Any) -> None:
    world = make_world()
    consumer = subscribe(world)
    [sent] = publish(world, "a")
    consumer.flow()
    ids = [pb.MessageIdData(ledgerId=sent[0], entryId=sent[1], ack_set=[0b101])]
    consumer(pb.CommandAck(consumer_id=1, ack_type=0, message_id=ids))
    world.restart()
    consumer = subscribe(world)
    [message] = [body for body in consumer.flow() if isinstance(body, pb.CommandMessage)]
    assert list(message.ack_set) == [0b101]
    world.rest("PUT", f"{TOPIC}/unload")
    world.restart()
    [message] = [body for body in subscribe(world).flow() if isinstance(body, pb.CommandMessage)]
    assert list(message.ack_set) == []


def test_an_orderly_end_keeps_what_an_unload_loses(make_world: Any) -> None:
    world = make_world()
    consumer = subscribe(world)
    [sent] = publish(world, "a")
    ids = [pb.MessageIdData(ledgerId=sent[0], entryId=sent[1], ack_set=[0b10])]
    consumer(pb.CommandAck(consumer_id=1, ack_type=0, message_id=ids))
    world.write()
    world.broker.close()
    assert not world.storage.dirty
    world.restart(lazy=False)
    [message] = [body for body in subscribe(world).flow() if isinstance(body, pb.CommandMessage)]
    assert list(message.ack_set) == [0b10]


def test_a_seek_survives_a_crash(make_world: Any) -> None:
    world = make_world()
    consumer = subscribe(world)
    sent = publish(world, "a", "b", "c")
    consumer.flow()
    ack(consumer, *sent)
    consumer.one(pb.CommandAck(consumer_id=1, ack_type=0, request_id=4))
    consumer(pb.CommandSeek(consumer_id=1, message_id=pb.MessageIdData(ledgerId=sent[1][0], entryId=1)))
    world.restart(lazy=False)
    assert delivered(subscribe(world)) == sent[1:]


def test_a_deleted_subscription_and_a_deleted_topic_leave_nothing(make_world: Any) -> None:
    world = make_world()
    world.write()
    empty = set(world.database.texts)
    consumer = subscribe(world)
    sent = publish(world, "a", "b", "c")
    consumer.flow()
    ack(consumer, sent[1])
    world.write()
    assert any(path.startswith("/cursors/public/default/persistent/t/sub/") for path in world.database.texts)
    consumer(pb.CommandUnsubscribe(consumer_id=1))
    assert not [path for path in world.database.texts if path.startswith("/cursors/")]
    subscribe(world)
    assert world.rest("DELETE", f"{TOPIC}?force=true").status == 204
    assert world.database.entries == {}
    left = set(world.database.texts) - empty
    assert left == {"/last-storage-id", "/managed-ledgers/public/default/persistent/__change_events"}
    world.restart()
    assert world.rest("GET", f"{TOPIC}/stats").status == 404


def test_a_topic_that_is_deleted_and_created_again_starts_empty(make_world: Any) -> None:
    world = make_world()
    publish(world, "a")
    world.restart()
    world.broker.begin_turn(world.now)
    world.broker.delete_topic(world.broker.topic_registry.load(TopicName.parse("t")).name, force=True)
    world.broker.topic_registry.create(TopicName.parse("t"))
    world.restart()
    assert delivered(subscribe(world)) == []


def test_a_terminated_topic_remains_terminated(make_world: Any) -> None:
    world = make_world()
    [sent] = publish(world, "a")
    assert world.rest("POST", f"{TOPIC}/terminate").json["entryId"] == sent[1]
    world.restart()
    client = world.client()
    assert client.producer().error == pb.TopicTerminatedError
    consumer = subscribe(world)
    assert delivered(consumer) == [sent]


def test_a_partitioned_topic_and_its_messages_remain(make_world: Any) -> None:
    world = make_world()
    assert world.rest("PUT", f"{TOPIC}/partitions", 3).status == 204
    sent = publish(world, "a", topic="t-partition-1")
    world.restart()
    client = world.client()
    assert client.one(pb.CommandPartitionedTopicMetadata(topic="t")).partitions == 3
    assert len(world.rest("GET", "/admin/v2/persistent/public/default").json) == 3
    client.subscribe("t-partition-1", initialPosition=pb.CommandSubscribe.Earliest)
    assert delivered(client) == sent


def test_names_and_ids_are_not_used_again(make_world: Any) -> None:
    world = make_world()
    first = world.client().producer()
    world.restart(lazy=False)
    second = world.client().producer()
    assert (first.producer_name, second.producer_name) == ("standalone-0-0", "standalone-1-0")


def test_a_producer_with_a_lower_epoch_is_fenced_after_a_restart(make_world: Any) -> None:
    world = make_world()
    client = world.client()
    epoch = client.producer(producer_access_mode=pb.Exclusive).topic_epoch
    world.restart(lazy=False)
    client = world.client()
    assert client.producer(producer_access_mode=pb.Exclusive).topic_epoch == epoch + 1


def test_the_index_of_messages_continues(make_world: Any) -> None:
    interceptor = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
    world = make_world(brokerEntryMetadataInterceptors=[interceptor])
    publish(world, "a", "b")
    world.restart(lazy=False)
    publish(world, "c")
    assert world.broker.topics["persistent://public/default/t"].message_index == 2


@pytest.mark.parametrize("lazy", [True, False])
def test_policies_of_every_level_remain(make_world: Any, lazy: bool) -> None:
    world = make_world()
    rest = world.rest
    publish(world, "a")
    requests = [
        ("PUT", "/admin/v2/clusters/west", {"serviceUrl": "http://west:8080"}),
        ("PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"], "adminRoles": ["boss"]}),
        ("PUT", "/admin/v2/namespaces/acme/shop", {"bundles": {"numBundles": 3}}),
        ("POST", "/admin/v2/namespaces/acme/shop/messageTTL", 7),
        ("POST", "/admin/v2/namespaces/public/default/permissions/app", ["produce"]),
        ("POST", f"{TOPIC}/maxProducers", 3),
        ("PUT", f"{TOPIC}/properties", {"owner": "me"}),
        ("PUT", "/admin/v2/resourcegroups/slow", {"publishRateInMsgs": 5}),
        ("POST", "/admin/v2/brokers/configuration/allowAutoTopicCreation/false", None),
    ]
    for method, path, body in requests:
        assert rest(method, path, body).status < 300, path
    paths = [path for method, path, _ in requests if "permissions" not in path and "brokers" not in path]
    paths += [
        "/admin/v2/tenants",
        "/admin/v2/namespaces/acme/shop",
        "/admin/v2/namespaces/public/default",
        "/admin/v2/brokers/configuration/values",
    ]
    before = [rest("GET", path).json for path in paths]
    world.restart(lazy=lazy)
    assert [world.rest("GET", path).json for path in paths] == before


def test_a_deleted_namespace_does_not_return(make_world: Any) -> None:
    world = make_world()
    assert world.rest("DELETE", "/admin/v2/namespaces/public/default").status == 204
    world.restart(lazy=False)
    assert world.rest("GET", "/admin/v2/namespaces/public").json == []


def test_a_changed_setting_applies_after_a_restart(make_world: Any) -> None:
    world = make_world()
    world.rest("POST", "/admin/v2/brokers/configuration/allowAutoTopicCreation/false")
    world.restart(lazy=False)
    assert world.broker.settings.allowAutoTopicCreation is False


def test_delayed_messages_wait_after_a_restart(make_world: Any) -> None:
    world = make_world()
    subscribe(world)
    client = world.client()
    client.producer()
    _publish_at(client, world.now + 5000)
    world.restart(lazy=False)
    consumer = subscribe(world)
    assert delivered(consumer) == []
    world.wait(4000)
    assert consumer.hear() == []
    world.wait(3000)
    assert len(consumer.hear()) == 1


def _publish_at(client: Any, time: int) -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=client.world.now, deliver_at_time=time)
    client(pb.CommandSend(producer_id=1, sequence_id=0, num_messages=1), entry=push_entry(metadata, b"later"))
