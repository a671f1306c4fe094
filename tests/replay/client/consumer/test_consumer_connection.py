"""The connection of a consumer where its answers come late."""

import pytest

from pcli.replay.client.consumer_settings import ConsumerSettings
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.producer.producer import Producer
from pcli.replay.client.producer_settings import ProducerSettings


@pytest.fixture
def consumer(world):
    made = []
    world.engine().subscribe(ConsumerSettings(topicNames=("orders",), subscriptionName="work"), made.append)
    return world.wait_for(made)


@pytest.fixture
def slow(world):
    """The broker is slow with SUBSCRIBE until ``slow`` is called."""
    held, receive = [], world.broker.receive

    def hold(*words):
        if held or world.frames[-1].name == "SUBSCRIBE":
            held.append(words)
        else:
            receive(*words)

    def answer():
        world.broker.receive = receive
        for words in held:
            receive(*words)
        world.settle()

    world.broker.receive = hold
    return answer


def test_closed_while_it_subscribes(world, consumer, request):
    told = []
    world.cut()
    answer = request.getfixturevalue("slow")
    world.run(200)
    consumer.close(told.append)
    assert told == [None]
    answer()
    world.run(100)
    # Nobody would ever tell the broker to let go of it, but for the end of the connection.
    subscriptions = world.broker.topics["persistent://public/default/orders"].subscriptions
    assert [len(one.consumers) for one in subscriptions.values()] == [0]


def test_others_on_the_connection_that_this_ends_come_back(world, consumer, request):
    """What they had asked over it is asked again over the next one."""
    world.cut()
    answer = request.getfixturevalue("slow")
    world.run(200)
    produced = []
    consumer.engine.produce("invoices", ProducerSettings(), produced.append)
    consumer.close(lambda _: None)
    answer()
    assert isinstance(world.wait_for(produced), Producer)


@pytest.mark.parametrize("receipts", [False, True])
def test_acks_wait_until_it_stands(world, receipts, request):
    """A broker drops acks of a consumer that it does not know yet."""
    made, told = [], []
    world.engine().subscribe(
        ConsumerSettings(topicNames=("orders",), subscriptionName="work", ackReceiptEnabled=receipts), made.append
    )
    consumer = world.wait_for(made)
    consumer.acknowledge(ClientMessageId(1, 0), told.append)
    world.cut()
    answer = request.getfixturevalue("slow")
    world.run(1000)
    assert [one.name for one in world.heard()][-1] == "SUBSCRIBE"
    assert consumer.acks.duplicate(ClientMessageId(1, 0))
    answer()
    world.run(100)
    assert [one.name for one in world.heard("SUCCESS", "ACK")][-2:] == ["SUCCESS", "ACK"]
    assert told == [None]


def test_permits_begin_anew(world, consumer):
    consumer.queue.available = 7
    world.cut()
    world.run(200)
    assert consumer.queue.available == 0
    assert [body.messagePermits for body in world.said("FLOW")] == [1000, 1000]
