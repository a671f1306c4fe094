"""Changes while a client waits, returns or disconnects. The fuzz tests found all of these cases."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

TOPIC = "persistent://public/default/t"
EXCLUSIVE, SHARED = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Shared
FAILOVER, KEY_SHARED = pb.CommandSubscribe.Failover, pb.CommandSubscribe.Key_Shared


def names(bodies):
    return [type(body).__name__.removeprefix("Command") for body in bodies]


def wanting(consumer_id=1, request_id=50, **fields):
    usual = {"topic": "t", "subscription": "sub", "subType": EXCLUSIVE}
    return pb.CommandSubscribe(consumer_id=consumer_id, request_id=request_id, **usual | fields)


@pytest.fixture
def waiting(world):
    """A holder of an Exclusive subscription that receives a PING, and a consumer that waits for the subscription."""
    holder, newcomer = world.client(), world.client()
    holder.subscribe()
    assert newcomer(wanting()) == []
    assert names(holder.hear()) == ["Ping"]
    return holder, newcomer


def consistent(world):
    """The consumers of the connections are those of the topics' subscriptions."""
    attached = {one for topic in world.broker.topics.values() for one in topic.consumers}
    return attached == {one for client in world.clients for one in client.consumers.values()}


# -- a consumer waits for a subscription -----------------------------------------------------------------------------


def test_the_topic_is_deleted_during_a_liveness_check(world, waiting):
    """The client must retry, and then uses the new topic."""
    holder, newcomer = waiting
    world.broker.delete_topic(world.broker.topics[TOPIC].name, force=True)
    holder(pb.CommandPong())
    [answer] = newcomer.hear()
    assert (answer.request_id, answer.error) == (50, pb.ServiceNotReady)
    assert consistent(world)
    assert names(newcomer(wanting())) == ["Success"]
    assert consistent(world)


def test_the_subscription_is_replaced_during_a_liveness_check(world, waiting):
    """REST deletes the subscription by force, and a third client creates it again: the new subscription is used."""
    holder, newcomer = waiting
    topic = world.broker.topics[TOPIC]
    topic.subscriptions["sub"].disconnect()
    del topic.subscriptions["sub"]
    assert names(world.client()(wanting(subType=SHARED))) == ["Success"]
    holder(pb.CommandPong())
    [answer] = newcomer.hear()
    assert (answer.request_id, answer.error) == (50, pb.ConsumerBusy)
    assert consistent(world)


# -- SEEK ------------------------------------------------------------------------------------------------------------


def test_a_second_seek_does_not_close_a_consumer_with_a_reused_id(world):
    """A SEEK closed the active Failover consumer: a second CLOSE_CONSUMER does not close the new owner of the id."""
    active, standby = world.client(), world.client()
    active.look_up("t")
    active(wanting(subType=FAILOVER))
    standby(wanting(subType=FAILOVER, priority_level=1))
    seek = pb.CommandSeek(consumer_id=1, request_id=70, message_publish_time=0)
    assert "CloseConsumer" in names(active(seek))
    assert names(active(wanting(subscription="other"))) == ["Success"]
    assert names(standby(seek)) == ["Success"]
    assert names(active.hear()) == ["CloseConsumer"]
    assert [one.subscription.name for one in active.connection.consumers.values()] == ["other"]
    assert consistent(world)


def test_a_seek_before_the_failover_delay_ends(world):
    """The active consumer's SEEK closes it during the Failover delay: nothing is dispatched afterwards."""
    active, standby = world.client(), world.client()
    active.look_up("t")
    active(wanting(subType=FAILOVER))
    standby(wanting(subType=FAILOVER, priority_level=1))
    active(pb.CommandSeek(consumer_id=1, request_id=70, message_publish_time=0))
    standby.hear()
    world.wait(5_000)
    assert standby.hear() == []


# -- clients that are disconnected -----------------------------------------------------------------------------------


def test_a_batch_for_an_old_client_is_redelivered_to_others(world):
    """A client of version 3 is closed at its first batch: others receive its messages. The counters are correct."""
    old, other, producer = world.client(version=3), world.client(), world.client()
    producer.producer()
    old.subscribe(subType=SHARED)
    other.subscribe(subType=SHARED)
    for sequence in range(4):
        about = pb.MessageMetadata(
            producer_name="p", sequence_id=sequence, publish_time=1, num_messages_in_batch=3 if sequence == 1 else 1
        )
        producer(pb.CommandSend(producer_id=1, sequence_id=sequence), entry=push_entry(about, b""))
    old.flow()
    assert old.closed
    entries = [one.message_id.entryId for one in other.flow()]
    dispatcher = world.broker.topics[TOPIC].subscriptions["sub"].dispatcher
    assert sorted(entries) == [0, 1, 2, 3]
    assert dispatcher.total_unacked == sum(one.unacked for one in dispatcher.consumers) == 6
    assert dispatcher.total_permits == 994


def test_bits_beyond_a_batch_leave_it_pending(world):
    """A bit beyond the batch counts as a message that is not acknowledged (getAckedCountForBatchIndexLevelEnabled)."""
    client = world.client()
    client.producer()
    client.subscribe(subType=KEY_SHARED)
    about = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=3)
    client(pb.CommandSend(producer_id=1, sequence_id=0), entry=push_entry(about, b""))
    [message] = client.flow()
    message.message_id.ack_set.append(1 << 3)
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[message.message_id]))
    [consumer] = client.connection.consumers.values()
    assert (consumer.unacked, consumer.pending, consumer.hashes.keys()) == (1, {0: 1}, {0})
    message.message_id.ClearField("ack_set")
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[message.message_id]))
    assert (consumer.unacked, consumer.pending, consumer.hashes) == (0, {}, {})


def test_an_ack_set_of_an_acknowledged_entry(world):
    """An entry is acknowledged, then again in part by a cumulative ACK: it remains acknowledged and has no ack set."""
    client = world.client()
    client.producer()
    client.subscribe()
    for sequence in range(2):
        client.publish(str(sequence), sequence)
    first, last = client.flow()
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[last.message_id]))
    last.message_id.ack_set.append(4)
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Cumulative, message_id=[last.message_id]))
    cursor = world.broker.topics[TOPIC].subscriptions["sub"].cursor
    assert (first.message_id.entryId, cursor.mark_delete, cursor.ack_sets) == (0, 1, {})


def test_a_reader_with_trimmed_entries_keeps_no_state(make_world):
    """No durable subscription retains the closed ledger: entries that the reader holds are acknowledged."""
    world = make_world(managedLedgerMaxEntriesPerLedger=2, managedLedgerMinLedgerRolloverTimeMinutes=0)
    client = world.client()
    client.producer()
    client.subscribe(subType=SHARED, durable=False)
    client.flow()
    for sequence in range(5):
        client.publish(str(sequence), sequence)
    ledger = world.broker.topics[TOPIC].ledger
    world.broker.topics[TOPIC].trim()
    world.broker.finish_turn()
    [consumer] = client.connection.consumers.values()
    assert ledger.first > 0
    assert set(consumer.pending) == set(range(ledger.first, 5))
    assert consumer.unacked == consumer.subscription.dispatcher.total_unacked == len(consumer.pending)
