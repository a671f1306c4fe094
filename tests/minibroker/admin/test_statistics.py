"""Statistics and metrics compared with those of a real 4.2.4 with the same clients (statistics.json).

The real broker had a producer and a consumer of each type on one topic, an idle subscription and three messages; and a
non-persistent topic and a partitioned topic, each with a producer and a Shared consumer.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

REAL = json.loads(Path(__file__).with_name("statistics.json").read_text())
TYPES = {"shared": 1, "key_shared": 3, "failover": 2, "exclusive": 0}
TOPIC = "/admin/v2/persistent/public/default/act"

MISSING = {
    "firstMessagesSentTimestamp": "of a consumer; not measured",
    "firstConsumedFlowTimestamp": "of a consumer; not measured",
}


def names(value, path=""):
    """Return every name in a response with its path. Members of a list, and of a map by name, share one path."""
    if isinstance(value, list):
        for item in value:
            yield from names(item, f"{path}[]")
    elif isinstance(value, dict):
        for key, item in value.items():
            place = f"{path}.*" if path.endswith((".cursors", ".partitions")) else f"{path}.{key}"
            yield place, type(item).__name__
            yield from names(item, place)


@pytest.fixture
def busy(world, rest):
    client = world.client()
    client.producer("act", producer_name="prod1")
    for consumer_id, (name, kind) in enumerate(TYPES.items()):
        client.subscribe("act", consumer_id, subscription=name, consumer_name=name, subType=kind)
        client.flow(1000, consumer_id)
    for sequence in range(3):
        client.publish(f"hello{sequence}", sequence)
    assert rest("PUT", f"{TOPIC}/subscription/idle").status == 204
    world.advance(2000)  # the Failover consumer has waited its activeConsumerFailoverDelayTimeMillis
    return client


def same_names(ours, real):
    found, wanted = dict(names(ours)), dict(names(real))
    missing = {name for name in wanted.keys() - found.keys() if name.rpartition(".")[2] not in MISSING}
    assert missing == set()
    assert found.keys() - wanted.keys() == set()
    kinds = {name: (found[name], wanted[name]) for name in found if found[name] != wanted[name]}
    assert kinds == {}


def test_a_topic(rest, busy):
    same_names(rest("GET", f"{TOPIC}/stats").json, REAL["stats"])


def test_ledgers_and_cursors(rest, busy):
    same_names(rest("GET", f"{TOPIC}/internalStats").json, REAL["internal"])


def test_internal_stats(rest, busy):
    """Return the figures that must be equal to those of the real broker."""
    ours, real = rest("GET", f"{TOPIC}/stats").json, REAL["stats"]
    for name in ("msgInCounter", "msgOutCounter", "msgRateIn", "waitingPublishers", "deduplicationStatus"):
        assert ours[name] == real[name], name
    assert ours["bytesOutCounter"] == len(TYPES) * ours["bytesInCounter"]
    for subscription in TYPES:
        one, other = ours["subscriptions"][subscription], real["subscriptions"][subscription]
        for name in ("msgBacklog", "msgOutCounter", "unackedMessages", "type", "isDurable", "activeConsumerName"):
            assert one.get(name) == other.get(name), (subscription, name)
        [consumer], [real_consumer] = one["consumers"], other["consumers"]
        for name in ("consumerName", "availablePermits", "unackedMessages", "keyHashRangeArrays"):
            assert consumer.get(name) == real_consumer.get(name), (subscription, name)
    assert ours["subscriptions"]["idle"]["type"] == real["subscriptions"]["idle"]["type"]


def test_cursors_in_internal_stats(rest, busy):
    ours, real = rest("GET", f"{TOPIC}/internalStats").json, REAL["internal"]
    for name in ("entriesAddedCounter", "numberOfEntries", "currentLedgerEntries", "state", "waitingCursorsCount"):
        assert ours[name] == real[name], name
    for subscription in TYPES:
        cursor, other = ours["cursors"][subscription], real["cursors"][subscription]
        for name in ("waitingReadOp", "messagesConsumedCounter", "individuallyDeletedMessages", "active"):
            assert cursor[name] == other[name], (subscription, name)
        for name in ("markDeletePosition", "readPosition"):
            assert cursor[name].partition(":")[2] == other[name].partition(":")[2], (subscription, name)


def test_a_non_persistent_topic(world, rest):
    client, topic = world.client(), "non-persistent://public/default/npa"
    client.producer(topic, producer_name="prod2")
    client.subscribe(topic, subscription="s", consumer_name="n1", subType=1)
    client.flow()
    client.publish()
    path = "/admin/v2/non-persistent/public/default/npa"
    same_names(rest("GET", f"{path}/stats").json, REAL["non_persistent"])
    same_names(rest("GET", f"{path}/internalStats").json, REAL["non_persistent_internal"])


def test_a_partitioned_topic(world, rest):
    path = "/admin/v2/persistent/public/default/pm"
    rest("PUT", f"{path}/partitions", 2)
    client = world.client()
    for index in range(2):
        client.producer(f"pm-partition-{index}", index, producer_name="p")
        client.subscribe(f"pm-partition-{index}", index, subscription="s", consumer_name="n1", subType=1)
    client.publish(producer_id=1)
    ours, real = rest("GET", f"{path}/partitioned-stats?perPartition=false").json, REAL["partitioned"]
    same_names(ours, real)
    assert ours["metadata"] == real["metadata"]
    assert ours["partitions"] == {}
    assert ours["msgInCounter"] == real["msgInCounter"] == 1
    assert len(ours["publishers"]) == len(real["publishers"])
    assert ours["subscriptions"]["s"]["msgBacklog"] == 1
    each = rest("GET", f"{path}/partitioned-stats?perPartition=true").json["partitions"]
    assert sorted(each) == [f"persistent://public/default/pm-partition-{index}" for index in range(2)]


def test_rates_are_measured_per_minute(world, rest, busy):
    """As on a real broker, rates change only at measurements, statsUpdateFrequencyInSecs apart."""
    assert rest("GET", f"{TOPIC}/stats").json["msgRateIn"] == 0
    world.advance(58_000)
    stats = rest("GET", f"{TOPIC}/stats").json
    assert stats["msgRateIn"] == pytest.approx(3 / 60)
    assert stats["msgRateOut"] == pytest.approx(len(TYPES) * 3 / 60)
    assert stats["averageMsgSize"] == pytest.approx(stats["bytesInCounter"] / 3)
    world.advance(60_000)
    assert rest("GET", f"{TOPIC}/stats").json["msgRateIn"] == 0


def test_metrics(rest, busy):
    text = rest("GET", "/metrics").data.decode()
    samples = dict(line.rpartition(" ")[::2] for line in text.splitlines() if not line.startswith("#"))
    ours = {sample.partition("{")[0] for sample in samples if "default/act" in sample}
    assert {name for name in ours if "_le_" not in name} <= set(REAL["metrics"])  # recorded without buckets
    labels = 'cluster="standalone",namespace="public/default"'
    topic = f'{labels},topic="persistent://public/default/act"'
    assert samples[f"pulsar_topics_count{{{labels}}}"] == "1"
    assert samples[f"pulsar_producers_count{{{topic}}}"] == "1"
    assert samples[f"pulsar_consumers_count{{{topic}}}"] == "4"
    assert samples[f"pulsar_subscriptions_count{{{topic}}}"] == "5"
    assert samples[f"pulsar_in_messages_total{{{topic}}}"] == "3"
    assert samples[f'pulsar_subscription_back_log{{{topic},subscription="shared"}}'] == "3"
    assert samples[f'pulsar_out_messages_total{{{topic},subscription="shared"}}'] == "3"


def test_a_message_in_headers(world, rest):
    """The message of the recording: the body is its payload, and headers contain its metadata."""
    client = world.client()
    client.producer("act")
    metadata = pb.MessageMetadata(
        producer_name="prod1",
        sequence_id=0,
        publish_time=1_795_000_000_000,
        event_time=1_700_000_000_000,
        partition_key="key",
        ordering_key=b"ok",
        properties=[pb.KeyValue(key="a", value="b")],
    )
    [receipt] = client(pb.CommandSend(producer_id=1, sequence_id=0), entry=push_entry(metadata, b"hello0"))
    place = receipt.message_id
    answer = rest("GET", f"{TOPIC}/ledger/{place.ledgerId}/entry/{place.entryId}")
    assert answer.data.decode() == REAL["message"]
    ours = {name.lower(): value for name, value in answer.headers.items() if name.lower().startswith("x-")}
    real = {name.lower(): value for name, value in REAL["message_headers"].items()}
    for name in ("x-pulsar-message-id", "x-pulsar-publish-time"):
        assert ours.pop(name)
        real.pop(name)
    assert ours == real
