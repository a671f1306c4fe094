"""Rule redelivery-storm: dense redeliveries that are more than half of all deliveries."""

import pytest


@pytest.fixture
def storm(subscription, counted, ns):
    def make(**fields):
        again = {"nack": counted(300, 30), "ack_timeout": counted(300, 20, first=1)}
        usual = {"again": again, "redelivered_per_second": 200, "redelivered_peak_ns": ns(5), "delivered": 700}
        return subscription(**{**usual, **fields})

    return make


def test_dense_redeliveries(evaluate, storm, ns):
    [found] = evaluate("redelivery-storm", storm())
    assert (found.severity, found.culprit) == ("error", "application")
    assert found.since_ns == ns(1)
    assert "600 of 700 delivered messages" in found.what
    assert "200 entries per second" in found.what


def test_many_but_not_dense(evaluate, storm):
    assert evaluate("redelivery-storm", storm(redelivered_per_second=49)) == []


def test_dense_but_not_many(evaluate, storm):
    assert evaluate("redelivery-storm", storm(delivered=1200)) == []


def test_a_seek_is_no_storm(evaluate, storm, counted):
    assert evaluate("redelivery-storm", storm(again={"seek": counted(600, 30)})) == []
