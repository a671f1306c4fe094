"""Statistics: sizes, times, rates, and the sums of partitions."""

from __future__ import annotations

import itertools

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.minibroker.settings import Settings
from pcli.minibroker.stats.internal_stats import schema_entry_size
from pcli.minibroker.stats.partitioned_stats import partitioned_stats
from pcli.minibroker.stats.topic_stats import topic_stats
from pcli.minibroker.storage.backlog_size import backlog_size
from pcli.minibroker.storage.ledger import ManagedLedger
from pcli.minibroker.storage.spilling_storage import Pool, SpillingStorage

T = "persistent://public/default/t"


def ledger_of(sizes):
    """Create a ledger with entries of these sizes; None starts a new ledger."""
    ids = iter(range(100))
    ledger = ManagedLedger("t", SpillingStorage(Pool()), lambda: next(ids), Settings(), 0)
    for size in sizes:
        if size is None:
            ledger.roll(0)
        else:
            ledger.append(bytes(size), 0)
    return ledger


def test_a_real_backlog():
    """Sizes of seven entries from a real broker: 409 bytes in total, 351 after the first, 235 after the third."""
    ledger = ledger_of([57, 57, 57, 57, 57, 39, 85])
    assert backlog_size(ledger, -1) == 409
    assert backlog_size(ledger, 0) == 351
    assert backlog_size(ledger, 2) == 235
    assert backlog_size(ledger, 6) == 0


def test_a_backlog_across_ledgers():
    ledger = ledger_of([10, 10, None, 30, 30])
    assert [backlog_size(ledger, offset) for offset in range(-1, 4)] == [80, 70, 60, 30, 0]


def test_rates_start_with_the_first_client(world):
    """Over half a period, the rate is twice as high, not half."""
    world.advance(30_000)
    client = world.client()
    client.producer("t")
    for sequence in range(6):
        client.publish(sequence_id=sequence)
    world.advance(30_000)
    stats = topic_stats(world.broker.topics[T])
    assert stats["publishers"][0]["msgRateIn"] == pytest.approx(6 / 30)
    assert stats["msgThroughputIn"] == pytest.approx(stats["bytesInCounter"] / 30)


def test_rates_follow_the_setting(make_world):
    world = make_world(statsUpdateFrequencyInSecs=10)
    client = world.client()
    client.producer("t")
    client.publish()
    world.advance(10_000)
    assert topic_stats(world.broker.topics[T])["msgRateIn"] == pytest.approx(1 / 10)
    world.advance(10_000)
    assert topic_stats(world.broker.topics[T])["msgRateIn"] == 0


def test_acknowledged_and_delivered_again(world):
    client = world.client()
    client.producer("t")
    client.subscribe("t", subType=1)
    client.publish()
    [message] = client.flow()
    client(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1))
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[message.message_id]))
    world.advance(60_000)
    subscription = topic_stats(world.broker.topics[T])["subscriptions"]["sub"]
    assert subscription["msgRateRedeliver"] == pytest.approx(1 / 60)
    assert subscription["messageAckRate"] == pytest.approx(1 / 60)
    assert subscription["msgRateOut"] == pytest.approx(2 / 60)


def test_partition_statistics_are_summed():
    """Counters are added. Fields that TopicStatsImpl.add does not mention have the values of a new object."""
    one = {
        "msgInCounter": 2,
        "averageMsgSize": 5.0,
        "ownerBroker": "a",
        "topicCreationTimeStamp": 7,
        "topicEpoch": 1,
        "subscriptions": {},
    }
    publisher = {"msgRateIn": 1.0, "producerId": 3, "metadata": {}, "supportsPartialProducer": False}
    one["publishers"] = [{**publisher, "producerName": "p"}]
    other = {**one, "msgInCounter": 3, "averageMsgSize": 6.0, "topicCreationTimeStamp": 9}
    other["publishers"] = one["publishers"] * 2
    other["subscriptions"] = {"s": {"msgBacklog": 4, "type": "Shared", "blockedSubscriptionOnUnackedMsgs": True}}
    found = partitioned_stats({"t-partition-0": one, "t-partition-1": other}, 2, each=False)
    merged = {"producerId": 0, "supportsPartialProducer": False}
    assert found == {
        "msgInCounter": 5,
        "averageMsgSize": 5.5,
        "topicCreationTimeStamp": 7,
        "oldestBacklogMessageAgeSeconds": 0,
        "publishers": [{"msgRateIn": 2.0, **merged}, {"msgRateIn": 1.0, **merged}],
        "subscriptions": {"s": {"msgBacklog": 4, "type": "Shared", "blockedSubscriptionOnUnackedMsgs": False}},
        "metadata": {"partitions": 2, "deleted": False},
        "partitions": {},
    }


@pytest.mark.parametrize("aggregated", [False, True])
@pytest.mark.parametrize("features", [(), ("supports_partial_producer",)])
def test_a_producer_supports_partial_producers_if_its_client_and_the_setting_do(make_world, aggregated, features):
    """Producer.java: without aggregatePublisherStatsByProducerName, the feature flag of CONNECT has no effect."""
    world = make_world(aggregatePublisherStatsByProducerName=aggregated)
    client = world.accept()
    client.session.features = features
    client.session.connect()
    client()
    client.producer("t")
    [publisher] = topic_stats(world.broker.topics[T])["publishers"]
    assert publisher["supportsPartialProducer"] is (aggregated and bool(features))


