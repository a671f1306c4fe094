"""Consumers that are blocked on unacknowledged messages, compared with the mini-broker."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb

TOPIC = "persistent://public/default/t"


def consumers(play: Any) -> dict[str, Any]:
    topics = play.tracker.subscriptions.topics_at(play.now * 1_000_000)
    found: dict[str, Any] = topics[TOPIC].record.subscriptions["s"].consumers
    return found


def subscribe(client: Any, consumer_id: int, permits: int = 100, kind: str = "Shared") -> None:
    client.subscribe(consumer_id=consumer_id, kind=kind, initialPosition=pb.CommandSubscribe.Earliest)
    client.flow(permits, consumer_id=consumer_id)


def test_a_second_consumer_at_the_same_limit_is_blocked_at_once(make_scene: Any) -> None:
    play = make_scene(maxUnackedMessagesPerConsumer=6)
    client = play.actor()
    client.producer()
    subscribe(client, 1)
    for number in range(20):
        client.publish(number)
    play.wait(4_000)
    assert consumers(play)["c1"].blocked_at == 6
    subscribe(client, 2)
    play.wait(400)
    second = consumers(play)["c2"]
    assert (second.blocked.since_ns >= 0, second.blocked_at) == (True, 6)


def test_a_consumer_at_a_known_limit_without_waiting_messages_is_not_blocked(make_scene: Any) -> None:
    play = make_scene(maxUnackedMessagesPerConsumer=6)
    client = play.actor()
    client.producer()
    subscribe(client, 1)
    for number in range(12):
        client.publish(number)
    play.wait(4_000)
    subscribe(client, 2)
    play.wait(400)
    second = consumers(play)["c2"]
    assert (second.unacked, second.blocked.count) == (6, 0)


@pytest.mark.parametrize("acks", ["c1", "c2"])
def test_the_limit_of_the_subscription_blocks_all_its_consumers(make_scene: Any, acks: str) -> None:
    play = make_scene(maxUnackedMessagesPerSubscription=8)
    client = play.actor()
    client.producer()
    subscribe(client, 1)
    subscribe(client, 2)
    for number in range(20):
        client.publish(number)
        play.wait(1)
    play.wait(2_500)
    mine = [one for one in client.messages if f"c{one.consumer_id}" == acks]
    client.ack(mine[0].message_id, consumer_id=mine[0].consumer_id)
    assert all(one.blocked.count == 1 for one in consumers(play).values())


def test_entries_wait_for_the_holder_of_their_key_although_later_entries_were_delivered(make_scene: Any) -> None:
    play = make_scene()
    client = play.actor()
    client.producer()
    subscribe(client, 1, kind="Key_Shared")
    for number in range(40):
        if number == 20:
            subscribe(client, 2, kind="Key_Shared")
        client.publish(number, partition_key=f"k{number % 20}")
        play.wait(10)
    play.wait(4_000)
    received = {one.message_id.entryId for one in client.messages}
    assert 20 < len(received) < 40  # keys that now belong to the second consumer wait for the first one
    assert max(received) == 39
    waits = next(iter(consumers(play).values())).subscription.hash_waits
    assert waits.since_ns >= 0
    play.fault("delay ms=100 on pulsar.type == 'MESSAGE'")
    client(pb.CommandCloseConsumer(consumer_id=2, request_id=90))
    client(pb.CommandCloseConsumer(consumer_id=1, request_id=91))
    assert not any(one.blocked.count for one in consumers(play).values())


def test_a_consumer_that_holds_messages_has_a_backlog(make_scene: Any) -> None:
    """A compacted read shows no cursor position, and silence does not acknowledge the messages that were delivered."""
    play = make_scene()
    client = play.actor()
    client.producer()
    client.subscribe(read_compacted=True, initialPosition=pb.CommandSubscribe.Earliest)
    client.flow(10)
    for number in range(3):
        client.publish(number)
    play.wait(4_000)
    assert (len(client.messages), consumers(play)["c1"].subscription.backlog) == (3, None)
    client.ack(client.messages[-1].message_id, kind="Cumulative")
    play.wait(4_000)
    assert consumers(play)["c1"].subscription.backlog == 0


@pytest.mark.parametrize("more", [1, 9])
def test_a_consumer_that_later_holds_more_than_the_assumed_limit_was_not_blocked(make_scene: Any, more: int) -> None:
    play = make_scene()
    client, producer = play.actor(), play.actor()
    producer.producer()
    subscribe(client, 1)
    producer.publish(0)
    play.fault("delay times=1 ms=2500 on pulsar.type == 'MESSAGE'")
    for number in range(1, 1 + more):
        producer.publish(number)
    play.wait(2_000)
    client.redeliver(consumer_id=1)
    play.wait(2_000)
    found = consumers(play)["c1"]
    blocked = more == 1
    assert (found.blocked.count, found.blocked_at, found.silent.count) == (int(blocked), int(blocked), int(not blocked))
