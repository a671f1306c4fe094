"""Disabled transactions, and commands that 4.2.4 does not support."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandTcClientConnectRequest(tc_id=0),
        pb.CommandNewTxn(tc_id=0),
        pb.CommandAddPartitionToTxn(),
        pb.CommandAddSubscriptionToTxn(),
        pb.CommandEndTxn(txnid_least_bits=1, txnid_most_bits=0),
    ],
)
def test_transactions_are_disabled(client, command):
    """The response is ERROR, not the response type of the command."""
    answer = client.one(command)
    assert isinstance(answer, pb.CommandError)
    assert (answer.request_id, answer.error) == (1, pb.NotAllowedError)


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandScalableTopicLookup(session_id=1, topic="t"),
        pb.CommandScalableTopicClose(session_id=1),
        pb.CommandScalableTopicSubscribe(
            request_id=1, topic="t", subscription="s", consumer_name="c", consumer_id=1, consumer_type=0
        ),
        pb.CommandWatchScalableTopics(watch_id=1, namespace="public/default"),
        pb.CommandWatchTcAssignments(watch_id=1),
    ],
)
def test_scalable_topics_are_unknown(client, command):
    assert client(command) == []
    assert client.closed


END = {"txnid_least_bits": 1, "txnid_most_bits": 0}


def test_the_end_on_a_topic(client):
    """A commit has no effect; an abort on a loaded topic is not allowed."""
    missing = client.one(pb.CommandEndTxnOnPartition(topic="t", txn_action=pb.ABORT, **END))
    client.producer("t")
    commit = client.one(pb.CommandEndTxnOnPartition(topic="t", txn_action=pb.COMMIT, **END))
    abort = client.one(pb.CommandEndTxnOnPartition(topic="t", txn_action=pb.ABORT, **END))
    assert [one.txnid_least_bits for one in (missing, commit, abort)] == [1, 1, 1]
    assert [one.HasField("error") for one in (missing, commit, abort)] == [False, False, True]
    assert abort.error == pb.NotAllowedError


def test_the_end_on_a_subscription(client):
    missing = client.one(pb.CommandEndTxnOnSubscription(subscription={"topic": "t", "subscription": "sub"}, **END))
    client.subscribe("t")
    there = client.one(pb.CommandEndTxnOnSubscription(subscription={"topic": "t", "subscription": "sub"}, **END))
    other = client.one(pb.CommandEndTxnOnSubscription(subscription={"topic": "t", "subscription": "no"}, **END))
    assert [one.HasField("error") for one in (missing, there, other)] == [False, True, False]
    assert there.error == pb.NotAllowedError


def test_the_end_on_a_topic_that_is_not_loaded(world, client):
    world.broker.create_partitioned(TopicName.parse("p"), 1)
    answer = client.one(pb.CommandEndTxnOnPartition(topic="p-partition-0", **END))
    assert answer.error == pb.ServiceNotReady
