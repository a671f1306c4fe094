"""Rule queue-of-one: FLOW 1 before the ACK of the previous message."""

import pytest


@pytest.fixture
def single(consumer, subscription, counted, ns):
    def make(others=1, **fields):
        of = subscription(type="Shared")
        for number in range(others):
            consumer(f"other-{number}", of)
        usual = {"permits": {"queue": 1}, "ack_ages": counted(4, first=2, last=8), "ack_age_total_ns": ns(16)}
        return consumer(of=of, **{**usual, **fields})

    return make


def test_a_message_waits_during_processing(evaluate, single):
    [found] = evaluate("queue-of-one", single())
    assert (found.severity, found.culprit) == ("note", "application")
    assert "needs 4.0 s per message" in found.what


def test_a_queue_of_zero_never_holds_two(evaluate, single, ns):
    """An ACK every two seconds, each two seconds after its MESSAGE."""
    assert evaluate("queue-of-one", single(ack_age_total_ns=ns(8))) == []


def test_no_other_consumer(evaluate, single):
    assert evaluate("queue-of-one", single(others=0)) == []


def test_fast_processing(evaluate, single, counted, ns):
    quick = single(ack_ages=counted(4, first=2, last=2.8), ack_age_total_ns=ns(1.6))
    assert evaluate("queue-of-one", quick) == []


def test_a_queue_of_ten(evaluate, single):
    assert evaluate("queue-of-one", single(permits={"queue": 10})) == []
