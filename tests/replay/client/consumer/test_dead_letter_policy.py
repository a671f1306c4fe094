"""Dead letters: when a message becomes one, its contents, and the acknowledgement of the original."""

import pytest

from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import DeadLetterPolicy


@pytest.fixture
def subscribe(network):
    producer = network.produce(batchingMaxMessages=2)

    def make(count, **settings):
        for n in range(count):
            producer.send(OutgoingMessage(b"m-%d" % n, key=f"k-{n}", properties={"who": "me"}, event_time=7))
        network.run(10)
        given = {
            "subscriptionType": "Shared",
            "consumerName": "c",
            "negativeAckRedeliveryDelayMicros": 100_000,
            "negativeAckPrecisionBitCnt": 0,
        }
        consumer = network.subscribe(**given | settings)
        network.deliver_all()
        network.clear_frames()
        return consumer

    return make


def take(consumer):
    return list(iter(consumer.receive, None))


def alphanumeric(network):
    """Return key, payload and properties of the messages that consumers sent."""
    return [
        (one.frame.metadata.partition_key, one.frame.payload, {p.key: p.value for p in one.frame.metadata.properties})
        for one in network.sent_frames("SEND")
    ]


def test_a_message_above_the_maximum_redeliveries_is_a_dead_letter(network, subscribe):
    consumer = subscribe(1, deadLetterPolicy=DeadLetterPolicy(maxRedeliverCount=2, initialSubscriptionName="found"))
    counts = []
    for _ in range(4):
        for message in take(consumer):
            counts.append(message.redelivery_count)
            consumer.negative_acknowledge(message.id)
        network.run(1000)
    # A rejected entry is not a candidate for a dead letter. It is redelivered once more and not delivered then (as by
    # Java).
    assert counts == [0, 1, 2]
    assert [len(body.message_ids) for body in network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")] == [1, 1, 1]
    [made] = network.sent("PRODUCER")
    assert made.topic == "orders-work-DLQ"
    assert made.producer_name == "persistent://public/default/orders-work-c-aaaaa-DLQ"
    assert made.initial_subscription_name == "found"
    [(key, payload, properties)] = alphanumeric(network)
    assert (key, payload) == ("k-0", b"m-0")
    assert properties == {
        "who": "me",
        "REAL_TOPIC": "persistent://public/default/orders",
        "REAL_SUBSCRIPTION": "work",
        "ORIGIN_MESSAGE_ID": "0:0:-1",
        "ORIGIN_MESSAGE_IDY_TIME": "0:0:-1",
    }
    [ack] = network.sent("ACK")
    assert [one.entryId for one in ack.message_id] == [0]


def test_a_whole_batch_becomes_dead_letters(network, subscribe):
    consumer = subscribe(2, deadLetterPolicy=DeadLetterPolicy(maxRedeliverCount=1), ackTimeoutMillis=1000)
    for _ in range(3):
        take(consumer)
        network.run(3000)
    assert [payload for _, payload, _ in alphanumeric(network)] == [b"m-0", b"m-1"]
    # With the ack timeout, the entry is found the first time.
    assert len(network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")) == 1
    assert [len(body.message_id) for body in network.sent("ACK")] == [1]


def test_a_failed_dead_letter_is_redelivered(network, subscribe):
    policy = DeadLetterPolicy(maxRedeliverCount=1, deadLetterTopic="no-such://topic")
    consumer = subscribe(1, deadLetterPolicy=policy, ackTimeoutMillis=1000)
    for _ in range(3):
        take(consumer)
        network.run(3000)
    assert alphanumeric(network) == []
    assert len(network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")) >= 2
    assert network.sent("ACK") == []


def test_an_acknowledged_message_is_no_dead_letter(network, subscribe):
    consumer = subscribe(1, deadLetterPolicy=DeadLetterPolicy(maxRedeliverCount=1), ackTimeoutMillis=1000)
    take(consumer)
    network.run(3000)
    [message] = take(consumer)
    assert len(consumer.dead.possible) == 1
    consumer.acknowledge(message.id)
    assert consumer.dead.possible == {}


def test_a_new_connection_drops_candidates(network, subscribe):
    consumer = subscribe(1, deadLetterPolicy=DeadLetterPolicy(maxRedeliverCount=1), ackTimeoutMillis=1000)
    take(consumer)
    network.run(3000)
    assert len(consumer.dead.possible) == 1
    network.cut()
    network.reachable = False
    network.run(10)
    network.reachable = True
    network.run(500)
    assert all(message.redelivery_count == 0 for message in consumer.queue.messages) or not consumer.dead.possible


def test_reconsume_later(network, subscribe):
    policy = DeadLetterPolicy(maxRedeliverCount=2)
    consumer, results = subscribe(1, deadLetterPolicy=policy, retryEnable=True), []
    for _ in range(3):
        [message] = take(consumer)
        consumer.reconsume_later(message, 500, {"why": "not now"}, results.append)
        network.run(2000)
    assert results == [None] * 3
    times = [(properties["RECONSUMETIMES"], properties["DELAY_TIME"]) for _, _, properties in alphanumeric(network)]
    assert times == [("1", "500"), ("2", "500"), ("3", "500")]
    topics = [body.topic for body in network.sent("PRODUCER")]
    assert topics[-1].endswith("DLQ")
    assert {properties["REAL_TOPIC"] for _, _, properties in alphanumeric(network)} == {
        "persistent://public/default/orders"
    }
    assert take(consumer) == []


def test_reconsume_later_requires_settings(network, subscribe):
    consumer, results = subscribe(1), []
    consumer.reconsume_later(take(consumer)[0], 500, done=results.append)
    assert results[0].error == "NotAllowed"
