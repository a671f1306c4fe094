"""Entries that are delivered although they were acknowledged and their lifecycles were complete."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.capture.frames import StreamEnd
from pcli.codec.observe.tracking.subscriptions.topic_state import TopicState
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

TOPIC = "persistent://public/default/t"


def take_and_ack(play: Any, count: int) -> Any:
    """A client that received that many messages and acknowledged them all in one frame."""
    client = play.actor()
    client.producer()
    client.subscribe(kind="Shared")
    client.flow(1000)
    for number in range(count):
        client.publish(number)
    play.wait(100)
    client.ack(*[one.message_id for one in client.messages])
    return client


@pytest.fixture
def subscription() -> Any:
    return lambda play: play.tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["s"]


def test_each_message_with_a_lost_ack_counts(make_scene: Any, subscription: Any) -> None:
    play = make_scene()
    play.fault("drop on pulsar.type == 'ACK'")
    client = take_and_ack(play, 3)
    play.wait(100)
    client.cut(reset=True)
    again = play.actor()
    again.subscribe(kind="Shared")
    again.flow(10)
    [(why, back)] = subscription(play).record.consumers["c1"].acked_but_back.items()
    assert (why, back.count, back.sample) == ("lost", 3, "0:0")
    assert len(set(back.frames)) == 4
    assert not subscription(play).record.again


def test_a_lost_ack_counts_for_the_consumer_that_sent_it(make_scene: Any, subscription: Any) -> None:
    play = make_scene()
    play.fault("drop on pulsar.type == 'ACK'")
    client = take_and_ack(play, 3)
    play.wait(100)
    client.cut(reset=True)
    other = play.actor()
    other.subscribe(consumer_id=2, kind="Shared")
    other.flow(10, consumer_id=2)
    consumers = subscription(play).record.consumers
    lost = {name: sum(one.count for one in record.acked_but_back.values()) for name, record in consumers.items()}
    assert lost == {"c1": 3, "c2": 0}


def test_a_consumer_receives_the_entries_of_another_one_while_it_closes(make_scene: Any, subscription: Any) -> None:
    play = make_scene()
    client = play.actor()
    client.producer()
    for consumer_id in (1, 2):
        client.subscribe(consumer_id=consumer_id, kind="Shared")
        client.flow(10, consumer_id=consumer_id)
    for number in range(6):
        client.publish(number)
        play.wait(1)
    play.fault("delay ms=100 on pulsar.type == 'MESSAGE'")
    client(pb.CommandCloseConsumer(consumer_id=2, request_id=90))
    client(pb.CommandCloseConsumer(consumer_id=1, request_id=91))
    play.wait(200)
    assert {why: one.count for why, one in subscription(play).record.again.items()} == {"left": 3}


def test_redeliveries_before_the_broker_confirms_the_end_of_a_connection(make_scene: Any, subscription: Any) -> None:
    """The reader reports the end of a connection after the FINs of both sides, with the time of the first one."""
    play = make_scene()
    client, other = play.actor(), play.actor()
    client.producer()
    client.subscribe(kind="Shared")
    client.flow(10)
    for number in range(3):
        client.publish(number)
    other.subscribe(consumer_id=2, kind="Shared")
    other.flow(10, consumer_id=2)
    play.wait(10)
    end_ns = play.now * 1_000_000
    client.closed = True  # the scene does not report the end
    play.disconnect(client)
    assert len(other.messages) == 3
    assert set(subscription(play).record.again) == {"twice"}
    how = {"from_client": True, "reset": False, "refused": False, "silent": False}
    play.tracker.ended(StreamEnd(client.stream, 1, end_ns, **how))
    assert {why: one.count for why, one in subscription(play).record.again.items()} == {"lost": 3}


def test_an_unload_loses_the_latest_acks(make_scene: Any, subscription: Any) -> None:
    play = make_scene()
    play.fault("drop on pulsar.type == 'ACK'")
    client = take_and_ack(play, 3)
    client.publish(3)
    play.wait(100)
    play.unload()
    client.subscribe(kind="Shared")
    client.flow(10)
    record = subscription(play).record
    assert {why: one.count for why, one in record.again.items()} == {"unload": 1}
    assert {why: one.count for why, one in record.consumers["c1"].acked_but_back.items()} == {"unload": 3}


@pytest.mark.parametrize("kind", ["Shared", "Exclusive"])
@pytest.mark.parametrize("acked", [0, 2, 5])
def test_an_administrator_resets_the_cursor(make_scene: Any, subscription: Any, kind: str, acked: int) -> None:
    """The broker closes the consumer, and the producer stays open."""
    play = make_scene()
    client = play.actor()
    client.producer()
    client.subscribe(kind=kind)
    client.flow()
    for number in range(5):
        client.publish(number)
    if acked:
        client.ack(*[one.message_id for one in client.messages[:acked]])
    play.wait(100)
    play.reset_cursor(1)
    client.subscribe(kind=kind)
    client.flow()
    record = subscription(play).record
    assert [(why, one.count, one.sample) for why, one in record.again.items()] == [("reset", 4, "0:1")]
    assert not record.consumers["c1"].acked_but_back


def test_a_reset_of_a_topic_without_producers(make_scene: Any, subscription: Any) -> None:
    """An unload does not redeliver entries that were acknowledged long before."""
    play = make_scene()
    client = take_and_ack(play, 3)
    client(pb.CommandCloseProducer(producer_id=1, request_id=9))
    play.wait(20_000)
    play.reset_cursor(1)
    client.subscribe(kind="Shared")
    client.flow()
    assert {why: one.count for why, one in subscription(play).record.again.items()} == {"reset": 2}


def test_a_message_has_one_lifecycle(make_scene: Any) -> None:
    """A seek opens the lifecycles again that were complete."""
    play = make_scene()
    client = take_and_ack(play, 3)
    client(pb.CommandSeek(consumer_id=1, message_id=client.messages[1].message_id))
    client.subscribe(kind="Shared")
    client.flow(10)
    play.finish()
    deliveries = {one.id: [delivery.why for delivery in one.deliveries["s"]] for one in play.lives}
    assert deliveries == {"0:0": [""], "0:1": ["", "seek"], "0:2": ["", "seek"]}
    assert len(play.lives) == 3


def test_redeliveries_after_a_seek_have_the_seek_as_cause(make_scene: Any, subscription: Any) -> None:
    play = make_scene()
    client = take_and_ack(play, 5)
    client.publish(5)
    client(pb.CommandSeek(consumer_id=1, message_id=client.messages[1].message_id))
    client.subscribe(kind="Shared")
    client.flow(10)
    client.publish(6)
    record = subscription(play).record
    assert [(why, one.count, one.sample) for why, one in record.again.items()] == [("seek", 5, "0:1")]
    assert not record.consumers["c1"].acked_but_back


def test_a_first_delivery_after_a_seek_is_no_redelivery(make_scene: Any, subscription: Any) -> None:
    play = make_scene()
    client = take_and_ack(play, 2)
    client.subscribe(consumer_id=2, subscription="t", kind="Shared")
    client(pb.CommandSeek(consumer_id=2, message_id=client.messages[0].message_id))
    client.subscribe(consumer_id=2, subscription="t", kind="Shared")
    client.flow(10, consumer_id=2)
    assert [one.consumer_id for one in client.messages] == [1, 1, 2, 2]
    assert not play.tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["t"].record.again


@pytest.fixture
def receive(make_scene: Any) -> Any:
    """A scene, and a client that received five messages."""

    def play() -> tuple[Any, Any]:
        scene = make_scene()
        client = scene.actor(client_version="Pulsar-Java-v4.2.4")
        client.producer()
        client.subscribe(kind="Shared")
        client.flow(1000)
        for number in range(5):
            client.publish(number)
        return scene, client

    return play


def test_a_backoff_of_ack_timeouts_or_negative_acknowledgements(receive: Any, subscription: Any) -> None:
    """The second round expires after twice the time."""
    play, client = receive()
    for wait in (2_000, 4_000, 8_000):
        play.wait(wait)
        client.redeliver(*[one.message_id for one in client.messages[-5:]])
    assert {why: one.count for why, one in subscription(play).record.again.items()} == {"requested": 15}


def test_two_acks_of_an_entry_show_that_its_ack_timeout_expired(receive: Any, subscription: Any) -> None:
    """An application does not acknowledge a delivery that it has rejected."""
    play, client = receive()
    ids = [one.message_id for one in client.messages]
    play.wait(2_000)
    client.redeliver(*ids)
    record = subscription(play).record
    assert {why: one.count for why, one in record.again.items()} == {"requested": 5}
    play.wait(200)
    client.ack(*ids[:2])
    client.ack(*ids[:2])
    play.wait(2_000)
    client.redeliver(*ids[2:])
    assert {why: one.count for why, one in record.again.items()} == {"ack_timeout": 8}


def test_a_request_that_skips_a_message_is_a_negative_acknowledgement(receive: Any, subscription: Any) -> None:
    """Messages that the client received together expire together."""
    play, client = receive()
    play.wait(2_000)
    client.redeliver(*[client.messages[place].message_id for place in (0, 1, 3)])
    assert {why: one.count for why, one in subscription(play).record.again.items()} == {"nack": 3}


def test_two_requests_before_the_redelivery(conversation: Any) -> None:
    """The broker has read the message for the first request, and reads it again for the second."""
    tracker = Tracker()

    def client(body: Any) -> None:
        tracker.see(conversation.client(body))

    def broker(body: Any, entry: bytes = b"") -> None:
        tracker.see(conversation.broker(body, entry))

    place = pb.MessageIdData(ledgerId=7, entryId=0)
    message = push_entry(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"m")
    again = pb.CommandRedeliverUnacknowledgedMessages
    client(pb.CommandConnect(client_version="Pulsar-Java-v2.8.4"))
    broker(pb.CommandConnected(server_version="4.2.4"))
    client(
        pb.CommandSubscribe(
            topic=TOPIC, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=1,
            consumer_name="c",
        )
    )  # fmt: skip
    broker(pb.CommandSuccess(request_id=1))
    client(pb.CommandFlow(consumer_id=1, messagePermits=10))
    broker(pb.CommandMessage(consumer_id=1, message_id=place), message)
    client(again(consumer_id=1, message_ids=[place]))
    client(again(consumer_id=1))
    broker(pb.CommandMessage(consumer_id=1, message_id=place, redelivery_count=2), message)
    broker(pb.CommandMessage(consumer_id=1, message_id=place, redelivery_count=2), message)
    record = tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["s"].record
    assert [(why, one.count) for why, one in record.again.items()] == [("nack", 1), ("rewind", 1)]


def test_messages_of_an_earlier_epoch_are_sent_again(conversation: Any) -> None:
    """An Exclusive consumer requests redelivery while the broker sends it a message."""
    tracker = Tracker()

    def message(entry: int, epoch: int) -> None:
        place = pb.MessageIdData(ledgerId=7, entryId=entry)
        about = pb.MessageMetadata(producer_name="p", sequence_id=entry, publish_time=1)
        body = pb.CommandMessage(consumer_id=1, message_id=place, consumer_epoch=epoch)
        tracker.see(conversation.broker(body, push_entry(about, b"m")))

    tracker.see(
        conversation.client(
            pb.CommandSubscribe(
                topic=TOPIC, subscription="s", subType=0, consumer_id=1, request_id=1, consumer_name="c"
            )
        )
    )
    tracker.see(conversation.broker(pb.CommandSuccess(request_id=1)))
    tracker.see(conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=10)))
    message(0, 0)
    tracker.see(conversation.client(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=1)))
    message(1, 0)
    subscription = tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["s"]
    assert subscription.mark_delete == (7, -1)
    message(0, 1)
    message(1, 1)
    assert [(at, one.held) for at, one in subscription.pending_acks.items()] == [((7, 0), 1), ((7, 1), 1)]
    assert subscription.record.consumers["c"].permits.balance == 6
    assert {why: one.count for why, one in subscription.record.again.items()} == {"rewind": 2}


def test_acks_of_a_batch_between_an_unload_and_the_first_new_entry(make_scene: Any, subscription: Any) -> None:
    """Only an entry in a new ledger shows that the topic was loaded again. Later acknowledgements remain."""
    play = make_scene()
    client = play.actor()
    client.producer()
    client.subscribe(kind="Shared")
    client.flow(1000)
    client.publish(0, 5)
    client(pb.CommandCloseProducer(producer_id=1))
    play.wait(2_000)
    play.unload()
    client.subscribe(kind="Shared")
    client.flow(1000)
    place = client.messages[-1].message_id
    client.ack(pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId, ack_set=[0b11100]))
    client.producer()
    client.publish(5)
    client.ack(pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId, ack_set=[0b11000]))
    assert subscription(play).record.consumers["c1"].unacked == 3
    assert subscription(play).had_consumer


@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_receipt_after_the_last_ack(make_scene: Any, batch: int, chunked: bool) -> None:
    """The MESSAGEs precede the receipts, and all subscriptions acknowledge them before the receipts arrive."""
    play = make_scene()
    client, source = play.actor(), play.actor()
    source.producer()
    for number in (1, 2):
        client.subscribe(subscription=f"s{number}", consumer_id=number, kind="Shared")
        client.flow(10, consumer_id=number)
    play.fault("delay ms=300 on pulsar.type == 'SEND_RECEIPT'")
    fields = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 2} if chunked else {}
    for chunk in (0, 1) if chunked else (0,):
        about = {**fields, "chunk_id": chunk} if chunked else {}
        source.publish(chunk, batch=0 if chunked else batch, **about)
    for number in (1, 2):
        places = {one.message_id.entryId: one.message_id for one in client.messages}
        client.ack(*places.values(), consumer_id=number)
    play.wait(1_000)
    play.finish()
    [life] = play.lives
    assert (life.state, len(life.deliveries)) == ("acked", 2)
    assert 0 < life.sent_frame < life.receipt_frame


@pytest.mark.parametrize("redelivered", [False, True])
def test_chunks_that_a_resend_stored_twice_are_no_redeliveries(
    make_scene: Any, subscription: Any, redelivered: bool
) -> None:
    """The consumer opens after the receipts of the resend; those of the first SENDs are lost with the connection."""
    play = make_scene()
    fault = play.fault("drop on pulsar.type == 'SEND_RECEIPT'")
    fields = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 2}
    for _ in range(2):
        source = play.actor()
        source.producer()
        for chunk in (0, 1):
            source.publish(0, chunk_id=chunk, **fields)
        source.cut(reset=True)
        play.faults.remove(fault)
    client = play.actor()
    client.subscribe(kind="Shared", initialPosition="Earliest")
    client.flow(10)
    if redelivered:
        client.redeliver(*(one.message_id for one in client.messages))
    again = subscription(play).record.again
    assert {why: one.count for why, one in again.items()} == ({"nack": 2} if redelivered else {})


def test_a_second_producer_of_the_same_name_uses_a_sequence_id_again_on_a_non_persistent_topic(make_scene: Any) -> None:
    """The MESSAGE precedes the receipt of its SEND."""
    topic, play = "non-persistent://public/default/t", make_scene()
    sink = play.actor()
    sink.subscribe(topic)
    sink.flow(10)
    play.fault("delay ms=100 on pulsar.type == 'SEND_RECEIPT'")
    for batch in (0, 5):
        source = play.actor()
        source.producer(topic)
        source.publish(0, batch=batch)
        play.wait(200)
        source.cut(reset=True)
    attached = play.tracker.subscriptions.attached(sink.stream.number, 1)
    assert attached.record.permits.balance == 10 - 1 - 5
    assert not attached.subscription.record.again


def test_positions_in_a_hostile_capture_cost_a_limited_number_of_steps(
    conversation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each delivery skips 300,000 entries. The first ones are processed one by one, the others are not."""
    tracker, steps = Tracker(), []
    between = TopicState.between

    def counted(*given: Any) -> Any:
        for at in between(*given):
            steps.append(at)
            yield at

    monkeypatch.setattr(TopicState, "between", counted)
    subscribe = pb.CommandSubscribe(
        topic=TOPIC,
        subscription="s",
        subType=pb.CommandSubscribe.Shared,
        consumer_id=1,
        request_id=1,
        consumer_name="c",
    )
    tracker.see(conversation.client(subscribe))
    tracker.see(conversation.broker(pb.CommandSuccess(request_id=1)))
    tracker.see(conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=100)))
    for number in range(30):
        about = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
        place = pb.MessageIdData(ledgerId=7, entryId=300_000 * number)
        tracker.see(conversation.broker(pb.CommandMessage(consumer_id=1, message_id=place), push_entry(about, b"m")))
    subscription = tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["s"]
    assert 600_000 < len(steps) < 1_200_000
    assert subscription.read_position == (7, 300_000 * 29)
