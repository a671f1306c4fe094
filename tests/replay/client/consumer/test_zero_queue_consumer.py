"""A consumer without a queue: a permit for each wish."""

import pytest

from pcli.replay.client.connection.connection_handler import State


@pytest.fixture
def consumer(world):
    return world.subscribe(receiverQueueSize=0)


def test_each_receive_asks_for_one(world, consumer):
    world.publish(3)
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
    world.publish(1)
    assert len(world.said("FLOW")) == 2
    assert consumer.receive().data == b"m-0"


def test_a_listener_gets_one_after_the_other(world, consumer):
    world.publish(3)
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
    world.publish(2, batch=2)
    world.run(10)
    assert told[0].error == "InvalidMessage"
    assert told[0].message.startswith("0:0 is a batch")
    assert consumer.state is State.CLOSED
    assert len(world.said("CLOSE_CONSUMER")) == 1
