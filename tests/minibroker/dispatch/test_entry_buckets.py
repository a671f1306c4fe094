"""Consumers that share a segment by entry buckets."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.scalable import key_hashes
from pcli.codec.wire.build import push_entry

FOUR = ((0, 16383), (16384, 32767), (32768, 49151), (49152, 65535))
SEGMENT = "segment://public/default/orders/0000-ffff-0"


@pytest.fixture
def world(make_world):
    world = make_world(version="5.0.1")
    world.broker.scalable_topics.create("topic://public/default/orders")
    return world


def join(world, ranges=FOUR, *, buckets=True, **fields):
    client = world.client()
    meta = pb.KeySharedMeta(
        keySharedMode=pb.STICKY,
        hashRanges=[pb.IntRange(start=start, end=end) for start, end in ranges],
        entry_bucket_dispatch=buckets,
    )
    answer = client.subscribe(SEGMENT, subType=pb.CommandSubscribe.Key_Shared, keySharedMeta=meta, **fields)
    client.flow()
    return client, answer


def publish(client, number, **metadata):
    entry = push_entry(pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1, **metadata), b"x")
    client(pb.CommandSend(producer_id=1, sequence_id=number, num_messages=1), entry=entry)


def entries(client):
    return [body.message_id.entryId for body in client.hear() if isinstance(body, pb.CommandMessage)]


@pytest.mark.parametrize(
    ("consumers", "owners"), [(1, [0, 0, 0, 0]), (2, [0, 0, 1, 1]), (3, [0, 1, 2, 2]), (5, [1, 2, 3, 4])]
)
def test_buckets_follow_the_order_of_the_names(world, consumers, owners):
    clients = [join(world, consumer_name=name)[0] for name in "edcba"[-consumers:]][::-1]
    producer = world.client()
    producer.producer(SEGMENT)
    for number, (start, _) in enumerate(FOUR):
        publish(producer, number, entry_hash_min=start, entry_hash_max=65535)
    found = {entry: index for index, client in enumerate(clients) for entry in entries(client)}
    assert [found[number] for number in range(4)] == owners


def test_an_entry_without_hashes_goes_by_its_key(world):
    clients = [join(world, consumer_name=name)[0] for name in "abcd"]
    producer = world.client()
    producer.producer(SEGMENT)
    publish(producer, 0, partition_key="k1")
    publish(producer, 1, partition_key="k1", entry_hash_min=0)
    owner = key_hashes(b"k1")[1] // 16384
    expected = [[1], [], [], []]
    expected[owner] = sorted([*expected[owner], 0])
    assert [entries(client) for client in clients] == expected


def test_pending_entries_of_a_bucket_drain_before_its_new_owner_gets_more(world):
    one, _ = join(world, consumer_name="a")
    producer = world.client()
    producer.producer(SEGMENT)
    publish(producer, 0, entry_hash_min=60000)
    [message] = one.hear()
    other, _ = join(world, consumer_name="b")
    publish(producer, 1, entry_hash_min=60000)
    assert entries(other) == []
    one(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[message.message_id]))
    world.wait(100)
    assert entries(other) == [1]


@pytest.mark.parametrize(
    ("ranges", "code", "text"),
    [
        ((), pb.UnknownError, "Entry-bucket subscription must declare the segment's bucket boundaries"),
        (((0, 16383),), pb.UnknownError, "tile the 16-bit ring: last range ends at 16383"),
        (((0, 100), (200, 65535)), pb.UnknownError, "found [200,65535] where start 101 was expected"),
    ],
)
def test_invalid_buckets(world, ranges, code, text):
    _, answer = join(world, ranges)
    assert answer.error == code
    assert text in answer.message


def test_different_requests_on_one_subscription(world):
    join(world)
    _, answer = join(world, ((0, 32767), (32768, 65535)))
    assert answer.error == pb.ConsumerAssignError
    assert "[[0, 32767], [32768, 65535]] != [[0, 16383]" in answer.message
    _, answer = join(world, buckets=False)
    assert answer.error == pb.ConsumerBusy
    assert "dispatches by entry-bucket while the connecting consumer does not." in answer.message
