"""Readers: their subscriptions, start positions and acknowledgements."""

import pytest

from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId
from pcli.replay.client.settings import ReaderSettings


def read(network, **settings):
    made = []
    given = {"topicName": "orders", "startMessageId": EARLIEST}
    network.engine().read(ReaderSettings(**given | settings), made.append)
    return network.wait_for(made)


def texts(reader):
    return [message.data.decode() for message in iter(reader.read_next, None)]


def test_a_reader_has_a_random_subscription(network):
    network.publish(3)
    reader = read(network, readerName="me", subscriptionRolePrefix="tail")
    [body] = network.sent("SUBSCRIBE")
    assert (body.subscription, body.consumer_name, body.durable) == ("tail-reader-0000000000", "me", False)
    assert texts(reader) == ["m-0", "m-1", "m-2"]
    network.run(100)
    [ack] = network.sent("ACK")
    assert (ack.ack_type, ack.message_id[0].entryId) == (ack.Cumulative, 2)


@pytest.mark.parametrize(("inclusive", "first"), [(True, 4), (False, 5)])
def test_from_a_message_of_a_batch(network, inclusive, first):
    network.publish(9, batch=3)
    reader = read(network, startMessageId=ClientMessageId(0, 1, -1, 1), resetIncludeHead=inclusive)
    assert texts(reader) == [f"m-{n}" for n in range(first, 9)]


def test_from_the_end(network):
    network.publish(3)
    reader = read(network, startMessageId=LATEST)
    assert texts(reader) == []
    network.publish(1)
    assert texts(reader) == ["m-0"]


def test_from_a_time_before_now(network):
    network.publish(2)
    network.run(60_000)
    network.publish(1)
    reader = read(network, startMessageId=None, startMessageFromRollbackDurationInSec=30)
    [body] = network.sent("SUBSCRIBE")
    assert body.start_message_rollback_duration_sec == 30
    assert texts(reader) == ["m-0"]


def test_the_rollback_is_sent_once(network):
    network.publish(2)
    reader = read(network, startMessageId=None, startMessageFromRollbackDurationInSec=30)
    assert texts(reader) == ["m-0", "m-1"]
    network.cut()
    network.run(200)
    again = network.sent("SUBSCRIBE")[1]
    assert (again.start_message_id.entryId, again.start_message_rollback_duration_sec) == (1, 0)
    assert texts(reader) == []


def test_a_reader_of_a_key_range(network):
    read(network, keyHashRanges=((0, 10_000), (20_001, 30_000)))
    [body] = network.sent("SUBSCRIBE")
    assert [(one.start, one.end) for one in body.keySharedMeta.hashRanges] == [(0, 10_000), (20_001, 30_000)]


def test_all_partitions(network):
    network.broker.topic_registry.set_partitions(TopicName.parse("orders"), 3)
    network.publish(6)
    reader = read(network)
    assert sorted(texts(reader)) == [f"m-{n}" for n in range(6)]
    assert len(network.sent("SUBSCRIBE")) == 3
    found = []
    reader.has_message_available(found.append)
    network.deliver_all()
    assert found == [False]


@pytest.mark.parametrize(
    "settings",
    [
        {"startMessageId": None},
        {"startMessageId": LATEST, "startMessageFromRollbackDurationInSec": 5},
        {"receiverQueueSize": -1},
        {"keyHashRanges": ((5, 4),)},
        {"topicName": "a/b"},
    ],
)
def test_invalid_arguments_are_refused(network, settings):
    made = []
    given = {"topicName": "orders", "startMessageId": EARLIEST}
    network.engine().read(ReaderSettings(**given | settings), made.append)
    assert made[0].error.startswith("Invalid")
    assert network.frames == []
