"""Coordinators: timeouts, limits, repeated ends, and restarts. Conversations with them are in tests/conform."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.transactions.metadata_store import TxnStatus


def metas(scene):
    return scene.world.broker.transactions.stores[0].metas


def test_the_timeout_aborts(scene):
    txn = scene.begin(ttl=5_000)
    scene.add_topic(txn)
    scene.publish("open", txn)
    scene.publish("plain")
    assert scene.subscribe() == []
    scene.world.wait(4_999)
    assert scene.received() == []
    scene.world.wait(1)
    assert scene.received() == ["plain"]
    assert scene.end(txn) == pb.TransactionNotFound


def test_an_ended_transaction_has_no_timer(scene):
    deadline = scene.world.broker.deadline
    scene.end(scene.begin(ttl=5_000))
    assert scene.world.broker.deadline == deadline


@pytest.mark.parametrize("ttl", [99, 0, 1 << 63])
def test_a_short_timeout_ends_the_transaction_at_once(scene, ttl):
    """The timeout is a signed number."""
    assert scene.end(scene.begin(ttl=ttl)) == pb.TransactionNotFound


def test_the_limit_of_active_transactions(make_scene):
    scene = make_scene(maxActiveTransactionsPerCoordinator=1)
    txn = scene.begin()
    assert scene.coordinator(pb.CommandNewTxn(txn_ttl_millis=1000)) == []
    scene.end(txn)
    assert scene.begin() == (0, 1)


def test_the_bundle_of_a_coordinator_must_be_served(make_world):
    client = make_world(transactionCoordinatorEnabled=True).client()
    assert client.one(pb.CommandTcClientConnectRequest(tc_id=0)).error == pb.ServiceNotReady


def test_an_end_is_repeated_until_the_marker_is_stored(scene):
    """A terminated topic accepts no marker. After it is deleted, nothing is left to end."""
    txn = scene.begin()
    scene.add_topic(txn)
    scene.publish("t0", txn)
    scene.topic.terminate()
    assert scene.end(txn) is None
    scene.world.wait(3_000)
    assert scene.coordinator.hear() == []
    assert scene.add_topic(txn).error == pb.InvalidTxnStatus
    assert scene.end(txn, pb.ABORT) == pb.InvalidTxnStatus
    scene.world.broker.delete_topic(scene.topic.name, force=True)
    scene.world.wait(1_000)
    [answer] = scene.coordinator.hear()
    assert not answer.HasField("error")
    assert not metas(scene)


def test_an_invalid_topic_name(scene):
    txn = scene.begin()
    assert not scene.add_topic(txn, "a/b").HasField("error")
    assert scene.end(txn) == pb.UnknownError
    assert metas(scene)[txn[1]].status is TxnStatus.COMMITTING


def test_a_restart_keeps_transactions_and_timeouts(scene):
    txn, ended = scene.begin(ttl=5_000), scene.begin()
    scene.end(ended)
    scene.add_topic(txn)
    scene.publish("open", txn)
    scene.publish("plain")
    scene.subscribe()
    scene.world.broker.transactions.close([0])
    scene.world.wait(10_000)
    assert scene.end(txn) == pb.TransactionCoordinatorNotFound
    assert scene.received() == []
    scene.connect(0)
    scene.world.wait(1)
    assert scene.received() == ["plain"]
    assert scene.begin() == (0, 2)


def test_a_restart_continues_an_end(scene):
    txn = scene.begin()
    scene.add_topic(txn)
    scene.publish("t0", txn)
    scene.topic.terminate()
    scene.end(txn)
    scene.world.broker.transactions.close([0])
    scene.world.broker.delete_topic(scene.topic.name, force=True)
    scene.connect(0)
    assert not metas(scene)


def test_the_low_water_mark(scene):
    store = scene.world.broker.transactions.stores[0]
    assert store.low_water_mark == 0
    txns = [scene.begin() for _ in range(3)]
    marks = [store.low_water_mark]
    for txn in (txns[1], txns[0]):
        scene.end(txn)
        marks.append(store.low_water_mark)
    assert marks == [-1, -1, 1]
