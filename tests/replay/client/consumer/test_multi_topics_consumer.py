"""Consumers of several topics and of partitions: permits, ACKs, timeouts and seeks of the single consumers."""

from __future__ import annotations

from collections import deque

import pytest

from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.consumer.multi_topics_consumer import MultiTopicsConsumer, MultiTopicsQueue
from pcli.replay.client.message_ids import EARLIEST, ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ConsumerSettings

A, B = "persistent://public/default/a", "persistent://public/default/b"


def subscribe(network, *topics, expected=MultiTopicsConsumer, **settings):
    consumer = network.subscribe(topicNames=topics, **settings)
    assert isinstance(consumer, expected), consumer
    return consumer


def publish(network, topic, count, **settings):
    producer = network.produce(topic, batchingEnabled=False, **settings)
    for n in range(count):
        producer.send(OutgoingMessage(b"%s-%d" % (topic.encode(), n), key=str(n)))
    network.run(10)


def partitioned(network, count, topic="p"):
    network.broker.topic_registry.set_partitions(TopicName.parse(topic), count)


def take(consumer):
    return list(iter(consumer.receive, None))


def texts(messages):
    return sorted(message.data.decode() for message in messages)


def flows(network):
    return [(body.consumer_id, body.messagePermits) for body in network.sent("FLOW")]


def test_no_child_sends_permits_before_all_are_subscribed(network):
    subscribe(network, "b", "a")
    sent = [one.name for one in network.sent_frames("SUCCESS", "FLOW")]
    assert sent == ["SUCCESS"] * 2 + ["FLOW"] * 2
    assert [body.topic for body in network.sent("SUBSCRIBE")] == [A, B]
    assert len({body.consumer_name for body in network.sent("SUBSCRIBE")}) == 1


def test_if_one_child_fails_all_are_closed(network):
    subscribe(network, "b", expected=object)
    made = []
    settings = ConsumerSettings(topicNames=("a", "b"), subscriptionName="work")
    network.engine().subscribe(settings, made.append)
    assert network.wait_for(made).error == "ConsumerBusy"
    network.deliver_all()
    [closed] = network.sent("CLOSE_CONSUMER")
    assert closed.consumer_id == 0


def test_messages_of_all_topics(network):
    consumer, results = subscribe(network, "a", "b"), []
    consumer.on_message = lambda: results.append(len(consumer.queue.messages))
    publish(network, "a", 2)
    publish(network, "b", 2)
    assert results == [1, 2, 3, 4]
    messages = take(consumer)
    assert texts(messages) == ["a-0", "a-1", "b-0", "b-1"]
    for message in messages:
        consumer.acknowledge(message.id)
    network.run(100)
    assert [(body.consumer_id, len(body.message_id)) for body in network.sent("ACK")] == [(0, 2), (1, 2)]


def test_a_listener_returns_the_permits_of_the_children(network):
    consumer, sent_frames = subscribe(network, "a", "b", receiverQueueSize=2), []
    consumer.listen(lambda message: sent_frames.append(message.id.topic))
    publish(network, "b", 2)
    assert sent_frames == [B, B]
    assert flows(network) == [(0, 2), (1, 2), (1, 1), (1, 1)]


@pytest.mark.parametrize(("count", "total", "size"), [(4, 50_000, 1000), (4, 40, 10), (4, 1000, 250)])
def test_partitions_share_the_total_queue_size(network, count, total, size):
    partitioned(network, count)
    consumer = subscribe(network, "p", maxTotalReceiverQueueSizeAcrossPartitions=total)
    assert flows(network) == [(n, size) for n in range(count)]
    assert list(consumer.consumers) == [f"persistent://public/default/p-partition-{n}" for n in range(count)]


