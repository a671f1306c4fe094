"""Rule poison-message: a message that cannot be processed."""

import pytest


@pytest.fixture
def poisoned(subscription, counted):
    def make(**fields):
        often = [(5, "7:3", 10, 90, 7), (6, "7:9", 11, 95, 8), (2, "7:1", 12, 20, 9)]
        return subscription(**{"most_redelivered": often, "again": {"nack": counted(10, 30)}, **fields})

    return make


def test_a_message_redelivered_repeatedly(evaluate, poisoned):
    [found] = evaluate("poison-message", poisoned())
    assert (found.severity, found.culprit, found.variant) == ("warning", "application", "again-and-again")
    assert "7:9 of subscription work on orders was delivered 6 times, from frame 11 to frame 95; 1 more" in found.what
    assert (found.frames, found.since_ns) == ([10, 90, 11, 95], 8)


def test_redeliveries_by_reconnects_are_not_counted(evaluate, poisoned, counted):
    assert evaluate("poison-message", poisoned(again={"lost": counted(10, 30)})) == []


def test_reconnects_reduce_the_certainty(evaluate, poisoned, counted):
    [found] = evaluate("poison-message", poisoned())
    assert found.cause_certainty == "likely"
    [found] = evaluate("poison-message", poisoned(again={"nack": counted(10, 30), "left": counted(1, 40)}))
    assert found.cause_certainty == "possible"
    assert "other reasons" in found.opposite


def test_a_dead_letter(evaluate, subscription, counted):
    [found] = evaluate("poison-message", subscription(dead_lettered=counted(2, 50, sample="7:3")))
    assert (found.severity, found.certainty, found.variant) == ("note", "certain", "dead-lettered")


def test_a_discarded_message(evaluate, consumer, counted):
    blind = consumer(validation={"DecryptionError": counted(4, 60)})
    [found] = evaluate("poison-message", blind.subscription)
    assert (found.variant, found.frames, found.subject["consumer"]) == ("DecryptionError", [60], "lazy")


def test_four_deliveries_are_not_reported(evaluate, poisoned):
    assert evaluate("poison-message", poisoned(most_redelivered=[(4, "7:3", 10, 90, 7)])) == []
