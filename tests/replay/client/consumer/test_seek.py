"""SEEK: what is said, what is forgotten, and when it is done."""

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage


@pytest.fixture
def subscribe(world):
    producer = world.produce(batchingMaxMessages=3)

    def make(count, **settings):
        for n in range(count):
            producer.send(OutgoingMessage(b"m-%d" % n))
            if n % 3 == 2:
                world.run(1000)
        consumer = world.subscribe(**settings)
        world.settle()
        world.forget()
        return consumer

    return make


def texts(consumer):
    return [message.data.decode() for message in iter(consumer.receive, None)]


def test_the_conversation(world, subscribe):
    consumer, told = subscribe(6), []
    consumer.receive()
    consumer.seek(EARLIEST, told.append)
    world.settle()
    assert told == []  # the broker has closed it: the seek is complete with the next subscription
    world.run(100)
    said = [one.name for one in world.heard() if not one.name.startswith("LOOKUP") and one.name != "MESSAGE"]
    assert said == ["SEEK", "CLOSE_CONSUMER", "SUCCESS", "SUBSCRIBE", "SUCCESS", "FLOW"]
    assert told == [None]
    assert texts(consumer) == [f"m-{n}" for n in range(6)]


# A target within a batch is itself left out, unless it is to be included.
@pytest.mark.parametrize(
    ("target", "first"),
    [
        (EARLIEST, 0),
        (LATEST, 6),
        (ClientMessageId(0, 1), 3),
        (ClientMessageId(0, 0, -1, 1, 3), 2),
        (1_700_000_000_500, 3),
    ],
)
def test_where_it_goes_on(world, subscribe, target, first):
    consumer = subscribe(6)
    texts(consumer)
    consumer.seek(target, lambda _: None)
    world.run(200)
    assert texts(consumer) == [f"m-{n}" for n in range(first, 6)]


def test_inclusively(world, subscribe):
    consumer = subscribe(6, resetIncludeHead=True)
    texts(consumer)
    consumer.seek(ClientMessageId(0, 0, -1, 1, 3), lambda _: None)
    world.run(200)
    assert texts(consumer) == [f"m-{n}" for n in range(1, 6)]


def test_an_ack_of_an_entry_that_waits_is_forgotten_but_not_that_of_a_part(world, subscribe):
    consumer = subscribe(6)
    messages = list(iter(consumer.receive, None))
    for message in messages[:4]:
        consumer.acknowledge(message.id)
    consumer.seek(EARLIEST, lambda _: None)
    world.run(200)
    # So it is in 4.2.4: the set of the second batch still waits, and what it acknowledges is a duplicate.
    assert texts(consumer) == ["m-0", "m-1", "m-2", "m-4", "m-5"]


def test_an_id_of_a_batch_says_what_is_wanted(world, subscribe):
    consumer = subscribe(3)
    messages = list(iter(consumer.receive, None))
    consumer.seek(messages[1].id, lambda _: None)
    world.settle()
    [body] = world.said("SEEK")
    assert list(body.message_id.ack_set) == [0b110]


def test_a_message_of_chunks_is_sought_at_its_first(world, subscribe):
    consumer = subscribe(0)
    consumer.seek(ClientMessageId(5, 9, first=ClientMessageId(5, 7)), lambda _: None)
    world.settle()
    [body] = world.said("SEEK")
    assert (body.message_id.entryId, list(body.message_id.ack_set)) == (7, [])


def test_one_at_a_time(world, subscribe):
    consumer, told = subscribe(3), []
    consumer.seek(EARLIEST, told.append)
    consumer.seek(LATEST, told.append)
    assert [one.error for one in told] == ["NotAllowed"]
    world.run(200)
    assert told[1] is None
    assert len(world.said("SEEK")) == 1


def test_a_refused_seek_changes_nothing(world, subscribe):
    consumer, told = subscribe(3), []
    world.broker.receive, receive = lambda *_: None, world.broker.receive
    consumer.seek(LATEST, told.append)
    world.settle()
    world.broker.receive = receive
    [body] = world.said("SEEK")
    refused = pb.CommandError(request_id=body.request_id, error=pb.UnknownError, message="no")
    world.engines[-1].received(consumer.connection, push_frame(refused), world.now)
    assert told[0].error == "UnknownError"
    assert not consumer.seeking.under_way
    assert texts(consumer) == ["m-0", "m-1", "m-2"]


def test_it_waits_for_a_connection(world, subscribe):
    consumer, told = subscribe(3), []
    world.cut()
    consumer.seek(EARLIEST, told.append)
    world.run(1000)
    assert told == [None]
    assert len(world.said("SEEK")) == 1


def test_it_does_not_wait_for_ever(world, subscribe):
    consumer, told = subscribe(3), []
    world.reachable = False
    world.cut()
    consumer.seek(EARLIEST, told.append)
    world.run(29_000)
    assert told == []
    world.run(2000)
    assert told[0].error == "TimeOut"


def test_a_non_durable_subscription_begins_at_the_target(world, subscribe):
    consumer = subscribe(6, subscriptionMode="NonDurable", startMessageId=LATEST, subscriptionInitialPosition="Latest")
    assert texts(consumer) == []
    consumer.seek(ClientMessageId(0, 1, -1, 0, 3), lambda _: None)
    world.run(200)
    assert world.said("SUBSCRIBE")[-1].start_message_id.entryId == 1
    # The target itself is left out, being the start behind which a reader begins.
    assert texts(consumer) == ["m-4", "m-5"]
