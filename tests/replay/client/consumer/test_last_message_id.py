"""Whether there is more: by what was taken, by the start, by the broker's cursor."""

import pytest

from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage

T = "persistent://public/default/orders"


@pytest.fixture
def produce(world):
    producer = world.produce(batchingMaxMessages=2)

    def send(count):
        for _ in range(count):
            producer.send(OutgoingMessage(b"x"))
        world.run(10)

    return send


@pytest.fixture
def reading(world):
    def make(start, **settings):
        given = {"subscriptionMode": "NonDurable", "subscriptionInitialPosition": "Latest", "startPaused": True}
        consumer = world.subscribe(startMessageId=start, **given | settings)
        world.settle()
        world.forget()
        return consumer

    return make


def more(world, consumer):
    found = []
    consumer.has_message_available(found.append)
    return world.wait_for(found)


def test_what_waits_is_there_without_asking(world, produce, reading):
    produce(2)
    consumer = reading(EARLIEST)
    consumer.resume()
    world.settle()
    world.forget()
    assert more(world, consumer)
    assert world.said("GET_LAST_MESSAGE_ID") == []


def test_from_the_beginning(world, produce, reading):
    consumer = reading(EARLIEST)
    assert more(world, consumer) is False
    produce(2)
    assert more(world, consumer) is True
    assert more(world, consumer) is True
    assert len(world.said("GET_LAST_MESSAGE_ID")) == 2  # what is known to be there is not asked for again


def test_behind_what_was_taken(world, produce, reading):
    produce(2)
    consumer = reading(EARLIEST)
    consumer.resume()
    world.settle()
    assert consumer.receive() is not None
    assert more(world, consumer) is True
    assert consumer.receive() is not None
    assert more(world, consumer) is False
    produce(1)
    consumer.queue.clear()
    assert more(world, consumer) is True


@pytest.mark.parametrize(("inclusive", "there"), [(True, True), (False, False)])
def test_from_the_end(world, produce, reading, inclusive, there):
    produce(2)
    consumer = reading(LATEST, resetIncludeHead=inclusive)
    assert more(world, consumer) is there
    assert len(world.said("SEEK")) == inclusive


@pytest.mark.parametrize(("inclusive", "there"), [(True, True), (False, False)])
def test_from_the_last_one(world, produce, reading, inclusive, there):
    produce(1)
    consumer = reading(ClientMessageId(0, 0), resetIncludeHead=inclusive)
    assert more(world, consumer) is there


def test_after_a_seek_by_time_the_cursor_tells(world, produce, reading):
    produce(2)
    consumer = reading(EARLIEST)
    consumer.seek(world.now + 1000, lambda _: None)
    world.run(200)
    assert more(world, consumer) is False
    consumer.seek(1000, lambda _: None)
    world.run(200)
    assert more(world, consumer) is True


def test_the_last_id(world, produce, reading):
    produce(2)
    consumer, found = reading(EARLIEST), []
    consumer.last_message_ids(found.append)
    [last] = world.wait_for(found)
    assert (last, last.topic) == (ClientMessageId(0, 0, -1, 1), T)


def test_of_a_closed_consumer(world, reading):
    consumer, found = reading(EARLIEST), []
    consumer.close(lambda _: None)
    world.settle()
    consumer.has_message_available(found.append)
    assert found[0].error == "Closed"
