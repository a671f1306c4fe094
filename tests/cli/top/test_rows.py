"""The rows of `pcli top`: topics, subscriptions and consumers, their order and their figures."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.cli.top.rows import Snapshot, cells, concerns, make_rows, ordered
from tests.cli.top.conftest import BILLS, ORDERS, SECOND, SEGMENT, consumer, finding, scalable, subscription, topics


def names(rows: Any, key: str = "n", arguments: str = "") -> list[str]:
    return [row.name.rpartition("/")[2] for row in ordered(rows, key, arguments)]


def test_a_topic_has_its_subscriptions_below_it_and_they_their_consumers():
    rows = make_rows(Snapshot(SECOND, topics()), None)
    assert names(rows) == ["bills", "pay", "p", "orders", "audit", "work", "w1", "w2"]


def test_rates_are_increases_of_counters():
    before, now = Snapshot(10 * SECOND, topics()), Snapshot(12 * SECOND, topics(3))
    rates = {row.name: row.rate for row in ordered(make_rows(now, before), "n")}
    assert (rates[ORDERS], rates["work"], rates["w1"], rates[BILLS]) == (100.0, 40.0, 30.0, 0.0)


def test_the_first_page_has_the_brokers_own_rates_or_none():
    stats = {"msgInCounter": 5, "msgRateIn": 2.5, "subscriptions": {"s": subscription()}}
    first, below = list(ordered(make_rows(Snapshot(SECOND, {ORDERS: stats}), None), "n"))
    assert (first.rate, below.rate) == (2.5, None)


def test_a_counter_that_fell_began_anew():
    before, now = Snapshot(SECOND, topics(5)), Snapshot(2 * SECOND, topics())
    assert next(row for row in ordered(make_rows(now, before), "n") if row.name == "w1").rate is None


def test_the_worst_consumer_determines_the_order_of_topics():
    rows = make_rows(Snapshot(SECOND, topics()), None)
    assert names(rows, "p") == ["orders", "work", "w1", "w2", "audit", "bills", "pay", "p"]
    assert names(rows, "b")[:2] == ["orders", "audit"]
    [orders] = [row for row in rows if row.name == ORDERS]
    assert (orders.permits, orders.unacked, orders.backlog) == (0, 6, 109)


def test_unknown_figures_are_last_and_shown_as_dashes():
    rows = make_rows(Snapshot(SECOND, topics()), None)
    assert names(rows, "b")[-3:] == ["bills", "pay", "p"]
    [pay] = [row for row in ordered(rows, "n") if row.name == "pay"]
    assert cells(pay) == ("  pay", "Shared", "500", "0", "-", "-", "0", "")


def test_states():
    blocked = consumer("b", 5, blockedConsumerOnUnackedMsgs=True)
    active = subscription(consumer("a"), blocked, activeConsumerName="a")
    stats = {"subscriptions": {"s": active, "t": subscription(), "u": subscription(consumer("c", -2))}}
    rows = ordered(make_rows(Snapshot(SECOND, {ORDERS: stats, BILLS: {}}), None), "n")
    assert {row.name: row.state for row in rows} == {
        BILLS: "no subscription", ORDERS: "", "s": "active: a", "a": "", "b": "blocked: unacked",
        "t": "no consumer", "u": "", "c": "no permits",
    }  # fmt: skip


def test_a_filter_keeps_the_rows_above_and_below():
    rows = make_rows(Snapshot(SECOND, topics()), None)
    assert names(rows, arguments="W1") == ["orders", "work", "w1"]
    assert names(rows, arguments="work") == ["orders", "work", "w1", "w2"]
    assert names(rows, arguments="bills") == ["bills", "pay", "p"]
    assert names(rows, arguments="nobody") == []


def test_a_scalable_topic_is_one_row_or_a_row_for_each_segment():
    [total] = make_rows(scalable(), None)
    assert (total.name, total.state) == ("topic://public/default/sp2", "1 active, 1 sealed")
    [segment] = make_rows(scalable(), None, segments=True)
    assert (segment.name, segment.state) == (SEGMENT, "")


@pytest.mark.parametrize(
    ("subject", "number"),
    [
        ({"topic": SEGMENT}, 1),
        ({"topic": SEGMENT, "subscription": "st"}, 2),
        ({"topic": SEGMENT, "subscription": "st", "consumer": "s1-seg-1"}, 3),
        ({"topic": "topic://public/default/sp2"}, 1),
        ({"topic": SEGMENT, "subscription": "other"}, 1),
        ({"topic": SEGMENT, "subscription": "st", "consumer": "s1-seg-2"}, 2),
        ({"topic": SEGMENT.replace("sp2", "sp3")}, 0),
        ({}, 0),
    ],
)
def test_findings_of_segments_concern_the_rows_of_their_scalable_topic(subject, number):
    rows = ordered(make_rows(scalable(), None), "n")
    assert [concerns(finding(**subject), row) for row in rows] == [place < number for place in range(3)]
