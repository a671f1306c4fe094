"""Sessions and registered consumers: the frames that clients of scalable topics receive."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.scalable.subscriptions import create_subscription
from tests.minibroker.scalable.conftest import TOPIC, assigned

CLASSIC = "persistent://public/default/orders"


def look_up(client, topic=TOPIC, **fields):
    return client.one(pb.CommandScalableTopicLookup(session_id=1, topic=topic, **fields))


def states(update):
    return [(one.segment_id, pb.SegmentState.Name(one.state)) for one in update.dag.segments]


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_session_shows_each_layout(make_scene):
    scene = make_scene()
    client = scene.world.client()
    update = look_up(client)
    assert states(update) == [(0, "ACTIVE")]
    assert update.resolved_topic_name == TOPIC
    assert not update.dag.HasField("controller_broker_url")
    scene.change("split", 0)
    elected, split = client.hear()
    assert (elected.dag.epoch, elected.dag.controller_broker_url) == (0, "pulsar://127.0.0.1:6650")
    assert (split.dag.epoch, states(split)) == (1, [(0, "SEALED"), (1, "ACTIVE"), (2, "ACTIVE")])
    assert sorted(one.segment_id for one in split.dag.segment_brokers) == [1, 2]
    assert client(pb.CommandScalableTopicClose(session_id=1)) == []
    scene.change("split", 1)
    assert client.hear() == []


@pytest.mark.parametrize("create", [True, False])
def test_a_lookup_creates_a_missing_topic_if_it_may(make_world, create):
    world = make_world(version="5.0.1")
    update = look_up(world.client(), create_if_missing=create)
    if create:
        assert states(update) == [(0, "ACTIVE")]
    else:
        assert (update.error, update.message) == (pb.TopicNotFound, f"Scalable topic not found: {TOPIC}")
    assert (TOPIC in world.broker.scalable_topics.topics) == create


def test_a_policy_prevents_the_creation(make_world):
    client = make_world(version="5.0.1", allowAutoTopicCreation=False).client()
    assert look_up(client).error == pb.TopicNotFound


def test_a_classic_topic_is_shown_by_its_partitions(make_world):
    world = make_world(version="5.0.1")
    client = world.client()
    update = look_up(client, CLASSIC)
    assert [one.legacy_topic_name for one in update.dag.segments] == [CLASSIC]
    assert list(update.dag.segment_brokers) == []
    world.broker.scalable_topics.create(TOPIC)
    world.deliver()
    [created] = client.hear()
    assert created.dag.segments[0].legacy_topic_name == ""


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("non-persistent://public/default/x", pb.NotAllowedError, "do not support non-persistent:// topics"),
        ("topic://public/default/x-partition-0", pb.TopicNotFound, "use the base topic name topic://public/default/x"),
        ("segment://public/default/x/0000-ffff-0", pb.TopicNotFound, "Scalable topic not found: segment://"),
    ],
)
def test_names_that_have_no_layout(make_world, name, code, text):
    update = look_up(make_world(version="5.0.1").client(), name)
    assert update.error == code
    assert text in update.message


@pytest.mark.parametrize("name", ["topic://x", "segment://public/default/x", ""])
def test_names_that_close_the_connection(make_world, name):
    client = make_world(version="5.0.1").client()
    assert client(pb.CommandScalableTopicLookup(session_id=1, topic=name)) == []
    assert client.closed


def test_two_sessions_with_one_id_are_closed_one_by_one(make_scene):
    scene = make_scene()
    client = scene.world.client()
    look_up(client)
    look_up(client)
    scene.service.controlled(TOPIC)
    scene.world.deliver()
    assert len(client.hear()) == 2
    client(pb.CommandScalableTopicClose(session_id=1))
    scene.change("split", 0)
    assert len(client.hear()) == 1


def test_the_name_is_taken_for_classic_clients(make_scene):
    scene = make_scene()
    client = scene.world.client()
    refused = client.producer(CLASSIC)
    assert (refused.error, refused.message) == (pb.TopicNotFound, f"Topic not found {CLASSIC}")
    client(pb.CommandPartitionedTopicMetadata(topic=CLASSIC, request_id=3))
    scene.service.delete(TOPIC)
    assert isinstance(client.producer(CLASSIC, 2), pb.CommandProducerSuccess)


# -- segments ----------------------------------------------------------------------------------------------------------


def test_a_split_closes_the_producer_and_ends_the_segment(make_scene):
    scene = make_scene()
    client = scene.world.client()
    client.producer(scene.name(0))
    client.subscribe(scene.name(0))
    client.flow()
    scene.change("split", 0)
    assert [type(one) for one in client.hear()] == [pb.CommandCloseProducer, pb.CommandReachedEndOfTopic]
    assert client.producer(scene.name(0), 2).error == pb.TopicTerminatedError
    assert isinstance(client.producer(scene.name(1), 3), pb.CommandProducerSuccess)
    assert client.producer("segment://public/default/orders/0000-ffff-9", 4).error == pb.TopicNotFound


def test_a_split_copies_the_subscriptions_that_the_controller_knows(make_scene):
    scene = make_scene()
    create_subscription(scene.service, scene.topic, "known", "QUEUE")
    scene.world.client().subscribe(scene.name(0), subscription="unknown")
    scene.change("split", 0)
    children = [scene.service.segment_topic(scene.topic, one) for one in scene.topic.layout.active]
    assert [list(one.subscriptions) for one in children] == [["known"], ["known"]]


# -- registered consumers ----------------------------------------------------------------------------------------------


def test_the_others_are_told_when_a_consumer_joins_and_leaves(make_scene):
    scene = make_scene(4)
    one, other = scene.world.client(), scene.world.client()
    [response] = scene.register(one, "s1")
    assert assigned(response) == [0, 1, 2, 3]
    [response] = scene.register(other, "s2")
    assert assigned(response) == [1, 3]
    [update] = one.hear()
    assert assigned(update) == [0, 2]
    [answer] = other(pb.CommandScalableTopicUnsubscribe(request_id=4, consumer_id=1))
    assert answer.request_id == 4
    [update] = one.hear()
    assert assigned(update) == [0, 1, 2, 3]
    assert other.one(pb.CommandScalableTopicUnsubscribe(request_id=5, consumer_id=77)).request_id == 5


@pytest.mark.parametrize("number", [7, 1])
def test_a_client_whose_name_was_taken_over_removes_the_consumer_with_its_id(make_scene, number):
    scene = make_scene(2)
    first, second, other = (scene.world.client() for _ in range(3))
    scene.register(other, "s2")
    scene.register(first, "s1")
    scene.register(second, "s1", number)
    other.hear()
    first(pb.CommandScalableTopicUnsubscribe(request_id=4, consumer_id=1))
    assert [assigned(body) for body in other.hear()] == ([[0, 1]] if number == 1 else [])


def test_a_consumer_can_leave_after_the_connection_of_its_former_client_ended(make_scene):
    scene = make_scene(2)
    first, second, other = (scene.world.client() for _ in range(3))
    scene.register(other, "s2")
    scene.register(first, "s1")
    scene.register(second, "s1", 7)
    first.leave()
    other.hear()
    second(pb.CommandScalableTopicUnsubscribe(request_id=4, consumer_id=7))
    assert [assigned(body) for body in other.hear()] == [[0, 1]]


def test_a_lost_consumer_keeps_its_segments_for_the_grace_period(make_scene):
    scene = make_scene(2)
    one, other = scene.world.client(), scene.world.client()
    scene.register(one, "s1")
    scene.register(other, "s2")
    one.hear()
    other.leave()
    scene.world.wait(59_999)
    assert one.hear() == []
    scene.world.wait(1)
    assert [assigned(body) for body in one.hear()] == [[0, 1]]


def test_a_consumer_that_comes_back_gets_its_segments(make_scene):
    scene = make_scene(2)
    one, other = scene.world.client(), scene.world.client()
    scene.register(one, "s1")
    scene.register(other, "s2")
    one.hear()
    other.leave()
    scene.world.wait(20_000)
    again = scene.world.client()
    assert assigned(scene.register(again, "s2")[0]) == [1]
    scene.world.wait(60_000)
    assert one.hear() == []


def test_children_are_assigned_after_the_parent_is_drained(make_scene):
    scene = make_scene()
    client = scene.world.client()
    scene.register(client, "s1", 7)
    client.subscribe(scene.name(0), initialPosition=pb.CommandSubscribe.Earliest)
    client.producer(scene.name(0))
    client.publish()
    [message] = client.flow()
    scene.change("split", 0)
    assert [assigned(body) for body in client.hear() if hasattr(body, "assignment")] == [[0]]
    scene.world.wait(2000)
    assert client.hear() == []
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Cumulative, message_id=[message.message_id]))
    scene.world.wait(3999)  # the second check is four seconds after the first
    assert [body for body in client.hear() if hasattr(body, "assignment")] == []
    scene.world.wait(1)
    [update] = [body for body in client.hear() if hasattr(body, "assignment")]
    assert assigned(update) == [1, 2]


def test_checkpoint_consumers_read_all_segments_at_once(make_scene):
    scene = make_scene()
    scene.change("split", 0)
    client = scene.world.client()
    assert assigned(scene.register(client, "g1", kind=pb.CHECKPOINT)[0]) == [1, 0, 2]


@pytest.mark.parametrize(
    ("topic", "name", "code", "text"),
    [
        (CLASSIC, "s", pb.UnknownError, f"Failed to initialize controller for {CLASSIC}"),
        ("topic://x", "s", pb.InvalidTopicName, "Invalid topic name: topic://x"),
        (TOPIC, "", pb.UnknownError, "Path(/topics/public/default/orders/subscriptions/sub/consumers/) is invalid"),
    ],
)
def test_refused_registrations(make_scene, topic, name, code, text):
    client = make_scene().world.client()
    command = pb.CommandScalableTopicSubscribe(
        request_id=1, topic=topic, subscription="sub", consumer_name=name, consumer_id=1, consumer_type=pb.STREAM
    )
    response = client.one(command)
    assert (response.error, response.message) == (code, text)


# -- watchers ----------------------------------------------------------------------------------------------------------


def test_watchers_see_matching_topics_come_and_go(make_world):
    world = make_world(version="5.0.1")
    client, service = world.client(), world.broker.scalable_topics
    watch = pb.CommandWatchScalableTopics(watch_id=1, namespace="public/default")
    watch.property_filters.add(key="team", value="a")
    assert client.one(watch).snapshot.topics == []
    service.create(TOPIC, 1, {"team": "a"})
    service.create(TOPIC + "2", 1, {"team": "b"})
    service.delete(TOPIC)
    world.deliver()
    assert [(list(body.diff.added), list(body.diff.removed)) for body in client.hear()] == [
        ([TOPIC], []),
        ([], [TOPIC]),
    ]
    client(pb.CommandWatchScalableTopicsClose(watch_id=1))
    service.create(TOPIC, 1, {"team": "a"})
    world.deliver()
    assert client.hear() == []


def test_an_invalid_namespace_is_refused(make_world):
    update = make_world(version="5.0.1").client().one(pb.CommandWatchScalableTopics(watch_id=1, namespace="bad"))
    assert (update.error, update.message) == (pb.InvalidTopicName, "Invalid namespace: bad")


def test_scalable_topics_are_unknown_to_4_2_4(make_world):
    client = make_world().client()
    assert client(pb.CommandScalableTopicLookup(session_id=1, topic=TOPIC)) == []
    assert client.closed
