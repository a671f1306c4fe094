"""Message lifecycles as JSON objects with stable keys."""

import json

from pcli.codec.observe.output.message_json import lifecycle_object
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.lifecycle import Ack, Delivery, Lifecycle
from pcli.codec.observe.tracking.records.topic_records import TopicRecord

SECOND = 1_000_000_000
TOPIC = TopicRecord("persistent://public/default/orders")
ANN = ConsumerRecord(TOPIC.name, "bill", "ann", "Shared", None)
NOBODY = ConsumerRecord("", "", "", "", None)


def test_a_lifecycle_with_all_fields():
    ack = Ack(14, 1700000003 * SECOND, "individual", answer_frame=15, answer_ns=1700000003 * SECOND + 500_000)
    one = Lifecycle(
        TOPIC, producer_name="till", sequence_id=4, ledger=7, entry=1, sent_frame=10, sent_ns=1700000000 * SECOND,
        receipt_frame=11, receipt_ns=1700000001 * SECOND, size=12, txn=(0, 3), chunks=[(0, 10, 7, 0)],
        state="acked", unacked={"bill": 0},
    )  # fmt: skip
    one.deliveries["bill"] = [Delivery(ANN, 12, 1700000002 * SECOND, 2, redelivery_count=1, why="nack", acks=(ack,))]
    told = json.loads(json.dumps(lifecycle_object(one)))
    assert told["message_id"] == "7:1"
    assert told["topic"] == TOPIC.name
    assert told["txn"] == "(0,3)"
    assert told["chunks"] == [{"chunk": 0, "frame": 10, "message_id": "7:0"}]
    assert told["duration_ms"] == 3000.5
    assert [(step["what"], step["frame"], step["after_ms"]) for step in told["steps"]] == [
        ("sent", 10, None),
        ("receipt", 11, 1000.0),
        ("delivered", 12, 1000.0),
        ("acked", 14, 1000.0),
        ("ack answer", 15, 0.5),
    ]
    assert told["steps"][0]["time"] == "1700000000.000000000"
    (delivery,) = told["deliveries"]
    assert (delivery["subscription"], delivery["consumer"], delivery["why_again"]) == ("bill", "ann", "nack")
    assert delivery["acks"][0]["answer_ms"] == 0.5


def test_unknown_values_are_null():
    one = Lifecycle(None, doubts={"start"})
    one.deliveries["2#0"] = [Delivery(NOBODY, 12, 1, 2)]
    told = lifecycle_object(one)
    assert [told[name] for name in ("message_id", "topic", "producer", "key", "txn", "error")] == [None] * 6
    assert (told["complete"], told["doubts"]) == (False, ["start"])
    assert told["deliveries"][0]["subscription"] is None
    assert told["deliveries"][0]["consumer"] is None
