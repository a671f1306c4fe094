"""Messages of a key in a segment and its child, delivered to queue and stream consumers."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb

SHARED = pb.CommandSubscribe.Shared


def split_with_consumer(topic, kind=SHARED):
    """Split segment 0 and subscribe to it and to its children; return the first child."""
    topic.layout()
    topic.subscribe("c", 0, stream=1, kind=kind)
    children = topic.replace([0], (0, 16383), (16384, 32767))
    topic.layout()
    for child in children:
        topic.subscribe("c", child, stream=1, kind=kind)
    return children[0]


def test_a_queue_consumer_receives_a_child_before_its_parent(topic):
    child = split_with_consumer(topic)
    topic.deliver(0, 2, stream=1, partition_key="k")
    topic.deliver(child, 1, stream=1, partition_key="k")
    topic.deliver(0, 3, stream=1, first=2, partition_key="k")
    found = topic.found()["key-order-across-segments"]
    assert (found.severity, found.count) == ("note", 3)
    assert "received 3 messages after newer messages of the same key" in found.what


@pytest.mark.parametrize(
    "late",
    [
        {"first": 2, "partition_key": "other"},
        {"first": 2},
        {"first": 2, "partition_key": "k", "redeliveries": 1},
        {"first": 0, "partition_key": "k"},
    ],
    ids=["another key", "no key", "delivered before the capture", "delivered before"],
)
def test_deliveries_that_keep_the_order(topic, late):
    child = split_with_consumer(topic)
    topic.deliver(0, 2, stream=1, partition_key="k")
    topic.deliver(child, 1, stream=1, partition_key="k")
    topic.deliver(0, 1, stream=1, **late)
    assert "key-order-across-segments" not in topic.found()


def test_the_parent_is_delivered_first(topic):
    child = split_with_consumer(topic)
    topic.deliver(0, 2, stream=1, partition_key="k")
    topic.deliver(child, 2, stream=1, partition_key="k")
    assert "key-order-across-segments" not in topic.found()


def test_a_stream_consumer_receives_a_child_before_its_parent(topic):
    topic.register("c", 0, stream=1)
    child = split_with_consumer(topic, pb.CommandSubscribe.Exclusive)
    topic.deliver(child, 1, stream=1, partition_key="k")
    topic.deliver(0, 1, stream=1, partition_key="k")
    found = topic.found()["key-order-across-segments"]
    assert (found.severity, found.certainty, found.culprit) == ("warning", "likely", "broker")
