"""The lifecycle of a topic: unload, terminate, delete, policy changes. Expected values are those of a real 4.2.4."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import Refused

EXCLUSIVE, WAIT = pb.Exclusive, pb.WaitForExclusive
T = "persistent://public/default/t"
N = "non-persistent://public/default/t"
ENTRY = push_entry(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"hello")


def kinds(bodies):
    """Return a received command with its id: 'CloseProducer 1'."""
    ids = [getattr(body, "producer_id", getattr(body, "consumer_id", "")) for body in bodies]
    return [f"{type(body).__name__.removeprefix('Command')} {number}" for body, number in zip(bodies, ids)]


def busy(client, topic=T):
    """Create two producers and two consumers of two subscriptions on one connection."""
    client.subscribe(topic, consumer_id=1)
    client.producer(topic, producer_id=1)
    client.producer(topic, producer_id=2)
    client.subscribe(topic, consumer_id=2, subscription="other")


# -- unload ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [T, N])
def test_unload_closes_producers_then_consumers(client, world, name):
    busy(client, name)
    world.broker.unload(world.broker.topics[name])
    world.deliver()
    heard = client.hear()
    assert kinds(heard) == ["CloseProducer 1", "CloseProducer 2", "CloseConsumer 1", "CloseConsumer 2"]
    assert {body.request_id for body in heard} == {2**64 - 1}


def test_after_an_unload_there_is_a_new_ledger_and_all_entries(client, world):
    client.producer()
    client.subscribe()
    [first] = client.publish("m0")
    world.broker.unload(world.broker.topics[T])
    world.deliver()
    client.hear()
    client.producer()
    [second] = client.publish("m1")
    assert second.message_id.ledgerId > first.message_id.ledgerId
    assert second.message_id.entryId == 0
    client.subscribe()
    assert len(client.flow()) == 2


def test_an_unload_drops_ack_sets(client, world):
    """Complete acknowledgements of entries are kept; ack sets are stored in memory only."""
    client.producer()
    client.subscribe(subType=pb.CommandSubscribe.Shared)
    about = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=3)
    for sequence in range(2):
        client(pb.CommandSend(producer_id=1, sequence_id=sequence), entry=push_entry(about, b""))
    part, whole = (message.message_id for message in client.flow())
    part.ack_set.append(0b110)
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[part, whole]))
    world.broker.unload(world.broker.topics[T])
    world.deliver()
    client.hear()
    client.subscribe(subType=pb.CommandSubscribe.Shared)
    [again] = client.flow()
    assert (again.message_id.entryId, [*again.ack_set]) == (part.entryId, [])


def test_clients_below_version_5_lose_the_connection(world):
    old, new = world.client(version=4), world.client(version=5)
    for client in (old, new):
        client.producer(producer_id=1)
        client.subscribe(consumer_id=1, subscription=f"{client.connection.version}")
    world.broker.unload(world.broker.topics[T])
    world.broker.finish_turn()
    world.deliver()
    assert old.closed
    assert old.hear() == []
    assert kinds(new.hear()) == ["CloseProducer 1", "CloseConsumer 1"]


def test_an_unload_removes_a_non_persistent_topic(client, world):
    assert client.producer(N, producer_access_mode=EXCLUSIVE).topic_epoch == 0
    world.broker.unload(world.broker.topics[N])
    world.deliver()
    client.hear()
    assert N not in world.broker.topics
    assert client.producer(N, producer_access_mode=EXCLUSIVE).topic_epoch == 0


def test_an_unload_resets_the_counters(client, world):
    client.producer()
    client.publish()
    topic = world.broker.topics[T]
    assert topic.messages_in == 1
    world.broker.unload(topic)
    assert (topic.messages_in, topic.bytes_in) == (0, 0)


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda broker, topic: broker.unload(topic), pb.ServiceNotReady),
        (lambda broker, topic: broker.terminate(topic), pb.TopicTerminatedError),
        (lambda broker, topic: broker.delete_topic(topic.name, force=True), pb.ServiceNotReady),
    ],
    ids=["unload", "terminate", "delete"],
)
def test_an_unload_refuses_the_next_waiting_producer_only(world, act, code):
    holder, second, third = (world.client() for _ in range(3))
    holder.producer(producer_access_mode=EXCLUSIVE)
    second.producer(producer_access_mode=WAIT)
    third.producer(producer_access_mode=WAIT)
    act(world.broker, world.broker.topics[T])
    world.deliver()
    assert kinds(holder.hear()) == ["CloseProducer 1"]
    [refused] = second.hear()
    assert refused.error == code
    assert third.hear() == []


def test_an_unload_empties_the_queue_and_keeps_the_epoch(world):
    holder, second, third = (world.client() for _ in range(3))
    holder.producer(producer_access_mode=EXCLUSIVE)
    second.producer(producer_access_mode=WAIT)
    third.producer(producer_access_mode=WAIT)
    world.broker.unload(world.broker.topics[T])
    world.deliver()
    assert holder.hear()
    assert second.hear()
    # 0 is the holder; 1 was promoted and refused
    assert holder.producer(producer_access_mode=EXCLUSIVE).topic_epoch == 2
    assert third.producer().error == pb.ServiceNotReady
    assert isinstance(third.one(pb.CommandCloseProducer(producer_id=1)), pb.CommandSuccess)
    assert third.producer().error == pb.ProducerBusy


# -- terminate -------------------------------------------------------------------------------------------------------


def test_terminate_closes_producers_and_notifies_finished_consumers(client, world):
    busy(client)
    [receipt] = client.publish()
    client(pb.CommandFlow(consumer_id=2, messagePermits=1))
    client(pb.CommandAck(consumer_id=2, ack_type=pb.CommandAck.Individual, message_id=[receipt.message_id]))
    topic = world.broker.topics[T]
    last = world.broker.terminate(topic)
    world.deliver()
    assert last == (receipt.message_id.ledgerId, receipt.message_id.entryId)
    assert kinds(client.hear()) == ["CloseProducer 1", "CloseProducer 2", "ReachedEndOfTopic 2"]
    assert topic.terminated
    # A second request returns the same response and notifies the consumers again.
    assert world.broker.terminate(topic) == last
    world.deliver()
    assert kinds(client.hear()) == ["ReachedEndOfTopic 2"]
    assert client.producer(producer_id=3).error == pb.TopicTerminatedError


def test_a_cleared_backlog_of_a_terminated_topic_notifies_no_consumer(client, world):
    """Only an acknowledgement or an empty read does."""
    client.subscribe(consumer_id=1)
    client.producer()
    client.publish()
    client(pb.CommandFlow(consumer_id=1, messagePermits=10))
    topic = world.broker.topics[T]
    world.broker.terminate(topic)
    world.deliver()
    client.hear()
    topic.subscriptions["sub"].skip_all()
    world.deliver()
    assert client.hear() == []


def test_a_topic_stays_terminated_after_an_unload(client, world):
    client.producer()
    topic = world.broker.topics[T]
    world.broker.terminate(topic)
    world.broker.unload(topic)
    world.deliver()
    client.hear()
    assert client.producer(producer_id=2).error == pb.TopicTerminatedError


def test_non_persistent_topics_cannot_be_terminated(client, world):
    client.producer(N)
    with pytest.raises(Refused) as refused:
        world.broker.terminate(world.broker.topics[N])
    assert refused.value.code == pb.NotAllowedError
    assert client.hear() == []


# -- delete ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["producer", "consumer"])
def test_a_topic_in_use_is_not_deleted(client, world, who):
    getattr(client, "producer" if who == "producer" else "subscribe")()
    with pytest.raises(Refused, match="1 connected"):
        world.broker.delete_topic(TopicName.parse(T))
    world.deliver()
    assert client.hear() == []


@pytest.mark.parametrize("name", [T, N])
def test_a_forced_delete_closes_consumers_then_producers(client, world, name):
    busy(client, name)
    world.broker.delete_topic(TopicName.parse(name), force=True)
    world.deliver()
    assert kinds(client.hear()) == ["CloseConsumer 1", "CloseConsumer 2", "CloseProducer 1", "CloseProducer 2"]
    assert name not in world.broker.topics


def test_a_deleted_topic_loses_its_entries_and_subscriptions(client, world):
    client.producer()
    client.subscribe()
    client.publish()
    world.broker.delete_topic(TopicName.parse(T), force=True)
    world.deliver()
    client.hear()
    client.subscribe(initialPosition=pb.CommandSubscribe.Earliest)
    assert client.flow() == []
    assert list(world.broker.topics[T].subscriptions) == ["sub"]


def test_a_deletion_resumes_paused_connections(make_world):
    world = make_world(maxPublishRatePerTopicInMessages=1)
    client = world.client()
    client.producer()
    client.publish()
    assert not client.connection.reading
    world.broker.delete_topic(TopicName.parse(T), force=True)
    assert client.connection.reading


# -- policies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"encryptionRequireOnProducer": True},
        {"delayedDeliveryMaxDelayInMillis": 1},
        {"brokerDeduplicationEnabled": True},
        {"brokerEntryMetadataInterceptors": ["x.AppendIndexMetadataInterceptor"]},
        {"maxPublishRatePerTopicInBytes": 1},
        {"brokerPublisherThrottlingMaxByteRate": 1},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_every_policy_of_a_send_clears_the_fast_path(make_world, settings):
    world = make_world(**settings)
    client = world.client()
    client.producer(encrypted=True)
    topic = world.broker.topics[T]
    assert (topic.fast_path, topic.producers["standalone-0-0"].fast_path) == (False, False)


def test_the_fast_path_is_the_default(client, world):
    client.producer()
    client.producer(N, producer_id=2)
    topic = world.broker.topics[T]
    assert (topic.fast_path, topic.producers["standalone-0-0"].fast_path) == (True, True)
    assert not world.broker.topics[N].fast_path


# -- counters and ledgers --------------------------------------------------------------------------------------------


def test_counters_include_producers_that_left(client, world):
    topic_of = world.broker.topics
    client.producer()
    client(pb.CommandSend(producer_id=1, sequence_id=0, num_messages=5), entry=ENTRY)
    client(pb.CommandCloseProducer(producer_id=1))
    client.producer()
    client(pb.CommandSend(producer_id=1, sequence_id=0, num_messages=2, marker=True), entry=ENTRY)
    assert (topic_of[T].messages_in, topic_of[T].bytes_in) == (7, 2 * len(ENTRY))


def test_unneeded_closed_ledgers_are_deleted(make_world):
    world = make_world(managedLedgerMaxEntriesPerLedger=2, managedLedgerMinLedgerRolloverTimeMinutes=0)
    client = world.client()
    client.producer()
    client.subscribe()
    ids = [client.publish(f"m{number}", number)[0].message_id for number in range(5)]
    ledger = world.broker.topics[T].ledger
    assert [one.entries for one in ledger.ledgers] == [2, 2, 1]
    client.flow()
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Cumulative, message_id=[ids[2]]))
    assert ledger.first == 2
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Cumulative, message_id=[ids[4]]))
    assert ledger.first == 4


@pytest.fixture
def small(make_world):
    """A broker whose ledgers contain two entries, and a client with a producer."""
    world = make_world(managedLedgerMaxEntriesPerLedger=2, managedLedgerMinLedgerRolloverTimeMinutes=0)
    client = world.client()
    client.producer()
    return world, client


def publish(client, count):
    for number in range(count):
        client.publish(f"m{number}", number)


def test_closed_ledgers_are_deleted_at_once_without_subscriptions(small):
    world, client = small
    publish(client, 21)
    assert [one.entries for one in world.broker.topics[T].ledger.ledgers] == [1]


def test_closed_ledgers_are_deleted_with_the_last_subscription(small):
    world, client = small
    client.subscribe()
    publish(client, 21)
    ledger = world.broker.topics[T].ledger
    assert len(ledger.ledgers) == 11
    client(pb.CommandUnsubscribe(consumer_id=1))
    assert [one.entries for one in ledger.ledgers] == [1]


def test_a_reader_at_the_end_receives_the_entry_that_closes_a_ledger(small):
    world, client = small
    client.subscribe(durable=False)
    client.flow()
    heard = []
    for number in range(6):
        heard += [type(body) for body in client.publish(f"m{number}", number)]
    assert heard.count(pb.CommandMessage) == 6
    assert world.broker.topics[T].ledger.first == 6


def test_a_subscription_is_removed_by_identity(client, world):
    client.subscribe()
    topic = world.broker.topics[T]
    old = topic.subscriptions["sub"]
    topic.remove_subscription(old)
    assert topic.subscriptions == {}
    new = topic.create_subscription("sub", 0)
    topic.remove_subscription(old)
    assert topic.subscriptions == {"sub": new}
