"""Consumers of several topics and of partitions: their children's permits, acks, time-outs and seeks."""

import pytest

from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.consumer.multi_topics_consumer import MultiTopicsConsumer
from pcli.replay.client.consumer_settings import ConsumerSettings
from pcli.replay.client.message_ids import EARLIEST, ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage

A, B = "persistent://public/default/a", "persistent://public/default/b"


def subscribe(world, *topics, expected=MultiTopicsConsumer, **settings):
    consumer = world.subscribe(topicNames=topics, **settings)
    assert isinstance(consumer, expected), consumer
    return consumer


def publish(world, topic, count, **settings):
    producer = world.produce(topic, batchingEnabled=False, **settings)
    for n in range(count):
        producer.send(OutgoingMessage(b"%s-%d" % (topic.encode(), n), key=str(n)))
    world.run(10)


def partitioned(world, count, topic="p"):
    world.broker.topic_registry.set_partitions(TopicName.parse(topic), count)


def take(consumer):
    return list(iter(consumer.receive, None))


def texts(messages):
    return sorted(message.data.decode() for message in messages)


def flows(world):
    return [(body.consumer_id, body.messagePermits) for body in world.said("FLOW")]


def test_no_child_asks_before_all_are_subscribed(world):
    subscribe(world, "b", "a")
    said = [one.name for one in world.heard("SUCCESS", "FLOW")]
    assert said == ["SUCCESS"] * 2 + ["FLOW"] * 2
    assert [body.topic for body in world.said("SUBSCRIBE")] == [A, B]
    assert len({body.consumer_name for body in world.said("SUBSCRIBE")}) == 1


def test_if_one_fails_all_are_closed(world):
    subscribe(world, "b", expected=object)
    made = []
    settings = ConsumerSettings(topicNames=("a", "b"), subscriptionName="work")
    world.engine().subscribe(settings, made.append)
    assert world.wait_for(made).error == "ConsumerBusy"
    world.settle()
    [closed] = world.said("CLOSE_CONSUMER")
    assert closed.consumer_id == 0


def test_messages_of_all_topics(world):
    consumer, told = subscribe(world, "a", "b"), []
    consumer.on_message = lambda: told.append(len(consumer.queue.messages))
    publish(world, "a", 2)
    publish(world, "b", 2)
    assert told == [1, 2, 3, 4]
    messages = take(consumer)
    assert texts(messages) == ["a-0", "a-1", "b-0", "b-1"]
    for message in messages:
        consumer.acknowledge(message.id)
    world.run(100)
    assert [(body.consumer_id, len(body.message_id)) for body in world.said("ACK")] == [(0, 2), (1, 2)]


def test_a_listener_frees_the_permits_of_the_children(world):
    consumer, heard = subscribe(world, "a", "b", receiverQueueSize=2), []
    consumer.listen(lambda message: heard.append(message.id.topic))
    publish(world, "b", 2)
    assert heard == [B, B]
    assert flows(world) == [(0, 2), (1, 2), (1, 1), (1, 1)]


@pytest.mark.parametrize(("count", "total", "size"), [(4, 50_000, 1000), (4, 40, 10), (4, 1000, 250)])
def test_partitions_share_a_total(world, count, total, size):
    partitioned(world, count)
    consumer = subscribe(world, "p", maxTotalReceiverQueueSizeAcrossPartitions=total)
    assert flows(world) == [(n, size) for n in range(count)]
    assert list(consumer.consumers) == [f"persistent://public/default/p-partition-{n}" for n in range(count)]


def test_a_full_queue_stops_the_children(world):
    partitioned(world, 2)
    consumer = subscribe(world, "p", receiverQueueSize=4)
    publish(world, "p", 30)
    # Four wait here, four with each child: no more is asked for.
    waiting = len(consumer.queue.messages) + sum(len(one.queue.messages) for one in consumer.consumers.values())
    assert waiting < 20
    got = []
    while message := consumer.receive():
        got.append(message)
        world.settle()
    assert len(texts(got)) == 30


