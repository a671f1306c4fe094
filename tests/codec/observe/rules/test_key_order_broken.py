"""Rule key-order-broken: a key held by two consumers, or delivered out of order."""

import pytest

from pcli.codec.observe.tracking.records.topic_records import KeyRecord


@pytest.fixture
def key(subscription):
    return lambda of=None, **fields: KeyRecord(of or subscription(type="Key_Shared"), "eu", 4711, ["a", "b"], **fields)


def test_a_key_held_by_two_consumers(evaluate, key, counted):
    [found] = evaluate("key-order-broken", key(open_at_two=counted(2, 30, 20)))
    assert (found.severity, found.culprit, found.certainty, found.variant) == (
        "warning",
        "broker",
        "likely",
        "open-at-two",
    )
    assert found.subject["key"] == "eu"
    assert found.frames == [30, 20]
    assert "the consumers of the key were a, b" in found.what


def test_a_later_message_is_delivered_first(evaluate, key, counted):
    [found] = evaluate("key-order-broken", key(backwards=counted(1, 30, 20)))
    assert found.variant == "backwards"


def test_out_of_order_delivery_is_allowed(evaluate, key, subscription, counted):
    of = subscription(type="Key_Shared", allow_out_of_order=True)
    [found] = evaluate("key-order-broken", key(of, open_at_two=counted(2, 30, 20)))
    assert found.severity == "note"


def test_the_ack_may_be_in_a_gap(evaluate, key, subscription, counted):
    [found] = evaluate("key-order-broken", key(subscription(doubts={"gap"}), open_at_two=counted(2, 30, 20)))
    assert found.certainty == "possible"


def test_a_key_that_moved_in_order(evaluate, key, counted):
    assert evaluate("key-order-broken", key(moved=counted(1, 30))) == []
