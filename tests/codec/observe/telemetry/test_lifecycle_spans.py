"""Spans of lifecycles with rare steps, and of incomplete captures."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.observe.telemetry.lifecycle_spans import traces_of
from pcli.codec.observe.telemetry.spans import Span
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.lifecycle import Ack, Delivery, Lifecycle
from pcli.codec.observe.tracking.records.topic_records import TopicRecord

MS = 1_000_000
SEGMENT = "segment://public/default/t/0000-7fff-1"
ANN = ConsumerRecord("t", "bill", "ann", "Shared", None)


def spans(lifecycle: Lifecycle) -> list[Span]:
    return [one for trace in traces_of(lifecycle, (), "east", lambda _: {}) for one in trace.spans]


def life(topic: str = "persistent://public/default/t-partition-3", **fields: Any) -> Lifecycle:
    known = {"ledger": 7, "entry": 1, "sequence_id": 4, "sent_frame": 10, "sent_ns": 100 * MS, "state": "acked"}
    return Lifecycle(TopicRecord(topic), **{**known, "receipt_frame": 11, "receipt_ns": 103 * MS, **fields})


def delivery(frame: int, at_ms: int, *acks: Ack, **fields: Any) -> Delivery:
    return Delivery(ANN, frame, at_ms * MS, 0, acks=acks, **fields)


def test_a_partition_and_a_segment_are_parts_of_the_destination():
    (partition,), (segment,) = spans(life()), spans(life(SEGMENT))
    assert partition.name == "send persistent://public/default/t"
    assert partition.attributes["messaging.destination.partition.id"] == "3"
    assert segment.name == "send topic://public/default/t"
    assert segment.attributes["messaging.pulsar.segment"] == "0000-7fff-1"


def test_attempts_on_a_sealed_segment_are_events_of_the_message_on_the_next_segment():
    attempt = life(SEGMENT, ledger=-1, entry=-1, sent_ns=50 * MS, sent_frame=5, receipt_frame=0, receipt_ns=-1)
    (span,) = spans(life("segment://public/default/t/0000-3fff-2", earlier=(attempt,)))
    assert (span.start_ns, span.end_ns) == (50 * MS, 103 * MS)
    assert [(one.name, one.time_ns, one.attributes) for one in span.events] == [
        ("sent_to_sealed_segment", 50 * MS, {"pcli.frame": 5, "messaging.pulsar.sealed_segment": SEGMENT})
    ]


@pytest.mark.parametrize(
    ("error", "event"), [("PersistenceError", "refused"), ("IncompatibleSchema", "schema_refused")]
)
def test_a_refused_message(error, event):
    (span,) = spans(life(ledger=-1, entry=-1, state="refused", error=error))
    assert (span.error, span.attributes["error.type"]) == (error, error)
    assert [one.name for one in span.events] == [event]


def test_resends_and_the_duplicate_that_deduplication_drops():
    (span,) = spans(life(resent=((0, 20, 200 * MS),), state="duplicate"))
    assert [(one.name, one.attributes["pcli.frame"]) for one in span.events] == [("duplicate", 11), ("resent", 20)]
    assert span.end_ns == 200 * MS


def test_chunks_are_one_span_of_each_side():
    one = life(num_chunks=3, chunks=((0, 8, 7, 0), (1, 9, 7, 1), (2, 10, 7, 2)))
    ack = Ack(30, 160 * MS, "individual")
    chunks = [delivery(20 + number, 110 + number, chunk=number) for number in range(2)]
    one.deliveries["bill"] = [*chunks, delivery(22, 112, ack, chunk=2), *(
        delivery(40 + number, 210 + number, chunk=number, redelivery_count=1, why="lost") for number in range(3)
    )]  # fmt: skip
    send, first, second = spans(one)
    assert send.attributes["pcli.frame.chunks"] == (8, 9, 10)
    assert send.attributes["messaging.pulsar.chunk.count"] == 3
    assert (first.start_ns, first.end_ns) == (110 * MS, 160 * MS)
    assert (second.start_ns, second.end_ns) == (210 * MS, 212 * MS)


def test_an_acknowledgement_in_a_transaction():
    one = life(txn=(0, 7))
    one.deliveries["bill"] = [delivery(20, 110, Ack(30, 160 * MS, "transaction"))]
    send, process = spans(one)
    assert send.attributes["messaging.pulsar.transaction.id"] == "(0,7)"
    assert process.events[0].attributes["messaging.pulsar.ack.type"] == "transaction"


def test_an_ack_without_effect_does_not_end_the_span():
    one = life()
    one.deliveries["bill"] = [delivery(20, 110, Ack(30, 160 * MS, "individual", effective=False))]
    assert spans(one)[1].name.startswith("receive")


def test_a_delivery_that_the_broker_takes_back_ends_at_the_latest_with_the_redelivery():
    one = life()
    one.deliveries["bill"] = [
        delivery(20, 110, taken=("lost", 25)), delivery(30, 300, why="lost", why_frame=25),
    ]  # fmt: skip
    _, first, second = spans(one)
    assert (first.end_ns, first.error, second.events[0].attributes) == (
        300 * MS, "lost", {"pcli.frame": 25, "messaging.pulsar.redelivery.cause": "lost"},
    )  # fmt: skip
    assert first.attributes["pcli.frame.end"] == 25


def test_a_message_that_left_early_has_a_doubt():
    assert spans(life(evicted=True))[0].attributes["pcli.doubts"] == "evicted"


@pytest.mark.parametrize("name", ["python/10-shared-redelivery", "java/txn-commit", "go/chunks"])
def test_incomplete_captures_have_valid_spans(small, variants, export_data, name):
    for what, data in variants(small.data(name)).items():
        for span in export_data(data, findings=True):
            assert 0 < span.start_ns <= span.end_ns, what
