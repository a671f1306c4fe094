"""Requests that wait for a connection."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.consumer.consumer import Consumer
from pcli.replay.client.consumer.cursor_requests import once_connected
from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ConsumerSettings


def test_retries_start_at_100_ms_and_double(fake_broker):
    network, tries, refused = fake_broker(operationTimeoutMs=1000), [], []

    class Watched(Consumer):
        """Records requests for a connection, and never connects."""

        @property
        def connected(self):
            tries.append(network.engine.now - start)

    start = network.engine.now
    consumer = Watched(network.engine, "persistent://a/b/c", ConsumerSettings(subscriptionName="s"), lambda _: None)
    once_connected(consumer, "it", lambda _: None, refused.append)
    for _ in range(1100):
        network.run(1)
    assert tries == [0, 100, 300, 700, 1000]
    assert [one.error for one in refused] == ["TimeOut"]


def test_a_closed_consumer_stops_waiting(fake_broker):
    network, refused = fake_broker(), []
    consumer = Consumer(network.engine, "persistent://a/b/c", ConsumerSettings(subscriptionName="s"), lambda _: None)
    consumer.state = State.CLOSED
    once_connected(consumer, "it", lambda _: None, refused.append)
    assert [one.error for one in refused] == ["Closed"]


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


@pytest.fixture
def subscribe(network):
    producer = network.produce(batchingMaxMessages=3)

    def make(count, **settings):
        for n in range(count):
            producer.send(OutgoingMessage(b"m-%d" % n))
            if n % 3 == 2:
                network.run(1000)
        consumer = network.subscribe(**settings)
        network.deliver_all()
        network.clear_frames()
        return consumer

    return make


def texts(consumer):
    return [message.data.decode() for message in iter(consumer.receive, None)]


def test_the_conversation(network, subscribe):
    consumer, results = subscribe(6), []
    consumer.receive()
    consumer.seek(EARLIEST, results.append)
    network.deliver_all()
    assert results == []  # the broker closed the consumer: the seek is complete after the next SUBSCRIBE
    network.run(100)
    sent = [one.name for one in network.sent_frames() if not one.name.startswith("LOOKUP") and one.name != "MESSAGE"]
    assert sent == ["SEEK", "CLOSE_CONSUMER", "SUCCESS", "SUBSCRIBE", "SUCCESS", "FLOW"]
    assert results == [None]
    assert texts(consumer) == [f"m-{n}" for n in range(6)]


# A target within a batch is excluded, unless it is to be included.
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
def test_the_position_after_a_seek(network, subscribe, target, first):
    consumer = subscribe(6)
    texts(consumer)
    consumer.seek(target, lambda _: None)
    network.run(200)
    assert texts(consumer) == [f"m-{n}" for n in range(first, 6)]


def test_inclusively(network, subscribe):
    consumer = subscribe(6, resetIncludeHead=True)
    texts(consumer)
    consumer.seek(ClientMessageId(0, 0, -1, 1, 3), lambda _: None)
    network.run(200)
    assert texts(consumer) == [f"m-{n}" for n in range(1, 6)]


def test_a_seek_drops_waiting_acks_of_entries_but_not_of_batch_parts(network, subscribe):
    consumer = subscribe(6)
    messages = list(iter(consumer.receive, None))
    for message in messages[:4]:
        consumer.acknowledge(message.id)
    consumer.seek(EARLIEST, lambda _: None)
    network.run(200)
    # As in 4.2.4, the ack set of the second batch is still pending, and the messages that it acknowledges are
    # duplicates.
    assert texts(consumer) == ["m-0", "m-1", "m-2", "m-4", "m-5"]


def test_a_batch_id_has_an_ack_set_of_the_requested_messages(network, subscribe):
    consumer = subscribe(3)
    messages = list(iter(consumer.receive, None))
    consumer.seek(messages[1].id, lambda _: None)
    network.deliver_all()
    [body] = network.sent("SEEK")
    assert list(body.message_id.ack_set) == [0b110]


def test_a_chunked_message_is_sought_at_its_first_chunk(network, subscribe):
    consumer = subscribe(0)
    consumer.seek(ClientMessageId(5, 9, first=ClientMessageId(5, 7)), lambda _: None)
    network.deliver_all()
    [body] = network.sent("SEEK")
    assert (body.message_id.entryId, list(body.message_id.ack_set)) == (7, [])


def test_only_one_seek_runs_at_a_time(network, subscribe):
    consumer, results = subscribe(3), []
    consumer.seek(EARLIEST, results.append)
    consumer.seek(LATEST, results.append)
    assert [one.error for one in results] == ["NotAllowed"]
    network.run(200)
    assert results[1] is None
    assert len(network.sent("SEEK")) == 1


def test_a_failed_seek_changes_nothing(network, subscribe):
    consumer, results = subscribe(3), []
    network.broker.receive, receive = lambda *_: None, network.broker.receive
    consumer.seek(LATEST, results.append)
    network.deliver_all()
    network.broker.receive = receive
    [body] = network.sent("SEEK")
    refused = pb.CommandError(request_id=body.request_id, error=pb.UnknownError, message="no")
    network.engines[-1].received(consumer.connection, push_frame(refused), network.now)
    assert results[0].error == "UnknownError"
    assert not consumer.seeking.under_way
    assert texts(consumer) == ["m-0", "m-1", "m-2"]


def test_it_waits_for_a_connection(network, subscribe):
    consumer, results = subscribe(3), []
    network.cut()
    consumer.seek(EARLIEST, results.append)
    network.run(1000)
    assert results == [None]
    assert len(network.sent("SEEK")) == 1


def test_the_wait_for_a_connection_times_out(network, subscribe):
    consumer, results = subscribe(3), []
    network.reachable = False
    network.cut()
    consumer.seek(EARLIEST, results.append)
    network.run(29_000)
    assert results == []
    network.run(2000)
    assert results[0].error == "TimeOut"


def test_a_non_durable_subscription_starts_at_the_target(network, subscribe):
    consumer = subscribe(6, subscriptionMode="NonDurable", startMessageId=LATEST, subscriptionInitialPosition="Latest")
    assert texts(consumer) == []
    consumer.seek(ClientMessageId(0, 1, -1, 0, 3), lambda _: None)
    network.run(200)
    assert network.sent("SUBSCRIBE")[-1].start_message_id.entryId == 1
    # The target is excluded, because a reader starts after its start position.
    assert texts(consumer) == ["m-4", "m-5"]
