"""Rule transaction-open: transactions that were not ended."""

import pytest

from pcli.codec.observe.tracking.records.connection_records import TransactionRecord


@pytest.fixture
def transaction(ns):
    """A transaction that began in frame 5 at 1 s, with a timeout of 3 s."""

    def make(**fields):
        made = TransactionRecord((1, 4), 0, ns(1), 5, timeout_ms=3_000, sent=2)
        for field, value in fields.items():
            setattr(made, field, value)
        return made

    return make


def test_older_than_its_timeout(evaluate, transaction):
    [found] = evaluate("transaction-open", transaction(), now=5)
    assert (found.variant, found.severity, found.culprit, found.certainty) == ("open", "error", "application", "likely")
    assert evaluate("transaction-open", transaction(), now=3) == []
    [found] = evaluate("transaction-open", transaction(doubts={"gap"}), now=5)
    assert found.certainty == "possible"


def test_the_coordinator_ended_it(evaluate, transaction, ns):
    one = transaction(action="ABORT", ended_by="coordinator", ended_ns=ns(4), ended_frame=9)
    [found] = evaluate("transaction-open", one)
    assert (found.variant, found.certainty, found.frames) == ("timed-out", "certain", [5, 9])


@pytest.mark.parametrize(("action", "by"), [("COMMIT", "client"), ("ABORT", "client"), ("COMMIT", "coordinator")])
def test_an_ended_transaction(evaluate, transaction, ns, action, by):
    assert evaluate("transaction-open", transaction(action=action, ended_by=by, ended_ns=ns(5)), now=60) == []


def test_its_client_disconnected(evaluate, transaction, ns):
    [found] = evaluate("transaction-open", transaction(left_ns=ns(2)), now=3)
    assert (found.variant, found.severity) == ("client-gone", "warning")
    assert evaluate("transaction-open", transaction(left_ns=ns(2), doubts={"one_way"}), now=3) == []


def test_no_response_to_end_txn(evaluate, transaction, ns):
    one = transaction(end_asked_frame=8, end_asked_ns=ns(2))
    [found] = evaluate("transaction-open", one, now=13)
    assert (found.variant, found.culprit) == ("unanswered", "broker")
    assert evaluate("transaction-open", one, now=11) == []


def test_captures(diagnosed):
    found = diagnosed("java/txn-timeout", "transaction-open")
    assert {(one.variant, one.subject["transaction"]) for one in found} == {
        ("timed-out", "0:3"),
        ("client-gone", "0:4"),
    }
    for name in ("java/txn-commit", "java/txn-abort", "java/txn-conflict", "go/transaction"):
        assert diagnosed(name, "transaction-open") == []
