"""The topics of a broker: ownership, creation, lists (conform: lookup.*, with partitions)."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import Refused

T = TopicName.parse("persistent://public/default/t")
EVENTS = "persistent://public/default/__change_events"


def refused(function, *arguments, **named):
    with pytest.raises(Refused) as caught:
        function(*arguments, **named)
    return pb.ServerError.Name(caught.value.code)


def test_a_bundle_is_served_after_a_lookup(world):
    """A lookup of any topic of a bundle assigns the bundle; the namespace has four bundles."""
    topics = [TopicName.parse(f"persistent://pulsar/system/t{number}") for number in range(40)]
    assert {refused(world.broker.check_owned, name) for name in topics} == {"ServiceNotReady"}
    namespace = world.broker.policies.namespaces["pulsar/system"]
    world.broker.topic_registry.look_up(topics[0])
    mine = {namespace.bundle(str(topics[0])), namespace.bundle("persistent://pulsar/system/__change_events")}
    for name in topics:
        if namespace.bundle(str(name)) in mine:
            world.broker.check_owned(name)
        else:
            assert refused(world.broker.check_owned, name) == "ServiceNotReady"


def test_a_missing_namespace(world):
    name = TopicName.parse("persistent://public/none/t")
    assert refused(world.broker.check_owned, name) == "ServiceNotReady"
    assert refused(world.broker.topic_registry.look_up, name) == "TopicNotFound"


def test_a_deleted_namespace_is_not_served(world):
    world.broker.topic_registry.look_up(T)
    world.broker.topic_registry.forget_namespace("public/default")
    assert refused(world.broker.check_owned, T) == "ServiceNotReady"


@pytest.fixture
def served(world):
    """All topics of public/default are owned."""
    for number in range(40):
        world.broker.topic_registry.look_up(TopicName.parse(f"persistent://public/default/t{number}"))
    return world.broker


def test_topics_are_created_on_demand(served):
    assert not served.topic_registry.exists(T)
    topic = served.get_or_create(T)
    assert topic is served.get_or_create(T)
    assert (served.topic_registry.exists(T), served.topics[str(T)], served.stored) == (True, topic, {EVENTS, str(T)})


def test_topics_are_not_created_without_auto_creation(served):
    assert refused(served.get_or_create, T, create=False) == "TopicNotFound"
    served.settings.allowAutoTopicCreation = False
    assert refused(served.get_or_create, T) == "TopicNotFound"
    served.topic_registry.create(T)
    served.get_or_create(T)


def test_partitions(served):
    """A partition beyond the number is unknown; one without partitioned topic, and the topic itself, are refused."""
    assert refused(served.get_or_create, T.with_partition(0)) == "NotAllowedError"
    served.create_partitioned(T, 2)
    assert served.stored == {EVENTS, str(T.with_partition(0)), str(T.with_partition(1))}
    assert refused(served.get_or_create, T) == "NotAllowedError"
    assert refused(served.get_or_create, T.with_partition(2)) == "TopicNotFound"
    assert served.get_or_create(T.with_partition(1)).partition == 1
    served.create_partitioned(T, 3)
    assert served.get_or_create(T.with_partition(2)).partition == 2


def test_the_topic_limit_of_a_namespace(make_world):
    world = make_world(maxTopicsPerNamespace=3)
    broker = world.broker
    broker.create_partitioned(T, 2)
    assert refused(broker.create_partitioned, T, 4) == "NotAllowedError"
    broker.create_partitioned(T, 3)
    other = TopicName.parse("non-persistent://public/default/u")
    broker.topic_registry.look_up(other)
    assert refused(broker.get_or_create, other) == "NotAllowedError"
    system = TopicName.parse("persistent://public/default/__change_events")
    broker.topic_registry.look_up(system)
    broker.get_or_create(system)


def test_existence(served):
    """Topics are stored, in use, or partitioned; partitions that are not stored are counted by their number."""
    away = TopicName.parse("non-persistent://public/default/n")
    for name in (T, away):
        assert not served.topic_registry.exists(name)
    served.get_or_create(T)
    served.topic_registry.look_up(away)
    served.get_or_create(away)
    assert served.topic_registry.exists(T)
    assert served.topic_registry.exists(away)
    served.create_partitioned(TopicName.parse("non-persistent://public/default/p"), 2)
    parts = [TopicName.parse(f"non-persistent://public/default/p-partition-{index}") for index in range(3)]
    assert [served.topic_registry.exists(name) for name in parts] == [True, True, False]


def test_lists(served):
    """Lists by namespace and domain, without system topics unless these are requested."""
    for text in ("b", "a", "__change_events", "non-persistent://public/default/n"):
        served.topic_registry.create(TopicName.parse(text))
    names = served.topic_registry.names
    start = "persistent://public/default/"
    assert names("public/default") == [f"{start}a", f"{start}b"]
    assert names("public/default", system=True) == [f"{start}__change_events", f"{start}a", f"{start}b"]
    assert names("public/default", persistent=False) == []  # it has no clients
    assert names("public/def") == []


def test_a_stored_topic_is_loaded_on_demand(served):
    served.create_partitioned(T, 1)
    assert served.topics == {}
    topic = served.topic_registry.load(T.with_partition(0))
    assert served.topics == {str(T.with_partition(0)): topic}
    assert served.topic_registry.load(T.with_partition(1)) is None


def test_a_deleted_topic_is_removed(served):
    served.get_or_create(T)
    served.topic_registry.forget(T)
    served.topic_registry.forget(T)
    assert (served.topics, served.stored, served.topic_registry.exists(T)) == ({}, {EVENTS}, False)


def test_the_loaded_topics_with_a_base_name(served):
    registry = served.topic_registry
    registry.set_partitions(T, 3)
    for name in (T.with_partition(0), T.with_partition(2), TopicName.parse("persistent://public/default/t1")):
        registry.load(name) or registry.create(name)
    assert [topic.partition for topic in registry.loaded_with_base(str(T))] == [0, 2]
    assert len(registry.loaded_in_namespace("public/default")) == 3
