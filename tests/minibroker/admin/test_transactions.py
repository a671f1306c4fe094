"""Endpoints of transactions. The values are those of a real 4.2.4 after the same commands."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

BASE = "/admin/v3/transactions"
T = "public/default/t"
TXN = {"txnid_most_bits": 0, "txnid_least_bits": 0}
PARTS = {"partitions": [f"persistent://{T}"]}
SUBSCRIPTIONS = {"subscription": [{"topic": f"persistent://{T}", "subscription": "sub"}]}


@pytest.fixture
def asked(make_rest):
    """Start a transaction with a message and with the first message of a batch of 4; return the REST client.

    The topic then contains: the batch, the message of the transaction, a plain message.
    """
    world, rest = make_rest(transactionCoordinatorEnabled=True)
    client, consumer = world.client(), world.client()
    client.look_up("persistent://pulsar/system/transaction_coordinator_assign-partition-0")
    client.one(pb.CommandTcClientConnectRequest(tc_id=0))
    client.one(pb.CommandNewTxn(txn_ttl_millis=60_000))
    client.producer(f"persistent://{T}")
    consumer.subscribe(f"persistent://{T}", subType=pb.CommandSubscribe.Shared)
    client.one(pb.CommandAddPartitionToTxn(**PARTS, **TXN))
    client.one(pb.CommandAddSubscriptionToTxn(**SUBSCRIPTIONS, **TXN))
    batch = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=4)
    client.one(pb.CommandSend(producer_id=1, sequence_id=0), entry=push_entry(batch, b""))
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, **TXN)
    client.one(pb.CommandSend(producer_id=1, sequence_id=1, **TXN), entry=push_entry(metadata, b"t0"))
    client.publish(sequence_id=2)
    place = pb.MessageIdData(ledgerId=0, entryId=0, ack_set=[0b1110], batch_size=4)
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[place], request_id=1, **TXN)
    assert not consumer.one(ack).HasField("error")
    rest.now = world.now
    return rest


def test_a_transaction(asked):
    opened = {
        "txnId": "(0,0)",
        "status": "OPEN",
        "openTimestamp": asked.now,
        "timeoutAt": 60_000,
        "producedPartitions": {f"persistent://{T}": {"startPosition": "0:1", "aborted": False}},
        "ackedPartitions": {f"persistent://{T}": {"sub": {}}},
    }
    assert asked("GET", f"{BASE}/transactionMetadata/0/0").json == opened
    assert asked("GET", f"{BASE}/slowTransactions/59999").json == {"(0,0)": opened}
    assert asked("GET", f"{BASE}/slowTransactions/60000?coordinatorId=0").json == {}
    for target, status in {"0/1": 404, "7/0": 404, "x/0": 500}.items():
        assert asked("GET", f"{BASE}/transactionMetadata/{target}").status == status


def test_coordinators(asked):
    times = {"recoverStartTime": asked.now, "recoverEndTime": asked.now}
    stats = {"state": "Ready", "leastSigBits": 0, "lowWaterMark": -1, "ongoingTxnSize": 1, **times}
    assert asked("GET", f"{BASE}/coordinators").json == [{"id": 0, "brokerServiceUrl": "pulsar://127.0.0.1:6650"}]
    assert asked("GET", f"{BASE}/coordinatorStats?coordinatorId=0").json == stats
    assert asked("GET", f"{BASE}/coordinatorStats").json == {"0": stats}
    assert asked("GET", f"{BASE}/coordinatorStats?coordinatorId=7").status == 404
    assert asked("POST", f"{BASE}/transactionCoordinator/replicas", 1).status == 406
    assert asked("POST", f"{BASE}/transactionCoordinator/replicas", 2).status == 204
    assert len(asked("GET", f"{BASE}/coordinators").json) == 2
    assert asked("GET", f"{BASE}/coordinatorStats").status == 500


def test_the_transactions_of_a_topic(asked):
    times = {"lastSnapshotTimestamps": asked.now, "recoverStartTime": asked.now, "recoverEndTime": asked.now}
    stats = {"state": "Ready", "ongoingTxnSize": 1, "totalAbortedTransactions": 0, "snapshotType": "Single", **times}
    assert asked("GET", f"{BASE}/transactionBufferStats/{T}").json == {**stats, "maxReadPosition": "0:0"}
    assert asked("POST", f"{BASE}/abortTransaction/0/0").status == 204
    assert asked("POST", f"{BASE}/abortTransaction/0/0").status == 500
    assert asked("GET", f"{BASE}/transactionInBufferStats/{T}/0/0").json == {"aborted": True}
    ended = {**stats, "ongoingTxnSize": 0, "totalAbortedTransactions": 1, "maxReadPosition": "0:3"}
    assert asked("GET", f"{BASE}/transactionBufferStats/{T}?lowWaterMarks=true").json == {
        **ended,
        "lowWaterMarks": {"0": -1},
    }


def test_a_topic_without_transactions(asked):
    asked("PUT", "/admin/v2/persistent/public/default/new")
    new = "public/default/new"
    stats = asked("GET", f"{BASE}/transactionBufferStats/{new}").json
    assert (stats["state"], stats["lastSnapshotTimestamps"]) == ("NoSnapshot", 0)
    assert asked("GET", f"{BASE}/transactionInBufferStats/{new}/0/0").json == {"aborted": False}
    assert asked("GET", f"{BASE}/transactionBufferStats/public/default/missing").status == 404


def test_pending_acknowledgements(asked):
    stats = asked("GET", f"{BASE}/pendingAckStats/{T}/sub?lowWaterMarks=true").json
    assert stats == {
        "state": "Ready",
        "lowWaterMarks": {},
        "ongoingTxnSize": 1,
        "recoverStartTime": asked.now,
        "recoverEndTime": asked.now,
    }
    positions = {
        "0/0": "PendingAck",
        "0/0?batchIndex=0": "PendingAck",
        "0/0?batchIndex=1": "NotInPendingAck",
        "0/0?batchIndex=9": "InvalidPosition",
        "0/5": "NotInPendingAck",
        "0/-1": "MarkDelete",
    }
    for place, state in positions.items():
        assert asked("GET", f"{BASE}/positionStatsInPendingAck/{T}/sub/{place}").json == {"state": state}
    assert asked("GET", f"{BASE}/transactionInPendingAckStats/{T}/missing/0/0").status == 500


def test_a_cumulative_acknowledgement(make_rest):
    world, rest = make_rest(transactionCoordinatorEnabled=True)
    client = world.client()
    client.producer(f"persistent://{T}")
    client.subscribe(f"persistent://{T}", consumer_id=2)
    assert rest("GET", f"{BASE}/pendingAckStats/{T}/sub").json["state"] == "None"
    state = rest("GET", f"{BASE}/positionStatsInPendingAck/{T}/sub/0/0").json
    assert state == {"state": "PendingAckNotReady"}
    client.publish()
    place = pb.MessageIdData(ledgerId=0, entryId=0, ack_set=[0b1100], batch_size=4)
    client.one(pb.CommandAck(consumer_id=2, ack_type=pb.CommandAck.Cumulative, message_id=[place], request_id=1, **TXN))
    stats = rest("GET", f"{BASE}/transactionInPendingAckStats/{T}/sub/0/0").json
    assert stats == {"cumulativeAckPosition": "0:0:1"}


def test_peeked_messages(asked):
    """The batch, the message of the open transaction, the plain message after it."""
    peeked = [asked("GET", f"/admin/v2/persistent/{T}/ledger/0/entry/{entry}").headers for entry in range(3)]
    assert [one["x-pulsar-txn-uncommitted"] for one in peeked] == ["false", "true", "true"]
    assert [one.get("x-pulsar-txn-aborted") for one in peeked] == [None, "false", None]


def test_an_unload_of_the_namespace_closes_the_coordinators(asked):
    assert asked("PUT", "/admin/v2/namespaces/public/default/unload").status == 204
    assert asked("GET", f"{BASE}/transactionMetadata/0/0").status == 200
    assert asked("PUT", "/admin/v2/namespaces/pulsar/system/unload").status == 204
    assert asked("GET", f"{BASE}/transactionMetadata/0/0").status == 404


def test_disabled_transactions(rest):
    answer = rest("GET", f"{BASE}/coordinators")
    assert answer.status == 503
    assert answer.json["reason"] == "This Broker is not configured with transactionCoordinatorEnabled=true."


def test_the_logs_of_transactions(asked):
    log = asked("GET", f"{BASE}/coordinatorInternalStats/0").json["transactionLogStats"]
    assert log["managedLedgerName"] == "pulsar/system/persistent/__transaction_log_0"
    assert log["managedLedgerInternalStats"]["entriesAddedCounter"] == 3
    assert list(log["managedLedgerInternalStats"]["cursors"]) == ["transaction.subscription"]
    acks = asked("GET", f"{BASE}/pendingAckInternalStats/{T}/sub").json["pendingAckLogStats"]
    assert acks["managedLedgerName"] == "public/default/persistent/t-sub__transaction_pending_ack"
    assert acks["managedLedgerInternalStats"]["numberOfEntries"] == 1
    buffer = asked("GET", f"{BASE}/transactionBufferInternalStats/{T}").json
    assert buffer["snapshotType"] == "Single"
    snapshots = buffer["singleSnapshotSystemTopicInternalStats"]
    assert snapshots["managedLedgerName"] == "__transaction_buffer_snapshot"
    assert list(snapshots["managedLedgerInternalStats"]["cursors"]) == ["__compaction"]


def test_errors_of_logs(asked):
    for path, reason in (
        ("coordinatorInternalStats/7", "Transaction coordinator not found! coordinator id : 7"),
        ("pendingAckInternalStats/public/default/zz/sub", "Topic not found persistent://public/default/zz"),
        (f"pendingAckInternalStats/{T}/zz", f"persistent://{T} not found subscription : zz"),
        ("transactionBufferInternalStats/public/default/zz", "Topic not found persistent://public/default/zz"),
    ):
        answer = asked("GET", f"{BASE}/{path}")
        assert (answer.status, answer.json) == (404, {"reason": reason})
    assert asked("PUT", f"/admin/v2/persistent/{T}/subscription/unused").status == 204
    answer = asked("GET", f"{BASE}/pendingAckInternalStats/{T}/unused")
    assert (answer.status, answer.json["reason"]) == (503, "Pending ack have not init success!")


def test_system_topics_are_listed_on_request(asked):
    system = [f"persistent://public/default/{name}" for name in ("__change_events", "__transaction_buffer_snapshot")]
    acks = f"persistent://{T}-sub__transaction_pending_ack"
    for path, internal in (("namespaces/public/default/topics", [acks]), ("persistent/public/default", [])):
        assert asked("GET", f"/admin/v2/{path}").json == [f"persistent://{T}"]
        listed = asked("GET", f"/admin/v2/{path}?includeSystemTopic=true").json
        assert listed == [*system, f"persistent://{T}", *internal]


@pytest.mark.parametrize(
    ("method", "target", "java"),
    [
        ("GET", f"pendingAckStats/{T}/none", "NullPointerException: Cannot invoke"),
        ("GET", f"transactionInPendingAckStats/{T}/none/0/0", "NullPointerException: Cannot invoke"),
        ("GET", f"positionStatsInPendingAck/{T}/none/0/0", 'PersistentTopic.getSubscription(String)\\" is null'),
        ("GET", f"transactionInBufferStats/{T}/x/0", 'NumberFormatException: For input string: \\"x\\"'),
        ("POST", "abortTransaction/7/0", "CoordinatorException$CoordinatorNotFoundException: Transaction coordinator"),
        ("POST", f"abortTransaction/{1 << 40}/0", "IllegalArgumentException: mostSigBits out of bounds"),
        ("GET", "slowTransactions/x", "HTTP ERROR 500 Request failed."),
    ],
)
def test_errors_contain_the_exception_of_the_real_broker(asked, method, target, java):
    answer = asked(method, f"{BASE}/{target}")
    assert (answer.status, java in answer.data.decode()) == (500, True)
