"""Rule permits-doubled: two FLOWs with the whole queue."""

import pytest


@pytest.fixture
def doubled(consumer, counted):
    return lambda surplus, **fields: consumer(
        permits={"doubled": counted(1, 9), "surplus": surplus, "flowed": 10 + surplus, "flows": 2}, **fields
    )


def test_the_whole_queue_twice(evaluate, doubled):
    [found] = evaluate("permits-doubled", doubled(10))
    assert (found.severity, found.culprit, found.certainty, found.frames) == ("warning", "client", "likely", [9])
    assert "10 messages more than its queue of 10" in found.what


def test_part_of_the_surplus_is_used_up(evaluate, doubled):
    assert evaluate("permits-doubled", doubled(6)) != []


def test_a_small_surplus_is_not_reported(evaluate, doubled):
    assert evaluate("permits-doubled", doubled(3)) == []
    [found] = evaluate("permits-wrong-count", doubled(3))
    assert found.variant == "too-many"


def test_deliveries_may_be_in_a_gap(evaluate, doubled):
    [found] = evaluate("permits-doubled", doubled(10, doubts={"gap"}))
    assert found.certainty == "possible"
