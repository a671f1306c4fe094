"""The connection of a consumer when responses are late."""

import pytest

from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.producer.producer import Producer
from pcli.replay.client.settings import ConsumerSettings, ProducerSettings


@pytest.fixture
def consumer(network):
    made = []
    network.engine().subscribe(ConsumerSettings(topicNames=("orders",), subscriptionName="work"), made.append)
    return network.wait_for(made)


@pytest.fixture
def slow(network):
    """The broker does not process SUBSCRIBE until ``slow`` is called."""
    held, receive = [], network.broker.receive

    def hold(*words):
        if held or network.frames[-1].name == "SUBSCRIBE":
            held.append(words)
        else:
            receive(*words)

    def response():
        network.broker.receive = receive
        for words in held:
            receive(*words)
        network.deliver_all()

    network.broker.receive = hold
    return response


def test_a_close_during_the_subscribe_closes_the_connection(network, consumer, request):
    results = []
    network.cut()
    response = request.getfixturevalue("slow")
    network.run(200)
    consumer.close(results.append)
    assert results == [None]
    response()
    network.run(100)
    # Only the end of the connection makes the broker release the consumer.
    subscriptions = network.broker.topics["persistent://public/default/orders"].subscriptions
    assert [len(one.consumers) for one in subscriptions.values()] == [0]


def test_other_consumers_of_a_closed_connection_reconnect(network, consumer, request):
    """Requests that were pending on the old connection are sent again on the new one."""
    network.cut()
    response = request.getfixturevalue("slow")
    network.run(200)
    produced = []
    consumer.engine.produce("invoices", ProducerSettings(), produced.append)
    consumer.close(lambda _: None)
    response()
    assert isinstance(network.wait_for(produced), Producer)


@pytest.mark.parametrize("receipts", [False, True])
def test_acks_wait_for_the_subscription(network, receipts, request):
    """A broker drops ACKs of a consumer that is not registered yet."""
    made, results = [], []
    network.engine().subscribe(
        ConsumerSettings(topicNames=("orders",), subscriptionName="work", ackReceiptEnabled=receipts), made.append
    )
    consumer = network.wait_for(made)
    consumer.acknowledge(ClientMessageId(1, 0), results.append)
    network.cut()
    response = request.getfixturevalue("slow")
    network.run(1000)
    assert [one.name for one in network.sent_frames()][-1] == "SUBSCRIBE"
    assert consumer.acks.duplicate(ClientMessageId(1, 0))
    response()
    network.run(100)
    assert [one.name for one in network.sent_frames("SUCCESS", "ACK")][-2:] == ["SUCCESS", "ACK"]
    assert results == [None]


def test_permits_restart_on_a_new_connection(network, consumer):
    consumer.queue.available = 7
    network.cut()
    network.run(200)
    assert consumer.queue.available == 0
    assert [body.messagePermits for body in network.sent("FLOW")] == [1000, 1000]
