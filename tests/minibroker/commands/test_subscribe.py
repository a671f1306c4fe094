"""SUBSCRIBE: incompatible consumers, the cursor of a reader after a reset, and the consumer epoch in deliveries."""

import re

import pytest

from pcli.codec.proto import pb

Sub = pb.CommandSubscribe
STICKY = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=0, end=100)])
DEALT = pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT)
LOOSE = pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT, allowOutOfOrderDelivery=True)


def refusal_of(world, topic, first, second):
    """>> SUBSCRIBE first  << SUCCESS  >> SUBSCRIBE second  << ERROR with its message."""
    world.client().subscribe(topic, **first)
    error = world.client().subscribe(topic, **second)
    assert error.error == pb.ConsumerBusy
    return error.message


@pytest.mark.parametrize("topic", ["persistent://public/default/t", "non-persistent://public/default/t"])
@pytest.mark.parametrize(
    ("capture", "first", "second"),
    [
        ("java/refusals", {"subType": Sub.Exclusive}, {"subType": Sub.Shared}),
        (
            "java/key-shared-sticky",
            {"subType": Sub.Key_Shared, "keySharedMeta": STICKY},
            {"subType": Sub.Key_Shared, "keySharedMeta": DEALT},
        ),
    ],
)
def test_a_different_key_shared_mode_is_refused_with_pulsars_text(world, small_captures, topic, capture, first, second):
    heard = (small_captures / f"{capture}.truth.json").read_text()
    told = set(re.findall(r"Subscription is of different type\.[^\\]*", heard))
    assert refusal_of(world, topic, first, second) in told


def test_different_ordering_modes_are_refused(world):
    ordered, loose = ({"subType": Sub.Key_Shared, "keySharedMeta": meta} for meta in (DEALT, LOOSE))
    assert "does not allow out of order delivery while" in refusal_of(world, "a", ordered, loose)
    assert "allows out of order delivery while" in refusal_of(world, "b", loose, ordered)


@pytest.mark.parametrize(
    ("topic", "fields", "told"),
    [
        ("persistent://public/default/t", {"subType": Sub.Exclusive}, True),
        ("persistent://public/default/t", {"subType": Sub.Failover}, True),
        ("persistent://public/default/t", {"subType": Sub.Shared}, False),
        ("persistent://public/default/t", {"subType": Sub.Exclusive, "read_compacted": True}, False),
        ("non-persistent://public/default/t", {"subType": Sub.Exclusive}, False),
    ],
)
def test_only_ordered_persistent_deliveries_contain_the_epoch(world, topic, fields, told):
    client = world.client()
    client.producer(topic)
    client.subscribe(topic, consumer_epoch=0, **fields)
    world.wait(1000)  # a new Failover consumer receives messages only after a delay
    client.flow()
    [message] = [body for body in client.publish() if isinstance(body, pb.CommandMessage)]
    assert message.HasField("consumer_epoch") == told


def test_the_kept_cursor_of_a_reader_skips_entries_that_were_deleted_meanwhile(make_world):
    world = make_world(managedLedgerMaxEntriesPerLedger=2, managedLedgerMinLedgerRolloverTimeMinutes=0)
    client, reader = world.client(), world.client()
    client.producer("t")
    reader.subscribe("t", durable=False)
    reader(pb.CommandSeek(consumer_id=1, message_id=pb.MessageIdData(ledgerId=0, entryId=0)))
    client.publish()
    client.publish(sequence_id=1)
    client.publish(sequence_id=2)
    reader.subscribe("t", consumer_id=2, durable=False)
    cursor = world.broker.topics["persistent://public/default/t"].subscriptions["sub"].cursor
    assert (cursor.mark_delete, cursor.read_position) == (1, 2)


def test_a_missing_topic_is_refused_with_pulsars_text(world):
    refused = world.client().subscribe("t", force_topic_creation=False)
    assert (refused.error, refused.message) == (pb.TopicNotFound, "Topic persistent://public/default/t does not exist")
