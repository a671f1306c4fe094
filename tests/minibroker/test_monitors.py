"""Periodic checks of the broker: inactive topics, message TTL, inactive subscriptions, retention."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb

SECOND = 1000
MINUTE = 60 * SECOND
NAMESPACE = "public/default"


@pytest.fixture
def world(make_world):
    """Every ledger contains two entries."""
    return make_world(managedLedgerMaxEntriesPerLedger=2, managedLedgerMinLedgerRolloverTimeMinutes=0)


@pytest.fixture
def client(world):
    return world.client()


def produce(client, topic="t", messages=0):
    client.producer(topic)
    for sequence in range(messages):
        client.publish(sequence_id=sequence)


def produce_and_acknowledge(client, messages, acknowledged):
    """Subscribe, publish the messages, and acknowledge the first of them."""
    client.subscribe("t", subType=pb.CommandSubscribe.Shared)
    produce(client, messages=messages)
    delivered = [body.message_id for body in client.flow() if isinstance(body, pb.CommandMessage)]
    acked = delivered[:acknowledged]
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=acked))


def exists(world, topic="persistent://public/default/t"):
    return topic in world.broker.topics


@pytest.mark.parametrize("topic", ["persistent://public/default/t", "non-persistent://public/default/t"])
def test_a_topic_without_clients_and_subscriptions_is_deleted_after_a_minute(world, client, topic):
    produce(client, topic)
    world.advance(10 * MINUTE)
    assert exists(world, topic)
    client.leave()
    world.advance(59 * SECOND)
    assert exists(world, topic)
    world.advance(MINUTE)
    assert not exists(world, topic)


def test_a_subscription_keeps_its_topic(world, client):
    produce_and_acknowledge(client, 1, 1)
    client.leave()
    world.advance(10 * MINUTE)
    assert exists(world)


@pytest.mark.parametrize(("acknowledged", "kept"), [(1, True), (2, False)])
def test_a_topic_whose_subscriptions_are_caught_up_is_deleted_in_this_mode(world, client, acknowledged, kept):
    mode = {"inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up", "deleteWhileInactive": True}
    world.broker.policies.set_namespace(NAMESPACE, "inactiveTopicPolicies", {**mode, "maxInactiveDurationSeconds": 5})
    produce_and_acknowledge(client, 2, acknowledged)
    client(pb.CommandCloseProducer(producer_id=1, request_id=9))
    world.advance(10 * MINUTE)
    assert exists(world), "the consumer is connected"
    client.leave()
    world.advance(2 * MINUTE)
    assert exists(world) == kept


def test_topics_are_kept_if_the_policy_does_not_delete_them(world, client):
    policy = {"inactiveTopicDeleteMode": "delete_when_no_subscriptions", "deleteWhileInactive": False}
    world.broker.policies.set_namespace(NAMESPACE, "inactiveTopicPolicies", policy)
    produce(client)
    client.leave()
    world.advance(10 * MINUTE)
    assert exists(world)


@pytest.mark.parametrize(
    ("minutes", "messages", "kept_after_4_minutes"), [(3, 1, False), (5, 1, True), (-1, 1, True), (5, 0, False)]
)
def test_a_topic_with_messages_is_kept_for_the_retention_time(world, client, minutes, messages, kept_after_4_minutes):
    retention = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": -1}
    world.broker.policies.set_namespace(NAMESPACE, "retention", retention)
    produce(client, messages=messages)
    client.leave()
    world.advance(4 * MINUTE + SECOND)
    assert exists(world) == kept_after_4_minutes


def test_messages_older_than_the_ttl_are_acknowledged(world, client):
    world.broker.policies.set_namespace(NAMESPACE, "messageTTL", 60)
    client.subscribe("t")
    produce(client, messages=3)
    world.advance(4 * MINUTE + 30 * SECOND)
    client.publish(sequence_id=3)
    subscription = world.broker.topics["persistent://public/default/t"].subscriptions["sub"]
    assert subscription.backlog == 4
    world.advance(31 * SECOND)
    assert (subscription.backlog, subscription.expired) == (1, 3)


def test_messages_of_additional_system_cursors_do_not_expire(make_world):
    world = make_world(additionalSystemCursorNames=["internal"], ttlDurationDefaultInSeconds=60)
    client = world.client()
    client.subscribe("t", subscription="internal")
    produce(client, messages=3)
    world.advance(6 * MINUTE)
    assert world.broker.topics["persistent://public/default/t"].subscriptions["internal"].backlog == 3


def test_a_changed_ttl_is_applied_at_once(world, client):
    client.subscribe("t")
    produce(client, messages=3)
    subscription = world.broker.topics["persistent://public/default/t"].subscriptions["sub"]
    world.advance(61 * SECOND)
    world.broker.policies.set_namespace(NAMESPACE, "messageTTL", 62)
    assert subscription.backlog == 3
    world.broker.policies.set_namespace(NAMESPACE, "messageTTL", 60)
    assert subscription.backlog == 0


def test_a_subscription_without_consumers_is_deleted_after_the_expiration_time(world, client):
    world.broker.policies.set_namespace(NAMESPACE, "subscriptionExpirationTime", 7)
    produce(client)
    client.subscribe("t", subscription="used")
    other = world.client()
    other.subscribe("t", subscription="unused")
    other.leave()
    topic = world.broker.topics["persistent://public/default/t"]
    world.advance(6 * MINUTE)
    assert sorted(topic.subscriptions) == ["unused", "used"]
    world.advance(5 * MINUTE)
    assert sorted(topic.subscriptions) == ["used"]


def test_acknowledged_ledgers_are_deleted_when_their_retention_time_has_passed(world, client):
    retention = {"retentionTimeInMinutes": 3, "retentionSizeInMB": -1}
    world.broker.policies.set_namespace(NAMESPACE, "retention", retention)
    produce_and_acknowledge(client, 5, 4)
    ledger = world.broker.topics["persistent://public/default/t"].ledger
    world.advance(3 * MINUTE - SECOND)
    assert ledger.first == 0
    world.advance(2 * MINUTE)
    assert ledger.first == 4


def test_the_mark_delete_position_stays_in_an_acknowledged_ledger_until_a_ledger_is_added(world, client):
    """Recorded from a real broker: 0:1 when the first ledger is acknowledged, 1:-1 after an unload."""
    produce_and_acknowledge(client, 3, 2)
    topic = world.broker.topics["persistent://public/default/t"]
    first, second = (ledger.id for ledger in topic.ledger.ledgers)
    cursor = topic.subscriptions["sub"].cursor
    assert cursor.mark_delete_position == (first, 1)
    topic.unload()
    assert cursor.mark_delete_position == (second, -1)
