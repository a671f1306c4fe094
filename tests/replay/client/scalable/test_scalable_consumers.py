"""Stream, queue and checkpoint consumers of a scalable topic, with a scripted broker."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.message_ids import EARLIEST
from pcli.replay.client.settings import ConsumerSettings

from .conftest import LEFT, RIGHT, ROOT, TOPIC, layout

BUCKETS = ((0, 16383), (16384, 65535))
CUMULATIVE, INDIVIDUAL = pb.CommandAck.Cumulative, pb.CommandAck.Individual


def received(consumer: Any) -> list[int]:
    """Receive all messages without acknowledging them."""
    found = []
    while (message := consumer.receive()) is not None:
        found.append(message)
    return found


def names(scripted: Any) -> list[str]:
    """Return and forget the names of the commands that the engine has sent."""
    found, scripted.sent = [name for name, _, _ in scripted.sent], []
    return found


# -- stream ------------------------------------------------------------------------------------------------------------


def test_an_old_broker_is_reported(old_broker: Any) -> None:
    assert old_broker.subscribe().error == "NotSupported"


@pytest.mark.parametrize("kind", ["stream", "queue", "checkpoint"])
def test_a_refused_session_fails_at_once(scripted: Any, kind: str) -> None:
    scripted.refuse = {TOPIC: ["TopicNotFound"]}
    assert scripted.subscribe(scalableType=kind) == ClientFailure("TopicNotFound", "no")


@pytest.mark.parametrize("error", ["ConsumerBusy", "ConsumerAssignError"])
def test_a_busy_segment_is_tried_again_with_a_new_id(scripted: Any, error: str) -> None:
    scripted.refuse = {ROOT: [error, error]}
    assert scripted.subscribe() is None
    scripted.step(99)
    assert [body.consumer_id for body in scripted.take("SUBSCRIBE")] == [1]
    scripted.step(301)
    assert [body.consumer_id for body in scripted.take("SUBSCRIBE")] == [2, 3]


def test_a_segment_that_stays_busy_fails_the_first_subscription(scripted: Any) -> None:
    scripted.refuse = {ROOT: ["ConsumerBusy"] * 100}
    made: list[Any] = []
    settings = ConsumerSettings(topicNames=(TOPIC,), subscriptionName="s")
    scripted.engine.subscribe(settings, made.append)
    scripted.step(29_000)
    assert made == []
    scripted.step(31_000)
    assert made == [ClientFailure("ConsumerBusy", "no")]
    assert "SCALABLE_TOPIC_UNSUBSCRIBE" in names(scripted)


def test_a_reassigned_segment_is_released_after_the_last_acknowledgement(scripted: Any) -> None:
    scripted.dag, scripted.assigned = layout(0, 1, 2), [(1, LEFT, ()), (2, RIGHT, ())]
    consumer = scripted.subscribe()
    scripted.deliver(1, 0, 1)
    first, second = received(consumer)
    consumer.acknowledge(first.id)
    scripted.assign((2, RIGHT, ()))
    scripted.deliver(1, 2)
    scripted.step(1000)
    assert received(consumer) == []
    assert "CLOSE_CONSUMER" not in names(scripted)
    consumer.acknowledge(second.id)
    scripted.step(101)
    commands = [(name, body) for name, body, _ in scripted.sent if name in ("ACK", "CLOSE_CONSUMER")]
    assert [(name, body.consumer_id) for name, body in commands] == [("ACK", 1), ("CLOSE_CONSUMER", 1)]
    ack = commands[0][1]
    assert (ack.ack_type, ack.message_id[0].entryId) == (CUMULATIVE, 1)


def test_a_batch_is_received_to_its_end_before_its_segment_is_released(scripted: Any) -> None:
    consumer = scripted.subscribe()
    scripted.deliver(1, 0, batch=3)
    scripted.deliver(1, 1, batch=3)
    first = consumer.receive()
    consumer.acknowledge(first.id)
    scripted.assign()
    scripted.step(1000)
    assert "CLOSE_CONSUMER" not in names(scripted)
    rest = received(consumer)
    assert [(one.id.entry, one.id.batch_index) for one in rest] == [(0, 1), (0, 2)]
    consumer.acknowledge(rest[-1].id)
    scripted.step(101)
    assert names(scripted) == ["ACK", "CLOSE_CONSUMER"]


def test_children_are_subscribed_before_their_parent_is_closed(scripted: Any) -> None:
    scripted.subscribe()
    scripted.take()
    scripted.assign((1, LEFT, ()), (2, RIGHT, ()))
    scripted.step(100)
    assert names(scripted) == [
        "LOOKUP", "LOOKUP", "SUBSCRIBE", "SUBSCRIBE", "FLOW", "FLOW", "CLOSE_CONSUMER",
    ]  # fmt: skip


def test_a_segment_that_becomes_shared_is_subscribed_by_entry_buckets(scripted: Any) -> None:
    consumer = scripted.subscribe()
    scripted.take()
    scripted.assign((0, ROOT, BUCKETS))
    scripted.step(100)
    assert [name for name, _, _ in scripted.sent] == ["CLOSE_CONSUMER", "LOOKUP", "SUBSCRIBE", "FLOW"]
    (body,) = scripted.take("SUBSCRIBE")
    meta = body.keySharedMeta
    assert (body.subType, body.consumer_id) == (pb.CommandSubscribe.Key_Shared, 2)
    assert (meta.keySharedMode, meta.entry_bucket_dispatch) == (pb.STICKY, True)
    assert tuple((one.start, one.end) for one in meta.hashRanges) == BUCKETS
    scripted.deliver(2, 0, 1, 2)
    messages = received(consumer)
    consumer.acknowledge(messages[1].id)
    scripted.step(100)
    (ack,) = scripted.take("ACK")
    assert (ack.ack_type, [one.entryId for one in ack.message_id]) == (INDIVIDUAL, [0, 1])


def test_an_acknowledgement_covers_all_segments(scripted: Any) -> None:
    scripted.dag, scripted.assigned = layout(0, 1, 2), [(1, LEFT, ()), (2, RIGHT, ())]
    consumer = scripted.subscribe()
    scripted.deliver(1, 0, 1)
    scripted.deliver(2, 0, 1, ledger=8)
    messages = received(consumer)
    consumer.acknowledge(messages[2].id)
    scripted.step(100)
    acks = scripted.take("ACK")
    assert {one.consumer_id: one.message_id[0].entryId for one in acks} == {1: 1, 2: 0}


def test_messages_are_received_once_if_the_broker_closes_the_consumer(scripted: Any) -> None:
    consumer = scripted.subscribe()
    scripted.deliver(1, 0, 1, 2)
    messages = [consumer.receive(), consumer.receive()]
    consumer.acknowledge(messages[0].id)
    scripted.send(pb.CommandCloseConsumer(consumer_id=1, request_id=(1 << 64) - 1))
    scripted.step(200)
    scripted.deliver(1, 0, 1, 2, 3)
    assert [one.id.entry for one in [*messages, *received(consumer)]] == [0, 1, 2, 3]


def test_other_segments_go_on_if_the_broker_closes_one(scripted: Any) -> None:
    scripted.dag, scripted.assigned = layout(0, 1, 2), [(1, LEFT, ()), (2, RIGHT, ())]
    consumer = scripted.subscribe(receiverQueueSize=4)
    scripted.deliver(1, 0, 1, 2, 3)
    scripted.deliver(2, 0, 1, 2, 3, ledger=8)
    told: list[bool] = []
    consumer.on_message = lambda: told.append(True)
    scripted.send(pb.CommandCloseConsumer(consumer_id=1, request_id=(1 << 64) - 1))
    scripted.step(200)
    assert told
    assert [one.id.entry for one in received(consumer)] == [0, 1, 2, 3]


def test_a_consumer_registers_again_after_a_lost_connection(scripted: Any) -> None:
    scripted.subscribe()
    scripted.take()
    scripted.assigned = [(1, LEFT, ())]
    scripted.cut()
    scripted.step(400)
    registered = [body for name, body, _ in scripted.sent if name == "SCALABLE_TOPIC_SUBSCRIBE"]
    assert [(one.consumer_id, one.consumer_name) for one in registered] == [(0, "c")]
    assert LEFT in [body.topic for body in scripted.take("SUBSCRIBE")]


def test_a_consumer_that_is_closed_before_the_response_to_its_registration_leaves(scripted: Any) -> None:
    """The broker would otherwise keep its segments as long as the connection is open."""
    consumer = scripted.subscribe()
    scripted.take()
    scripted.registers = False
    scripted.cut()
    scripted.step(400)
    registered = scripted.take("SCALABLE_TOPIC_SUBSCRIBE")
    closed: list[Any] = []
    consumer.close(closed.append)
    scripted.step()
    assert [one.consumer_id for one in registered] == [0]
    assert [one.consumer_id for one in scripted.take("SCALABLE_TOPIC_UNSUBSCRIBE")] == [0]
    assert closed == [None]


def test_the_requests_on_a_new_connection_have_different_ids(scripted: Any) -> None:
    scripted.dag, scripted.assigned = layout(0, 1, 2), [(1, LEFT, ()), (2, RIGHT, ())]
    scripted.subscribe()
    scripted.subscribe(consumerName="d")
    scripted.take()
    scripted.cut()
    scripted.step(400)
    ids = [body.request_id for _, body, _ in scripted.sent if "request_id" in body.DESCRIPTOR.fields_by_name]
    assert sorted(ids) == sorted(set(ids))


@pytest.mark.parametrize("group", [0, 100_000])
def test_the_last_acknowledgement_is_repeated_on_a_new_connection(scripted: Any, group: int) -> None:
    """The broker has not received it. No later one follows on a sealed segment."""
    consumer = scripted.subscribe(acknowledgementsGroupTimeMicros=group)
    scripted.deliver(1, 0, 1)
    messages = received(consumer)
    consumer.acknowledge(messages[0].id)
    scripted.step(200)
    if group:
        consumer.acknowledge(messages[1].id)
        scripted.step(200)
    scripted.take()
    scripted.cut()
    if not group:
        consumer.acknowledge(messages[1].id)
    scripted.step(600)
    assert [one.message_id[0].entryId for one in scripted.take("ACK")] == [1]
    scripted.deliver(1, 0, 1, 2)
    assert [one.id.entry for one in received(consumer)] == [2]


def test_a_stream_consumer_acknowledges_nothing_negatively(scripted: Any) -> None:
    consumer = scripted.subscribe()
    scripted.deliver(1, 0)
    with pytest.raises(LocalError, match="queue consumer"):
        consumer.negative_acknowledge(consumer.receive().id)


# -- queue -------------------------------------------------------------------------------------------------------------


def test_a_queue_consumer_has_sealed_segments_until_they_are_pruned(scripted: Any) -> None:
    scripted.subscribe(scalableType="queue")
    scripted.take()
    scripted.change(layout(1, 1, 2, sealed=(0,)))
    opened = scripted.take("SUBSCRIBE")
    assert [(one.topic, one.subType) for one in opened] == [
        (name, pb.CommandSubscribe.Shared) for name in (LEFT, RIGHT)
    ]
    scripted.change(layout(1, 1, 2, sealed=(0,)))
    assert names(scripted) == []
    scripted.change(layout(2, 1, 2))
    assert [body.consumer_id for body in scripted.take("CLOSE_CONSUMER")] == [0]


def test_an_older_layout_changes_nothing(scripted: Any) -> None:
    scripted.dag = layout(1, 1, 2)
    scripted.subscribe(scalableType="queue")
    scripted.take()
    scripted.change(layout(0, 0))
    assert names(scripted) == []


# -- checkpoint --------------------------------------------------------------------------------------------------------


def test_a_checkpoint_consumer_reads_children_from_their_beginning(scripted: Any) -> None:
    consumer = scripted.subscribe(scalableType="checkpoint", subscriptionName="")
    (body,) = scripted.take("SUBSCRIBE")
    assert (body.durable, body.subscription[:7], body.start_message_id.ledgerId) == (False, "reader-", (1 << 63) - 1)
    scripted.change(layout(1, 1, 2, sealed=(0,)))
    assert {one.start_message_id.ledgerId for one in scripted.take("SUBSCRIBE")} == {(1 << 64) - 1}
    scripted.deliver(0, 0, 1)
    assert len(received(consumer)) == 2
    scripted.step(100)
    (ack,) = scripted.take("ACK")
    assert (ack.ack_type, ack.message_id[0].entryId) == (CUMULATIVE, 1)


def test_a_group_of_checkpoint_consumers_gets_segments_of_the_controller(scripted: Any) -> None:
    scripted.subscribe(scalableType="checkpoint", subscriptionName="g", startMessageId=EARLIEST)
    registered = [body for name, body, _ in scripted.sent if name == "SCALABLE_TOPIC_SUBSCRIBE"]
    assert [(one.subscription, one.consumer_type) for one in registered] == [("g", pb.CHECKPOINT)]
    (body,) = scripted.take("SUBSCRIBE")
    assert (body.consumer_name, body.subscription[:7]) == ("c-seg-0", "reader-")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"topicNames": (TOPIC, "orders")}, "one topic"),
        ({"receiverQueueSize": 0}, "receiverQueueSize"),
        ({"subscriptionType": "Shared"}, "scalableType"),
        ({"subscriptionName": ""}, "subscription"),
    ],
)
def test_invalid_settings_are_refused(scripted: Any, settings: dict[str, Any], text: str) -> None:
    failure = scripted.subscribe(**settings)
    assert failure.error == "InvalidConfiguration"
    assert text in failure.message
    assert scripted.connections == []
