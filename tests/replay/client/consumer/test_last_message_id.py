"""Whether more messages are available: by received messages, start position and the broker's cursor."""

import pytest

from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage

T = "persistent://public/default/orders"


@pytest.fixture
def produce(network):
    producer = network.produce(batchingMaxMessages=2)

    def send(count):
        for _ in range(count):
            producer.send(OutgoingMessage(b"x"))
        network.run(10)

    return send


@pytest.fixture
def reading(network):
    def make(start, **settings):
        given = {"subscriptionMode": "NonDurable", "subscriptionInitialPosition": "Latest", "startPaused": True}
        consumer = network.subscribe(startMessageId=start, **given | settings)
        network.deliver_all()
        network.clear_frames()
        return consumer

    return make


def more(network, consumer):
    found = []
    consumer.has_message_available(found.append)
    return network.wait_for(found)


def test_a_queued_message_is_available_without_a_request(network, produce, reading):
    produce(2)
    consumer = reading(EARLIEST)
    consumer.resume()
    network.deliver_all()
    network.clear_frames()
    assert more(network, consumer)
    assert network.sent("GET_LAST_MESSAGE_ID") == []


def test_from_the_beginning(network, produce, reading):
    consumer = reading(EARLIEST)
    assert more(network, consumer) is False
    produce(2)
    assert more(network, consumer) is True
    assert more(network, consumer) is True
    assert len(network.sent("GET_LAST_MESSAGE_ID")) == 2  # no second request if a message is known to be available


def test_after_the_last_received_message(network, produce, reading):
    produce(2)
    consumer = reading(EARLIEST)
    consumer.resume()
    network.deliver_all()
    assert consumer.receive() is not None
    assert more(network, consumer) is True
    assert consumer.receive() is not None
    assert more(network, consumer) is False
    produce(1)
    consumer.queue.clear()
    assert more(network, consumer) is True


@pytest.mark.parametrize(("inclusive", "available"), [(True, True), (False, False)])
def test_from_the_end(network, produce, reading, inclusive, available):
    produce(2)
    consumer = reading(LATEST, resetIncludeHead=inclusive)
    assert more(network, consumer) is available
    assert len(network.sent("SEEK")) == inclusive


@pytest.mark.parametrize(("inclusive", "available"), [(True, True), (False, False)])
def test_from_the_last_message(network, produce, reading, inclusive, available):
    produce(1)
    consumer = reading(ClientMessageId(0, 0), resetIncludeHead=inclusive)
    assert more(network, consumer) is available


def test_after_a_seek_by_time_the_cursor_is_compared(network, produce, reading):
    produce(2)
    consumer = reading(EARLIEST)
    consumer.seek(network.now + 1000, lambda _: None)
    network.run(200)
    assert more(network, consumer) is False
    consumer.seek(1000, lambda _: None)
    network.run(200)
    assert more(network, consumer) is True


def test_the_last_id(network, produce, reading):
    produce(2)
    consumer, found = reading(EARLIEST), []
    consumer.last_message_ids(found.append)
    [last] = network.wait_for(found)
    assert (last, last.topic) == (ClientMessageId(0, 0, -1, 1), T)


def test_a_request_of_a_closed_consumer_fails(network, reading):
    consumer, found = reading(EARLIEST), []
    consumer.close(lambda _: None)
    network.deliver_all()
    consumer.has_message_available(found.append)
    assert found[0].error == "Closed"
