"""Requests that wait for a connection."""

from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.consumer.consumer import Consumer
from pcli.replay.client.consumer.deferred_requests import once_connected
from pcli.replay.client.consumer_settings import ConsumerSettings


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
