"""Rule watcher-gap: topics without a SUBSCRIBE."""

import pytest


@pytest.fixture
def watching(connection, tallied, ns):
    def make(told=2, **fields):
        return connection(watch_missed={"a2": (9, ns(told))}, watch_gaps=tallied(1, 8, 9), **fields)

    return make


def test_ten_seconds_later_nobody_came(evaluate, watching):
    [found] = evaluate("watcher-gap", watching(), 13)
    assert (found.severity, found.culprit, found.sure, found.frames) == ("warning", "client", "likely", [9, 8])
    assert "(a2); once they changed without a watcher" in found.what


def test_they_may_still_come(evaluate, watching):
    assert evaluate("watcher-gap", watching(), 11) == []


def test_the_connection_ended_before(evaluate, watching, ns):
    assert evaluate("watcher-gap", watching(end="fin_client", ended_ns=ns(5)), 100) == []


def test_told_while_it_watched(evaluate, connection, ns):
    [found] = evaluate("watcher-gap", connection(watch_missed={"a2": (9, ns(2))}), 30)
    assert "while it was watching" in found.what


def test_the_subscribe_may_be_in_a_hole(evaluate, watching):
    [found] = evaluate("watcher-gap", watching(doubts={"gap"}), 30)
    assert found.sure == "possible"


def test_a_gap_that_was_closed(evaluate, connection, tallied):
    assert evaluate("watcher-gap", connection(watch_gaps=tallied(1, 8, 9)), 30) == []
