"""Consumers that never receive a message: a silent dispatcher, an open transaction, or nothing to receive."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb

KINDS = ["Exclusive", "Failover", "Shared", "Key_Shared"]
RULES = ("dispatcher-silent", "stuck-open-transaction")


def subscribe(client: Any, kind: str, *, count: int = 1, position: str = "Latest") -> None:
    for consumer_id in range(1, count + 1):
        client.subscribe(
            consumer_id=consumer_id, kind=kind, initialPosition=pb.CommandSubscribe.InitialPosition.Value(position)
        )
        client.flow(consumer_id=consumer_id)


def end(scene: Any, client: Any, seconds: float = 10) -> None:
    scene.wait(round(seconds * 1000))
    client(pb.CommandPing())


def silent(scene: Any, *, earlier: int = 0, kind: str, count: int = 1, durable: bool = True) -> Any:
    """A client with permits, to whom the broker sends nothing although messages are stored."""
    client = scene.actor()
    client.producer()
    for number in range(earlier):
        client.publish(number)
    scene.fault("drop on pulsar.type == 'MESSAGE'")
    subscribe(client, kind, count=count)
    for number in range(earlier, earlier + 4):
        client.publish(number, partition_key=f"k{number}")
    end(scene, client)
    return client


def found(diagnose: Any, scene: Any) -> list[tuple[str, str]]:
    return [(one.rule, one.subject["consumer"]) for one in diagnose(scene).findings() if one.rule in RULES]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("earlier", [0, 3])
@pytest.mark.parametrize("count", [1, 2])
def test_the_broker_sends_nothing_at_all(make_scene, diagnose, kind, earlier, count):
    count = 1 if kind == "Exclusive" else count
    scene = make_scene()
    silent(scene, earlier=earlier, kind=kind, count=count)
    active = 1 if kind == "Failover" else count
    assert sorted(found(diagnose, scene)) == [("dispatcher-silent", f"c{number + 1}") for number in range(active)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_backlog_is_at_least_what_was_stored_since(make_scene, kind):
    """Messages before the subscription may or may not be in its backlog."""
    scene = make_scene()
    silent(scene, earlier=3, kind=kind)
    scene.finish()
    [(_, record)] = [one for one in scene.tracker.subscriptions.records() if one[0] == "subscription"]
    assert (record.backlog, record.backlog_least) == (None, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_stored_while_the_consumer_waits(make_scene, diagnose, kind):
    scene = make_scene()
    client = scene.actor()
    client.producer()
    for number in range(3):
        client.publish(number)
    subscribe(client, kind)
    end(scene, client)
    assert found(diagnose, scene) == []


@pytest.mark.parametrize("kind", KINDS)
def test_messages_in_flight_during_the_subscribe_may_precede_the_cursor(make_scene, diagnose, kind):
    """The receipts arrive after the response to SUBSCRIBE, but the SENDs were before it."""
    scene = make_scene()
    client = scene.actor()
    client.producer()
    scene.fault("delay ms=500 on pulsar.type == 'SEND_RECEIPT'")
    for number in range(3):
        client.publish(number)
    subscribe(client, kind)
    end(scene, client)
    assert found(diagnose, scene) == []


def test_a_seek_to_a_time_after_which_the_broker_sends_nothing(make_scene, diagnose):
    scene = make_scene()
    client = scene.actor()
    client.producer()
    subscribe(client, "Exclusive")
    scene.fault("drop on pulsar.type == 'MESSAGE'")
    client(pb.CommandSeek(consumer_id=1, request_id=8, message_publish_time=scene.now))
    client.subscribe(consumer_id=1)
    client.flow()
    client.publish(0)
    end(scene, client)
    assert found(diagnose, scene) == [("dispatcher-silent", "c1")]


def transact(client: Any, *, others: int = 3) -> str:
    """Publish a message in a transaction with a timeout of 5 s, and other messages; return the transaction's id."""
    client(pb.CommandLookupTopic(topic="persistent://pulsar/system/transaction_coordinator_assign-partition-0"))
    client(pb.CommandTcClientConnectRequest(request_id=69, tc_id=0))
    [opened] = client(pb.CommandNewTxn(request_id=70, tc_id=0, txn_ttl_millis=5_000))
    txn = {"txnid_least_bits": opened.txnid_least_bits, "txnid_most_bits": opened.txnid_most_bits}
    client(pb.CommandAddPartitionToTxn(request_id=71, partitions=["persistent://public/default/t"], **txn))
    client.publish(50, **txn)
    for number in range(51, 51 + others):
        client.publish(number)
    return f"{opened.txnid_most_bits}:{opened.txnid_least_bits}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("earlier", [0, 2])
def test_messages_behind_an_open_transaction(make_scene, diagnose, kind, earlier):
    scene = make_scene(transactionCoordinatorEnabled=True)
    client = scene.actor()
    client.producer()
    for number in range(earlier):
        client.publish(number)
    subscribe(client, kind, position="Earliest")
    transaction = transact(client)
    end(scene, client, seconds=4.5)
    [one] = [one for one in diagnose(scene).findings() if one.rule in RULES]
    assert (one.rule, one.subject["consumer"], one.subject["transaction"]) == (RULES[1], "c1", transaction)


def test_the_timeout_of_the_transaction_ends_the_wait(make_scene, diagnose):
    """The coordinator aborts the transaction without a frame; the deliveries show it."""
    scene = make_scene(transactionCoordinatorEnabled=True)
    client = scene.actor()
    client.producer()
    subscribe(client, "Exclusive", position="Earliest")
    transact(client)
    end(scene, client)
    [one] = [one for one in diagnose(scene).findings() if one.rule in RULES]
    assert (one.rule, one.severity) == (RULES[1], "note")
    assert "received nothing for 5.0 s" in one.what
    scene.finish()
    counts = scene.tracker.subscriptions.topic("persistent://public/default/t").messages
    assert (counts.aborted, counts.uncommitted) == (1, 0)


def test_a_transaction_without_later_messages_keeps_nobody_waiting(make_scene, diagnose):
    scene = make_scene(transactionCoordinatorEnabled=True)
    client = scene.actor()
    client.producer()
    subscribe(client, "Exclusive", position="Earliest")
    transact(client, others=0)
    end(scene, client)
    assert found(diagnose, scene) == []