def test_producers_that_support_partial_producers_are_merged_by_name():
    named = {"msgRateIn": 1.0, "averageMsgSize": 3.0, "supportsPartialProducer": True, "producerName": "p"}
    found = partitioned_stats({"a": {"publishers": [named]}, "b": {"publishers": [named]}}, 2, each=False)
    assert found["publishers"] == [{**named, "msgRateIn": 2.0}]


def test_the_ranges_of_a_key_shared_subscription_are_computed_once(world, monkeypatch):
    client = world.client()
    for number in range(1, 4):
        client.subscribe(consumer_id=number, consumer_name=f"c{number}", subType=pb.CommandSubscribe.Key_Shared)
    dispatcher = world.broker.topics[T].subscriptions["sub"].dispatcher
    asked, ranges = [], dispatcher.selector.ranges

    def counted():
        asked.append(1)
        return ranges()

    monkeypatch.setattr(dispatcher.selector, "ranges", counted)
    consumers = topic_stats(world.broker.topics[T])["subscriptions"]["sub"]["consumers"]
    assert len(asked) == 1
    shown = sorted(tuple(pair) for one in consumers for pair in one["keyHashRangeArrays"])
    assert (shown[0][0], shown[-1][1]) == (1, 65535)
    assert all(before[1] + 1 == after[0] for before, after in itertools.pairwise(shown))


def test_dropped_messages_are_a_rate(world):
    """Only for non-persistent topics. Over half a period, the rate is twice as high."""
    name = "non-persistent://public/default/t"
    world.advance(30_000)
    client = world.client()
    client.producer(name)
    client.subscribe(name)
    client.subscribe(name, consumer_id=2, subscription="other")
    client.flow(1)
    for sequence in range(7):
        client.publish(sequence_id=sequence)
    stats = topic_stats(world.broker.topics[name])
    assert (stats["msgDropRate"], stats["subscriptions"]["sub"]["msgDropRate"]) == (0, 0)
    world.advance(30_000)
    stats = topic_stats(world.broker.topics[name])
    rates = {key: one["msgDropRate"] for key, one in stats["subscriptions"].items()}
    assert rates == pytest.approx({"sub": 6 / 30, "other": 7 / 30})
    assert stats["msgDropRate"] == pytest.approx(13 / 30)
    world.advance(60_000)
    assert topic_stats(world.broker.topics[name])["msgDropRate"] == 0


def test_drops_since_the_last_measurement_survive_consumer_changes(make_world):
    world = make_world(statsUpdateFrequencyInSecs=10)
    name = "non-persistent://public/default/t"
    client = world.client()
    client.producer(name)
    client.subscribe(name, subType=pb.CommandSubscribe.Shared)
    world.advance(10_000)
    client.publish()
    world.advance(9_000)
    client.subscribe(name, consumer_id=2, subType=pb.CommandSubscribe.Shared)
    client(pb.CommandCloseConsumer(consumer_id=1))
    world.advance(1_000)
    assert topic_stats(world.broker.topics[name])["msgDropRate"] == pytest.approx(1 / 10)


def test_the_first_and_last_times_of_a_consumer(world):
    client = world.client()
    client.producer("t")
    client.subscribe("t")
    first = world.now
    client.flow(10)
    client.publish()
    world.advance(5000)
    client.flow(10)
    client.publish(sequence_id=1)
    [consumer] = topic_stats(world.broker.topics[T])["subscriptions"]["sub"]["consumers"]
    assert (consumer["firstConsumedFlowTimestamp"], consumer["lastConsumedFlowTimestamp"]) == (first, world.now)
    assert (consumer["firstMessagesSentTimestamp"], consumer["lastConsumedTimestamp"]) == (first, world.now)


def test_the_earliest_time_in_an_empty_backlog(world):
    """-1 for a subscription, 0 for the topic, as on a real broker."""
    client = world.client()
    client.subscribe("t")
    stats = topic_stats(world.broker.topics[T], earliest=True)
    assert stats["subscriptions"]["sub"]["earliestMsgPublishTimeInBacklog"] == -1
    assert stats["earliestMsgPublishTimeInBacklogs"] == 0


def test_the_size_of_a_schema_entry():
    """The sizes of a real broker's ledgers: the first versions of an Avro schema and of a schema without data."""
    avro = pb.Schema(name="R", type=pb.Schema.Avro, schema_data=b"x" * 76)
    assert schema_entry_size("public/" + "n" * 17 + "/t0", avro, 1_795_441_182_664, 0) == 184
    string = pb.Schema(name="s", type=pb.Schema.String)
    assert schema_entry_size("public/" + "n" * 18 + "/t0", string, 1_795_441_182_664, 0) == 109


def test_a_chunk_is_reported_after_the_rates_are_measured(world):
    client = world.client()
    client.producer("t")
    about = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, uuid="u", num_chunks_from_msg=2)
    client(pb.CommandSend(producer_id=1, sequence_id=0, is_chunk=True), entry=push_entry(about, b""))
    assert not topic_stats(world.broker.topics[T])["msgChunkPublished"]
    world.advance(60_000)
    assert topic_stats(world.broker.topics[T])["msgChunkPublished"]
