"""Rule consumer-reconnect-loop: a consumer that subscribes repeatedly."""

import pytest


def test_closed_by_the_broker(evaluate, consumer, counted):
    [found] = evaluate("consumer-reconnect-loop", consumer(sessions=4, ends={"broker": counted(3, 5, 6, 7, last=40)}))
    assert (found.severity, found.culprit, found.cause_certainty, found.variant) == (
        "warning",
        "broker",
        "certain",
        "broker",
    )
    assert found.frames == [5, 6, 7]
    assert "4 sessions: the broker closed the session 3 times within 38.0 s" in found.what


def test_closes_by_seeks_are_not_counted(evaluate, consumer, subscription, counted):
    of = subscription(seeks=counted(2))
    assert evaluate("consumer-reconnect-loop", consumer(of=of, ends={"broker": counted(4, last=40)})) == []
    [found] = evaluate("consumer-reconnect-loop", consumer(of=of, ends={"broker": counted(5, last=40)}))
    assert "3 times" in found.what


def test_rare_closes(evaluate, consumer, counted):
    assert evaluate("consumer-reconnect-loop", consumer(ends={"broker": counted(3, last=86_400 * 3)})) == []


@pytest.mark.parametrize("end", ["closed", "fin_client", "replaced", "refused"])
def test_closes_by_the_application(evaluate, consumer, counted, end):
    assert evaluate("consumer-reconnect-loop", consumer(ends={end: counted(9, last=9)})) == []


@pytest.mark.parametrize("name", ["python/16-seek", "java/seek", "java/deletions", "flex/04-reconnect"])
def test_real_near_misses(diagnosed, name):
    assert diagnosed(name, "consumer-reconnect-loop") == []
