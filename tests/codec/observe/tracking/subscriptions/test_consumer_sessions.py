"""Consumers across reconnects: messages held at the end, and messages received before the first FLOW."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb

TOPIC = "persistent://public/default/t"


def test_the_oldest_held_message_is_recorded(make_scene: Any) -> None:
    play = make_scene()
    client = play.actor()
    client.producer()
    client.subscribe(kind="Shared")
    client.flow(10)
    for number in range(3):
        client.publish(number)
    client.redeliver(client.messages[0].message_id)
    client(pb.CommandCloseConsumer(consumer_id=1))
    kept = play.tracker.subscriptions.lifecycles.topics[TOPIC].record.subscriptions["s"].consumers["c1"].never_acked
    assert (kept.count, kept.sample) == (3, "0:1")
    assert kept.frames == sorted(kept.frames)


def test_permits_are_unknown_if_messages_precede_the_first_flow(producing: Any) -> None:
    """A part of a capture without its FLOWs."""
    body = pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=1, consumer_id=3, request_id=9, consumer_name="c")
    producing.client(body)
    producing.broker(pb.CommandSuccess(request_id=9))
    message = pb.CommandMessage(consumer_id=3)
    message.message_id.ledgerId, message.message_id.entryId = 7, 0
    [consumer] = producing.records("consumer")
    assert consumer.permits.known
    producing.broker(message)
    assert not consumer.permits.known


def test_a_seek_without_a_response_is_dropped_with_its_connection(make_scene: Any) -> None:
    play = make_scene()
    client, other = play.actor(), play.actor()
    client.subscribe(kind="Shared")
    other.subscribe(kind="Shared", consumer_name="other")
    play.fault("drop on pulsar.type == 'SEEK'")
    client(pb.CommandSeek(consumer_id=1, message_publish_time=1))
    subscription = play.tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["s"]
    assert len(subscription.open_seeks) == 1
    client.cut()
    assert not subscription.open_seeks


def test_a_response_to_a_seek_after_its_subscription_was_removed(producing: Any) -> None:
    """The SUCCESS for the SUBSCRIBE of the closed consumer 2 arrives late and attaches it to a new subscription."""
    for consumer in (1, 2):
        producing.client(
            pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=1, consumer_id=consumer, request_id=consumer)
        )
    producing.broker(pb.CommandSuccess(request_id=1))
    producing.broker(pb.CommandCloseConsumer(consumer_id=2, request_id=9))
    producing.client(pb.CommandSeek(consumer_id=2, request_id=3, message_publish_time=1))
    producing.client(pb.CommandUnsubscribe(consumer_id=1, request_id=4))
    for request in (4, 2, 3):
        producing.broker(pb.CommandSuccess(request_id=request))
    [subscription] = producing.records("subscription")
    assert subscription.seeks.count == 1


@pytest.mark.parametrize(("asks_all", "short"), [(False, 1), (True, 0)])
def test_requested_redeliveries_may_still_be_in_the_clients_queue(make_scene: Any, asks_all: bool, short: int) -> None:
    """C++: redeliver_unacknowledged_messages of a Shared consumer keeps its queue, whose permits are returned later."""
    play = make_scene()
    client = play.actor()
    client.producer()
    client.subscribe(kind="Shared")
    client.flow(6)
    for number in range(6):
        client.publish(number)
    if asks_all:
        client.redeliver()
    else:
        client.ack(*(message.message_id for message in client.messages))
    client.flow(1)
    record = play.tracker.subscriptions.lifecycles.topics[TOPIC].record.subscriptions["s"].consumers["c1"]
    assert record.permits.short.count == short


def test_a_standby_consumer_cannot_request_redelivery(make_scene: Any) -> None:
    """PersistentDispatcherSingleActiveConsumer: only the active consumer resets the cursor."""
    play = make_scene()
    actors = [play.actor(), play.actor()]
    actors[0].producer()
    for actor in actors:
        actor.subscribe(kind="Failover", consumer_name=f"c{actor.stream.number}")
        actor.flow(10)
    play.wait(2000)
    actors[0].publish(0)
    active, other = sorted(actors, key=lambda actor: -len(actor.messages))
    other.redeliver()
    actors[0].publish(1)
    subscription = play.tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["s"]
    assert (len(active.messages), len(other.messages), len(subscription.pending_acks)) == (2, 0, 2)
    assert all(one.held for one in subscription.pending_acks.values())


def test_a_subscription_is_removed_between_a_subscribe_and_its_response(make_scene: Any) -> None:
    """The last consumer of a non-durable subscription leaves meanwhile; the new consumer creates the subscription."""
    play = make_scene()
    reader, client = play.actor(), play.actor()
    reader.subscribe(durable=False)
    client.producer()
    play.fault("delay ms=100 on pulsar.type == 'SUBSCRIBE'")
    client.subscribe(kind="Shared", consumer_name="new")
    reader(pb.CommandCloseConsumer(consumer_id=1))
    play.wait(200)
    client.flow(10)
    client.publish(0)
    topic = play.tracker.subscriptions.lifecycles.topics[TOPIC]
    assert len(client.messages) == 1
    assert [consumer.record.name for consumer in topic.subscriptions["s"].attached] == ["new"]


@pytest.mark.parametrize(("position", "received", "mark"), [("Earliest", 3, (0, -1)), ("Latest", 0, (0, 2))])
def test_a_non_durable_subscription_without_a_start_begins_at_the_initial_position(
    make_scene: Any, position: str, received: int, mark: tuple[int, int]
) -> None:
    """NonDurableCursorImpl; verified on 4.2.4."""
    play = make_scene()
    client = play.actor()
    client.producer()
    for number in range(3):
        client.publish(number)
    client.subscribe(kind="Shared", durable=False, initialPosition=position)
    topic = play.tracker.subscriptions.lifecycles.topics[TOPIC]
    assert topic.subscriptions["s"].mark_delete == mark
    client.flow(10)
    assert len(client.messages) == received
