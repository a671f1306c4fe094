"""The connection of a consumer where its answers come late."""

import pytest

from pcli.replay.client.consumer_settings import ConsumerSettings


@pytest.fixture
def consumer(world):
    made = []
    world.engine().subscribe(ConsumerSettings(topicNames=("orders",), subscriptionName="work"), made.append)
    return world.wait_for(made)


def test_closed_while_it_subscribes(world, consumer):
    told, held, receive = [], [], world.broker.receive

    def hold(*words):
        """The broker is slow with SUBSCRIBE."""
        if world.frames[-1].name == "SUBSCRIBE":
            held.append(words)
        else:
            receive(*words)

    world.cut()
    world.broker.receive = hold
    world.run(200)
    consumer.close(told.append)
    assert told == [None]
    world.broker.receive = receive
    receive(*held.pop())
    world.run(100)
    # Nobody would ever tell the broker to let go of it, but for the end of the connection.
    subscriptions = world.broker.topics["persistent://public/default/orders"].subscriptions
    assert [len(one.consumers) for one in subscriptions.values()] == [0]


def test_permits_begin_anew(world, consumer):
    consumer.queue.available = 7
    world.cut()
    world.run(200)
    assert consumer.queue.available == 0
    assert [body.messagePermits for body in world.said("FLOW")] == [1000, 1000]
