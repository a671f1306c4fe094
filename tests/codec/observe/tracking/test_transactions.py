"""NEW_TXN to END_TXN, and the coordinator on its own connection."""

import pytest

from pcli.codec.observe.tracking.transactions import MAX_TRANSACTIONS, Transactions
from pcli.codec.proto import pb

TXN = {"txnid_most_bits": 1, "txnid_least_bits": 4}


def begin(world, least=4, timeout=3_000, stream=0):
    world.client(pb.CommandNewTxn(request_id=least, txn_ttl_millis=timeout, tc_id=1), stream=stream)
    return world.broker(pb.CommandNewTxnResponse(request_id=least, txnid_most_bits=1, txnid_least_bits=least), stream)


def end(world, action="COMMIT", stream=0):
    action = pb.TxnAction.Value(action)
    return world.client(pb.CommandEndTxn(request_id=99, txn_action=action, **TXN), stream=stream)


def only(world):
    [record] = world.records("transaction")
    return record


def test_a_commit(producing):
    began = begin(producing)
    producing.opens()
    producing.client(pb.CommandAddPartitionToTxn(request_id=8, partitions=["t"], **TXN))
    producing.broker(pb.CommandAddPartitionToTxnResponse(request_id=8, **TXN))
    producing.sends(0, txn=(1, 4), messages=3)
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, **TXN)
    ack.message_id.add(ledgerId=1, entryId=1)
    ack.message_id.add(ledgerId=1, entryId=2)
    producing.client(ack)
    asked = end(producing)
    done = producing.broker(pb.CommandEndTxnResponse(request_id=99, **TXN))
    record = only(producing)
    assert (record.id, record.timeout_ms, record.began_frame, record.stream) == ((1, 4), 3_000, began, 0)
    assert (record.sent, record.acked) == (3, 2)
    assert (record.action, record.ended_by, record.ended_frame) == ("COMMIT", "client", done)
    assert (record.end_asked_frame, record.doubts) == (asked, set())


def test_an_abort_by_the_coordinator(producing):
    begin(producing)
    producing.wait(3)
    body = pb.CommandEndTxnOnPartition(request_id=1, topic="t", txn_action=pb.ABORT, **TXN)
    frame = producing.client(body, stream=9)
    record = only(producing)
    assert (record.action, record.ended_by, record.ended_frame) == ("ABORT", "coordinator", frame)


def test_the_coordinator_ends_it_for_the_client(producing):
    begin(producing)
    end(producing, "ABORT")
    producing.client(pb.CommandEndTxnOnPartition(request_id=1, topic="t", txn_action=pb.ABORT, **TXN), stream=9)
    assert only(producing).action == ""  # until the response
    producing.broker(pb.CommandEndTxnResponse(request_id=99, **TXN))
    assert (only(producing).action, only(producing).ended_by) == ("ABORT", "client")


def test_an_error(producing):
    begin(producing)
    end(producing)
    producing.broker(pb.CommandEndTxnResponse(request_id=99, error=pb.TransactionNotFound, **TXN))
    assert (only(producing).action, only(producing).error) == ("", "TransactionNotFound")


def test_a_refused_new_txn(producing):
    producing.client(pb.CommandNewTxn(request_id=4, tc_id=1))
    body = pb.CommandNewTxnResponse(request_id=4, error=pb.TransactionCoordinatorNotFound, txnid_most_bits=1)
    producing.broker(body)
    assert producing.records("transaction") == []


def test_its_client_disconnected(producing):
    begin(producing)
    producing.ends(0)
    assert only(producing).left_ns >= 0
    producing.finish()
    assert "end" in only(producing).doubts


def test_another_connection_of_the_client_ends_it(producing):
    begin(producing)
    producing.ends(0)
    end(producing, stream=1)
    producing.broker(pb.CommandEndTxnResponse(request_id=99, **TXN), stream=1)
    assert only(producing).action == "COMMIT"


def test_a_transaction_from_before_the_capture(producing):
    producing.opens()
    producing.sends(0, txn=(1, 4))
    assert (only(producing).began_frame, only(producing).doubts) == (0, {"start"})


def test_transactions_are_evicted(producing, monkeypatch):
    assert MAX_TRANSACTIONS > 3
    transactions = Transactions(
        producing.tracker.subscriptions, on_done=lambda *one: producing.done.append(one), limit=2
    )
    steps = producing.tracker.producers._steps
    monkeypatch.setattr(producing.tracker.producers, "_transactions", transactions)
    for kind, step in {51: transactions.response, 50: transactions.request}.items():
        monkeypatch.setitem(steps, kind, step)
    for least in (4, 5, 6):
        begin(producing, least)
    assert [one.id[1] for one in producing.records("transaction")] == [5, 6]
    [(group, gone)] = producing.done
    assert (group, gone.id, gone.doubts) == ("transaction", (1, 4), {"evicted"})


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        ("java/txn-commit", {("COMMIT", "client")}),
        ("java/txn-abort", {("ABORT", "client")}),
        ("java/txn-timeout", {("ABORT", "coordinator"), ("", "")}),
        ("go/transaction", {("COMMIT", "client"), ("ABORT", "client")}),
    ],
)
def test_captures(corpus, producing, name, ended):
    for facts in corpus.facts(name):
        producing.tracker.see(facts)
    assert {(one.action, one.ended_by) for one in producing.records("transaction")} == ended
