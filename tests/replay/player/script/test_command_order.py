"""Concurrent steps in the order in which the broker processed them."""

from pcli.codec.capture.frames import START, CapturedFrame, Stream
from pcli.codec.observe import Consumer, Producer
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import pull_type
from pcli.codec.wire.message_id import MessageId
from pcli.replay.player.script.command_order import in_order_of_effects
from pcli.replay.player.script.script import Step

TOPIC = "persistent://public/default/t"


def step(time, stream, body, *, peer=None, entry=b""):
    data = push_frame(body, entry)
    kind = pull_type(data, 8, 8 + int.from_bytes(data[4:8], "big"))
    tcp_stream = Stream(stream, ("c", stream), ("b", 6650), midstream=False)
    frame = CapturedFrame(data, kind, time + 1, time + 1, time, tcp_stream, True, 0, START)
    asked = isinstance(body, (pb.CommandSend, pb.CommandSubscribe, pb.CommandFlow))
    return Step(0, stream, time, asked, frame, peer)


def send(time, stream, payload=b"x"):
    metadata = pb.MessageMetadata(producer_name=f"p{stream}", sequence_id=0, publish_time=1)
    body = pb.CommandSend(producer_id=1, sequence_id=0)
    return step(time, stream, body, peer=Producer(1, TOPIC), entry=push_entry(metadata, payload))


def receipt(time, stream, entry):
    body = pb.CommandSendReceipt(producer_id=1, sequence_id=0, message_id=MessageId(5, entry).proto())
    return step(time, stream, body, peer=Producer(1, TOPIC))


def test_sends_in_order_of_their_entries():
    lines = [send(0, 1), send(1, 2), receipt(2, 2, 0), receipt(3, 1, 1)]
    first, second, their, mine = lines
    assert in_order_of_effects(lines) == [second, their, first, mine]


def test_sends_that_did_not_cross_keep_their_order():
    lines = [send(0, 1), receipt(1, 1, 0), send(2, 2), receipt(3, 2, 1)]
    assert in_order_of_effects(lines) == lines


def test_a_send_follows_the_receipt_of_the_previous_entry():
    first, second, mine, their = lines = [send(0, 1), send(1, 2), receipt(2, 1, 0), receipt(3, 2, 1)]
    assert in_order_of_effects(lines) == [first, mine, second, their]


def test_sends_of_one_connection_keep_their_order():
    lines = [send(0, 1), send(1, 1), receipt(2, 1, 1), receipt(3, 1, 0)]
    assert in_order_of_effects(lines) == lines


def test_a_subscription_precedes_an_entry_in_flight_that_it_received():
    consumer = Consumer(1, TOPIC, "s", "c", "Exclusive")
    subscribe = pb.CommandSubscribe(
        topic=TOPIC, subscription="s", subType=pb.CommandSubscribe.Exclusive, consumer_id=1, request_id=1
    )
    message = pb.CommandMessage(consumer_id=1, message_id=MessageId(5, 0).proto())
    sent, asked, stored_ = send(0, 1), step(1, 2, subscribe, peer=consumer), receipt(2, 1, 0)
    got = step(3, 2, message, peer=consumer, entry=b"")
    assert in_order_of_effects([sent, asked, stored_, got])[:2] == [asked, sent]
    assert in_order_of_effects([sent, asked, stored_])[:2] == [sent, asked]
