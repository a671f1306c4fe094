"""Findings about scalable topics: conversations of V5 clients with a controller, each beside a near miss."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.scalable.routing import key_hashes
from pcli.codec.wire.build import push_entry

SECOND = 1_000_000_000
TOPIC = "topic://public/default/orders"


def test_a_lost_consumer_keeps_its_segments(topic):
    topic.layout()
    topic.register("s1", 0, stream=1)
    topic.register("s2", 1, stream=2)
    topic.subscribe("s2", 1, stream=2)
    topic.publish(1, 5)
    topic.lose(2)
    topic.wait(20)
    topic.layout()
    found = topic.found()["segment-unattended"]
    assert (found.severity, found.culprit) == ("warning", "application")
    assert found.subject == {"topic": TOPIC, "subscription": "st", "consumer": "s2"}
    assert "did not receive segment 1 for 20.0 s" in found.what
    assert "5 entries wait there" in found.what


def test_the_segments_of_a_lost_consumer_are_assigned_to_another(topic):
    topic.layout()
    topic.register("s1", 0, stream=1)
    topic.register("s2", 1, stream=2)
    topic.lose(2)
    topic.wait(60)
    topic.assign(0, 1, stream=1)
    found = topic.found()["segment-unattended"]
    assert found.severity == "note"
    assert f"for 60.0 s, until frame {len(topic.conversation.frames)}" in found.what


def test_the_children_of_a_segment_belong_to_a_lost_consumer(topic):
    topic.layout()
    topic.register("s1", 0, stream=1)
    topic.register("s2", 1, stream=2)
    topic.lose(2)
    left, right = topic.replace([0], (0, 16383), (16384, 32767))
    topic.layout()
    topic.assign(0, stream=1)
    topic.assign(left, stream=1)
    topic.wait(5)
    topic.layout()
    assert f"did not receive segments 1, {right} for" in topic.found()["segment-unattended"].what


def test_a_consumer_leaves_in_order_after_the_grace_period_of_another(topic):
    """Segment 0 was shared with the lost consumer, so that it was never without a consumer."""
    topic.layout()
    topic.register("s1", 0, stream=1)
    topic.register("s2", 0, stream=2)
    topic.register("s3", 1, stream=3)
    topic.lose(2)
    topic.wait(60)
    topic.assign(0, stream=1)
    topic.wait(20)
    topic.client(pb.CommandScalableTopicUnsubscribe(request_id=77, consumer_id=0), 1)
    topic.wait(5)
    topic.layout()
    assert "segment-unattended" not in topic.found()


@pytest.mark.parametrize("leave", ["unsubscribe", "register again"])
def test_a_consumer_that_leaves_in_order_or_returns_at_once(topic, leave):
    topic.layout()
    topic.register("s1", 0, stream=1)
    topic.register("s2", 1, stream=2)
    if leave == "unsubscribe":
        topic.client(pb.CommandScalableTopicUnsubscribe(request_id=77, consumer_id=0), 2)
        topic.assign(0, 1, stream=1)
        topic.lose(2)
    else:
        topic.lose(2)
        topic.register("s2", 1, stream=3)
    topic.wait(30)
    topic.layout()
    assert "segment-unattended" not in topic.found()


def hand_over(topic, seconds, *, busy=1):
    """Register s1 with both segments, then s2 with the second one, which s1 keeps for some seconds."""
    topic.layout()
    topic.register("s1", 0, 1, stream=1)
    topic.subscribe("s1", 1, stream=1)
    topic.register("s2", 1, stream=2)
    topic.assign(0, stream=1)
    for _ in range(busy):
        topic.subscribe("s2", 1, stream=2, busy=True)
        topic.wait(seconds / max(busy, 1))


def test_a_consumer_that_does_not_release_a_segment(topic):
    hand_over(topic, 8, busy=4)
    topic.layout()
    found = topic.found()
    assert found["segment-not-released"].severity == "error"
    assert (
        "consumer s1 kept it for 8.0 s: the SUBSCRIBE of s2 was refused 4 times" in found["segment-not-released"].what
    )
    assert found["subscribe-refused"].severity == "note"


def test_a_consumer_that_releases_a_segment_late(topic):
    hand_over(topic, 8, busy=4)
    topic.client(pb.CommandCloseConsumer(consumer_id=2, request_id=50), 1)
    topic.subscribe("s2", 1, stream=2)
    assert topic.found()["segment-not-released"].severity == "warning"


def test_a_hand_over_that_waits_for_a_consumer_that_hangs(topic):
    hand_over(topic, 0, busy=0)
    name = topic.name(1)
    request = pb.CommandSubscribe(
        topic=name, subscription="st", subType=pb.CommandSubscribe.Exclusive, consumer_id=2, request_id=900,
        consumer_name="s2-seg-1",
    )  # fmt: skip
    topic.client(request, 2)
    topic.wait(5.1)
    topic.lose(1)
    topic.broker(pb.CommandSuccess(request_id=900), 2)
    found = topic.found()["segment-not-released"]
    assert found.severity == "warning"
    assert "consumer s1 kept it for 5.1 s: the SUBSCRIBE of s2 was answered after 5.1 s." in found.what


def test_an_ordinary_hand_over(topic):
    hand_over(topic, 0.1)
    topic.client(pb.CommandCloseConsumer(consumer_id=2, request_id=50), 1)
    topic.broker(pb.CommandSuccess(request_id=50), 1)
    topic.subscribe("s2", 1, stream=2)
    topic.wait(30)
    topic.layout()
    assert {rule: one.severity for rule, one in topic.found().items()} == {"subscribe-refused": "note"}


def redelivered_by_a_close(topic):
    """Let s1 close its consumer of segment 1 with two unacknowledged messages, which s2 receives."""
    topic.deliver(1, 2, stream=1)
    topic.client(pb.CommandCloseConsumer(consumer_id=2, request_id=50), 1)
    topic.broker(pb.CommandSuccess(request_id=50), 1)
    topic.subscribe("s2", 1, stream=2)
    topic.deliver(1, 2, stream=2)
    return topic.found()["redelivered-after-reconnect"]


def test_redeliveries_after_a_hand_over(topic):
    hand_over(topic, 0.1)
    found = redelivered_by_a_close(topic)
    assert (found.culprit, found.cause_certainty) == ("broker", "likely")


def test_redeliveries_after_a_consumer_that_left(topic):
    topic.layout()
    topic.register("s1", 0, 1, stream=1)
    topic.subscribe("s1", 1, stream=1)
    topic.client(pb.CommandScalableTopicUnsubscribe(request_id=49, consumer_id=0), 1)
    topic.register("s2", 0, 1, stream=2)
    assert redelivered_by_a_close(topic).culprit == "application"


def test_a_refused_consumer_of_another_client_is_an_error(topic):
    topic.layout()
    body = pb.CommandSubscribe(
        topic=topic.name(1), subscription="st", subType=pb.CommandSubscribe.Exclusive, consumer_id=1, request_id=1,
        consumer_name="raw",
    )  # fmt: skip
    topic.client(body, 2)
    topic.broker(pb.CommandError(request_id=1, error=pb.ConsumerBusy, message="Exclusive consumer is connected"), 2)
    assert topic.found()["subscribe-refused"].severity == "error"


def test_a_stream_consumer_on_a_subscription_of_queue_consumers_is_an_error(topic):
    topic.layout()
    topic.register("s1", 0, 1, stream=1)
    body = pb.CommandSubscribe(
        topic=topic.name(1), subscription="st", subType=pb.CommandSubscribe.Exclusive, consumer_id=9, request_id=90,
        consumer_name="s1-seg-1",
    )  # fmt: skip
    topic.client(body, 1)
    text = (
        "Subscription is of different type. Active subscription type of 'Shared' is different than the connecting "
        "consumer's type 'Exclusive'."
    )
    topic.broker(pb.CommandError(request_id=90, error=pb.ConsumerBusy, message=text), 1)
    assert topic.found()["subscribe-refused"].severity == "error"


def drain(topic, entries_acked, seconds=20):
    topic.layout()
    topic.register("s1", 0, 1, stream=1)
    topic.subscribe("s1", 0, stream=1)
    topic.publish(0, 3)
    topic.deliver(0, 3, stream=1)
    topic.replace([0], (0, 16383), (16384, 32767))
    topic.layout()
    topic.assign(0, 1, stream=1)
    if entries_acked:
        place = pb.MessageIdData(ledgerId=100, entryId=entries_acked - 1)
        topic.client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Cumulative, message_id=[place]), 1)
    topic.wait(seconds)
    topic.layout()


def test_children_wait_for_a_parent_that_is_not_acknowledged(topic):
    drain(topic, 1)
    found = topic.found()["parent-not-drained"]
    assert found.severity == "warning"
    assert found.what.startswith("Segments 2, 3 of scalable topic orders wait for their parent. Segment 0 was sealed")
    assert "subscription st has not acknowledged 2 entries of it; s1-seg-0 holds 2 messages" in found.what


def test_children_wait_until_the_consumer_leaves(topic):
    drain(topic, 1)
    topic.client(pb.CommandScalableTopicUnsubscribe(request_id=77, consumer_id=0), 1)
    topic.client(pb.CommandCloseConsumer(consumer_id=1, request_id=78), 1)
    topic.broker(pb.CommandSuccess(request_id=78), 1)
    found = topic.found()["parent-not-drained"]
    assert "subscription st has not acknowledged 2 entries of it; s1-seg-0 left 2 messages" in found.what


def test_a_consumer_that_leaves_soon_after_a_split(topic):
    drain(topic, 1, seconds=3)
    topic.client(pb.CommandScalableTopicUnsubscribe(request_id=77, consumer_id=0), 1)
    topic.wait(20)
    topic.layout()
    assert "parent-not-drained" not in topic.found()


def test_a_drained_parent(topic):
    drain(topic, 3)
    assert "parent-not-drained" not in topic.found()


def test_a_session_without_the_new_layout(topic):
    topic.layout(session=1)
    topic.layout(session=2, stream=1)
    topic.replace([0], (0, 16383), (16384, 32767))
    topic.layout(session=1)
    topic.wait(15)
    topic.client(pb.CommandPing(), 1)
    found = topic.found()["stale-layout"]
    assert found.subject == {"topic": TOPIC, "stream": 1, "session": 2}
    assert "still has epoch 0 15.0 s after another session received epoch 1" in found.what


@pytest.mark.parametrize("event", ["update", "close", "lost"])
def test_a_session_that_ends_or_receives_the_layout_in_time(topic, event):
    topic.layout(session=1)
    topic.layout(session=2, stream=1)
    topic.replace([0], (0, 16383), (16384, 32767))
    topic.layout(session=1)
    if event == "update":
        topic.layout(session=2, stream=1)
    elif event == "close":
        topic.client(pb.CommandScalableTopicClose(session_id=2), 1)
    else:
        topic.lose(1)
    topic.wait(15)
    topic.client(pb.CommandPing(), 2)
    assert "stale-layout" not in topic.found()


def swing(topic, seconds):
    topic.layout()
    children = topic.replace([0], (0, 16383), (16384, 32767))
    topic.layout()
    topic.wait(seconds)
    whole = topic.replace(children, (0, 32767))
    topic.layout()
    return whole


def test_a_layout_that_swings(topic):
    [whole] = swing(topic, 30)
    assert topic.found()["layout-swings"].severity == "note"
    assert whole == 4


def test_a_layout_that_swings_twice(topic):
    [whole] = swing(topic, 30)
    topic.replace([whole], (0, 16383), (16384, 32767))
    topic.layout()
    found = topic.found()["layout-swings"]
    assert (found.severity, found.count) == ("warning", 2)
    assert "first split 0 → 2, 3 (frame 2), then merge 2, 3 → 4 (frame 3) after 30.0 s" in found.what


def test_a_layout_that_changes_back_after_hours(topic):
    swing(topic, 7200)
    assert "layout-swings" not in topic.found()


@pytest.mark.parametrize(
    ("controller", "seconds", "found"), [("", 90, True), ("", 20, False), ("pulsar://b", 90, False)]
)
def test_a_topic_without_a_controller(topic, controller, seconds, found):
    topic.layout(controller=controller)
    topic.wait(seconds)
    topic.layout(controller=controller)
    assert ("no-controller" in topic.found()) == found


def test_a_segment_with_most_messages(topic):
    topic.layout()
    topic.publish(0, 950)
    topic.publish(1, 60)
    found = topic.found()["skewed-segments"]
    assert "Segment 0 of scalable topic orders received 950 of 1010 messages (94 %)" in found.what


def test_segments_with_similar_loads(topic):
    topic.layout()
    topic.publish(0, 600)
    topic.publish(1, 600)
    assert "skewed-segments" not in topic.found()


def test_a_producer_of_the_topic_itself(topic):
    topic.client(pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=1))
    topic.broker(pb.CommandProducerSuccess(request_id=1, producer_name="old", last_sequence_id=-1))
    found = topic.found()["scalable-name-as-topic"]
    assert found.severity == "warning"
    assert found.what.startswith("1 producer opened topic://public/default/orders as an ordinary topic")


def test_a_refused_producer_of_the_topic_itself(topic):
    topic.client(pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=1))
    topic.broker(pb.CommandError(request_id=1, error=pb.InvalidTopicName, message="no"))
    assert "scalable-name-as-topic" not in topic.found()


def send(topic, number, sequence, payload=b"hello", **metadata):
    fields = pb.MessageMetadata(producer_name=f"p-{number}", sequence_id=sequence, publish_time=1, **metadata)
    topic.client(pb.CommandSend(producer_id=number, sequence_id=sequence), 9, push_entry(fields, payload))


def place(number, entry):
    return pb.MessageIdData(ledgerId=100 + number, entryId=entry)


@pytest.mark.parametrize(("low", "high", "found"), [(100, 16383, False), (16383, 16384, True), (0, 65535, True)])
def test_an_entry_with_hashes_of_two_buckets(topic, low, high, found):
    topic.segments[0].entry_bucket_splits.extend([16384])
    topic.layout()
    topic.publish(0, 0)
    send(topic, 0, 0, entry_hash_min=low, entry_hash_max=high)
    findings = topic.found()
    assert ("entry-in-two-buckets" in findings) == found
    if found:
        assert f"first {low} to {high} (frame" in findings["entry-in-two-buckets"].what


@pytest.mark.parametrize(("key", "number"), [("a", 0), ("a", 1), ("k14", 0), ("k14", 1)])
def test_the_segment_of_a_key(topic, key, number):
    topic.layout()
    topic.publish(number, 0)
    high, low = key_hashes(key.encode())
    send(topic, number, 0, partition_key=key, entry_hash_min=low, entry_hash_max=low)
    wrong = high // 32768 != number
    assert ("key-in-wrong-segment" in topic.found()) == wrong


def test_a_message_that_is_stored_in_parent_and_child(topic):
    topic.layout()
    topic.publish(0, 0)
    send(topic, 0, 0, b"1")
    topic.broker(pb.CommandCloseProducer(producer_id=0, request_id=2**64 - 1), 9)
    topic.broker(pb.CommandSendReceipt(producer_id=0, sequence_id=0, message_id=place(0, 0)), 9)
    topic.replace([0], (0, 16383), (16384, 32767))
    topic.layout()
    topic.publish(2, 0)
    send(topic, 2, 0, b"1")
    found = topic.found()["stored-in-two-segments"]
    assert (found.severity, found.count, found.subject["producer"]) == ("warning", 1, "p-0")


CLASSIC = "persistent://public/default/bills"


def transaction(topic, *topics, scalable=True, commit=True, timeout_ms=60_000):
    topic.client(pb.CommandNewTxn(request_id=1, tc_id=1, txn_ttl_millis=timeout_ms, scalable=scalable))
    number = {"txnid_least_bits": 5, "txnid_most_bits": 1}
    topic.broker(pb.CommandNewTxnResponse(request_id=1, **number))
    topic.client(pb.CommandAddPartitionToTxn(request_id=2, partitions=topics, scalable=scalable, **number))
    topic.broker(pb.CommandAddPartitionToTxnResponse(request_id=2, **number))
    if commit:
        topic.client(pb.CommandEndTxn(request_id=3, txn_action=pb.COMMIT, scalable=scalable, **number))
        topic.broker(pb.CommandEndTxnResponse(request_id=3, **number))


@pytest.mark.parametrize(("commit", "severity"), [(True, "error"), (False, "warning")])
def test_a_transaction_over_a_classic_topic(topic, commit, severity):
    transaction(topic, topic.name(0), CLASSIC, commit=commit)
    found = topic.found()["classic-topic-in-transaction"]
    assert (found.severity, found.certainty) == (severity, "likely")
    assert "the classic topic bills" in found.what


@pytest.mark.parametrize(("classic", "scalable"), [(False, True), (True, False)])
def test_a_transaction_over_segments_or_of_a_classic_client(topic, classic, scalable):
    transaction(topic, *([CLASSIC] if classic else [topic.name(0), topic.name(1)]), scalable=scalable)
    assert "classic-topic-in-transaction" not in topic.found()


@pytest.mark.parametrize(("scalable", "seconds", "found"), [(True, 30, False), (True, 70, True), (False, 30, True)])
def test_expired_transactions_of_v5_clients_are_swept_once_a_minute(topic, scalable, seconds, found):
    transaction(topic, topic.name(0), scalable=scalable, commit=False, timeout_ms=3_000)
    topic.wait(seconds)
    topic.layout()
    assert ("transaction-open" in topic.found()) == found
