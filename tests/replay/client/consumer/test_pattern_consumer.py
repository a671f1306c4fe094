"""Topics that match a pattern, as they come and go."""

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.consumer.pattern_consumer import PatternConsumer
from pcli.replay.client.consumer_settings import ConsumerSettings
from pcli.replay.client.producer.outgoing_message import OutgoingMessage


def subscribe(world, pattern="persistent://public/default/a-.*", **settings):
    made = []
    given = {"topicsPattern": pattern, "subscriptionName": "work", "subscriptionInitialPosition": "Earliest"}
    world.engine().subscribe(ConsumerSettings(**given | settings), made.append)
    consumer = world.wait_for(made)
    world.settle()
    assert isinstance(consumer, PatternConsumer), consumer
    return consumer


def publish(world, topic):
    world.produce(topic, batchingEnabled=False).send(OutgoingMessage(topic.encode()))
    world.settle()


def texts(consumer):
    return sorted(message.data.decode() for message in iter(consumer.receive, None))


def names(consumer):
    return sorted(TopicName.parse(topic).local for topic in consumer.consumers)


def test_the_order_of_a_beginning(world):
    publish(world, "a-1")
    publish(world, "b-1")
    world.forget()
    consumer = subscribe(world)
    said = [one.name for one in world.heard(from_client=True)]
    assert said == [
        "CONNECT", "GET_TOPICS_OF_NAMESPACE", "PARTITIONED_METADATA", "LOOKUP", "SUBSCRIBE", "FLOW", "LOOKUP",
        "WATCH_TOPIC_LIST",
    ]  # fmt: skip
    [asked] = world.said("GET_TOPICS_OF_NAMESPACE")
    assert (asked.namespace, asked.mode, asked.topics_pattern) == (
        "public/default",
        asked.PERSISTENT,
        "persistent://public/default/a-.*",
    )
    [watch] = world.said("WATCH_TOPIC_LIST")
    assert watch.topics_hash == consumer.known_hash
    assert not world.said("SUBSCRIBE")[0].force_topic_creation
    assert texts(consumer) == ["a-1"]


def test_the_watcher_tells_what_comes(world):
    consumer = subscribe(world)
    assert names(consumer) == []
    publish(world, "a-1")
    publish(world, "b-1")
    assert texts(consumer) == ["a-1"]
    assert names(consumer) == ["a-1"]


def test_and_what_goes(world):
    publish(world, "a-1")
    publish(world, "a-2")
    consumer = subscribe(world)
    update = pb.CommandWatchTopicUpdate(
        watcher_id=0, topics_hash="x", deleted_topics=["persistent://public/default/a-1"]
    )
    consumer._change(update.new_topics, update.deleted_topics, lambda _: None)
    world.settle()
    assert names(consumer) == ["a-2"]
    assert [body.consumer_id for body in world.said("CLOSE_CONSUMER")] == [0]


def test_without_watchers_it_asks_again_and_again(make_world):
    world = make_world(enableBrokerSideSubscriptionPatternEvaluation=False)
    consumer = subscribe(world)
    publish(world, "a-1")
    assert names(consumer) == []
    world.forget()
    world.run(60_000)
    assert names(consumer) == ["a-1"]
    [asked] = world.said("GET_TOPICS_OF_NAMESPACE")
    assert asked.topics_hash == "00000000"
    world.run(60_000)
    answers = world.said("GET_TOPICS_OF_NAMESPACE_RESPONSE")
    assert [one.changed for one in answers] == [True, False]


def test_with_watchers_it_reconciles(world):
    publish(world, "a-1")
    consumer = subscribe(world)
    world.forget()
    world.run(60_000)
    [again] = world.said("WATCH_TOPIC_LIST")
    assert again.topics_hash == consumer.known_hash
    assert world.said("GET_TOPICS_OF_NAMESPACE") == []


def test_partitions_that_match(world):
    world.broker.topic_registry.set_partitions(TopicName.parse("a-p"), 2)
    consumer = subscribe(world)
    publish(world, "a-p")
    assert names(consumer) == ["a-p-partition-0", "a-p-partition-1"]
    assert texts(consumer) == ["a-p"]


def test_closing_ends_the_watch(world):
    consumer, told = subscribe(world), []
    consumer.close(told.append)
    world.settle()
    assert told == [None]
    assert len(world.said("WATCH_TOPIC_LIST_CLOSE")) == 1
    world.forget()
    world.run(200_000)
    assert world.heard("GET_TOPICS_OF_NAMESPACE", "WATCH_TOPIC_LIST") == []


@pytest.mark.parametrize("pattern", ["a/(", "public/default/(", "persistent://"])
def test_what_is_no_pattern(world, pattern):
    made = []
    world.engine().subscribe(ConsumerSettings(topicsPattern=pattern, subscriptionName="work"), made.append)
    assert made[0].error == "InvalidConfiguration"
