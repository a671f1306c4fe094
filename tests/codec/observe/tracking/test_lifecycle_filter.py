"""The conditions of the lifecycle filter."""

import pytest

from pcli.codec.observe.bit_set import Bits
from pcli.codec.observe.tracking.lifecycle_filter import LifecycleFilter, is_system, severity_key
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle
from pcli.codec.observe.tracking.records.topic_records import TopicRecord
from pcli.codec.wire.message_id import MessageId

MS = 1_000_000
TOPIC = TopicRecord("persistent://public/default/orders")
ANN = ConsumerRecord(TOPIC.name, "bill", "ann", "Shared", None)


def life(*deliveries, **fields):
    known = {"ledger": 7, "entry": 1, "sequence_id": 4, "sent_frame": 10, "sent_ns": 100 * MS, "state": "acked"}
    one = Lifecycle(TOPIC, producer_name="till", **{**known, "receipt_frame": 11, "receipt_ns": 103 * MS, **fields})
    one.deliveries["bill"] = list(deliveries)
    return one


@pytest.mark.parametrize(
    ("wanted", "fields", "holds"),
    [
        ("7:1", {}, True),
        ("7:1:3:2", {}, True),
        ("7:2", {}, False),
        ("7:1:3", {"partition": 3}, True),
        ("7:1:3", {"partition": 2}, False),
        ("7:0", {"chunks": [(0, 9, 7, 0), (1, 10, 7, 1)]}, True),
        ("8:5", {"other_ids": ((8, 5),)}, True),
    ],
)
def test_by_message_id(wanted, fields, holds):
    assert LifecycleFilter(message_id=MessageId.parse(wanted)).holds(life(**fields)) is holds


@pytest.mark.parametrize(("number", "holds"), [(3, False), (4, True), (8, True), (9, False)])
def test_by_sequence_id_also_inside_a_batch(number, holds):
    batch = life(highest_sequence_id=8)
    assert LifecycleFilter(producer="till", sequence_id=number).holds(batch) is holds
    assert not LifecycleFilter(producer="other", sequence_id=number).holds(batch)


def test_by_state():
    assert LifecycleFilter(unacked=True).holds(life(unacked={"bill": 2}, state="unacked"))
    assert not LifecycleFilter(unacked=True).holds(life(unacked={"bill": 0}))
    again = life(Delivery(ANN, 12, 105 * MS, 2), Delivery(ANN, 14, 205 * MS, 2, why="nack"))
    assert LifecycleFilter(redelivered=True).holds(again)
    assert not LifecycleFilter(redelivered=True).holds(life(Delivery(ANN, 12, 105 * MS, 2)))
    assert LifecycleFilter(slower_ns=104 * MS).holds(again)
    assert not LifecycleFilter(slower_ns=105 * MS).holds(again)


def test_by_frames_with_one_of_each_set():
    one, other = Bits(), Bits()
    one.add(10)
    other.add(12)
    both = LifecycleFilter(frames=[one, other])
    assert both.holds(life(Delivery(ANN, 12, 105 * MS, 2)))
    assert not both.holds(life(Delivery(ANN, 13, 105 * MS, 2)))
    assert LifecycleFilter(frames=[other]).holds(life(chunks=[(0, 12, 7, 0)]))


def test_all_conditions_must_hold():
    one = life(unacked={"bill": 2}, state="unacked")
    assert LifecycleFilter(message_id=MessageId(7, 1), unacked=True).holds(one)
    assert not LifecycleFilter(message_id=MessageId(7, 1), redelivered=True).holds(one)
    assert LifecycleFilter().holds(one)


def test_the_sort_key_orders_by_severity():
    lost = life(state="lost")
    often = life(Delivery(ANN, 12, 105 * MS, 2), Delivery(ANN, 14, 205 * MS, 2))
    slow, quick = life(receipt_ns=900 * MS), life()
    assert sorted([quick, slow, often, lost], key=severity_key, reverse=True) == [lost, often, slow, quick]


def test_lifecycles_of_the_broker():
    assert is_system(life(marker=True))
    assert not is_system(life())
    own = life()
    own.topic = TopicRecord("persistent://public/default/__change_events", system=True)
    assert is_system(own)


def test_with_an_unknown_topic_the_consumers_decide():
    reader = ConsumerRecord("", "", "1#1", "", None, system=True)
    assert is_system(Lifecycle(None, deliveries={"1#1": [Delivery(reader, 12, 105 * MS, 2)]}))
    assert not is_system(Lifecycle(None, deliveries={"1#1": [Delivery(ANN, 12, 105 * MS, 2)]}))
