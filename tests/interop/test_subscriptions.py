"""Dispatch by subscription type, redelivery, and the effects of acknowledgements."""

import itertools

import pytest

from pcli.codec.proto import pb

FULL_CLIENTS = pytest.mark.parametrize("client", ["python", "java", "go"], indirect=True)
JAVA = pytest.mark.parametrize("client", ["java"], indirect=True)


def messages(*numbers):
    return [f"message-{n}" for n in numbers]


@pytest.mark.pulsar_broker(activeConsumerFailoverDelayTimeMillis=0)
def test_failover_takes_over(play, pulsar_broker):
    result = play("failover")
    assert result == {"c1": messages(*range(5)), "c2 meanwhile": [], "c2": messages(*range(5, 10))}
    changes = pulsar_broker.frames("pulsar.type == 'ACTIVE_CONSUMER_CHANGE'")
    assert changes[-1].command.is_active
    pulsar_broker.wait_until(lambda b: b.topic("orders").backlog == 0)


def test_shared_dispatches_to_all(play, pulsar_broker):
    result = play("shared")
    assert sorted(result["c1"] + result["c2"]) == sorted(messages(*range(20)))
    assert min(len(result["c1"]), len(result["c2"])) > 0
    pulsar_broker.wait_until(lambda b: b.topic("orders").backlog == 0)


def test_a_nack_causes_a_redelivery(play, pulsar_broker):
    received = play("nack")["received"]
    assert received == [["message-0", 0], ["message-1", 0], ["message-2", 0], ["message-1", 1]]
    [request] = pulsar_broker.frames("pulsar.type == 'REDELIVER_UNACKNOWLEDGED_MESSAGES'")
    assert [one.entryId for one in request.command.message_ids] == [1]
    pulsar_broker.wait_until(lambda b: b.topic("orders").backlog == 0)


@JAVA
def test_an_ack_timeout_causes_a_redelivery(play, pulsar_broker):
    assert play("ack_timeout") == {"redeliveries": [0, 1]}
    assert len(pulsar_broker.frames("pulsar.type == 'REDELIVER_UNACKNOWLEDGED_MESSAGES'")) == 1


def keys_in_order(received_by_consumer):
    """Return the keys of each consumer after checking that the messages of each key are in the order of sending."""
    keys = {}
    for name, received_texts in received_by_consumer.items():
        pairs = [one.split("=message-") for one in received_texts]
        keys[name] = {key for key, _ in pairs}
        for key, group in itertools.groupby(sorted(pairs, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
            assert [int(n) for _, n in group] == list(range(int(key[1:]), 40, 10))
    return keys


@FULL_CLIENTS
@pytest.mark.parametrize("batching", ["none", "key"])
def test_key_shared_keeps_the_order_of_each_key(play, pulsar_broker, batching):
    keys = keys_in_order(play("key_shared", batching=batching))
    assert keys["c1"] | keys["c2"] == {f"k{n}" for n in range(10)}
    assert keys["c1"] & keys["c2"] == set()
    pulsar_broker.wait_until(lambda b: b.topic("orders").backlog == 0)


LOW, HIGH = {"k0", "k1", "k2", "k4", "k6", "k8"}, {"k3", "k5", "k7", "k9"}
"""The keys whose hashes are in the lower and in the upper half of the ranges, as computed by a real broker."""


@FULL_CLIENTS
def test_sticky_ranges(play, pulsar_broker):
    result = play("sticky")
    assert result.pop("refused")
    assert keys_in_order(result) == {"low": LOW, "high": HIGH}
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


@FULL_CLIENTS
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
    result = play("receipts", look=lambda: backlog.append(pulsar_broker.topic("orders").backlog))
    assert (result, backlog) == ({"acked": 3}, [0])
    requested_ids = [frame.command.request_id for frame in pulsar_broker.frames("pulsar.type == 'ACK'")]
    response_ids = [frame.command.request_id for frame in pulsar_broker.frames("pulsar.type == 'ACK_RESPONSE'")]
    assert len(requested_ids) == 3
    assert response_ids == requested_ids


@FULL_CLIENTS
def test_unsubscribe(play, pulsar_broker):
    before = []
    play("unsubscribe", look=lambda: before.extend(pulsar_broker.topic("orders").subscriptions))
    assert before == ["work"]
    assert pulsar_broker.topic("orders").subscriptions == {}


@FULL_CLIENTS
def test_a_zero_queue_requests_single_messages(play, pulsar_broker):
    delivered = []
    result = play("zero_queue", look=lambda: delivered.append(len(pulsar_broker.frames("pulsar.type == 'MESSAGE'"))))
    assert result == {"received": messages(0, 1, 2)}
    assert delivered == [0]
    permits = [frame.command.messagePermits for frame in pulsar_broker.frames("pulsar.type == 'FLOW'")]
    assert permits == [1, 1, 1]
