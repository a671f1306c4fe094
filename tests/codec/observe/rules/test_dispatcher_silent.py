"""Rule dispatcher-silent: permits and a backlog, no block, and no delivery."""

import pytest


@pytest.fixture
def silent(consumer, ongoing):
    return lambda **fields: consumer(**{"permits": {"balance": 10}, "silent": ongoing(4, 70), **fields})


def test_no_delivery(evaluate, silent):
    [found] = evaluate("dispatcher-silent", silent())
    assert (found.severity, found.culprit, found.certainty) == ("error", "broker", "likely")
    assert found.frames[0] == 70
    assert "10 permits" in found.what
    assert "at least 100 entries were wait" in found.what


def test_deliveries_resume(evaluate, silent, finished):
    [found] = evaluate("dispatcher-silent", silent(silent=finished(2, 8, 70, 80)))
    assert found.severity == "warning"
    assert found.frames[:2] == [70, 80]


def test_a_rate_limit(evaluate, silent, finished):
    assert evaluate("dispatcher-silent", silent(silent=finished(2, 3.5, 70, 80))) == []


def test_a_standby_correctly_receives_nothing(evaluate, silent):
    assert evaluate("dispatcher-silent", silent(active=False)) == []


def test_a_gap_reduces_the_certainty(evaluate, silent):
    [found] = evaluate("dispatcher-silent", silent(doubts={"one_way"}))
    assert found.certainty == "possible"
