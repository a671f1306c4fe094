"""Consumers of a topic pattern when topics are created and deleted."""

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.consumer.pattern_consumer import PatternConsumer
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ConsumerSettings


def subscribe(network, pattern="persistent://public/default/a-.*", **settings):
    made = []
    given = {"topicsPattern": pattern, "subscriptionName": "work", "subscriptionInitialPosition": "Earliest"}
    network.engine().subscribe(ConsumerSettings(**given | settings), made.append)
    consumer = network.wait_for(made)
    network.deliver_all()
    assert isinstance(consumer, PatternConsumer), consumer
    return consumer


def publish(network, topic):
    network.produce(topic, batchingEnabled=False).send(OutgoingMessage(topic.encode()))
    network.deliver_all()


def texts(consumer):
    return sorted(message.data.decode() for message in iter(consumer.receive, None))


def names(consumer):
    return sorted(TopicName.parse(topic).local for topic in consumer.consumers)


def test_the_order_of_the_first_commands(network):
    publish(network, "a-1")
    publish(network, "b-1")
    network.clear_frames()
    consumer = subscribe(network)
    sent = [one.name for one in network.sent_frames(from_client=True)]
    assert sent == [
        "CONNECT", "GET_TOPICS_OF_NAMESPACE", "PARTITIONED_METADATA", "LOOKUP", "SUBSCRIBE", "FLOW", "LOOKUP",
        "WATCH_TOPIC_LIST",
    ]  # fmt: skip
    [requested] = network.sent("GET_TOPICS_OF_NAMESPACE")
    assert (requested.namespace, requested.mode, requested.topics_pattern) == (
        "public/default",
        requested.PERSISTENT,
        "persistent://public/default/a-.*",
    )
    [watch] = network.sent("WATCH_TOPIC_LIST")
    assert watch.topics_hash == consumer.known_hash
    assert not network.sent("SUBSCRIBE")[0].force_topic_creation
    assert texts(consumer) == ["a-1"]


def test_created_topics_are_consumed(network):
    consumer = subscribe(network)
    assert names(consumer) == []
    publish(network, "a-1")
    publish(network, "b-1")
    assert texts(consumer) == ["a-1"]
    assert names(consumer) == ["a-1"]


def test_deleted_topics_are_removed(network):
    publish(network, "a-1")
    publish(network, "a-2")
    consumer = subscribe(network)
    update = pb.CommandWatchTopicUpdate(
        watcher_id=0, topics_hash="x", deleted_topics=["persistent://public/default/a-1"]
    )
    consumer._change(update.new_topics, update.deleted_topics, lambda _: None)
    network.deliver_all()
    assert names(consumer) == ["a-2"]
    assert [body.consumer_id for body in network.sent("CLOSE_CONSUMER")] == [0]


def test_without_watchers_the_topics_are_polled(make_network):
    network = make_network(enableBrokerSideSubscriptionPatternEvaluation=False)
    consumer = subscribe(network)
    publish(network, "a-1")
    assert names(consumer) == []
    network.clear_frames()
    network.run(60_000)
    assert names(consumer) == ["a-1"]
    [requested] = network.sent("GET_TOPICS_OF_NAMESPACE")
    assert requested.topics_hash == "00000000"
    network.run(60_000)
    responses = network.sent("GET_TOPICS_OF_NAMESPACE_RESPONSE")
    assert [one.changed for one in responses] == [True, False]


def test_watchers_reconcile(network):
    publish(network, "a-1")
    consumer = subscribe(network)
    network.clear_frames()
    network.run(60_000)
    [again] = network.sent("WATCH_TOPIC_LIST")
    assert again.topics_hash == consumer.known_hash
    assert network.sent("GET_TOPICS_OF_NAMESPACE") == []


def test_partitions_that_match(network):
    network.broker.topic_registry.set_partitions(TopicName.parse("a-p"), 2)
    consumer = subscribe(network)
    publish(network, "a-p")
    assert names(consumer) == ["a-p-partition-0", "a-p-partition-1"]
    assert texts(consumer) == ["a-p"]


def test_closing_closes_the_watcher(network):
    consumer, results = subscribe(network), []
    consumer.close(results.append)
    network.deliver_all()
    assert results == [None]
    assert len(network.sent("WATCH_TOPIC_LIST_CLOSE")) == 1
    network.clear_frames()
    network.run(200_000)
    assert network.sent_frames("GET_TOPICS_OF_NAMESPACE", "WATCH_TOPIC_LIST") == []


@pytest.mark.parametrize("pattern", ["a/(", "public/default/(", "persistent://"])
def test_an_invalid_pattern_is_refused(network, pattern):
    made = []
    network.engine().subscribe(ConsumerSettings(topicsPattern=pattern, subscriptionName="work"), made.append)
    assert made[0].error == "InvalidConfiguration"
