"""Transactions of a topic: what tests/conform does not show."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb

OLD = (9, 1)
NEW = (9, 5)


def test_consumers_of_all_types_stop_before_an_open_transaction(scene):
    txn = scene.begin()
    scene.add_topic(txn)
    scene.publish("before")
    scene.publish("open", txn)
    scene.publish("behind")
    for number, kind in enumerate(["Exclusive", "Shared", "Key_Shared", "Failover"]):
        assert scene.subscribe(kind, number) == (["before"] if kind != "Failover" else [])
        scene.consumer(pb.CommandUnsubscribe(consumer_id=number))


def test_an_exclusive_consumer_consumes_at_reads_without_messages(scene):
    """A read that ends before an open transaction, and one that returns aborted messages, but not one at the end."""
    scene.subscribe("Exclusive")
    [consumer] = scene.subscription.consumers
    txn = scene.begin()
    scene.add_topic(txn)
    assert consumer.last_consumed == 0
    scene.publish("open", txn)
    assert consumer.last_consumed == scene.world.now
    scene.world.wait(1)
    scene.end(txn, pb.ABORT)
    assert (consumer.last_consumed, scene.received()) == (scene.world.now, [])


def test_a_read_does_not_pass_the_max_read_position_after_acknowledged_entries(scene):
    ids = [scene.publish(text) for text in ("m0", "m1", "m2")]
    txn = scene.begin()
    scene.add_topic(txn)
    scene.subscribe("Exclusive")
    scene.ack(ids[1])
    scene.publish("open", txn)
    scene.publish("behind")
    scene.consumer(pb.CommandCloseConsumer(consumer_id=1))
    assert scene.subscribe("Exclusive", 2) == ["m0", "m2"]
    scene.end(txn)
    assert scene.received() == ["open", "behind"]


def test_aborted_messages_are_acknowledged(scene):
    txn = scene.begin()
    scene.add_topic(txn)
    scene.subscribe()
    scene.publish("t0", txn)
    scene.end(txn, pb.ABORT)
    assert scene.subscription.backlog == 0
    assert scene.topic.ledger.next == 2


def test_an_aborted_transaction_is_forgotten_with_the_ledger_of_its_marker(scene):
    buffer = scene.topic.open_transaction_buffer()
    scene.publish("t0", OLD)
    buffer.abort(OLD, 0, 0)
    scene.topic.unload()
    scene.topic.trim()
    buffer.commit(NEW, 0, 0)
    assert buffer.aborted == {}


def test_an_unload_forgets_low_water_marks_and_counters(scene):
    buffer = scene.topic.open_transaction_buffer()
    scene.publish("t0", NEW)
    buffer.commit(NEW, 4, 0)
    assert scene.publish("late", OLD).error == pb.NotAllowedError
    scene.topic.unload()
    assert (buffer.committed_count, buffer.low_water_marks) == (0, {})


def test_the_index_counts_entries_of_transactions_and_markers(make_scene):
    index = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
    scene = make_scene(brokerEntryMetadataInterceptors=[index])
    scene.publish("plain")
    scene.publish("t0", OLD)
    scene.topic.end_transaction(OLD, 0, commit=True)
    scene.publish("plain")
    entries = [scene.topic.ledger.entry(offset) for offset in range(4)]
    for entry in entries:
        entry.parse()
    assert [pb.BrokerEntryMetadata.FromString(entry.data[6 : entry.block]).index for entry in entries] == [0, 1, 2, 3]
    assert [entry.marker for entry in entries] == [False, False, True, False]


@pytest.mark.parametrize("topic", ["persistent://pulsar/system/x", "persistent://public/default/__change_events"])
def test_system_topics_have_no_transactions(scene, topic):
    client = scene.world.client()
    client.producer(topic)
    fields = {"txnid_most_bits": 0, "txnid_least_bits": 1}
    [answer] = client.publish(**fields)
    assert answer.error == pb.NotAllowedError
