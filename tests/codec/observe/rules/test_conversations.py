"""Rules without a capture in the corpus, tested on conversations with the mini-broker, with near misses of each.

The listed findings are all findings. Each conversation runs with several queue sizes and numbers of messages.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from pcli.codec.observe.tracking.subscriptions.key_order import slot_of_key
from pcli.codec.proto import pb


@pytest.fixture(params=[1, 3, 7], ids="{} times".format)
def by(request):
    """Factor by which the queue sizes and message counts in these tests are multiplied."""
    return request.param


@pytest.fixture
def causes_of(diagnose):
    """Return rule, cause and culprit of all findings of a scene except notes."""

    def of(scene: Any) -> set[tuple[str, str, str]]:
        found = diagnose(scene).findings()
        return {(one.rule, one.variant, one.culprit) for one in found if one.severity != "note"}

    return of


@pytest.fixture
def noted(diagnose):
    """Return rule and severity of all findings of a scene."""
    return lambda scene: {(one.rule, one.severity) for one in diagnose(scene).findings()}


@pytest.fixture
def sequence():
    """Yield unused sequence ids."""
    return count(0, 100)


def play(make_scene, *, queue=10, kind="Shared", **settings):
    """A client with a producer and a consumer with a queue."""
    scene = make_scene(**settings)
    client = scene.actor()
    client.producer()
    client.subscribe(kind=kind)
    client.flow(queue)
    return scene, client


@pytest.fixture
def take(sequence):
    """Deliver and acknowledge messages or batches until none arrives, and return ``give_back`` permits for each."""

    def some(scene, client, number, *, give_back, batch=0):
        for _ in range(number):
            had = len(client.messages)
            client.publish(next(sequence), batch=batch)
            scene.wait(20)
            if len(client.messages) == had:
                return
            client.ack(client.messages[-1].message_id)
            if give_back:
                client.flow(give_back)

    return some


def end(scene, client, seconds=3):
    """Let time pass with frames in the capture."""
    scene.wait(seconds * 1000)
    client(pb.CommandPing())
    return scene


def test_a_client_that_counts_a_batch_as_one(make_scene, causes_of, take, by):
    scene, client = play(make_scene, queue=10 * by)
    take(scene, client, 4 * by, give_back=1, batch=5)
    assert causes_of(end(scene, client)) == {
        ("permits-wrong-count", "batch-as-one", "client"),
        ("stuck-no-permits", "not-returned", "client"),
    }


def test_a_client_that_counts_batches_correctly(make_scene, causes_of, take, by):
    scene, client = play(make_scene, queue=10 * by)
    take(scene, client, 6 * by, give_back=5, batch=5)
    assert causes_of(end(scene, client)) == set()


def test_a_client_that_loses_permits(make_scene, causes_of, take, by):
    scene, client = play(make_scene, queue=10 * by)
    take(scene, client, 4 * by, give_back=0)
    take(scene, client, 4 * by, give_back=1)  # four permits are missing, then some more
    take(scene, client, 3 * by, give_back=0)
    take(scene, client, 2 * by, give_back=1)
    assert causes_of(end(scene, client)) == {("permits-leaked", "short", "client")}


def test_a_client_that_collects_half_a_queue(make_scene, causes_of, take, by):
    scene, client = play(make_scene, queue=10 * by)
    for _ in range(4):
        take(scene, client, 5 * by, give_back=0)
        client.flow(5 * by)
    assert causes_of(end(scene, client)) == set()


def test_the_whole_queue_is_requested_twice(make_scene, causes_of, take, by):
    scene, client = play(make_scene, queue=10 * by)
    client.flow(10 * by)
    take(scene, client, 3 * by, give_back=1)
    assert causes_of(end(scene, client)) == {("permits-doubled", "", "client")}


def test_a_wrong_checksum_costs_permits(make_scene, causes_of, take, by, sequence):
    scene, client = play(make_scene, queue=10 * by)
    scene.fault("corrupt times=1 on pulsar.type == 'MESSAGE'")
    client.publish(next(sequence), batch=3 * by)
    client.redeliver(client.messages[-1].message_id)
    client.ack(client.messages[-1].message_id)
    client.flow(1)
    take(scene, client, 2 * by, give_back=1)
    assert causes_of(end(scene, client)) == {
        ("permits-leaked", "checksum", "client"),
        ("wrong-crc", "message", "broker"),
    }


def test_subscribed_twice(make_scene, causes_of, take, by):
    scene, client = play(make_scene, queue=10 * by)
    client.subscribe(kind="Shared")
    take(scene, client, 3 * by, give_back=1)
    assert causes_of(end(scene, client)) == {("double-subscribe", "", "client")}


def test_closed_and_subscribed_again(make_scene, causes_of, take, by):
    scene, client = play(make_scene, queue=10 * by)
    client(pb.CommandCloseConsumer(consumer_id=1))
    client.subscribe(kind="Shared")
    client.flow(10 * by)
    take(scene, client, 3 * by, give_back=1)
    assert causes_of(end(scene, client)) == set()


def test_dense_negative_acks(make_scene, causes_of, by, sequence):
    scene, client = play(make_scene, queue=1000)
    for _ in range(20 * by):
        client.publish(next(sequence))
    for _ in range(8):
        places = [message.message_id for message in client.messages[-20 * by :]]
        scene.wait(50)
        client.redeliver(*places)
        client.flow(20 * by)
    assert causes_of(end(scene, client)) == {
        ("redelivery-storm", "", "application"),
        ("redelivered-after-nack", "nack", "application"),
        ("poison-message", "again-and-again", "application"),
        ("never-acked", "", "application"),
    }


def test_a_single_negative_ack(make_scene, causes_of, by, sequence):
    scene, client = play(make_scene, queue=1000)
    for _ in range(by):
        client.publish(next(sequence))
    scene.wait(50)
    client.redeliver(client.messages[0].message_id)
    client.ack(*[message.message_id for message in client.messages])
    assert causes_of(end(scene, client)) == set()


def test_an_ack_timeout_below_the_processing_time(make_scene, causes_of, by, sequence):
    scene, client = play(make_scene, queue=1000)
    for _ in range(4 * by):
        client.publish(next(sequence))
    for _ in range(2):
        places = [message.message_id for message in client.messages[-4 * by :]]
        scene.wait(2000)
        client.redeliver(*places)
    scene.wait(2500)
    client.ack(*[message.message_id for message in client.messages[-4 * by :]])
    often = {("redelivered-after-ack-timeout", "requested", "application")} if 8 * by >= 20 else set()
    assert causes_of(end(scene, client)) == {("ack-timeout-too-short", "", "application")} | often


@pytest.mark.parametrize("acks", [1, 2])
def test_processing_of_both_deliveries(make_scene, causes_of, by, sequence, acks):
    """The application acknowledges the first delivery after its redelivery, and then the second one."""
    scene, client = play(make_scene, queue=1000)
    for _ in range(4 * by):
        client.publish(next(sequence))
    places = [message.message_id for message in client.messages]
    for _ in range(2):
        scene.wait(2000)
        client.redeliver(*places)
    for _ in range(acks):
        scene.wait(200)
        client.ack(*places)
    cause = "ack_timeout" if acks == 2 else "requested"
    often = {("redelivered-after-ack-timeout", cause, "application")} if 8 * by >= 20 else set()
    found = {("ack-timeout-too-short", "", "application")} if acks == 2 else set()
    assert causes_of(end(scene, client)) == found | often


def test_an_ack_without_a_response(make_scene, causes_of, by, sequence):
    scene, client = play(make_scene)
    scene.fault("drop times=1 on pulsar.type == 'ACK_RESPONSE'")
    client.publish(next(sequence))
    client.ack(client.messages[0].message_id, request_id=77 * by)
    assert causes_of(end(scene, client)) == {("ack-lost", "unanswered", "broker")}


def test_an_ack_that_was_lost_with_its_connection(make_scene, causes_of, by, sequence):
    scene, client = play(make_scene)
    fault = scene.fault("drop times=1 on pulsar.type == 'ACK'")
    client.publish(next(sequence))
    scene.wait(100 * by)
    client.ack(client.messages[0].message_id)
    assert fault.fired == 1
    scene.wait(100)
    client.cut(reset=True)
    again = scene.actor()
    again.subscribe(kind="Shared")
    again.flow(10)
    again.ack(again.messages[0].message_id)
    assert causes_of(end(scene, again)) == {("ack-lost", "back-again-lost", "network")}


@pytest.mark.parametrize(("pause", "found"), [(2000, {("queue-of-one", "note")}), (20, set())])
def test_a_queue_of_one_with_long_processing(make_scene, noted, by, sequence, pause, found):
    scene, client = play(make_scene, queue=1)
    other = scene.actor()
    other.subscribe(kind="Shared", consumer_name="other")
    other.flow(1)
    for _ in range(5 * by):
        client.publish(next(sequence))
    taken = 0
    while len(client.messages) > taken or len(other.messages) < 1:
        client.flow(1)  # the application has taken a message: another one is delivered and waits
        scene.wait(pause)
        client.ack(client.messages[taken].message_id)
        taken += 1
    other.ack(other.messages[0].message_id)
    assert noted(end(scene, client)) == found | {("paused-client", "note")}  # the other consumer with its message


def test_a_message_delivered_twice_without_cause(make_scene, causes_of, take, by):
    scene, client = play(make_scene, queue=10 * by)
    take(scene, client, by, give_back=1)
    scene.fault("duplicate times=1 on pulsar.type == 'MESSAGE'")
    take(scene, client, by, give_back=1)
    assert causes_of(end(scene, client)) == {("redelivered-without-cause", "twice", "broker")}


@pytest.mark.parametrize(
    ("position", "found"), [("Latest", {("subscription-recreated", "error")}), ("Earliest", set())]
)
def test_a_subscription_is_removed_and_created_again(make_scene, diagnose, sequence, by, position, found):
    """The new subscription skips two unacknowledged messages and those stored in between, or receives all messages."""
    scene, client = play(make_scene)
    for _ in range(3):
        client.publish(next(sequence))
    client.ack(client.messages[0].message_id)
    client(pb.CommandUnsubscribe(consumer_id=1, request_id=5))
    for _ in range(by):
        client.publish(next(sequence))
    client.subscribe(kind="Shared", initialPosition=pb.CommandSubscribe.InitialPosition.Value(position))
    client.flow(100)
    client.publish(next(sequence))
    client.ack(*[one.message_id for one in client.messages])
    findings = [one for one in diagnose(end(scene, client)).findings() if one.rule == "subscription-recreated"]
    assert {(one.rule, one.severity) for one in findings} == found
    assert all(f"skipped {2 + by} messages" in one.what for one in findings)


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared", "Key_Shared"])
def test_messages_of_a_non_persistent_topic_are_dropped(make_scene, diagnose, by, kind):
    """One of two subscriptions has no permits for some messages: single messages and batches."""
    topic = "non-persistent://public/default/n"
    scene = make_scene()
    client = scene.actor()
    client.producer(topic=topic)
    for consumer_id, subscription, permits in ((1, "fast", 1000), (2, "slow", 2 * by)):
        client.subscribe(topic=topic, consumer_id=consumer_id, subscription=subscription, kind=kind)
        client.flow(permits, consumer_id=consumer_id)
    for number in range(3 * by):
        client.publish(number)
    client.publish(3 * by, batch=4)
    [found] = [one for one in diagnose(end(scene, client)).findings() if one.rule == "messages-dropped"]
    certainty = "certain" if kind in ("Exclusive", "Failover") else "likely"  # another consumer may have received them
    assert (found.severity, found.certainty, found.subject["subscription"]) == ("error", certainty, "slow")
    assert f"dropped {by + 4} messages" in found.what


def test_dropped_messages_are_counted_if_deliveries_follow_the_receipts(make_scene, diagnose, by):
    """MESSAGEs use permits when the broker sends them, which is before they are in the capture."""
    scene = make_scene()
    scene.fault("delay ms=1 on pulsar.type == 'MESSAGE'")
    consumer, producer = scene.actor(), scene.actor()
    topic = "non-persistent://public/default/n"
    consumer.subscribe(topic=topic)
    consumer.flow(2 * by)
    producer.producer(topic=topic)
    for number in range(5 * by):
        producer.publish(number)
    scene.wait(10)
    [found] = [one for one in diagnose(end(scene, consumer)).findings() if one.rule == "messages-dropped"]
    assert f"dropped {3 * by} messages" in found.what


ONE_BY_ONE = ["pulsar-rs-v6.9.1", "Pulsar-Flex Nodejs Client v0.0.0"]
"""Clients that acknowledge the messages of a batch one by one, without ack sets."""


@pytest.mark.parametrize("version", ONE_BY_ONE)
@pytest.mark.parametrize(("acked", "rejects", "expected"), [
    (4, False, set()), (3, False, {("batch-acked-by-index", "note")}), (2, True, {("batch-acked-by-index", "warning")}),
])  # fmt: skip
def test_messages_of_a_batch_are_acknowledged_one_by_one(make_scene, diagnose, by, version, acked, rejects, expected):
    """The first ACK without an ack set acknowledges the whole batch: the broker delivers nothing again."""
    scene = make_scene()
    client = scene.actor(client_version=version)
    client.producer()
    client.subscribe(kind="Shared")
    client.flow(1000)
    for number in range(by):
        client.publish(4 * number, batch=4)
    for message in list(client.messages):
        place = message.message_id
        for index in range(4):
            batch_index = index if version.startswith("pulsar-rs") else -1
            one = pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId, batch_index=batch_index)
            if index < acked:
                client.ack(one)
            elif rejects:
                client.redeliver(one)
    assert len(client.messages) == by
    client(pb.CommandCloseConsumer(consumer_id=1, request_id=9))
    found = [one for one in diagnose(end(scene, client)).findings() if one.rule == "batch-acked-by-index"]
    assert {(one.rule, one.severity) for one in found} == expected
    assert all(f"lost {(4 - acked) * by} message" in one.what for one in found)


def test_a_client_that_acknowledges_whole_batches(make_scene, diagnose, by):
    scene, client = play(make_scene, queue=1000)
    client.publish(0, batch=4)
    client.ack(client.messages[0].message_id)
    client(pb.CommandCloseConsumer(consumer_id=1, request_id=9))
    assert [one for one in diagnose(end(scene, client)).findings() if one.rule == "batch-acked-by-index"] == []


def reads_a_batch(scene, version):
    """A client of this version that consumes."""
    client = scene.actor(client_version=version)
    client.subscribe(kind="Shared")
    client.flow(1000)
    return client


def ack_one_by_one(client, version, place, *indices):
    for index in indices:
        batch_index = index if version.startswith("pulsar-rs") else -1
        client.ack(pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId, batch_index=batch_index))


@pytest.mark.parametrize("version", ONE_BY_ONE)
@pytest.mark.parametrize("then", ["repeat", "reconnect", "seek"])
def test_all_messages_of_a_batch_are_acknowledged_in_the_end(make_scene, diagnose, version, then):
    scene = make_scene()
    producer = scene.actor()
    producer.producer()
    client = reads_a_batch(scene, version)
    producer.publish(0, batch=4)
    place = client.messages[0].message_id
    ack_one_by_one(client, version, place, 0, 1)
    if then == "reconnect":
        client.cut()
        client = reads_a_batch(scene, version)
    elif then == "seek":
        client(pb.CommandSeek(consumer_id=1, request_id=77, message_id=place))
        client.subscribe(kind="Shared")
        client.flow(1000)
        ack_one_by_one(client, version, place, 0, 1)
    ack_one_by_one(client, version, place, 2, 3, *([1] if then == "repeat" else []))
    client(pb.CommandCloseConsumer(consumer_id=1, request_id=9))
    found = diagnose(end(scene, client), ("batch-acked-by-index",)).findings()
    assert found == []


@pytest.mark.parametrize("version", ONE_BY_ONE)
def test_requests_for_a_batch_are_reported_while_the_consumer_is_attached(make_scene, diagnose, version):
    scene = make_scene()
    producer = scene.actor()
    producer.producer()
    client = reads_a_batch(scene, version)
    producer.publish(0, batch=4)
    place = client.messages[0].message_id
    ack_one_by_one(client, version, place, 0, 1)
    client.redeliver(place)
    [found] = diagnose(end(scene, client), ("batch-acked-by-index",)).findings()
    assert (found.severity, found.count) == ("warning", 2)


@pytest.mark.parametrize("compression", [pb.NONE, pb.LZ4])
@pytest.mark.parametrize(("batches", "expected"), [
    (["aa", "bb", "ab"], {("mixed-key-batches", "note")}),  # b belongs to the consumer of a, or is split once
    (["aa", "bb", "aa"], set()),
])  # fmt: skip
def test_batches_with_several_keys(make_scene, noted, compression, batches, expected):
    scene, client = play(make_scene, kind="Key_Shared")
    for number, keys in enumerate(batches):
        client.publish_keys(10 * number, *keys, compression=compression)
    assert noted(end(scene, client)) & {("mixed-key-batches", one) for one in ("note", "warning")} == expected


@pytest.mark.parametrize("leaves", [False, True])
def test_a_key_that_batches_split(make_scene, noted, leaves):
    """The second consumer receives the key b in a batch of its own key, and then the first consumer receives it."""
    scene = make_scene()
    client = scene.actor()
    client.producer()
    for number, low in enumerate((0, 32_768), start=1):
        sticky = pb.KeySharedMeta(keySharedMode=pb.STICKY)
        sticky.hashRanges.add(start=low, end=low + 32_767)
        client.subscribe(kind="Key_Shared", consumer_id=number, keySharedMeta=sticky)
        client.flow(100, consumer_id=number)
    keys = sorted("abcdefgh", key=slot_of_key)
    low, high = keys[0], keys[-1]
    assert slot_of_key(low) < 32_768 <= slot_of_key(high)
    client.publish_keys(0, low)
    client.publish_keys(1, high, low)
    if leaves:
        client(pb.CommandCloseConsumer(consumer_id=2, request_id=9))
    client.publish_keys(3, low)
    assert ("mixed-key-batches", "note" if leaves else "warning") in noted(end(scene, client))
