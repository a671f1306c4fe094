"""Both forms of redelivery requests as bytes."""

import pytest

from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage


@pytest.fixture
def subscribe(network):
    producer = network.produce(batchingEnabled=False)

    def make(kind, count=0):
        for n in range(count):
            producer.send(OutgoingMessage(b"m-%d" % n))
        consumer = network.subscribe(subscriptionType=kind, receiverQueueSize=1)
        network.deliver_all()
        network.clear_frames()
        return consumer

    return make


def requested(network):
    return [
        ([one.entryId for one in body.message_ids], body.consumer_epoch if body.HasField("consumer_epoch") else None)
        for body in network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    ]


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_redelivery_of_all_increments_the_epoch(network, subscribe, kind):
    consumer = subscribe(kind)
    consumer.redeliver({ClientMessageId(1, 5)})
    consumer.redeliver_unacknowledged()
    network.deliver_all()
    assert requested(network) == [([], 1), ([], 2)]


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_redelivery_of_all_keeps_the_epoch_on_shared(network, subscribe, kind):
    consumer = subscribe(kind)
    consumer.redeliver_unacknowledged()
    network.deliver_all()
    assert requested(network) == [([], 0)]


def test_queued_messages_return_their_permits(network, subscribe):
    consumer = subscribe("Shared", 1)
    assert len(consumer.queue.messages) == 1
    consumer.redeliver_unacknowledged()
    network.deliver_all()
    sent = [one.name for one in network.sent_frames(from_client=True)]
    assert sent == ["REDELIVER_UNACKNOWLEDGED_MESSAGES", "FLOW"]


def test_redelivered_messages_are_removed_from_the_queue(network, subscribe):
    consumer = subscribe("Shared", 1)
    consumer.redeliver({consumer.queue.messages[0].id, ClientMessageId(0, 7)})
    network.deliver_all()
    assert requested(network) == [([0, 7], None)]
    assert [body.messagePermits for body in network.sent("FLOW")] == [1]


def test_a_command_has_at_most_1000_ids(network, subscribe):
    consumer = subscribe("Shared")
    consumer.redeliver({ClientMessageId(1, entry) for entry in range(2001)})
    network.deliver_all()
    assert [len(ids) for ids, _ in requested(network)] == [1000, 1000, 1]


def test_a_request_during_an_unsubscribe_closes_the_connection(network, subscribe):
    """A refused UNSUBSCRIBE must not lose the request."""
    consumer = subscribe("Shared", 1)
    other = network.subscribe(subscriptionType="Shared", receiverQueueSize=1)
    network.deliver_all()
    message = consumer.receive()
    failures = []
    consumer.unsubscribe(failures.append)
    consumer.redeliver({message.id})
    network.run(2000)
    assert [failure.error for failure in failures] == ["Disconnected"]
    assert requested(network) == []
    assert [one.id for one in (consumer.receive(), other.receive()) if one is not None] == [message.id]


def test_nothing_is_sent_without_a_connection(network, subscribe):
    consumer = subscribe("Shared")
    network.cut()
    network.clear_frames()
    consumer.redeliver({ClientMessageId(1, 0)})
    consumer.redeliver_unacknowledged()
    network.run(200)
    assert requested(network) == []
