"""The effects of requests on scalable topics, and what a refused request leaves."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

SCALABLE = "/admin/v2/scalable/public/default"
TOPIC = f"{SCALABLE}/orders"
NAME = "topic://public/default/orders"
SEGMENT = "segment://public/default/orders/0000-ffff-0"


@pytest.fixture
def five(make_rest):
    """A broker of version 5.0.1 and its REST client."""
    return make_rest(version="5.0.1")


def create(rest, segments=1, **properties):
    assert rest("PUT", f"{TOPIC}?numInitialSegments={segments}", properties).status == 204


def register(client, name, kind=pb.STREAM, consumer_id=1):
    command = pb.CommandScalableTopicSubscribe(
        request_id=1, topic=NAME, subscription="sub", consumer_name=name, consumer_id=consumer_id, consumer_type=kind
    )
    return client.one(command).assignment


def kinds(bodies):
    return [type(body).__name__.removeprefix("Command") for body in bodies]


@pytest.mark.parametrize("name", ["a%2Fb", ".", "..", "t-partition-0", "%20", "t%20", "t?numInitialSegments=65537"])
def test_a_refused_creation_leaves_nothing(five, name):
    world, rest = five
    assert rest("PUT", f"{SCALABLE}/{name}").status >= 400
    assert rest("GET", SCALABLE).json == []
    assert not world.broker.stored
    assert not world.broker.topic_registry.taken


def test_a_refused_migration_leaves_nothing(five):
    world, rest = five
    rest("PUT", "/admin/v2/persistent/public/default/p/partitions", 2)
    assert rest("POST", f"{SCALABLE}/p-partition-0/migrate").status == 500
    assert rest("GET", SCALABLE).json == []
    assert not any(world.broker.topic_registry.load(topic.name).terminated for topic in world.broker.topics.values())


@pytest.mark.parametrize("version", ["4.2.4", "5.0.1"])
def test_the_paths_do_not_exist_without_scalable_topics(make_rest, version):
    _, rest = make_rest(version=version, scalableTopicsEnabled=False)
    paths = ("/admin/v2/scalable/public/default", "/admin/v2/scalable/public/default/orders/stats")
    assert [rest("GET", path).status for path in paths] == [404, 404]
    policies = {"scalableTopicAutoScalePolicy": {"maxSegments": 9}, "replication_clusters": [], "allowed_clusters": []}
    assert rest("PUT", "/admin/v2/namespaces/public/n", policies).status == 204
    assert "scalableTopicAutoScalePolicy" not in rest("GET", "/admin/v2/namespaces/public/n").json


@pytest.mark.parametrize(("query", "closed"), [("", []), ("?force=true", ["CloseConsumer", "CloseProducer"])])
def test_only_a_forced_deletion_closes_clients(five, query, closed):
    world, rest = five
    create(rest)
    client = world.client()
    client.producer(SEGMENT)
    client.subscribe(SEGMENT)
    assert rest("DELETE", TOPIC + query).status == 204
    assert sorted(kinds(client.hear())) == closed
    assert rest("GET", TOPIC).status == 404
    assert [name for name in world.broker.stored if name.startswith("segment:")] == ([] if closed else [SEGMENT])


@pytest.mark.parametrize("force", [False, True])
def test_a_namespace_with_a_scalable_topic(make_rest, force):
    _, rest = make_rest(version="5.0.1", forceDeleteNamespaceAllowed=True)
    rest("PUT", "/admin/v2/namespaces/public/n")
    rest("PUT", "/admin/v2/scalable/public/n/t")
    answer = rest("DELETE", f"/admin/v2/namespaces/public/n?force={str(force).lower()}")
    assert answer.status == (204 if force else 409)
    assert rest("GET", "/admin/v2/scalable/public/n").json == ([] if force else ["topic://public/n/t"])


def test_a_deleted_subscription_loses_its_registered_consumers(five):
    """Each is removed alone, and the others get its segments; nobody is told of the last one."""
    world, rest = five
    create(rest, 2)
    first, second = world.client(), world.client()
    register(first, "a")
    register(second, "b")
    first.hear()
    assert rest("DELETE", f"{TOPIC}/subscriptions/sub").status == 204
    assert kinds(first.hear()) == []
    [update] = second.hear()
    assert [one.segment_id for one in update.assignment.segments] == [0, 1]
    assert rest("GET", f"{TOPIC}/stats").json["subscriptions"] == {}
    assert kinds(first(pb.CommandScalableTopicUnsubscribe(request_id=2, consumer_id=1))) == ["Success"]


def test_statistics_join_the_clients_of_an_application(five):
    """A producer and a consumer on two segments are one row each, with sums."""
    world, rest = five
    create(rest, 2)
    client = world.client()
    names = [f"{NAME.replace('topic', 'segment', 1)}/{end}" for end in ("0000-7fff-0", "8000-ffff-1")]
    for number, name in enumerate(names):
        client.producer(name, number, producer_name=f"app-seg-{number}")
        client.subscribe(name, number, consumer_name=f"app-seg-{number}", subType=pb.CommandSubscribe.Shared)
        client.flow(10, number)
    stats = rest("GET", f"{TOPIC}/stats").json
    assert [one["producerName"] for one in stats["producers"]] == ["app"]
    [consumer] = stats["subscriptions"]["sub"]["consumers"]
    found = {key: consumer[key] for key in ("consumerName", "segmentIds", "availablePermits", "connected")}
    assert found == {"consumerName": "app", "segmentIds": [0, 1], "availablePermits": 20, "connected": True}


def test_statistics_of_registered_consumers(five):
    """A stream consumer keeps its segments without a connection, and children are blocked before their parents."""
    world, rest = five
    create(rest)
    client = world.client()
    register(client, "s")
    client.subscribe(SEGMENT, consumer_name="s-seg-0")
    client.producer(SEGMENT)
    client.publish()
    rest("POST", f"{TOPIC}/split/0")
    sub = rest("GET", f"{TOPIC}/stats").json["subscriptions"]["sub"]
    assert {number: one["blocked"] for number, one in sub["segments"].items()} == {"0": False, "1": True, "2": True}
    assert (sub["type"], sub["uncoveredSegmentIds"]) == ("STREAM", [])
    client.leave()
    [consumer] = rest("GET", f"{TOPIC}/stats").json["subscriptions"]["sub"]["consumers"]
    assert (consumer["connected"], consumer["segmentIds"], "address" in consumer) == (False, [0], False)


def test_a_checkpoint_consumer_covers_no_segments(five):
    world, rest = five
    create(rest)
    register(world.client(), "c", pb.CHECKPOINT)
    assert "uncoveredSegmentIds" not in rest("GET", f"{TOPIC}/stats").json["subscriptions"]["sub"]


def test_a_migration_with_clients(five):
    """Clients without the mark of V5 clients prevent it; if it is forced, they are closed as at a termination."""
    world, rest = five
    client, topic = world.client(), "persistent://public/default/orders"
    client.producer(topic)
    client.publish()
    client.producer(topic, 2, metadata=[pb.KeyValue(key="__pulsar.v5.managed", value="true")])
    client.subscribe(topic, initialPosition=pb.CommandSubscribe.Earliest)
    session = world.client()
    session(pb.CommandScalableTopicLookup(session_id=1, topic=topic))
    answer = rest("POST", f"{TOPIC}/migrate")
    assert answer.status == 409
    assert answer.json["reason"].startswith(f"2 legacy v4 client connection(s) still attached to {topic};")
    assert rest("POST", f"{TOPIC}/migrate?force=true").status == 204
    [update] = session.hear()
    assert [(one.legacy_topic_name, list(one.parent_ids)) for one in update.dag.segments] == [(topic, []), ("", [0])]
    assert kinds(client.hear()) == ["CloseProducer", "CloseProducer"]
    assert kinds(client.flow(1)) == ["Message"]


def test_a_drained_classic_topic_is_deleted_with_its_partitions(five):
    """One minute after the election of the controller, the sealed segments are pruned."""
    world, rest = five
    rest("PUT", "/admin/v2/persistent/public/default/orders/partitions", 2)
    rest("POST", f"{TOPIC}/migrate")
    rest("GET", f"{TOPIC}/stats")
    world.advance(60_000)
    assert list(rest("GET", TOPIC).json["segments"]) == ["2", "3"]
    assert rest("GET", "/admin/v2/persistent/public/default").json == []
    assert rest("GET", "/admin/v2/persistent/public/default/orders/partitions").status == 404


def test_a_seek_closes_the_consumers_and_skipping_does_not(five):
    world, rest = five
    create(rest)
    client = world.client()
    client.producer(SEGMENT)
    client.subscribe(SEGMENT, initialPosition=pb.CommandSubscribe.Earliest)
    client.publish()
    assert rest("POST", f"{TOPIC}/subscriptions/sub/skip-all").status == 204
    assert client.hear() == []
    assert rest("POST", f"{TOPIC}/subscriptions/sub/seek?timestamp=1").status == 204
    assert kinds(client.hear()) == ["CloseConsumer"]
    assert rest("GET", f"{TOPIC}/stats").json["subscriptions"]["sub"]["msgBacklog"] == 1


def test_a_seek_compares_the_times_of_segments_before_those_of_messages(five):
    """A segment sealed up to the time is skipped, and one created from the time on starts at its first message."""
    world, rest = five
    create(rest)
    client = world.client()
    created = world.now
    for segment, ahead in ((SEGMENT, 5000), ("segment://public/default/orders/0000-7fff-1", -5000)):
        client.producer(segment)
        client.subscribe(segment, initialPosition=pb.CommandSubscribe.Earliest)
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=world.now + ahead)
        client(pb.CommandSend(producer_id=1, sequence_id=0, num_messages=1), entry=push_entry(metadata, b"x"))
        if segment == SEGMENT:
            world.advance(1000)
            sealed = world.now
            rest("POST", f"{TOPIC}/split/0")
            client = world.client()
    for time, backlogs in ((created, [1, 1]), (sealed, [0, 1]), (sealed + 1, [0, 0])):
        assert rest("POST", f"{TOPIC}/subscriptions/sub/seek?timestamp={time}").status == 204
        segments = rest("GET", f"{TOPIC}/stats").json["subscriptions"]["sub"]["segments"]
        assert [segments[number]["msgBacklog"] for number in ("0", "1")] == backlogs


def test_an_invalid_policy_stops_automatic_changes(five):
    world, rest = five
    create(rest, 2)
    rest("POST", f"{TOPIC}/autoScalePolicy", {"mergeCooldownSeconds": 0, "mergeWindowSeconds": 0, "maxSegments": 3})
    namespace = "/admin/v2/namespaces/public/default/scalableTopicAutoScalePolicy"
    rest("POST", namespace, {"minSegments": 4})
    assert rest("GET", f"{TOPIC}/stats").json["autoScale"]["blockedReason"] == "invalid_policy"
    world.advance(120_000)
    assert rest("GET", TOPIC).json["epoch"] == 0
    rest("DELETE", namespace)
    world.advance(120_000)
    assert rest("GET", TOPIC).json["epoch"] > 0


def test_a_deleted_segment_is_not_split(five):
    """The failure is the last operation in the statistics, and automatic changes try it without an error."""
    world, rest = five
    create(rest)
    rest("DELETE", "/admin/v2/segments/public/default/orders/0000-ffff-0")
    answer = rest("POST", f"{TOPIC}/split/0")
    assert (answer.status, answer.json) == (404, {"reason": f"Segment topic not found: {SEGMENT}"})
    last = rest("GET", f"{TOPIC}/stats").json["layout"]["lastOperation"]
    assert (last["status"], last["error"].endswith(f"NotFoundException: Segment topic not found: {SEGMENT}")) == (
        "failure",
        True,
    )
    assert not world.broker.failures
