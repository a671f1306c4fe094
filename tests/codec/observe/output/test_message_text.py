"""Message lifecycles as text."""

import pytest

from pcli.codec.observe.output.message_text import lifecycle_diagram, lifecycle_lines
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.lifecycle import Ack, Delivery, Lifecycle
from pcli.codec.observe.tracking.records.topic_records import AGAIN, TopicRecord

MS = 1_000_000
TOPIC = TopicRecord("persistent://public/default/orders")
ANN = ConsumerRecord(TOPIC.name, "bill", "ann", "Shared", None)


def a_batch():
    """A message that was sent, stored, delivered, partly acknowledged, and taken back when its consumer left."""
    first = Delivery(ANN, 12, 108 * MS, 2, messages=10, held=0, taken=("left", 30))
    first.acks = (Ack(14, 150 * MS, "batch", left=3),)
    one = Lifecycle(
        TOPIC, producer_name="till", sequence_id=4, highest_sequence_id=13, ledger=7, entry=1, sent_frame=10,
        sent_ns=100 * MS, receipt_frame=11, receipt_ns=103 * MS, messages=10, batch=True, size=1200, key="k",
        state="unacked", unacked={"bill": 3},
    )  # fmt: skip
    one.deliveries["bill"] = [first]
    return one


def test_the_block_of_a_lifecycle():
    assert [line for _, line in lifecycle_lines(a_batch())] == [
        "orders  7:1  10 messages  1.2 kB  key k",
        "  unacked: delivered; at least one subscription that received it has not acknowledged all of it",
        "  3 of 10 left: last held by bill/ann until frame 30",
        "     0.00 ms              frame 10      sent        till → broker  sequence 4 to 13",
        "      3.0 ms     +3.0 ms  frame 11      receipt     broker → till  7:1",
        "      8.0 ms     +5.0 ms  frame 12      delivered   broker → bill/ann",
        "     50.0 ms    +42.0 ms  frame 14      acked       bill/ann → broker  part of the batch, 3 left",
        "                          frame 30      taken back  broker → bill/ann",
        "                                        the client closed the consumer that held the message",
    ]


def test_the_holder_of_unacknowledged_messages():
    one = a_batch()
    one.deliveries["bill"][0].held = 3
    assert "  3 of 10 left: held by bill/ann" in [line for _, line in lifecycle_lines(one)]


def test_a_message_stored_twice():
    one = a_batch()
    one.other_ids = ((7, 5), (8, 0))
    assert "  stored more than once: also as 7:5, 8:0" in [line for _, line in lifecycle_lines(one)]


def test_missing_evidence_is_stated():
    one = a_batch()
    one.doubts |= {"gap", "end"}
    doubts = [line for kind, line in lifecycle_lines(one) if kind == "doubt"]
    assert doubts == [
        "  evidence incomplete: events after the end of the capture are unknown",
        "  evidence incomplete: packets of the connection are missing from the capture",
    ]


def test_lines_have_at_most_a_hundred_columns():
    one = a_batch()
    for why in AGAIN:
        one.deliveries["bill"].append(Delivery(ANN, 40, 200 * MS, 2, redelivery_count=3, why=why, why_frame=39))
    assert max(len(line) for _, line in lifecycle_lines(one)) <= 100


def test_a_diagram_has_each_participant_once_and_an_arrow_per_step():
    lines = list(lifecycle_diagram([a_batch(), a_batch()]))
    assert lines[:4] == [
        "sequenceDiagram",
        "    participant p0 as till",
        "    participant broker",
        "    participant c0 as bill/ann",
    ]
    assert lines.count("    p0->>broker: sent sequence 4 to 13 (frame 10)") == 2
    assert "    broker->>c0: delivered after 5.0 ms (frame 12)" in lines
    assert lines[-1] == "    Note over broker: 7:1, unacked, 3 of 10 left: last held by bill/ann until frame 30"


def test_names_do_not_break_a_diagram():
    one = a_batch()
    one.producer_name = "a;b\n%% x"
    assert "    participant p0 as a#59;b\\n#37;#37; x" in list(lifecycle_diagram([one]))


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_text_of_a_step_fits_the_width(width):
    steps = [line for kind, line in lifecycle_lines(a_batch(), width) if kind not in ("head", "state", "doubt")]
    assert steps
    assert all(len(line) <= width for line in steps)
