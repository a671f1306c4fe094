"""GET_TOPICS_OF_NAMESPACE and WATCH_TOPIC_LIST (conform: topics.*). The hashes are those of Pulsar's TopicListTest."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.topics.topic_list_watchers import topics_hash

NS = "persistent://public/default/"
MODE = pb.CommandGetTopicsOfNamespace


def get(client, namespace="public/default", **fields):
    return client.one(pb.CommandGetTopicsOfNamespace(namespace=namespace, **fields))


def short(names):
    return [name.removeprefix(NS) for name in names]


def watch(client, pattern=".*", watcher_id=1, namespace="public/default", **fields):
    command = pb.CommandWatchTopicList(watcher_id=watcher_id, namespace=namespace, topics_pattern=pattern, **fields)
    return client.one(command)


@pytest.mark.parametrize(
    ("names", "digest"),
    [
        ([], "00000000"),
        (["persistent://my-property/my-ns/pattern-topic-1"], "0d0602ed"),
        ([f"persistent://my-property/my-ns/pattern-topic-{number}" for number in (3, 1, 2)], "90d4a04a"),
    ],
)
def test_hashes(names, digest):
    assert topics_hash(names) == digest


@pytest.fixture
def filled(world, client):
    """Create a, b, two partitions of p, the non-persistent topic n, and a system topic."""
    for number, name in enumerate(("a", "b", "non-persistent://public/default/n", "__change_events")):
        client.producer(name, producer_id=number)
    world.broker.create_partitioned(TopicName.parse("p"), 2)
    return client


def test_modes(filled):
    stored = ["a", "b", "p-partition-0", "p-partition-1"]
    assert short(get(filled).topics) == stored
    assert short(get(filled, mode=MODE.PERSISTENT).topics) == stored
    assert list(get(filled, mode=MODE.NON_PERSISTENT).topics) == ["non-persistent://public/default/n"]
    assert sorted(short(get(filled, mode=MODE.ALL).topics)) == [
        "a",
        "b",
        "non-persistent://public/default/n",
        *stored[2:],
    ]


def test_only_of_that_namespace(filled):
    assert list(get(filled, "pulsar/system").topics) == []
    assert list(get(filled, "public/default-2").topics) == []


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (".*", ["a", "b", "p-partition-0", "p-partition-1"]),
        ("public/default/[ab]", ["a", "b"]),
        ("persistent://public/default/p", ["p-partition-0", "p-partition-1"]),
        ("persistent://public/default/a://b", ["a"]),
        ("", []),
        ("non-persistent://public/default/a", ["a"]),
        ("^persistent://public/default/a$", ["a"]),
        (r"\Qpublic/default/a\E", ["a"]),
        (r"\Qpublic/default/.\E", []),
        ("public/default/(?<x>a)", ["a"]),
        ("public/default/p-partition-0", []),
        ("a", []),
        (r"public/default/\pL", ["a", "b", "p-partition-0", "p-partition-1"]),
        ("public/default/(?!b).", ["a", "p-partition-0", "p-partition-1"]),  # RE2 does not support this
    ],
)
def test_patterns(filled, pattern, found):
    answer = get(filled, topics_pattern=pattern)
    assert (short(answer.topics), answer.filtered) == (found, True)
    assert answer.topics_hash == topics_hash(NS + name for name in found)


def test_a_backtracking_pattern_takes_linear_time(filled):
    """A backtracking engine needs 2^60 steps for this pattern; the test would never end."""
    filled.producer("a" * 60 + "!", producer_id=8)
    assert short(get(filled, topics_pattern="public/default/(a+)+").topics) == ["a"]


def test_a_long_pattern_is_not_filtered(filled):
    answer = get(filled, topics_pattern="x" * 51)
    assert (len(answer.topics), answer.filtered) == (4, False)


def test_filtering_can_be_disabled(make_world):
    world = make_world(enableBrokerSideSubscriptionPatternEvaluation=False)
    client = world.client()
    client.producer("a")
    answer = get(client, topics_pattern="nothing")
    assert (short(answer.topics), answer.filtered) == (["a"], False)
    assert watch(client).error == pb.NotAllowedError


def test_the_same_hash(filled):
    digest = get(filled).topics_hash
    again = get(filled, topics_hash=digest)
    assert (list(again.topics), again.topics_hash, again.changed) == ([], digest, False)
    filled.producer("c", producer_id=9)
    assert get(filled, topics_hash=digest).changed


@pytest.mark.parametrize("pattern", ["(", "[", "a{2,1}", "(?Pbad", "*"])
def test_an_invalid_pattern(client, pattern):
    assert get(client, topics_pattern=pattern).error == pb.MetadataError
    assert watch(client, pattern).error == pb.InvalidTopicName


@pytest.mark.parametrize("pattern", [".*://public/default/a", "topic://public/default/a", "://x", "persistent://"])
def test_an_unknown_scheme(client, pattern):
    assert get(client, topics_pattern=pattern).error == pb.MetadataError
    assert watch(client, pattern).error == pb.AuthorizationError


def test_the_length_of_a_pattern(filled):
    """The pattern of a list request includes the scheme, that of a watcher does not (observed on 4.2.4)."""
    pattern = "persistent://public/default/" + "x" * 30
    assert not get(filled, topics_pattern=pattern).filtered
    assert isinstance(watch(filled, pattern), pb.CommandWatchTopicListSuccess)


def test_a_missing_namespace_has_no_topics(client):
    answer = get(client, "public/none", topics_hash="00000000")
    assert (list(answer.topics), answer.topics_hash, answer.changed) == ([], "00000000", False)


@pytest.mark.parametrize("namespace", ["nonsense", "", "a/b/c", "a/b/c/d", "a//b", "/b", "a b/c"])
def test_an_invalid_namespace(world, namespace):
    listing, watching = world.client(), world.client()
    listing(pb.CommandGetTopicsOfNamespace(namespace=namespace))
    watching(pb.CommandWatchTopicList(watcher_id=1, namespace=namespace, topics_pattern=".*"))
    assert (listing.closed, watching.closed) == (True, True)


# -- watching --------------------------------------------------------------------------------------------------------


def update(client):
    """Return the only update: short names of new and deleted topics, and whether the hash is that of ``now``."""
    [body] = client.hear()
    assert isinstance(body, pb.CommandWatchTopicUpdate)
    return short(body.new_topics), short(body.deleted_topics), body.topics_hash


def test_watchers_receive_updates(world, filled):
    watcher = world.client()
    answer = watch(watcher, "public/default/a.?", watcher_id=3)
    assert (answer.watcher_id, short(answer.topic)) == (3, ["a"])
    filled.producer("a2", producer_id=10)
    assert update(watcher) == (["a2"], [], topics_hash([NS + "a", NS + "a2"]))
    filled.producer("c", producer_id=11)
    assert watcher.hear() == []
    world.broker.delete_topic(TopicName.parse("a"), force=True)
    world.deliver()
    assert update(watcher) == ([], ["a"], topics_hash([NS + "a2"]))


def test_all_partitions_are_in_one_update(world, client):
    watch(client)
    world.broker.create_partitioned(TopicName.parse("p"), 2)
    world.deliver()
    assert update(client)[:2] == (["p-partition-0", "p-partition-1"], [])
    world.broker.create_partitioned(TopicName.parse("p"), 3)
    world.deliver()
    assert update(client)[:2] == (["p-partition-2"], [])


def test_not_watched(world, client):
    """Non-persistent topics, system topics, and topics of other namespaces cause no update."""
    watch(client)
    other = world.client()
    for number, name in enumerate(("non-persistent://public/default/n", "__change_events", "pulsar/system/x")):
        other.producer(name, producer_id=number)
    assert client.hear() == []


def test_a_known_hash(filled):
    digest = watch(filled).topics_hash
    again = watch(filled, watcher_id=2, topics_hash=digest)
    assert (list(again.topic), again.topics_hash) == ([], digest)


def test_the_same_id_again(world, client):
    """The second watcher replaces the first: there is one update, for the new pattern."""
    watch(client, "public/default/a")
    watch(client, "public/default/b")
    other = world.client()
    other.producer("a")
    assert client.hear() == []
    other.producer("b", producer_id=2)
    assert update(client)[0] == ["b"]


def test_the_end_of_watching(world, client):
    watch(client)
    assert isinstance(client.one(pb.CommandWatchTopicListClose(watcher_id=1)), pb.CommandSuccess)
    assert isinstance(client.one(pb.CommandWatchTopicListClose(watcher_id=99)), pb.CommandSuccess)
    world.client().producer("a")
    assert client.hear() == []


def test_a_watcher_that_left(world, client):
    watch(client)
    client.leave()
    world.client().producer("a")
    assert client.hear() == []


def test_a_watcher_with_a_long_pattern_is_refused(client):
    answer = watch(client, "x" * 51)
    assert (answer.error, answer.request_id) == (pb.NotAllowedError, 1)
    assert watch(client, "persistent://" + "x" * 50).topics_hash == "00000000"


@pytest.mark.parametrize("pattern", ["(?=a)(a|a)*b", "(?!b)(a+)+b", r"(a)\1(a|a)*b"])
def test_the_time_of_patterns_that_re2_does_not_support_is_limited(world, pattern):
    world.client().producer("a" * 60)
    watch = pb.CommandWatchTopicList(
        namespace="public/default", topics_pattern=f"public/default/{pattern}", watcher_id=1
    )
    assert world.client().one(watch).topics_hash == "00000000"
