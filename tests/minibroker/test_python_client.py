"""The Python client of Apache Pulsar, unmodified, against a broker in the same process."""

import uuid

import pytest

from pcli.minibroker import MiniBroker

pulsar = pytest.importorskip("pulsar", exc_type=ImportError)

WAIT = 10_000
"""Timeout of a test in milliseconds."""


@pytest.fixture
def broker():
    with MiniBroker(topics=["jobs:2"], activeConsumerFailoverDelayTimeMillis=0) as running:
        yield running
    assert running.failures == []


@pytest.fixture
def client(broker):
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker.service_url, logger=quiet, operation_timeout_seconds=10)
    yield client
    client.close()


def take(consumer, count):
    """Receive and acknowledge this number of messages; return their contents."""
    found = []
    for _ in range(count):
        message = consumer.receive(WAIT)
        consumer.acknowledge(message)
        found.append(message.data())
    return found


TYPES = pulsar.ConsumerType


@pytest.mark.parametrize(
    "kind", [TYPES.Exclusive, TYPES.Failover, TYPES.Shared, TYPES.KeyShared], ids=lambda one: one.name
)
@pytest.mark.parametrize("topic", ["orders", "jobs", "non-persistent://public/default/news"])
@pytest.mark.parametrize("batching", [False, True], ids=["single", "batched"])
def test_every_subscription_type(broker, client, kind, topic, batching):
    consumer = client.subscribe(topic, "work", kind, consumer_name="c1")
    producer = client.create_producer(topic, batching_enabled=batching, batching_max_publish_delay_ms=5)
    for number in range(50):
        producer.send_async(b"%d" % number, lambda *_: None, partition_key=str(number % 5))
    producer.flush()
    assert sorted(take(consumer, 50), key=int) == [b"%d" % number for number in range(50)]
    broker.wait_until(lambda b: b.topic(topic).backlog == 0)


def test_two_shared_consumers_get_every_message_once(broker, client):
    consumers = [client.subscribe("orders", "work", TYPES.Shared, receiver_queue_size=1) for _ in range(2)]
    producer = client.create_producer("orders")
    for number in range(20):
        producer.send(b"%d" % number)
    found = []
    while len(found) < 20:
        for consumer in consumers:
            try:
                found += [(message := consumer.receive(200)).data()]
                consumer.acknowledge(message)
            except pulsar.Timeout:
                pass
    assert sorted(found, key=int) == [b"%d" % number for number in range(20)]


def test_a_nack_causes_a_redelivery(client):
    consumer = client.subscribe("orders", "work", TYPES.Shared, negative_ack_redelivery_delay_ms=50)
    client.create_producer("orders").send(b"again")
    consumer.negative_acknowledge(consumer.receive(WAIT))
    message = consumer.receive(WAIT)
    assert (message.data(), message.redelivery_count()) == (b"again", 1)


def test_the_client_reconnects_after_a_restart(broker, client):
    producer = client.create_producer("orders", producer_name="p1")
    consumer = client.subscribe("orders", "work", TYPES.Shared)
    producer.send(b"before")
    assert take(consumer, 1) == [b"before"]
    broker.wait_until(lambda b: b.topic("orders").backlog == 0)  # the client groups its ACKs
    broker.restart()
    producer.send(b"after")
    assert take(consumer, 1) == [b"after"]
    assert broker.topic("orders").payloads == [b"after"]  # the restart deletes the ledger that is acknowledged
    assert {frame.connection for frame in broker.frames("pulsar.type == 'SEND'")} == {0, 1}


def test_the_client_reconnects_after_a_close(broker, client):
    producer = client.create_producer("orders", producer_name="p1")
    producer.send(b"one")
    broker.disconnect(producer="p1")
    producer.send(b"two")
    broker.disconnect()
    producer.send(b"three")
    assert broker.topic("orders").payloads == [b"one", b"two", b"three"]


def test_a_lost_flow_leaves_the_consumer_without_messages(broker, client):
    fault = broker.faults.add("pulsar.type == 'FLOW' and pulsar.consumer_name == 'c1'", "drop")
    starved = client.subscribe("orders", "work", TYPES.Shared, consumer_name="c1")
    client.create_producer("orders").send(b"stuck")
    with pytest.raises(pulsar.Timeout):
        starved.receive(200)
    assert fault.fired == 1
    assert broker.topic("orders").subscriptions["work"].consumers[0].permits == 0


def test_a_corrupt_message_is_not_delivered_to_the_application(broker, client):
    consumer = client.subscribe("orders", "work", TYPES.Shared)
    broker.faults.add("pulsar.type == 'MESSAGE'", "corrupt", times=1)
    producer = client.create_producer("orders")
    producer.send(b"damaged")
    producer.send(b"good")
    assert consumer.receive(WAIT).data() == b"good"
    [ack] = broker.wait_until(lambda b: b.frames("pulsar.type == 'ACK'"))
    assert ack.command.HasField("validation_error")


def test_a_refused_producer_retries(broker, client):
    fault = broker.faults.add("pulsar.type == 'PRODUCER'", "error", error="ServiceNotReady", times=2)
    client.create_producer("orders").send(b"at last")
    assert fault.fired == 2
    assert broker.topic("orders").payloads == [b"at last"]


def test_the_client_waits_for_a_late_receipt(broker, client):
    producer = client.create_producer("orders")
    broker.faults.add("pulsar.type == 'SEND_RECEIPT'", "delay", ms=150)
    before = broker.clock.now
    producer.send(b"slow")
    assert broker.clock.now - before >= 0.15


def test_compressed_and_chunked_messages_are_decoded(broker, client):
    large = uuid.uuid4().bytes * 500_000
    packed = client.create_producer("orders", compression_type=pulsar.CompressionType.LZ4)
    packed.send(b"packed" * 100)
    chunked = client.create_producer("large", chunking_enabled=True, batching_enabled=False)
    chunked.send(large)
    assert broker.topic("orders").payloads == [b"packed" * 100]
    assert broker.topic("large").payloads == [large]
    assert len(broker.frames("pulsar.type == 'SEND'")) == 3
