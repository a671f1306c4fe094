"""Keys of Key_Shared subscriptions, compared with the messages and ranges of the applications."""

from __future__ import annotations

import io
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.observe import Observer
from pcli.codec.observe.tracking.statistics.key_statistics import key_figures
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.hashes import sticky_hash

TOPIC = "persistent://public/default/t"

Row = dict[str, Any]


def figures_of(corpus: Any, name: str, **options: bool) -> list[Row]:
    observer, tracker = Observer(), Tracker()
    for item in read_capture([(name, io.BytesIO(corpus.data(name)))]):
        if isinstance(item, CapturedFrame):
            tracker.see(observer.see(item))
    return key_figures(tracker.subscriptions, tracker.capture.last_ns, **options)


@pytest.mark.parametrize("name", ["python/12-key-shared", "java/key-shared-auto-split", "go/key-based-batcher"])
def test_keys_and_owners_match_the_applications(corpus: Any, name: str) -> None:
    (row,) = figures_of(corpus, name)
    assert row["keySharedMode"] == "AUTO_SPLIT"
    received = [event for event in corpus.truth(name)["events"] if event["type"] == "received"]
    assert {key["key"] for key in row["keys"]} == {event["key"] for event in received}
    for event in received:
        (key,) = [key for key in row["keys"] if key["key"] == event["key"]]
        assert event["consumer"] in key["owners"]
    for one in row["consumers"]:
        mine = [key for key in row["keys"] if key["owner"] == one["consumer"]]
        assert one["keyHashRanges"] is None
        assert one["slots_seen"] == sorted({key["slot"] for key in mine})
        assert one["keys_seen"] == len(mine)
    assert sum(one["keys_seen"] for one in row["consumers"]) == len(row["keys"])
    assert row["order_broken"] == 0


@pytest.mark.parametrize("name", ["python/12b-key-shared-sticky", "java/key-shared-sticky"])
def test_slots_of_sticky_consumers_are_in_their_ranges(corpus: Any, name: str) -> None:
    (row,) = figures_of(corpus, name)
    assert row["keySharedMode"] == "STICKY"
    for one in row["consumers"]:
        assert one["slots_seen"]
        assert all(any(low <= slot <= high for low, high in one["keyHashRanges"]) for slot in one["slots_seen"])


def test_a_refused_consumer_owns_no_slots(corpus: Any) -> None:
    (row,) = figures_of(corpus, "java/key-shared-sticky")
    errors = [event for event in corpus.truth("java/key-shared-sticky")["events"] if event["type"] == "error"]
    assert errors
    assert [one["consumer"] for one in row["consumers"]] == ["low", "high"]


def test_keys_that_move_wait_for_their_holder(corpus: Any) -> None:
    (row,) = figures_of(corpus, "python/12-key-shared")
    waits = row["waits"]
    assert waits["count"] > 0
    assert waits["seconds"] >= waits["longest_seconds"] > 0
    holder, key = waits["holder"].split(" held ")
    (moved,) = [one for one in row["keys"] if one["key"] == key]
    assert moved["moved"]
    assert holder in moved["owners"]


def test_allowed_out_of_order_delivery_is_counted(corpus: Any) -> None:
    (row,) = figures_of(corpus, "java/key-shared-out-of-order")
    assert row["allowOutOfOrderDelivery"]
    assert row["order_broken"] == sum(key["open_at_two"] + key["backwards"] for key in row["keys"]) > 0


@pytest.mark.parametrize(
    "key",
    [{"ordering_key": b"\xff\x00"}, {"partition_key": "/wA=", "partition_key_b64_encoded": True}],
    ids=["ordering key", "partition key"],
)
def test_the_slot_of_a_binary_key_is_computed_from_its_bytes(conversation: Any, key: dict[str, Any]) -> None:
    tracker = Tracker()
    tracker.see(
        conversation.client(pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=3, consumer_id=1, request_id=1))
    )
    tracker.see(conversation.broker(pb.CommandSuccess(request_id=1)))
    tracker.see(conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=10)))
    message = pb.CommandMessage(consumer_id=1)
    message.message_id.ledgerId = message.message_id.entryId = 0
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **key)
    tracker.see(conversation.broker(message, push_entry(metadata, b"hello")))
    (row,) = key_figures(tracker.subscriptions, conversation.now)
    assert [(one["key"], one["slot"]) for one in row["keys"]] == [("/wA=", sticky_hash(b"\xff\x00"))]


def test_keys_are_none_after_an_unsubscribe(conversation: Any) -> None:
    tracker = Tracker()

    def client(body: Any) -> None:
        tracker.see(conversation.client(body))

    def broker(body: Any, entry: bytes = b"") -> None:
        tracker.see(conversation.broker(body, entry))

    subscribe = pb.CommandSubscribe(topic=TOPIC, subscription="s", subType="Key_Shared", consumer_id=1, request_id=1)
    subscribe.consumer_name = "c"
    client(subscribe)
    broker(pb.CommandSuccess(request_id=1))
    client(pb.CommandFlow(consumer_id=1, messagePermits=10))
    message = pb.CommandMessage(consumer_id=1)
    message.message_id.ledgerId = message.message_id.entryId = 0
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, partition_key="k")
    broker(message, push_entry(metadata, b"hello"))
    (row,) = key_figures(tracker.subscriptions, conversation.now)
    assert [(key["key"], key["owner"], key["held"]) for key in row["keys"]] == [("k", "c", 1)]
    client(pb.CommandUnsubscribe(consumer_id=1, request_id=2))
    broker(pb.CommandSuccess(request_id=2))
    (row,) = key_figures(tracker.subscriptions, conversation.now)
    assert row["keys"] is None
    assert "removed" in row["unknown"]["keys"]


def test_other_subscriptions_have_no_keys(corpus: Any) -> None:
    assert figures_of(corpus, "java/permits", system=True) == []
