"""A consumer without a queue: one permit for each receive call."""

import pytest

from pcli.replay.client.connection.connection_handler import State


@pytest.fixture
def consumer(network):
    return network.subscribe(receiverQueueSize=0)


def test_each_receive_requests_one_message(network, consumer):
    network.publish(3)
    assert network.sent("FLOW") == []
    got = []
    consumer.on_message = lambda: got.append(consumer.receive().data)
    for _ in range(2):
        assert consumer.receive() is None
        network.deliver_all()
    assert got == [b"m-0", b"m-1"]
    assert [body.messagePermits for body in network.sent("FLOW")] == [1, 1]


def test_two_receives_request_one_message(network, consumer):
    assert consumer.receive() is None
    assert consumer.receive() is None
    network.deliver_all()
    assert len(network.sent("FLOW")) == 1


def test_a_waiting_receive_requests_again_on_a_new_connection(network, consumer):
    consumer.receive()
    network.deliver_all()
    network.cut()
    network.run(200)
    network.publish(1)
    assert len(network.sent("FLOW")) == 2
    assert consumer.receive().data == b"m-0"


def test_a_listener_receives_one_message_at_a_time(network, consumer):
    network.publish(3)
    network.clear_frames()
    sent_frames = []
    consumer.listen(lambda message: sent_frames.append(message.data))
    network.deliver_all()
    assert sent_frames == [b"m-0", b"m-1", b"m-2"]
    assert [body.messagePermits for body in network.sent("FLOW")] == [1] * 4


def test_a_batch_closes_the_consumer(network, consumer):
    results = []
    consumer.on_fault = results.append
    consumer.receive()
    network.publish(2, batch=2)
    network.run(10)
    assert results[0].error == "InvalidMessage"
    assert results[0].message.startswith("0:0 is a batch")
    assert consumer.state is State.CLOSED
    assert len(network.sent("CLOSE_CONSUMER")) == 1
