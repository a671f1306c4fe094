"""Both forms of asking again, as they travel."""

import pytest

from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage


@pytest.fixture
def subscribe(world):
    producer = world.produce(batchingEnabled=False)

    def make(kind, count=0):
        for n in range(count):
            producer.send(OutgoingMessage(b"m-%d" % n))
        consumer = world.subscribe(subscriptionType=kind, receiverQueueSize=1)
        world.settle()
        world.forget()
        return consumer

    return make


def asked(world):
    return [
        ([one.entryId for one in body.message_ids], body.consumer_epoch if body.HasField("consumer_epoch") else None)
        for body in world.said("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    ]


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_all_raise_the_epoch(world, subscribe, kind):
    consumer = subscribe(kind)
    consumer.redeliver({ClientMessageId(1, 5)})
    consumer.redeliver_unacknowledged()
    world.settle()
    assert asked(world) == [([], 1), ([], 2)]


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_all_of_a_shared_one_keep_it(world, subscribe, kind):
    consumer = subscribe(kind)
    consumer.redeliver_unacknowledged()
    world.settle()
    assert asked(world) == [([], 0)]


def test_what_waited_gives_its_permits_back(world, subscribe):
    consumer = subscribe("Shared", 1)
    assert len(consumer.queue.messages) == 1
    consumer.redeliver_unacknowledged()
    world.settle()
    said = [one.name for one in world.heard(from_client=True)]
    assert said == ["REDELIVER_UNACKNOWLEDGED_MESSAGES", "FLOW"]


def test_some_are_taken_out_of_the_queue(world, subscribe):
    consumer = subscribe("Shared", 1)
    consumer.redeliver({consumer.queue.messages[0].id, ClientMessageId(0, 7)})
    world.settle()
    assert asked(world) == [([0, 7], None)]
    assert [body.messagePermits for body in world.said("FLOW")] == [1]


def test_a_thousand_ids_to_a_command(world, subscribe):
    consumer = subscribe("Shared")
    consumer.redeliver({ClientMessageId(1, entry) for entry in range(2001)})
    world.settle()
    assert [len(ids) for ids, _ in asked(world)] == [1000, 1000, 1]


def test_nothing_is_said_without_a_connection(world, subscribe):
    consumer = subscribe("Shared")
    world.cut()
    world.forget()
    consumer.redeliver({ClientMessageId(1, 0)})
    consumer.redeliver_unacknowledged()
    world.run(200)
    assert asked(world) == []
