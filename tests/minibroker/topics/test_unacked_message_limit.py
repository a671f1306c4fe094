"""The limit on unacknowledged messages of the whole broker. The class BrokerService of 4.2.4 defines the times."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb

SHARED = pb.CommandSubscribe.Shared


@pytest.fixture
def full(make_world):
    """Return two consumers with 7 and 2 unacknowledged messages at a limit of 9 and a share of 3."""
    limits = {"maxUnackedMessagesPerBroker": 9, "maxUnackedMessagesPerSubscriptionOnBrokerBlocked": 0.34}
    world = make_world(keepAliveIntervalSeconds=0, **limits)
    producer, large, small = world.client(), world.client(), world.client()
    producer.producer()
    large.subscribe(subType=SHARED)
    small.subscribe(subType=SHARED, subscription="small")
    for sequence in range(20):
        producer.publish(f"m{sequence}", sequence)
    large.received = large.flow(7)
    assert len(small.flow(2)) == 2
    return world, large, small


def acknowledge(client, count):
    places = [client.received.pop(0).message_id for _ in range(count)]
    return client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=places))


def test_the_first_check_is_after_ten_minutes(full):
    world, large, _ = full
    world.advance(599_000)
    assert len(large.flow(1)) == 1


def test_large_subscriptions_are_blocked(full):
    world, large, small = full
    world.advance(600_000)
    assert large.flow(1) == []
    assert len(small.flow(1)) == 1
    assert len(small.flow(1)) == 1
    assert small.flow(1) == []  # 4 messages exceed the share


def test_a_subscription_below_half_of_its_share_is_unblocked(full):
    world, large, _ = full
    world.advance(600_000)
    assert large.flow(1) == []
    assert acknowledge(large, 6) == []
    assert len(acknowledge(large, 1)) == 1


def test_below_half_of_the_limit_all_are_unblocked(full):
    world, large, _ = full
    world.advance(600_000)
    assert large.flow(1) == []
    assert acknowledge(large, 6) == []  # 3 are left
    world.advance(30_000)
    assert len(large.hear()) == 1
