"""Rule stuck-unacked-limit: deliveries stop at a number of unacknowledged messages despite permits."""

import pytest


@pytest.fixture
def blocked(consumer, ongoing):
    def make(**fields):
        permits = {"balance": 950, "queue": 1000, "flowed": 1000}
        return consumer(**{"permits": permits, "unacked": 50, "blocked_at": 50, "blocked": ongoing(6, 312), **fields})

    return make


def test_the_limit_is_reached(evaluate, blocked):
    [found] = evaluate("stuck-unacked-limit", blocked())
    assert (found.severity, found.culprit, found.certainty) == ("error", "application", "likely")
    assert found.frames[0] == 312
    assert "held 50 unacknowledged messages when the broker stopped" in found.what
    assert "4.0 s before the end" in found.what
    assert "although its client had requested 950 more" in found.what
    assert "there is none" in found.opposite


@pytest.mark.parametrize(
    ("kind", "priority", "certainty"), [("Shared", 0, "certain"), ("Key_Shared", 0, "likely"), ("Shared", -1, "likely")]
)
def test_deliveries_to_an_equal_consumer_make_it_certain(evaluate, blocked, consumer, ns, kind, priority, certainty):
    """Another consumer may have received other keys, or messages because of its priority level."""
    stuck = blocked(ended=10, type=kind)
    consumer("diligent", stuck.subscription, last_message_ns=ns(8), priority=priority)
    [found] = evaluate("stuck-unacked-limit", stuck)
    assert found.certainty == certainty


def test_parked_permits_count(evaluate, blocked):
    [found] = evaluate("stuck-unacked-limit", blocked(permits={"balance": 950, "unspent": 50}))
    assert "although its client had requested 950 more" in found.what


def test_the_block_ended(evaluate, blocked, finished):
    [found] = evaluate("stuck-unacked-limit", blocked(blocked=finished(3, 6, 312, 400)))
    assert found.severity == "warning"
    assert found.frames[:2] == [312, 400]


def test_a_gap_reduces_the_certainty(evaluate, blocked):
    [found] = evaluate("stuck-unacked-limit", blocked(doubts={"gap", "end"}))
    assert found.certainty == "possible"


@pytest.mark.parametrize(("lasts", "other", "count"), [(0.5, 50, 1), (0.5, 40, 0), (0.05, 50, 0)])
def test_a_short_block_at_the_limit_of_another_consumer_is_reported(
    evaluate, blocked, consumer, ongoing, lasts, other, count
):
    stuck = blocked(blocked=ongoing(10 - lasts, 312))
    consumer("second", stuck.subscription, blocked=ongoing(6, 313), blocked_at=other)
    assert len(evaluate("stuck-unacked-limit", stuck)) == count


def test_a_short_block_is_not_reported(evaluate, blocked, ongoing):
    assert evaluate("stuck-unacked-limit", blocked(blocked=ongoing(9.2, 312))) == []
    assert evaluate("stuck-unacked-limit", blocked(blocked=type(ongoing(1, 1))())) == []


@pytest.mark.parametrize(("other", "limit"), [
    (0, " is set by maxUnackedMessagesPerConsumer."), (12, " is set by maxUnackedMessagesPerSubscription."),
    (50, " is set by maxUnackedMessagesPerConsumer or maxUnackedMessagesPerSubscription."),
])  # fmt: skip
def test_different_numbers_show_a_subscription_limit(evaluate, blocked, consumer, ongoing, other, limit):
    stuck = blocked()
    if other:
        consumer("second", stuck.subscription, blocked=ongoing(6, 313), blocked_at=other)
    [found] = evaluate("stuck-unacked-limit", stuck)
    assert limit in found.advice
