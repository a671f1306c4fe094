"""Transactions on scalable topics: their answers are those of a real 5.0.1."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

SEGMENT = "segment://public/default/orders/0000-ffff-0"


@pytest.fixture
def world(make_world):
    world = make_world(version="5.0.1", transactionCoordinatorEnabled=True, keepAliveIntervalSeconds=86400)
    world.broker.scalable_topics.create("topic://public/default/orders")
    return world


@pytest.fixture
def client(world):
    return world.client()


def new(client, coordinator=3, **fields):
    command = pb.CommandNewTxn(request_id=1, tc_id=coordinator, txn_ttl_millis=60_000, scalable=True, **fields)
    return client.one(command).txnid_least_bits


def publish(client, number, *, in_transaction=True):
    ids = {"txnid_most_bits": 3, "txnid_least_bits": 0} if in_transaction else {}
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1, **ids)
    send = pb.CommandSend(producer_id=1, sequence_id=number, num_messages=1, **ids)
    return client(send, entry=push_entry(metadata, b"x"))


def end(action, least=0):
    return pb.CommandEndTxn(request_id=2, txnid_most_bits=3, txnid_least_bits=least, txn_action=action, scalable=True)


def test_the_coordinators_are_named(client):
    snapshot = client.one(pb.CommandWatchTcAssignments(watch_id=1)).snapshot
    assert (snapshot.parallelism, [one.tc_id for one in snapshot.assignments]) == (16, list(range(16)))
    assert not client.one(pb.CommandTcClientConnectRequest(request_id=1, tc_id=15, scalable=True)).HasField("error")
    refused = client.one(pb.CommandTcClientConnectRequest(request_id=1, tc_id=16, scalable=True))
    assert refused.error == pb.ServiceNotReady


def test_there_are_no_coordinators_without_transactions(make_world):
    update = make_world(version="5.0.1").client().one(pb.CommandWatchTcAssignments(watch_id=1))
    assert (update.error, update.message) == (pb.ServiceNotReady, "Transaction coordinator not ready")


def test_ids_count_up_for_each_coordinator(client):
    assert [new(client), new(client), new(client, 99)] == [0, 1, 0]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (pb.COMMIT, pb.ABORT, "Transaction (3,0) is COMMITTED, cannot transition to ABORTED"),
        (pb.ABORT, pb.COMMIT, "Transaction (3,0) is ABORTED, cannot transition to COMMITTED"),
    ],
)
def test_an_end_can_be_repeated_but_not_changed(client, first, second, text):
    new(client)
    for _ in range(2):
        assert not client.one(end(first)).HasField("error")
    refused = client.one(end(second))
    assert (refused.error, refused.message) == (pb.InvalidTxnStatus, text)
    late = pb.CommandAddPartitionToTxn(request_id=4, txnid_most_bits=3, partitions=[SEGMENT], scalable=True)
    assert not client.one(late).HasField("error")


def test_a_repeated_commit_applies_the_acknowledgements_after_the_first(client):
    new(client)
    client.producer(SEGMENT)
    client.subscribe(SEGMENT, subType=pb.CommandSubscribe.Exclusive)
    client.flow()
    [message] = [one for one in publish(client, 0, in_transaction=False) if isinstance(one, pb.CommandMessage)]
    client(end(pb.COMMIT))
    place, ids = message.message_id, {"txnid_most_bits": 3, "txnid_least_bits": 0}
    client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Cumulative, message_id=[place], **ids))
    client(end(pb.COMMIT))
    refused = client.one(
        pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Cumulative, message_id=[place], request_id=5, **ids)
    )
    assert "within range of cursor's markDeletePosition" in refused.message


def test_an_abort_on_a_sealed_segment_ends_it_twice(world, client):
    """The acknowledgement of the aborted message, and the read after it, also if an earlier read waited for the end."""
    new(client)
    client.producer(SEGMENT)
    client.subscribe(SEGMENT, subType=pb.CommandSubscribe.Exclusive)
    publish(client, 0)
    world.broker.topics[SEGMENT].terminate()
    client.flow()
    told = client(end(pb.ABORT))
    assert sum(isinstance(one, pb.CommandReachedEndOfTopic) for one in told) == 2


def test_an_unknown_transaction(client):
    refused = client.one(end(pb.COMMIT, 999))
    text = "Client (null) is neither the owner of the transaction (3,999) nor a super user"
    assert (refused.error, refused.message) == (pb.TransactionNotFound, text)


@pytest.mark.parametrize(("action", "expected"), [(pb.COMMIT, [0, 1]), (pb.ABORT, [1])])
def test_messages_wait_for_the_end_and_no_marker_is_stored(client, action, expected):
    new(client)
    client.producer(SEGMENT)
    client.subscribe(SEGMENT)
    client.flow()
    publish(client, 0)
    publish(client, 1, in_transaction=False)
    assert client.hear() == []
    found = [body for body in client(end(action)) if isinstance(body, pb.CommandMessage)]
    assert [one.message_id.entryId for one in found] == expected
    assert publish(client, 2, in_transaction=False)[0].message_id.entryId == 2


@pytest.mark.parametrize(("action", "status"), [(pb.COMMIT, "COMMITTED"), (pb.ABORT, "ABORTED")])
def test_a_send_after_the_end_is_refused(client, action, status):
    new(client)
    client.producer(SEGMENT)
    client(end(action))
    [refused] = publish(client, 0)
    assert refused.error == pb.NotAllowedError
    assert refused.message == f"Transaction (3,0) is already {status} — TxnConflict"


def test_messages_on_a_classic_topic_stay_invisible(client):
    """A commit succeeds, but does not reach the classic topic, as on the real broker."""
    new(client)
    client.producer("persistent://public/default/classic")
    client.subscribe("persistent://public/default/classic")
    client.flow()
    publish(client, 0)
    [answer] = client(end(pb.COMMIT))
    assert not answer.HasField("error")


def test_a_sweep_aborts_expired_transactions(world, client):
    new(client)
    client.producer(SEGMENT)
    publish(client, 0)
    world.wait(59_999)
    assert world.broker.scalable_transactions.known_store(3).metas[0].status.name == "OPEN"
    world.wait(1)
    assert client.one(end(pb.COMMIT)).error == pb.InvalidTxnStatus


def test_ended_transactions_are_forgotten_after_the_retention_time(world, client):
    new(client)
    client(end(pb.COMMIT))
    world.wait(899_000)
    assert not client.one(end(pb.COMMIT)).HasField("error")
    world.wait(301_000)
    assert client.one(end(pb.COMMIT)).error == pb.TransactionNotFound
