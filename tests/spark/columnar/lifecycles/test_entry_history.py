"""What becomes of an entry at a subscription, event by event."""

from __future__ import annotations

import pytest

from pcli.spark.columnar.lifecycles.entry_history import (
    ACKED,
    DELIVERED,
    ENDED,
    NACKED,
    REACHED,
    RESET,
    Event,
    Handed,
    Sub,
    play,
)
from pcli.spark.columnar.lifecycles.recording_facts import TxnEnd

TXN = (0, 7)


def delivered(number, messages=1, consumer=1, bits=None):
    handed = Handed(0, consumer, 0, number, number * 10, 0, messages)
    return Event(number, DELIVERED, number * 10, 0, consumer, handed, given_bits=bits)


def said(number, kind, consumer=1, **more):
    return Event(number, kind, number * 10, 0, consumer, **more)


def ended(number, *, commit):
    return Event(number, ENDED, -1, txn=TXN, end=TxnEnd(number, commit, "t", "s"))


@pytest.fixture
def follow():
    def of(*events, size=1, individual=True, failed=()):
        return play(Sub(size, individual), list(events), frozenset(failed))

    return of


def test_an_ack_counts_for_who_holds_the_entry(follow):
    sub = follow(delivered(1), delivered(5, consumer=2), said(7, ACKED, consumer=1))
    assert [one.acked_ns for one in sub.handed] == [-1, 70]
    assert (sub.left, sub.closed) == (0, 7)


def test_a_delivery_opens_it_again(follow):
    sub = follow(delivered(1), said(2, ACKED), delivered(3))
    assert sub.left == 1
    assert [one.acked_ns for one in sub.handed] == [20, -1]


def test_an_ack_before_the_delivery_is_none(follow):
    assert follow(said(1, ACKED), delivered(2)).left == 1


def test_parts_of_a_batch_add_up(follow):
    first = follow(delivered(1, 3), said(2, ACKED, bits=0b110), size=3)
    assert (first.left, first.handed[0].acked_ns) == (2, -1)
    sub = follow(delivered(1, 3), said(2, ACKED, bits=0b110), said(3, ACKED, bits=0b001), size=3)
    assert (sub.left, sub.handed[0].acked_ns, sub.handed[0].ack_type) == (0, 30, "batch")


def test_what_was_acknowledged_of_a_batch_is_not_delivered_again(follow):
    sub = follow(delivered(1, 2, bits=0b101), said(2, ACKED, bits=0b110), size=3)
    assert sub.left == 1


def test_a_cumulative_ack_does_not_reach_over_a_reset(follow):
    assert follow(delivered(1), said(3, REACHED), individual=False).left == 0
    assert follow(delivered(1), said(2, RESET), said(3, REACHED), individual=False).left == 1
    assert follow(delivered(1), said(2, RESET), said(3, ACKED), individual=False).left == 0


def test_only_what_a_consumer_holds_can_be_asked_for(follow):
    sub = follow(delivered(1), said(2, NACKED, consumer=2), said(3, NACKED), said(4, NACKED))
    assert sub.handed[0].nacked_ns == 30
    assert follow(delivered(1), said(2, ACKED), said(3, NACKED)).handed[0].nacked_ns == -1


def test_a_transaction_counts_from_its_commit_on(follow):
    events = (delivered(1), said(2, ACKED, txn=TXN))
    assert follow(*events).left == 1
    assert follow(*events, ended(5, commit=False)).left == 1
    sub = follow(*events, ended(5, commit=True))
    assert (sub.left, sub.handed[0].acked_ns, sub.handed[0].ack_type, sub.closed) == (0, 20, "transaction", 5)
    assert follow(*events, ended(5, commit=True), failed=[2]).left == 1


def test_an_ack_that_was_refused_has_no_effect_worth_telling(follow):
    sub = follow(delivered(1), said(2, ACKED), failed=[2])
    assert sub.handed[0].acked_ns == -1
