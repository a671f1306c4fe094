"""Consumers that never receive a message: a silent dispatcher, an open transaction, or nothing to receive."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import TCP
from scapy.utils import rdpcap, wrpcap

from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.tracking.tracker import process_events
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


def transact(client: Any, *, others: int = 3, timeout_s: int = 5) -> dict[str, int]:
    """Publish a message in a transaction, and other messages; return the transaction's id."""
    client(pb.CommandLookupTopic(topic="persistent://pulsar/system/transaction_coordinator_assign-partition-0"))
    client(pb.CommandTcClientConnectRequest(request_id=69, tc_id=0))
    [opened] = client(pb.CommandNewTxn(request_id=70, tc_id=0, txn_ttl_millis=timeout_s * 1000))
    txn = {"txnid_least_bits": opened.txnid_least_bits, "txnid_most_bits": opened.txnid_most_bits}
    client(pb.CommandAddPartitionToTxn(request_id=71, partitions=["persistent://public/default/t"], **txn))
    client.publish(50, **txn)
    for number in range(51, 51 + others):
        client.publish(number)
    return txn


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("earlier", [0, 2])
def test_messages_behind_an_open_transaction(make_scene, diagnose, kind, earlier):
    scene = make_scene(transactionCoordinatorEnabled=True)
    client = scene.actor()
    client.producer()
    for number in range(earlier):
        client.publish(number)
    subscribe(client, kind, position="Earliest")
    txn = transact(client)
    end(scene, client, seconds=4.5)
    transaction = f"{txn['txnid_most_bits']}:{txn['txnid_least_bits']}"
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


@pytest.mark.parametrize("action", ["COMMIT", "ABORT"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delay", [0, 60])
def test_the_wait_for_a_transaction_that_ends_is_no_silence(make_scene, diagnose, kind, action, delay):
    """The capture may end before the deliveries."""
    scene = make_scene(transactionCoordinatorEnabled=True)
    client = scene.actor()
    client.producer()
    subscribe(client, kind)
    scene.wait(1_500)
    txn = transact(client, timeout_s=120)
    scene.wait(20_000)
    if delay:
        scene.fault(f"delay ms={delay} on pulsar.type == 'MESSAGE'")
    client(pb.CommandEndTxn(request_id=72, txn_action=pb.TxnAction.Value(action), **txn))
    end(scene, client, seconds=0.05)
    assert found(diagnose, scene) == [("stuck-open-transaction", "c1")]


@pytest.mark.parametrize("kind", KINDS)
def test_silence_after_a_seek_back_to_acknowledged_messages(make_scene, diagnose, kind):
    scene = make_scene()
    client = scene.actor()
    client.producer()
    subscribe(client, kind)
    scene.wait(1_500)
    for number in range(3):
        client.publish(number)
    places = [one.message_id for one in client.messages]
    client.ack(*places)
    scene.fault("drop on pulsar.type == 'MESSAGE'")
    client(pb.CommandSeek(consumer_id=1, request_id=50, message_id=places[1]))
    subscribe(client, kind)
    end(scene, client)
    assert found(diagnose, scene) == [("dispatcher-silent", "c1")]


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_for_the_only_consumer_never_arrive(make_scene, diagnose, kind):
    scene = make_scene()
    client = scene.actor()
    client.producer()
    subscribe(client, kind)
    scene.wait(1_500)
    scene.fault("drop on pulsar.type == 'MESSAGE'")
    for number in range(3):
        client.publish(0, uuid="u", chunk_id=number, num_chunks_from_msg=3, total_chunk_msg_size=9, payload=b"abc")
    end(scene, client)
    assert found(diagnose, scene) == [("dispatcher-silent", "c1")]


def healthy(make_scene: Any, path: Path) -> list[Any]:
    """Packets of a producer, and of a consumer that subscribes at Latest after all SENDs."""
    scene = make_scene()
    producer = scene.actor()
    producer.producer()
    for number in range(3):
        producer.publish(number)
        scene.wait(1_000)
    consumer = scene.actor()
    subscribe(consumer, "Exclusive")
    scene.wait(20_000)
    producer(pb.CommandPing())
    consumer(pb.CommandPing())
    return list(rdpcap(str(scene.write(path))))


def silent_in(path: Path, *captures: list[Any]) -> list[str]:
    files = []
    for packets in captures:
        wrpcap(str(path), packets)
        files.append((path.name, io.BytesIO(path.read_bytes())))
    diagnosis = Diagnosis(RULES)
    process_events(read_capture(files, ReadOptions(ends=True)), diagnosis)
    return [one.rule for one in diagnosis.findings()]


def test_a_lost_packet_delays_the_frames_of_the_producer(make_scene, tmp_path):
    """The SENDs after the gap have higher frame numbers than the SUBSCRIBE."""
    packets = healthy(make_scene, tmp_path / "scene.pcapng")
    from_broker = [one for one in packets if one[TCP].dport == 40_000 and len(one[TCP].payload)]
    packets.remove(from_broker[1])
    assert silent_in(tmp_path / "scene.pcap", packets) == []


@pytest.mark.parametrize("order", [1, -1])
def test_the_captures_of_two_hosts(make_scene, tmp_path, order):
    packets = healthy(make_scene, tmp_path / "scene.pcapng")
    both = [[one for one in packets if port in (one[TCP].sport, one[TCP].dport)] for port in (40_000, 40_001)]
    assert silent_in(tmp_path / "scene.pcap", *both[::order]) == []
