"""Transactions and their acknowledgements after a restart of a broker with durable storage."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from tests.minibroker.transactions.conftest import ABORT, COMMIT, Scene


@pytest.fixture
def world(make_world: Any) -> Any:
    return make_world(transactionCoordinatorEnabled=True)


def restart(scene: Scene) -> Scene:
    scene.world.restart(lazy=False)
    return Scene(scene.world)


@pytest.mark.parametrize(("action", "read"), [(COMMIT, ["a", "b"]), (ABORT, ["a"])])
def test_an_open_transaction_ends_after_a_restart(world: Any, action: Any, read: list[str]) -> None:
    scene = Scene(world)
    scene.publish("a")
    txn = scene.begin()
    scene.add_topic(txn)
    scene.publish("b", txn)
    scene = restart(scene)
    assert scene.subscribe() == ["a"]
    assert scene.end(txn, action) == 0
    assert scene.received() == read[1:]
    scene = restart(scene)
    assert scene.subscribe() == read


def test_ids_of_transactions_are_not_used_again(world: Any) -> None:
    scene = Scene(world)
    first = scene.begin()
    assert scene.end(first) == 0
    scene = restart(scene)
    assert scene.begin()[1] == first[1] + 1


def test_a_timeout_continues(world: Any) -> None:
    scene = Scene(world)
    txn = scene.begin(ttl=5000)
    scene.add_topic(txn)
    scene.publish("a", txn)
    scene = restart(scene)
    world.wait(6000)
    assert scene.end(txn) == pb.TransactionNotFound
    assert scene.subscribe() == []


def test_an_interrupted_end_continues(world: Any) -> None:
    scene = Scene(world)
    txn = scene.begin()
    scene.add_topic(txn)
    scene.publish("a", txn)
    world.broker.transactions._client = _Failing()
    assert scene.end(txn) is None
    scene = restart(scene)
    assert scene.subscribe() == ["a"]


class _Failing:
    """A client of transaction buffers whose topics are not available."""

    def end_on_topic(self, *_: Any, **__: Any) -> None:
        raise Refused(pb.ServiceNotReady, "")


@pytest.mark.parametrize(("action", "read"), [(COMMIT, []), (ABORT, ["a"])])
def test_acknowledgements_wait_for_the_end_after_a_restart(world: Any, action: Any, read: list[str]) -> None:
    scene = Scene(world)
    scene.subscribe()
    place = scene.publish("a")
    txn = scene.begin()
    scene.add_subscription(txn)
    assert scene.ack(place, txn) == 0
    scene = restart(scene)
    assert scene.subscribe() == []
    other = scene.begin()
    assert scene.ack(place, other) == pb.TransactionConflict
    assert scene.end(txn, action) == 0
    scene = restart(scene)
    assert scene.subscribe() == read


def test_a_cumulative_acknowledgement_waits_for_the_end(world: Any) -> None:
    scene = Scene(world)
    scene.subscribe("Exclusive")
    places = [scene.publish(text) for text in "abc"]
    txn = scene.begin()
    scene.add_subscription(txn)
    handle = pb.CommandAck(
        consumer_id=1,
        ack_type=pb.CommandAck.Cumulative,
        message_id=[places[1]],
        txnid_most_bits=txn[0],
        txnid_least_bits=txn[1],
        request_id=3,
    )
    scene.consumer(handle)
    scene = restart(scene)
    assert scene.end(txn) == 0
    assert scene.subscribe("Exclusive") == ["c"]


def test_ended_transactions_leave_no_documents(world: Any) -> None:
    scene = Scene(world)
    txn = scene.begin()
    scene.add_topic(txn)
    scene.publish("a", txn)
    assert scene.end(txn) == 0
    assert [path for path in world.database.texts if path.startswith("/transaction-coordinators/")] == [
        "/transaction-coordinators/0"
    ]
    assert "/transaction-buffers/public/default/persistent/t" in world.database.texts
    world.broker.delete_topic(scene.topic.name, force=True)
    world.write()
    assert not [path for path in world.database.texts if path.endswith("/persistent/t")]
