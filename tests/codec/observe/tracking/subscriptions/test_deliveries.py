"""Entries that are delivered although they were acknowledged and their lifecycles were complete."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb

TOPIC = "persistent://public/default/t"


def take_and_ack(play: Any, count: int) -> Any:
    """A client that received that many messages and acknowledged them all in one frame."""
    client = play.actor()
    client.producer()
    client.subscribe(kind="Shared")
    client.flow(1000)
    for number in range(count):
        client.publish(number)
    play.wait(100)
    client.ack(*[one.message_id for one in client.messages])
    return client


@pytest.fixture
def subscription() -> Any:
    return lambda play: play.tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["s"]


def test_each_message_with_a_lost_ack_counts(make_scene: Any, subscription: Any) -> None:
    play = make_scene()
    play.fault("drop on pulsar.type == 'ACK'")
    client = take_and_ack(play, 3)
    play.wait(100)
    client.cut(reset=True)
    again = play.actor()
    again.subscribe(kind="Shared")
    again.flow(10)
    back = subscription(play).record.consumers["c1"].acked_but_back
    assert (back.count, back.sample) == (3, "0:0")
    assert len(set(back.frames)) == 4


def test_redeliveries_after_a_seek_have_the_seek_as_cause(make_scene: Any, subscription: Any) -> None:
    play = make_scene()
    client = take_and_ack(play, 5)
    assert len(play.lives) == 5
    client.publish(5)
    client(pb.CommandSeek(consumer_id=1, message_id=client.messages[1].message_id))
    client.subscribe(kind="Shared")
    client.flow(10)
    client.publish(6)
    record = subscription(play).record
    assert [(why, one.count, one.sample) for why, one in record.again.items()] == [("seek", 5, "0:1")]
    assert not record.consumers["c1"].acked_but_back.count


def test_a_first_delivery_after_a_seek_is_no_redelivery(make_scene: Any, subscription: Any) -> None:
    play = make_scene()
    client = take_and_ack(play, 2)
    client.subscribe(consumer_id=2, subscription="t", kind="Shared")
    client(pb.CommandSeek(consumer_id=2, message_id=client.messages[0].message_id))
    client.subscribe(consumer_id=2, subscription="t", kind="Shared")
    client.flow(10, consumer_id=2)
    assert [one.consumer_id for one in client.messages] == [1, 1, 2, 2]
    assert not play.tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["t"].record.again
