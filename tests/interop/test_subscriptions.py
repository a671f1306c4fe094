"""Who gets what, how often, and what an acknowledgement leaves."""

import itertools

import pytest

from pcli.codec.proto import pb

RICH = pytest.mark.parametrize("client", ["python", "java", "go"], indirect=True)
JAVA = pytest.mark.parametrize("client", ["java"], indirect=True)


def messages(*numbers):
    return [f"message-{n}" for n in numbers]


@pytest.mark.pulsar_broker(activeConsumerFailoverDelayTimeMillis=0)
def test_failover_takes_over(play, pulsar_broker):
    saw = play("failover")
    assert saw == {"c1": messages(*range(5)), "c2 meanwhile": [], "c2": messages(*range(5, 10))}
    changes = pulsar_broker.frames("pulsar.type == 'ACTIVE_CONSUMER_CHANGE'")
    assert changes[-1].command.is_active
    pulsar_broker.wait_until(lambda b: b.topic("orders").backlog == 0)


def test_shared_dispatches_to_all(play, pulsar_broker):
    saw = play("shared")
    assert sorted(saw["c1"] + saw["c2"]) == sorted(messages(*range(20)))
    assert min(len(saw["c1"]), len(saw["c2"])) > 0
    pulsar_broker.wait_until(lambda b: b.topic("orders").backlog == 0)


def test_a_nack_causes_a_redelivery(play, pulsar_broker):
    received = play("nack")["received"]
    assert received == [["message-0", 0], ["message-1", 0], ["message-2", 0], ["message-1", 1]]
    [asked] = pulsar_broker.frames("pulsar.type == 'REDELIVER_UNACKNOWLEDGED_MESSAGES'")
    assert [one.entryId for one in asked.command.message_ids] == [1]
    pulsar_broker.wait_until(lambda b: b.topic("orders").backlog == 0)


@JAVA
def test_an_ack_timeout_causes_a_redelivery(play, pulsar_broker):
    assert play("ack_timeout") == {"redeliveries": [0, 1]}
    assert len(pulsar_broker.frames("pulsar.type == 'REDELIVER_UNACKNOWLEDGED_MESSAGES'")) == 1


def keys_in_order(hands):
    """The keys of each hand; what has one key must be in the order in which it was sent."""
    keys = {}
    for name, hand in hands.items():
        pairs = [one.split("=message-") for one in hand]
        keys[name] = {key for key, _ in pairs}
        for key, group in itertools.groupby(sorted(pairs, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
            assert [int(n) for _, n in group] == list(range(int(key[1:]), 40, 10))
    return keys


@RICH
@pytest.mark.parametrize("batching", ["none", "key"])
def test_key_shared_keeps_the_order_of_each_key(play, pulsar_broker, batching):
    keys = keys_in_order(play("key_shared", batching=batching))
    assert keys["c1"] | keys["c2"] == {f"k{n}" for n in range(10)}
    assert keys["c1"] & keys["c2"] == set()
    pulsar_broker.wait_until(lambda b: b.topic("orders").backlog == 0)


LOW, HIGH = {"k0", "k1", "k2", "k4", "k6", "k8"}, {"k3", "k5", "k7", "k9"}
"""The keys whose hash is in the lower and the upper half of the ranges, as a real broker deals them."""


@RICH
def test_sticky_ranges(play, pulsar_broker):
    saw = play("sticky")
    assert saw.pop("refused")
    assert keys_in_order(saw) == {"low": LOW, "high": HIGH}
    refused = [frame.command.error for frame in pulsar_broker.frames("pulsar.type == 'ERROR'")]
    assert set(refused) == {pb.ConsumerAssignError}


@JAVA
def test_readers_of_a_key_range(play):
    assert keys_in_order(play("key_range_reader")) == {"low": LOW, "high": HIGH}


def test_a_cumulative_ack_acknowledges_all_before_it(play, pulsar_broker):
    assert play("cumulative") == {"again": messages(6, 7, 8, 9)}
    acks = pulsar_broker.frames("pulsar.type == 'ACK'")
    first = next(frame.command for frame in acks if frame.command.ack_type == pb.CommandAck.Cumulative)
    assert first.message_id[0].entryId == 5


@RICH
@pytest.mark.pulsar_broker(acknowledgmentAtBatchIndexLevelEnabled=True)
def test_acks_of_messages_of_a_batch(play, pulsar_broker):
    left = []

    def look():
        orders = pulsar_broker.wait_until(lambda b: b.frames("pulsar.type == 'ACK'") and b.topic("orders"))
        work = orders.subscriptions["work"]
        left.extend(one.payload.decode() for one in orders.messages if not work.acked(one))

    assert play("batch_index", look=look) == {"again": messages(1, 3, 5, 6, 7, 8, 9)}
    assert left == messages(1, 3, 5, 6, 7, 8, 9)
    assert len(pulsar_broker.frames("pulsar.type == 'SEND'")) == 1


@pytest.mark.parametrize("client", ["java", "go", "node"], indirect=True)
def test_acks_with_receipts(play, pulsar_broker):
    backlog = []
    saw = play("receipts", look=lambda: backlog.append(pulsar_broker.topic("orders").backlog))
    assert (saw, backlog) == ({"acked": 3}, [0])
    asked = [frame.command.request_id for frame in pulsar_broker.frames("pulsar.type == 'ACK'")]
    answered = [frame.command.request_id for frame in pulsar_broker.frames("pulsar.type == 'ACK_RESPONSE'")]
    assert len(asked) == 3
    assert answered == asked


@RICH
def test_unsubscribe(play, pulsar_broker):
    before = []
    play("unsubscribe", look=lambda: before.extend(pulsar_broker.topic("orders").subscriptions))
    assert before == ["work"]
    assert pulsar_broker.topic("orders").subscriptions == {}


@RICH
def test_a_zero_queue_requests_single_messages(play, pulsar_broker):
    delivered = []
    saw = play("zero_queue", look=lambda: delivered.append(len(pulsar_broker.frames("pulsar.type == 'MESSAGE'"))))
    assert saw == {"received": messages(0, 1, 2)}
    assert delivered == [0]
    permits = [frame.command.messagePermits for frame in pulsar_broker.frames("pulsar.type == 'FLOW'")]
    assert permits == [1, 1, 1]
