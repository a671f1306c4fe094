"""The state of an entry at a subscription, event by event."""

from __future__ import annotations

import pytest

from pcli.spark.columnar.lifecycles.entry_history import (
    ACKED,
    DELIVERED,
    ENDED,
    NACKED,
    REACHED,
    RESET,
    Delivery,
    EntryAtSubscription,
    Event,
    apply_events,
)
from pcli.spark.columnar.lifecycles.recording_facts import TransactionEnd

TXN = (0, 7)


def delivered(number, messages=1, consumer=1, bits=None):
    delivery = Delivery(0, consumer, 0, number, number * 10, 0, messages)
    return Event(number, DELIVERED, number * 10, 0, consumer, delivery, remaining_bits=bits)


def said(number, kind, consumer=1, **more):
    return Event(number, kind, number * 10, 0, consumer, **more)


def ended(number, *, commit):
    return Event(number, ENDED, -1, txn=TXN, end=TransactionEnd(number, commit, "t", "s"))


@pytest.fixture
def replay():
    def of(*events, size=1, individual=True, failed_acks=()):
        return apply_events(EntryAtSubscription(size, individual), list(events), frozenset(failed_acks))

    return of


def test_an_ack_counts_for_the_holder_of_the_entry(replay):
    sub = replay(delivered(1), delivered(5, consumer=2), said(7, ACKED, consumer=1))
    assert [one.acked_ns for one in sub.deliveries] == [-1, 70]
    assert (sub.unacked, sub.acked_number) == (0, 7)


def test_a_delivery_makes_the_entry_unacknowledged(replay):
    sub = replay(delivered(1), said(2, ACKED), delivered(3))
    assert sub.unacked == 1
    assert [one.acked_ns for one in sub.deliveries] == [20, -1]


def test_an_ack_before_the_delivery_is_none(replay):
    assert replay(said(1, ACKED), delivered(2)).unacked == 1


def test_parts_of_a_batch_add_up(replay):
    first = replay(delivered(1, 3), said(2, ACKED, bits=0b110), size=3)
    assert (first.unacked, first.deliveries[0].acked_ns) == (2, -1)
    sub = replay(delivered(1, 3), said(2, ACKED, bits=0b110), said(3, ACKED, bits=0b001), size=3)
    assert (sub.unacked, sub.deliveries[0].acked_ns, sub.deliveries[0].ack_type) == (0, 30, "batch")


def test_acknowledged_messages_of_a_batch_are_not_redelivered(replay):
    sub = replay(delivered(1, 2, bits=0b101), said(2, ACKED, bits=0b110), size=3)
    assert sub.unacked == 1


def test_a_cumulative_ack_does_not_reach_over_a_reset(replay):
    assert replay(delivered(1), said(3, REACHED), individual=False).unacked == 0
    assert replay(delivered(1), said(2, RESET), said(3, REACHED), individual=False).unacked == 1
    assert replay(delivered(1), said(2, RESET), said(3, ACKED), individual=False).unacked == 0


def test_a_consumer_requests_only_messages_that_it_holds(replay):
    sub = replay(delivered(1), said(2, NACKED, consumer=2), said(3, NACKED), said(4, NACKED))
    assert sub.deliveries[0].nacked_ns == 30
    assert replay(delivered(1), said(2, ACKED), said(3, NACKED)).deliveries[0].nacked_ns == -1


def test_a_transaction_counts_from_its_commit_on(replay):
    events = (delivered(1), said(2, ACKED, txn=TXN))
    assert replay(*events).unacked == 1
    assert replay(*events, ended(5, commit=False)).unacked == 1
    sub = replay(*events, ended(5, commit=True))
    assert (sub.unacked, sub.deliveries[0].acked_ns, sub.deliveries[0].ack_type, sub.acked_number) == (
        0,
        20,
        "transaction",
        5,
    )
    assert replay(*events, ended(5, commit=True), failed_acks=[2]).unacked == 1


def test_a_refused_ack_has_no_effect(replay):
    sub = replay(delivered(1), said(2, ACKED), failed_acks=[2])
    assert sub.deliveries[0].acked_ns == -1
