"""Requests for redelivery: an expired acknowledgement timeout, or a negative acknowledgement."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.proto import pb

JAVA, CPP, GO = "Pulsar-Java-v4.2.4", "Pulsar-CPP-v4.2.0", "Pulsar-Go-v0.19.0"


def play(make_scene: Any, version: str = JAVA, *, kind: str = "Shared") -> tuple[Any, Any, Any]:
    scene = make_scene()
    producer, client = scene.actor(), scene.actor(client_version=version)
    producer.producer()
    client.subscribe(kind=kind)
    client.flow()
    return scene, producer, client


def causes(scene: Any) -> dict[str, int]:
    scene.finish()
    [record] = [one for group, one in scene.tracker.subscriptions.records() if group == "subscription"]
    return {why: seen.count for why, seen in record.again.items()}


@pytest.mark.parametrize("queue", [1, 3, 8])
@pytest.mark.parametrize("version", [JAVA, "pulsar-rs-v6.9.1"])
def test_the_timer_starts_when_the_application_takes_the_message(make_scene, queue, version):
    """Messages arrive together; the application processes one after the other, each longer than its timeout."""
    scene, producer, client = play(make_scene, version)
    for number in range(queue):
        producer.publish(number)
    places = [one.message_id for one in client.messages]
    for place in places:
        scene.wait(1_700)
        client.redeliver(place)
        scene.wait(500)
        client.ack(place)
    for place in places:  # the application processes the second deliveries, too
        scene.wait(1_700)
        client.ack(place)
    assert causes(scene) == {"ack_timeout": queue}


@pytest.mark.parametrize(("version", "cause"), [(JAVA, "nack"), (CPP, "nack"), (GO, "nack")])
@pytest.mark.parametrize("other", [True, False])
def test_the_default_delay_of_a_negative_acknowledgement(make_scene, version, cause, other):
    scene, producer, client = play(make_scene, version)
    producer.publish(0)
    if other:  # received together, but neither rejected nor acknowledged
        producer.publish(1)
    scene.wait(60_010)
    client.redeliver(client.messages[0].message_id)
    assert causes(scene) == {cause: 1}


@pytest.mark.parametrize("after", [60_700, 79_000])
@pytest.mark.parametrize(("other", "cause"), [(True, "nack"), (False, "requested")])
def test_a_client_that_checks_at_intervals(make_scene, after, other, cause):
    """A later request is a negative acknowledgement only if a message of the same age is not in it."""
    scene, producer, client = play(make_scene)
    producer.publish(0)
    if other:
        producer.publish(1)
    scene.wait(after)
    client.redeliver(client.messages[0].message_id)
    assert causes(scene) == {cause: 1}


@pytest.mark.parametrize(("version", "seconds", "cause"), [
    (JAVA, 0.9, "nack"), (JAVA, 5, "requested"), (CPP, 5, "nack"), (CPP, 12, "requested"), (GO, 30, "nack"),
    ("Pulsar Go 0.9.0", 30, "nack"),
])  # fmt: skip
def test_the_minimum_timeout_of_the_client(make_scene, version, seconds, cause):
    scene, producer, client = play(make_scene, version)
    producer.publish(0)
    scene.wait(round(seconds * 1000))
    client.redeliver(client.messages[0].message_id)
    assert causes(scene) == {cause: 1}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_sequential_application_with_a_timeout(data):
    """Drawn processing times: every request is the timeout, if both deliveries are acknowledged in the end."""
    from tests.codec.observe.conftest import Scene

    timeout = data.draw(st.integers(1_100, 9_000), "timeout")
    tick = data.draw(st.integers(0, 400), "tick")
    times = data.draw(st.lists(st.integers(10, 3 * timeout), min_size=2, max_size=6), "processing times")
    scene, producer, client = play(Scene)
    for number in range(len(times)):
        producer.publish(number)
    late = []
    for place, time in zip([one.message_id for one in client.messages], times, strict=True):
        if time > timeout + tick:
            scene.wait(timeout + tick)
            client.redeliver(place)
            scene.wait(time - timeout - tick)
            late.append(place)
        else:
            scene.wait(time)
        client.ack(place)
    for place in late:
        scene.wait(10)
        client.ack(place)
    assert causes(scene) == ({"ack_timeout": len(late)} if late else {})


@pytest.mark.parametrize("part", [True, False])
def test_a_batch_that_was_rejected_whole(make_scene, part):
    """Later ack sets show that batch index acknowledgements are enabled."""
    scene, producer, client = play(make_scene)
    producer.publish(0, batch=4)
    place = client.messages[0].message_id
    scene.wait(300)
    client.redeliver(place)
    if part:
        some = pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId, ack_set=[0b1100])
        client.ack(some)
    scene.finish()
    [record] = [one for group, one in scene.tracker.subscriptions.records() if group == "consumer"]
    assert (record.whole_batches_again.count, record.ack_sets) == (1, part)


def test_a_queue_that_grows_on_purpose(make_scene):
    """The queue doubles each time it was used up: autoScaledReceiverQueueSize, used by Flink."""
    scene = make_scene()
    client = scene.actor()
    client.producer()
    client.subscribe()
    queue, number = 1, 0
    client.flow(1)
    for _ in range(5):
        for _ in range(queue):
            client.publish(number)
            number += 1
        client.ack(*[one.message_id for one in client.messages[-queue:]])
        client.flow(2 * queue)
        queue *= 2
    scene.finish()
    [record] = [one for group, one in scene.tracker.subscriptions.records() if group == "consumer"]
    assert (record.permits.queue, record.permits.doubled.count) == (32, 0)


def test_permits_of_a_queue_of_one_that_only_accumulate(make_scene):
    scene = make_scene()
    client = scene.actor()
    client.subscribe()
    for _ in range(5):
        client.flow(1)
    scene.finish()
    [record] = [one for group, one in scene.tracker.subscriptions.records() if group == "consumer"]
    assert record.permits.doubled.count == 4
