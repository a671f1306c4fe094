"""A consumer without a queue: a permit for each wish."""

import pytest

from pcli.replay.client.consumer_settings import ConsumerSettings
from pcli.replay.client.handler import State
from pcli.replay.client.outgoing import Outgoing
from pcli.replay.client.producer_settings import ProducerSettings


@pytest.fixture
def consumer(world):
    made = []
    settings = ConsumerSettings(
        topicNames=("orders",), subscriptionName="work", subscriptionInitialPosition="Earliest", receiverQueueSize=0
    )
    world.engine().subscribe(settings, made.append)
    return world.wait_for(made)


def publish(world, count, batch=1):
    made = []
    world.engine().produce("orders", ProducerSettings(batchingMaxMessages=batch), made.append)
    producer = world.wait_for(made)
    for n in range(count):
        producer.send(Outgoing(b"m-%d" % n))
    world.run(10)


def test_each_receive_asks_for_one(world, consumer):
    publish(world, 3)
    assert world.said("FLOW") == []
    got = []
    consumer.on_message = lambda: got.append(consumer.receive().data)
    for _ in range(2):
        assert consumer.receive() is None
        world.settle()
    assert got == [b"m-0", b"m-1"]
    assert [body.messagePermits for body in world.said("FLOW")] == [1, 1]


def test_asking_twice_asks_once(world, consumer):
    assert consumer.receive() is None
    assert consumer.receive() is None
    world.settle()
    assert len(world.said("FLOW")) == 1


def test_who_waits_asks_again_over_a_new_connection(world, consumer):
    consumer.receive()
    world.settle()
    world.cut()
    world.run(200)
    publish(world, 1)
    assert len(world.said("FLOW")) == 2
    assert consumer.receive().data == b"m-0"


def test_a_listener_gets_one_after_the_other(world, consumer):
    publish(world, 3)
    world.forget()
    heard = []
    consumer.listen(lambda message: heard.append(message.data))
    world.settle()
    assert heard == [b"m-0", b"m-1", b"m-2"]
    assert [body.messagePermits for body in world.said("FLOW")] == [1] * 4


def test_a_batch_closes_it(world, consumer):
    told = []
    consumer.on_fault = told.append
    consumer.receive()
    publish(world, 2, batch=2)
    world.run(10)
    assert told[0].error == "InvalidMessage"
    assert told[0].message.startswith("0:0 is a batch")
    assert consumer.state is State.CLOSED
    assert len(world.said("CLOSE_CONSUMER")) == 1