def test_the_ack_time_out_is_counted_here(world):
    consumer = subscribe(world, "a", "b", subscriptionType="Shared", ackTimeoutMillis=1000)
    publish(world, "a", 2)
    publish(world, "b", 1)
    messages = take(consumer)
    consumer.acknowledge(messages[0].id)
    world.run(3000)
    asked = world.said("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert [(body.consumer_id, [one.entryId for one in body.message_ids]) for body in asked] == [(0, [1]), (1, [0])]
    assert [(message.topic, message.redelivery_count) for message in take(consumer)] == [(A, 1), (B, 1)]


def test_exclusive_ones_ask_for_everything(world):
    consumer = subscribe(world, "a", "b", ackTimeoutMillis=1000)
    publish(world, "a", 1)
    take(consumer)
    world.run(3000)
    assert [body.consumer_epoch for body in world.said("REDELIVER_UNACKNOWLEDGED_MESSAGES")] == [1, 1]
    assert texts(take(consumer)) == ["a-0"]


def test_refusing(world):
    consumer = subscribe(world, "a", "b", subscriptionType="Shared", negativeAckRedeliveryDelayMicros=100_000)
    publish(world, "b", 1)
    consumer.negative_acknowledge(take(consumer)[0].id)
    world.run(100)
    [asked] = world.said("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert asked.consumer_id == 1


def test_cumulatively_in_one_topic(world):
    consumer = subscribe(world, "a", "b")
    publish(world, "a", 3)
    consumer.acknowledge_cumulative(take(consumer)[1].id)
    world.run(100)
    [ack] = world.said("ACK")
    assert (ack.consumer_id, ack.message_id[0].entryId) == (0, 1)


def test_an_id_without_a_topic(world):
    consumer, told = subscribe(world, "a", "b"), []
    consumer.acknowledge(ClientMessageId(0, 0), told.append)
    consumer.acknowledge_cumulative(ClientMessageId(0, 0), told.append)
    consumer.seek(ClientMessageId(0, 0), told.append)
    assert [one.error for one in told] == ["NotAllowed"] * 3
    assert {one.message for one in told} == {"0:0 is of no topic that is consumed here"}


def test_seeking_in_all_topics(world):
    consumer, told = subscribe(world, "a", "b"), []
    publish(world, "a", 2)
    publish(world, "b", 1)
    assert len(take(consumer)) == 3
    consumer.seek(EARLIEST, told.append)
    world.run(200)
    assert told == [None]
    assert texts(take(consumer)) == ["a-0", "a-1", "b-0"]


def test_seeking_in_one_topic(world):
    consumer, told = subscribe(world, "a", "b"), []
    publish(world, "a", 2)
    publish(world, "b", 1)
    ids = [message.id for message in take(consumer)]
    consumer.seek(ids[0], told.append)
    world.run(200)
    assert told == [None]
    assert texts(take(consumer)) == ["a-1"]  # the target itself is left out


def test_new_partitions_are_found(world):
    partitioned(world, 2)
    consumer = subscribe(world, "p", autoUpdatePartitionsIntervalSeconds=60)
    partitioned(world, 3)
    world.forget()
    world.run(60_000)
    assert [body.metadata_auto_creation_enabled for body in world.said("PARTITIONED_METADATA")] == [False]
    assert len(consumer.consumers) == 3
    assert flows(world) == [(2, 1000)]


def test_questions_to_all_topics(world):
    consumer, found = subscribe(world, "a", "b"), []
    consumer.has_message_available(found.append)
    assert world.wait_for(found) is False
    publish(world, "b", 1)
    consumer.has_message_available(found.append)
    assert found[1]
    consumer.last_message_ids(found.append)
    world.settle()
    assert sorted((one.topic, one.entry) for one in found[2]) == [(A, -1), (B, 0)]


@pytest.mark.parametrize("act", ["close", "unsubscribe"])
def test_the_end(world, act):
    consumer, told = subscribe(world, "a", "b"), []
    getattr(consumer, act)(told.append)
    world.settle()
    assert told == [None]
    assert consumer.state is State.CLOSED
    assert len(world.said("CLOSE_CONSUMER" if act == "close" else "UNSUBSCRIBE")) == 2


def test_a_pause(world):
    consumer = subscribe(world, "a", "b", startPaused=True)
    world.settle()
    assert flows(world) == []
    consumer.resume()
    world.settle()
    assert flows(world) == [(0, 1000), (1, 1000)]
    consumer.pause()
    publish(world, "a", 600)
    take(consumer)
    world.settle()
    assert flows(world) == [(0, 1000), (1, 1000)]


def test_a_queue_of_none_is_for_topics_without_partitions(world):
    partitioned(world, 2)
    made = []
    settings = ConsumerSettings(topicNames=("p",), subscriptionName="work", receiverQueueSize=0)
    world.engine().subscribe(settings, made.append)
    assert world.wait_for(made).error == "InvalidConfiguration"


def test_the_end_of_the_client_sends_acks_and_asks_no_more_for_partitions(world):
    partitioned(world, 2)
    consumer, ended = subscribe(world, "p"), []
    publish(world, "p", 2)
    [engine, *_] = world.engines
    for message in take(consumer):
        consumer.acknowledge(message.id)
    world.forget()
    engine.close(lambda: ended.append(True))
    world.settle()
    assert ended
    assert [one.name for one in world.heard("ACK", "CLOSE_CONSUMER", from_client=True)][::2] == ["ACK"] * 2
    world.forget()
    world.run(200_000)
    assert [one.name for one in world.heard() if one.connection.engine is engine] == []