def test_a_full_queue_stops_the_children(network):
    partitioned(network, 2)
    consumer = subscribe(network, "p", receiverQueueSize=4)
    publish(network, "p", 30)
    # Four messages are in the common queue and four in each consumer, so no further permits are granted.
    waiting = len(consumer.queue.messages) + sum(len(one.queue.messages) for one in consumer.consumers.values())
    assert waiting < 20
    got = []
    while message := consumer.receive():
        got.append(message)
        network.deliver_all()
    assert len(texts(got)) == 30


def test_the_ack_time_out_is_tracked_by_the_parent(network):
    consumer = subscribe(network, "a", "b", subscriptionType="Shared", ackTimeoutMillis=1000)
    publish(network, "a", 2)
    publish(network, "b", 1)
    messages = take(consumer)
    consumer.acknowledge(messages[0].id)
    network.run(3000)
    requested = network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert [(body.consumer_id, [one.entryId for one in body.message_ids]) for body in requested] == [(0, [1]), (1, [0])]
    assert [(message.topic, message.redelivery_count) for message in take(consumer)] == [(A, 1), (B, 1)]


def test_exclusive_consumers_redeliver_everything(network):
    consumer = subscribe(network, "a", "b", ackTimeoutMillis=1000)
    publish(network, "a", 1)
    take(consumer)
    network.run(3000)
    assert [body.consumer_epoch for body in network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")] == [1, 1]
    assert texts(take(consumer)) == ["a-0"]


def test_negative_acks(network):
    consumer = subscribe(network, "a", "b", subscriptionType="Shared", negativeAckRedeliveryDelayMicros=100_000)
    publish(network, "b", 1)
    consumer.negative_acknowledge(take(consumer)[0].id)
    network.run(100)
    [requested] = network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert requested.consumer_id == 1


def test_a_cumulative_ack_applies_to_one_topic(network):
    consumer = subscribe(network, "a", "b")
    publish(network, "a", 3)
    consumer.acknowledge_cumulative(take(consumer)[1].id)
    network.run(100)
    [ack] = network.sent("ACK")
    assert (ack.consumer_id, ack.message_id[0].entryId) == (0, 1)


def test_an_id_without_a_topic(network):
    consumer, results = subscribe(network, "a", "b"), []
    consumer.acknowledge(ClientMessageId(0, 0), results.append)
    consumer.acknowledge_cumulative(ClientMessageId(0, 0), results.append)
    consumer.seek(ClientMessageId(0, 0), results.append)
    assert [one.error for one in results] == ["NotAllowed"] * 3
    assert {one.message for one in results} == {"0:0 belongs to no consumed topic"}


def test_seeking_in_all_topics(network):
    consumer, results = subscribe(network, "a", "b"), []
    publish(network, "a", 2)
    publish(network, "b", 1)
    assert len(take(consumer)) == 3
    consumer.seek(EARLIEST, results.append)
    network.run(200)
    assert results == [None]
    assert texts(take(consumer)) == ["a-0", "a-1", "b-0"]


def test_seeking_in_one_topic(network):
    consumer, results = subscribe(network, "a", "b"), []
    publish(network, "a", 2)
    publish(network, "b", 1)
    ids = [message.id for message in take(consumer)]
    consumer.seek(ids[0], results.append)
    network.run(200)
    assert results == [None]
    assert texts(take(consumer)) == ["a-1"]  # the target itself is excluded


def test_new_partitions_are_found(network):
    partitioned(network, 2)
    consumer = subscribe(network, "p", autoUpdatePartitionsIntervalSeconds=60)
    partitioned(network, 3)
    network.clear_frames()
    network.run(60_000)
    assert [body.metadata_auto_creation_enabled for body in network.sent("PARTITIONED_METADATA")] == [False]
    assert len(consumer.consumers) == 3
    assert flows(network) == [(2, 1000)]


def test_requests_to_all_topics(network):
    consumer, found = subscribe(network, "a", "b"), []
    consumer.has_message_available(found.append)
    assert network.wait_for(found) is False
    publish(network, "b", 1)
    consumer.has_message_available(found.append)
    assert found[1]
    consumer.last_message_ids(found.append)
    network.deliver_all()
    assert sorted((one.topic, one.entry) for one in found[2]) == [(A, -1), (B, 0)]


@pytest.mark.parametrize("act", ["close", "unsubscribe"])
def test_the_end(network, act):
    consumer, results = subscribe(network, "a", "b"), []
    getattr(consumer, act)(results.append)
    network.deliver_all()
    assert results == [None]
    assert consumer.state is State.CLOSED
    assert len(network.sent("CLOSE_CONSUMER" if act == "close" else "UNSUBSCRIBE")) == 2


def test_a_pause(network):
    consumer = subscribe(network, "a", "b", startPaused=True)
    network.deliver_all()
    assert flows(network) == []
    consumer.resume()
    network.deliver_all()
    assert flows(network) == [(0, 1000), (1, 1000)]
    consumer.pause()
    publish(network, "a", 600)
    take(consumer)
    network.deliver_all()
    assert flows(network) == [(0, 1000), (1, 1000)]


def test_a_zero_queue_is_refused_for_partitioned_topics(network):
    partitioned(network, 2)
    made = []
    settings = ConsumerSettings(topicNames=("p",), subscriptionName="work", receiverQueueSize=0)
    network.engine().subscribe(settings, made.append)
    assert network.wait_for(made).error == "InvalidConfiguration"


def test_closing_the_client_sends_acks_and_stops_polling(network):
    partitioned(network, 2)
    consumer, ended = subscribe(network, "p"), []
    publish(network, "p", 2)
    [engine, *_] = network.engines
    for message in take(consumer):
        consumer.acknowledge(message.id)
    network.clear_frames()
    engine.close(lambda: ended.append(True))
    network.deliver_all()
    assert ended
    assert [one.name for one in network.sent_frames("ACK", "CLOSE_CONSUMER", from_client=True)][::2] == ["ACK"] * 2
    network.clear_frames()
    network.run(200_000)
    assert [one.name for one in network.sent_frames() if one.connection.engine is engine] == []


class Queue:
    def __init__(self, size, messages):
        self.size, self.messages = size, deque(messages)


class Child:
    """The part of a consumer that the queue uses."""

    def __init__(self, size, count, name):
        self.queue = Queue(size, [f"{name}{n}" for n in range(count)])

    def receive(self):
        return self.queue.messages.popleft() if self.queue.messages else None


def test_a_child_waits_when_the_queue_is_full():
    queue, child = MultiTopicsQueue(4), Child(4, 9, "a")
    queue.fill(child)
    assert list(queue.messages) == ["a0", "a1", "a2", "a3"]
    queue.fill(child)
    assert len(queue.messages) == 4
    for _ in range(2):
        queue.messages.popleft()
        queue.go_on()
    assert list(queue.messages) == ["a2", "a3", "a4", "a5"]


def test_above_half_a_child_waits_after_other_children():
    queue, first, second = MultiTopicsQueue(4), Child(4, 9, "a"), Child(2, 2, "b")
    queue.fill(first)
    queue.messages.popleft()
    queue.fill(second)
    assert list(queue.messages) == ["a1", "a2", "a3", "b0"]
    for _ in range(2):
        queue.messages.popleft()
        queue.go_on()
    assert list(queue.messages) == ["a3", "b0", "a4", "a5"]
    for _ in range(2):
        queue.messages.popleft()
        queue.go_on()
    assert list(queue.messages) == ["a4", "a5", "b1"]


def test_no_messages_are_moved_during_a_seek():
    queue, child = MultiTopicsQueue(4), Child(4, 1, "a")
    queue.held = True
    queue.fill(child)
    assert not queue.messages


def test_a_removed_child_no_longer_waits():
    queue, child = MultiTopicsQueue(2), Child(2, 9, "a")
    queue.fill(child)
    queue.remove_child(child)
    queue.messages.clear()
    queue.go_on()
    assert not queue.messages
