"""Consumers of several topics: partitions, lists, patterns."""

import pytest

FULL_CLIENTS = pytest.mark.parametrize("client", ["python", "java", "go"], indirect=True)
PREFIX = "persistent://public/default/"


@FULL_CLIENTS
@pytest.mark.pulsar_broker(topics=["jobs:3"])
def test_partitions(play, pulsar_broker):
    received = play("partitions", topic="jobs")["received"]
    plain = sorted((int(text.removeprefix("message-")), int(part)) for part, key, text in received if not key)
    first = plain[0][1]
    assert plain == [(n, (first + n) % 3) for n in range(9)]
    partitions_of_key = {}
    for part, key, _ in received:
        partitions_of_key.setdefault(key, []).append(part)
    assert all(len(set(parts)) == 1 for key, parts in partitions_of_key.items() if key)
    jobs = pulsar_broker.wait_until(lambda b: (t := b.topic("jobs")).backlog == 0 and t)
    stored = {(part.name[-1], one.key or "", one.payload.decode()) for part in jobs.partitions for one in part.messages}
    assert stored == {tuple(one) for one in received}


@FULL_CLIENTS
def test_a_list_of_topics(play, pulsar_broker):
    received = play("topics")["received"]
    for topic, numbers in (("a", range(5)), ("b", range(5, 10))):
        assert [text for name, text in received if name == PREFIX + topic] == [f"message-{n}" for n in numbers]
        pulsar_broker.wait_until(lambda b, topic=topic: b.topic(topic).backlog == 0)
    assert pulsar_broker.topics == [PREFIX + "a", PREFIX + "b"]


@FULL_CLIENTS
def test_a_pattern_finds_its_topics(play, client, pulsar_broker):
    received = play("pattern")["received"]
    topics = {"message-0": "watch-a", "message-1": "watch-a", "message-2": "watch-b", "message-3": "watch-b"}
    assert sorted(received) == sorted([PREFIX + topic, text] for text, topic in topics.items())
    assert pulsar_broker.topic("other").subscriptions == {}
    if client == "java":
        [update] = pulsar_broker.frames("pulsar.type == 'WATCH_TOPIC_UPDATE'")
        assert list(update.command.new_topics) == [f"{PREFIX}watch-b"]
