"""LOOKUP and PARTITIONED_METADATA (conform: lookup.*)."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName

LOOKUP = pb.CommandLookupTopicResponse
METADATA = pb.CommandPartitionedTopicMetadataResponse


def look_up(client, topic, **fields):
    return client.one(pb.CommandLookupTopic(topic=topic, **fields))


def partitions(client, topic, *, create=True):
    """Return the number of partitions, or the name of the error."""
    answer = client.one(pb.CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=create))
    return pb.ServerError.Name(answer.error) if answer.response == METADATA.Failed else answer.partitions


def test_a_lookup_returns_this_broker(client):
    assert look_up(client, "persistent://public/default/t") == LOOKUP(
        request_id=1,
        response=LOOKUP.Connect,
        brokerServiceUrl="pulsar://127.0.0.1:6650",
        authoritative=True,
        proxy_through_service_url=True,
    )


@pytest.mark.parametrize(
    ("url", "keep"),
    [
        ("pulsar://localhost:6650", True),
        ("pulsar://[::1]:6650", True),
        ("pulsar://127.0.5.1:6650", True),
        ("pulsar://broker.example:6650", False),
        ("pulsar://127.example:6650", False),
        ("pulsar://192.168.0.1:6650", False),
    ],
)
def test_the_client_keeps_its_url_on_loopback(world, client, url, keep):
    world.broker.service_url = url
    assert look_up(client, "t").proxy_through_service_url is keep


@pytest.mark.parametrize("topic", ["t", "public/default/t", "non-persistent://public/default/t", "pulsar/system/x"])
def test_names(client, topic):
    assert look_up(client, topic).response == LOOKUP.Connect


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "a/b",
        "a/b/c/d",
        "://",
        "ftp://public/default/t",
        "topic://public/default/t",
        "persistent://public/default/",
        "persistent://public/default",
        "persistent://pub lic/default/t",
        "persistent://public/cluster/default/t",
    ],
)
def test_invalid_names(client, topic):
    answer = look_up(client, topic)
    assert (answer.response, answer.error) == (LOOKUP.Failed, pb.InvalidTopicName)
    assert partitions(client, topic) == "InvalidTopicName"
    assert not client.closed


@pytest.mark.parametrize("topic", ["public/none/t", "none/none/t"])
def test_an_invalid_namespace(client, topic):
    answer = look_up(client, f"persistent://{topic}")
    assert (answer.error, answer.message) == (pb.TopicNotFound, "Namespace not found")
    assert partitions(client, f"persistent://{topic}") == "TopicNotFound"


def test_an_unknown_listener(client):
    assert look_up(client, "t", advertised_listener_name="inner").error == pb.ServiceNotReady


def test_producers_and_consumers_require_a_lookup(world, client):
    producer = pb.CommandProducer(topic="t", producer_id=1)
    subscribe = pb.CommandSubscribe(topic="t", subscription="s", subType=0, consumer_id=1)
    assert [client.one(body).error for body in (producer, subscribe)] == [pb.ServiceNotReady, pb.ServiceNotReady]
    look_up(client, "t")
    producer.ClearField("request_id")
    subscribe.ClearField("request_id")
    assert isinstance(client.one(producer), pb.CommandProducerSuccess)
    assert isinstance(client.one(subscribe), pb.CommandSuccess)


# -- partitions ------------------------------------------------------------------------------------------------------


def test_a_lookup_creates_nothing(client):
    look_up(client, "t")
    assert partitions(client, "t", create=False) == "TopicNotFound"


def test_a_request_creates_no_topic(client):
    assert partitions(client, "t") == 0
    assert partitions(client, "t", create=False) == "TopicNotFound"


def test_a_missing_topic_has_no_error_text(client):
    answer = client.one(pb.CommandPartitionedTopicMetadata(topic="t", metadata_auto_creation_enabled=False))
    assert (answer.HasField("message"), answer.message) == (True, "")


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_a_topic_in_use(client, domain):
    topic = f"{domain}://public/default/t"
    client.producer(topic)
    assert partitions(client, topic, create=False) == 0


def test_a_partitioned_topic(world, client):
    world.broker.create_partitioned(TopicName.parse("t"), 3)
    assert [partitions(client, name, create=False) for name in ("t", "t-partition-1", "t-partition-3")] == [
        3,
        0,
        "TopicNotFound",
    ]


def test_a_non_persistent_partitioned_topic(world, client):
    """The partitions need not be stored; only the number is used."""
    topic = "non-persistent://public/default/t"
    world.broker.create_partitioned(TopicName.parse(topic), 2)
    names = (topic, f"{topic}-partition-1", f"{topic}-partition-2")
    assert [partitions(client, name, create=False) for name in names] == [2, 0, "TopicNotFound"]


def test_partitioned_by_default(make_world):
    """Names of partitions, retry letter topics and dead letter topics are not created as partitioned topics."""
    world = make_world(allowAutoTopicCreationType="partitioned", defaultNumPartitions=2)
    client = world.client()
    assert partitions(client, "t", create=False) == "TopicNotFound"
    assert partitions(client, "t") == 2
    assert partitions(client, "t", create=False) == 2
    assert [partitions(client, name) for name in ("t-s-RETRY", "t-s-DLQ", "u-partition-0")] == [0, 0, 0]


def test_no_creation(make_world):
    world = make_world(allowAutoTopicCreation=False)
    client = world.client()
    assert partitions(client, "t") == "TopicNotFound"
    assert look_up(client, "t").response == LOOKUP.Connect
    assert client.one(pb.CommandProducer(topic="t", producer_id=1)).error == pb.TopicNotFound
