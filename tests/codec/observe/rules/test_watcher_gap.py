"""Rule watcher-gap: topics without a SUBSCRIBE."""

import pytest


@pytest.fixture
def watching(connection, counted, ns):
    def make(missed_s=2, **fields):
        return connection(watch_missed={"a2": (9, ns(missed_s))}, watch_gaps=counted(1, 8, 9), **fields)

    return make


def test_no_subscribe_within_ten_seconds(evaluate, watching):
    [found] = evaluate("watcher-gap", watching(), 13)
    assert (found.severity, found.culprit, found.certainty, found.frames) == ("warning", "client", "likely", [9, 8])
    assert "(a2); the topics changed once without a watcher" in found.what


def test_the_subscribe_may_follow(evaluate, watching):
    assert evaluate("watcher-gap", watching(), 11) == []


def test_the_connection_ended_before(evaluate, watching, ns):
    assert evaluate("watcher-gap", watching(end="fin_client", ended_ns=ns(5)), 100) == []


def test_topics_in_an_update(evaluate, connection, ns):
    [found] = evaluate("watcher-gap", connection(watch_missed={"a2": (9, ns(2))}), 30)
    assert "the watcher was registered at that time" in found.what


def test_the_subscribe_may_be_in_a_gap(evaluate, watching):
    [found] = evaluate("watcher-gap", watching(doubts={"gap"}), 30)
    assert found.certainty == "possible"


def test_a_gap_without_missing_topics(evaluate, connection, counted):
    assert evaluate("watcher-gap", connection(watch_gaps=counted(1, 8, 9)), 30) == []
