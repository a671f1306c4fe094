"""The steps of a lifecycle: in order, each with the time since the preceding one."""

import pytest

from pcli.codec.observe.tracking.message_timeline import duration_ns, steps_of
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, Session
from pcli.codec.observe.tracking.records.lifecycle import Ack, Delivery, Lifecycle
from pcli.codec.observe.tracking.records.topic_records import TopicRecord

MS = 1_000_000
TOPIC = TopicRecord("persistent://public/default/orders")


def consumer(name="ann", topic=TOPIC.name):
    record = ConsumerRecord(topic, "bill", name, "Shared", None)
    record.session = Session(stream=2, id=5, number=3, began_ns=0)
    return record


def delivery(frame, at_ms, **fields):
    return Delivery(fields.pop("consumer", consumer()), frame, at_ms * MS, 2, **fields)


def life(*deliveries, **fields):
    known = {"ledger": 7, "entry": 1, "sequence_id": 4, "sent_frame": 10, "sent_ns": 100 * MS, "state": "acked"}
    one = Lifecycle(TOPIC, producer_name="till", **{**known, "receipt_frame": 11, "receipt_ns": 103 * MS, **fields})
    if deliveries:
        one.deliveries["bill"] = list(deliveries)
    return one


def told(one):
    return [(step.what, step.frame, step.after_ns // MS if step.after_ns >= 0 else None) for step in steps_of(one)]


def test_from_send_to_the_ack_response():
    ack = Ack(14, 150 * MS, "individual", answer_frame=15, answer_ns=152 * MS)
    one = life(delivery(12, 108, acks=(ack,)))
    assert told(one) == [
        ("sent", 10, None),
        ("receipt", 11, 3),
        ("delivered", 12, 5),
        ("acked", 14, 42),
        ("ack answer", 15, 2),
    ]
    assert duration_ns(one) == 52 * MS
    sent, receipt, delivered, *_ = steps_of(one)
    assert (sent.sender, sent.receiver, sent.text) == ("till", "", "sequence 4")
    assert (receipt.sender, receipt.receiver, receipt.text) == ("", "till", "7:1")
    assert delivered.receiver == "bill/ann"


def test_a_requested_redelivery_follows_its_request():
    first = delivery(12, 108, again=(13, 140 * MS))
    second = delivery(14, 141, redelivery_count=1, why="nack", why_frame=13)
    steps = steps_of(life(first, second))
    assert [(step.what, step.after_ns // MS) for step in steps[2:]] == [
        ("delivered", 5),
        ("asked again", 32),
        ("delivered", 1),
    ]
    assert "redelivered 1" in steps[-1].text
    assert "negative acknowledgement" in steps[-1].text
    assert "frame 13" in steps[-1].text


def test_a_delivery_taken_back_is_one_step():
    left = delivery(12, 108, taken=("left", 20))
    assert told(life(left))[-1] == ("taken back", 20, None)
    asked = delivery(12, 108, taken=("nack", 20), again=(20, 140 * MS))
    assert [what for what, _, _ in told(life(asked))[3:]] == ["asked again"]


def test_chunks_are_acknowledged_in_one_step():
    ack = Ack(20, 150 * MS, "individual")
    parts = [delivery(12 + chunk, 108, chunk=chunk, acks=(ack,)) for chunk in range(3)]
    steps = steps_of(life(*parts, num_chunks=3))
    assert [step.text for step in steps if step.what == "delivered"] == ["chunk 0", "chunk 1", "chunk 2"]
    assert [step.what for step in steps].count("acked") == 1


@pytest.mark.parametrize(
    ("fields", "what", "text"),
    [
        ({"error": "ProducerFenced", "state": "refused"}, "refused", "ProducerFenced"),
        ({"state": "duplicate", "ledger": -1, "entry": -1}, "receipt", "a duplicate, dropped"),
    ],
)
def test_refusals_and_duplicates(fields, what, text):
    step = steps_of(life(**fields))[-1]
    assert (step.what, step.text) == (what, text)


def test_the_receipt_follows_the_resend():
    one = life(resent=((1, 20, 160 * MS),), receipt_frame=21, receipt_ns=163 * MS)
    assert told(one) == [("sent", 10, None), ("sent again", 20, 60), ("receipt", 21, 3)]


def test_missing_frames_have_no_time():
    one = life(delivery(12, 108), sent_frame=0, sent_ns=-1, receipt_frame=0, receipt_ns=-1)
    assert told(one) == [("delivered", 12, None)]
    assert duration_ns(one) == 0
    assert duration_ns(Lifecycle(TOPIC)) == -1


def test_unnamed_consumers():
    unknown = life(delivery(12, 108, consumer=consumer(topic="")))
    assert steps_of(unknown)[-1].receiver == "#5 of stream 2"
    unnamed = life(delivery(12, 108, consumer=consumer(name="")))
    assert steps_of(unnamed)[-1].receiver == "bill/#5 of stream 2"


def test_names_from_the_wire_are_escaped():
    one = life(delivery(12, 108, consumer=consumer(name="\x1b[2J")))
    assert steps_of(one)[-1].receiver == r"bill/\x1b[2J"


def test_a_dead_letter_is_the_last_step():
    topic = "persistent://public/default/orders-bill-DLQ"
    one = life(delivery(12, 108), dead_letters=((topic, 30, 500 * MS), (topic, 31, 502 * MS)))
    assert told(one)[-2:] == [("dead letter", 30, 392), ("dead letter", 31, 394)]
    assert steps_of(one)[-1].text == "sent to orders-bill-DLQ"
    assert duration_ns(one) == 402 * MS
